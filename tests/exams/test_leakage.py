"""A question stands on one side only, whatever was done to its looks."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medgrpo.errors import MedgrpoError
from medgrpo.exams.igakuqa import read_igakuqa
from medgrpo.exams.leakage import Leak, find_leaks, normalise_text, refuse_leaks
from medgrpo.exams.question import Question

FIRST = Question(
    id="116A1",
    question="体温36.5℃。SpO2 98％（room air）。適切な対応はどれか。",
    choices={"a": "輸液1,000mL", "b": "経過観察", "c": "β遮断薬"},
    answer=[["b"]],
    exam="mock",
    year=2022,
)
OTHER = replace(FIRST, id="115A1", question="正しいのはどれか。", year=2021)


def kinds(train, evaluation):
    return [(leak.kind, leak.train_id, leak.eval_id) for leak in find_leaks(train, evaluation)]


def test_different_questions_do_not_leak():
    assert find_leaks([OTHER], [FIRST]) == []
    refuse_leaks([OTHER], [FIRST], "train.jsonl", "eval.jsonl")


def test_one_question_that_slipped_in_is_the_one_that_is_named():
    evaluation = [replace(FIRST, id=f"116A{i}", question=f"問{i}") for i in range(1, 6)]
    train = [OTHER, evaluation[2]]
    found = [(kind, "116A3", "116A3") for kind in ("id", "year", "text")]
    assert kinds(train, evaluation) == found
    # The other way round, one question of the training year slipped into the evaluation file.
    assert kinds(evaluation, train) == found


def test_ids_leak_in_any_width_and_case():
    assert kinds([replace(OTHER, id="１１６ａ１")], [FIRST]) == [("id", "１１６ａ１", "116A1")]


def test_a_shared_year_leaks_only_within_one_known_exam():
    def at(name, exam, year):
        return replace(FIRST, id=name, question=f"問{name}", exam=exam, year=year)

    assert kinds([at("1", "mock", 2022)], [at("2", "mock", 2022)]) == [("year", "1", "2")]
    assert kinds([at("1", "mock", 2021)], [at("2", "mock", 2022)]) == []
    assert kinds([at("1", "other", 2022)], [at("2", "mock", 2022)]) == []
    assert kinds([at("1", "", 2022)], [at("2", "", 2022)]) == []
    assert kinds([at("1", "mock", 0)], [at("2", "mock", 0)]) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"choices": {"a": "β遮断薬", "b": "輸液1,000mL", "c": "経過観察"}},
        {"choices": {"a": "輸液1000ｍＬ", "b": "経過観察。", "c": "Β遮断薬"}},
        {"question": "体温３６．５℃、SpO2 98%(room air)\u3000適切な対応は\nどれか？"},
        {"answer": [["c"]], "points": 3},
    ],
)
def test_looks_do_not_hide_a_text(changes):
    disguised = replace(FIRST, id="x1", year=2020, **changes)
    assert kinds([disguised], [FIRST]) == [("text", "x1", "116A1")]


@pytest.mark.parametrize(
    "changes",
    [
        {"question": FIRST.question.replace("36.5", "365")},
        {"question": FIRST.question.replace("36.5", "37.5")},
        {"choices": {"a": "輸液1,000mL", "b": "経過観察", "c": "α遮断薬"}},
        {"choices": {"a": "輸液1,000mL", "b": "経過観察", "c": "β遮断薬", "d": "手術"}},
    ],
)
def test_another_question_is_not_taken_for_the_same(changes):
    assert kinds([replace(FIRST, id="x1", year=2020, **changes)], [FIRST]) == []


def test_signs_of_numbers_count():
    assert normalise_text("BE −2.5 mEq/L") == normalise_text("ＢＥ：－２．５mEq/L") == "be-2.5meql"
    assert normalise_text("BE −2.5") != normalise_text("BE 2.5")


@given(st.permutations(["輸液", "手術", "経過観察", "投薬", "搬送"]), st.text("、。 \u3000\n・「」？"))
def test_any_order_of_choices_and_any_punctuation_leaks(order, marks):
    here = replace(FIRST, choices=dict(zip("abcde", ["輸液", "手術", "経過観察", "投薬", "搬送"], strict=True)))
    there = replace(
        here,
        id="x",
        exam="",
        question=marks + here.question + marks,
        choices=dict(zip("abcde", order, strict=True)),
    )
    assert kinds([there], [here]) == [("text", "x", "116A1")]


def test_refusal_is_one_line_with_counts_ids_and_what_to_do():
    train = [replace(FIRST, id=f"116A{i}", question=f"問{i}") for i in range(9)]
    with pytest.raises(MedgrpoError) as caught:
        refuse_leaks(train, train[:5], "train.jsonl", "eval.jsonl")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(
        "train.jsonl: questions of eval.jsonl are in it: 5 by id (116A0, 116A1, 116A2, and 2 more)"
    )
    assert "5 by exam and year" in message
    assert "5 by text" in message


def test_a_leak_names_both_ids_where_they_differ():
    assert str(Leak("id", "1", "1")) == "1"
    assert str(Leak("text", "x", "116A1")) == "x (evaluation: 116A1)"


def test_real_years_share_no_text_and_a_slipped_question_is_found(data_dir):
    questions = read_igakuqa(data_dir / "igakuqa")
    train = [q for q in questions if q.year < 2022]
    evaluation = [q for q in questions if q.year == 2022]
    assert find_leaks(train, evaluation) == []
    slipped = evaluation[123]
    assert kinds([*train, slipped], evaluation) == [(k, slipped.id, slipped.id) for k in ("id", "year", "text")]
    renamed = replace(slipped, id="new", year=2018)
    assert kinds([*train, renamed], evaluation) == [("text", "new", slipped.id)]


@pytest.mark.parametrize(
    ("exam", "year", "leaks"),
    [
        ("glaucoma", 2021, False),
        ("glaucoma", 2022, True),
        ("mock", 2021, True),
        ("", 2021, True),
        ("glaucoma", 0, True),
    ],
)
def test_equal_numbers_of_exams_known_to_be_others_do_not_leak(exam, year, leaks):
    numbered = replace(OTHER, id="1", exam=exam, year=year)
    evaluated = replace(FIRST, id="1")
    assert ("id", "1", "1") in kinds([numbered], [evaluated]) or not leaks
    assert leaks or kinds([numbered], [evaluated]) == []
    assert ("id", "1", "1") in kinds([numbered], [evaluated, replace(FIRST, id="1", exam="")])
