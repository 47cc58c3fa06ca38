"""Near-duplicates are found by what they say, exactly, and nothing else is taken for one."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medgrpo.errors import MedgrpoError
from medgrpo.exams.igakuqa import read_igakuqa
from medgrpo.exams.igakuqa119 import read_igakuqa119
from medgrpo.exams.leakage import refuse_leaks, text_key
from medgrpo.exams.near_duplicates import THRESHOLD, find_near_duplicates, jaccard, settle_near_duplicates, shingles
from medgrpo.exams.question import Question, read_questions

CASE = Question(
    id="1",
    question=(
        "68歳の男性。突然の胸痛を主訴に救急車で搬入された。高血圧症で内服治療中である。意識は清明。体温36.5℃。"
        "脈拍92/分、整。血圧178/104mmHg（右上肢）、142/88mmHg（左上肢）。胸部造影CTを別に示す。初期対応はどれか。"
    ),
    choices={"a": "降圧薬の静注", "b": "抗凝固薬の投与", "c": "経過観察", "d": "血栓溶解療法", "e": "胸腔ドレナージ"},
    answer=[["a"]],
)
OTHER = replace(CASE, id="9", question="潰瘍性大腸炎の患者で正しいのはどれか。", choices={"a": "血便", "b": "裂肛"})


def pairs(train, evaluation):
    return [(leak.train_id, leak.eval_id) for leak in find_near_duplicates(train, evaluation)]


def test_a_case_with_other_numbers_is_found_and_the_same_text_is_left_to_the_text_check():
    changed = replace(CASE, id="2", question=CASE.question.replace("68歳", "71歳").replace("36.5", "36.8"))
    (leak,) = find_near_duplicates([OTHER, changed], [OTHER, CASE])
    assert (leak.kind, leak.train_id, leak.eval_id) == ("near", "2", "1")
    assert leak.similarity == jaccard(shingles(changed), shingles(CASE)) >= THRESHOLD
    assert str(leak) == f"2 (evaluation: 1, {leak.similarity:.2f} alike)"
    assert pairs([replace(CASE, id="3", question=CASE.question + " ")], [CASE]) == []
    refuse_leaks([changed], [CASE], "train", "eval")  # only ids, years and texts stop a recipe


def test_the_similarity_is_that_of_sets_worked_out_by_hand():
    one = Question(id="1", question="あいうえおか", choices={"a": "赤", "b": "青"}, answer=[["a"]])
    other = replace(one, question="あいうえおき。", choices={"a": "青", "b": "赤"})
    assert shingles(one) == {"あいうえお", "いうえおか", "赤", "青"}
    assert jaccard(shingles(one), shingles(other)) == 3 / 5


def test_the_order_of_choices_and_looks_do_not_matter():
    reordered = dict(zip("abcde", reversed(CASE.choices.values()), strict=True))
    looks = replace(CASE, id="2", question=CASE.question.replace("68歳", "６９歳"), choices=reordered)
    assert pairs([looks], [CASE]) == [("2", "1")]


def test_the_same_preamble_with_another_task_is_found_only_where_it_is_most_of_the_text():
    follow_up = replace(
        CASE, id="2", question=CASE.question.replace("初期対応はどれか。", "次に行う検査はどれか。"), choices={}
    )
    assert pairs([follow_up], [CASE]) == []
    long = replace(CASE, question=CASE.question * 3)
    assert pairs([replace(long, id="2", choices={"a": "安静", "b": "手術"})], [long]) == [("2", "1")]


def test_every_training_question_is_named_once_with_the_one_most_like_it():
    nearest = replace(CASE, id="n", question=CASE.question.replace("68歳", "69歳"))
    further = replace(CASE, id="f", question=CASE.question.replace("68歳", "69歳").replace("92/分", "99/分"))
    assert pairs([CASE], [further, nearest]) == [("1", "n")]
    assert pairs([further, nearest], [CASE]) == [("f", "1"), ("n", "1")]


def test_a_recipe_leaves_them_out_refuses_them_or_keeps_them():
    changed = replace(CASE, id="2", question=CASE.question.replace("68歳", "71歳"))
    train = [OTHER, changed, replace(OTHER, id="10")]
    kept, leaks = settle_near_duplicates(train, [CASE], "train.jsonl", "eval.jsonl")
    assert [q.id for q in kept] == ["9", "10"]
    assert [leak.train_id for leak in leaks] == ["2"]
    assert settle_near_duplicates(train, [CASE], "train.jsonl", "eval.jsonl", "keep") == (train, leaks)
    with pytest.raises(MedgrpoError, match=r"train\.jsonl: .*1 by near-duplicate \(2 .*near_duplicates: leave_out"):
        settle_near_duplicates(train, [CASE], "train.jsonl", "eval.jsonl", "refuse")
    assert settle_near_duplicates([OTHER], [CASE], "train.jsonl", "eval.jsonl", "refuse") == ([OTHER], [])
    with pytest.raises(MedgrpoError, match="'drop': is not known: choose one of leave_out, refuse, keep"):
        settle_near_duplicates(train, [CASE], "train.jsonl", "eval.jsonl", "drop")


def test_nothing_is_like_nothing():
    assert find_near_duplicates([], [CASE]) == find_near_duplicates([CASE], []) == []
    blank = [replace(OTHER, id=i, question="？", choices={}) for i in "ab"]
    assert pairs(blank[:1], blank[1:]) == []
    with pytest.raises(ValueError, match=r"at least 0\.8"):
        find_near_duplicates([CASE], [OTHER], threshold=0.5)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_the_pairs_are_those_of_the_exact_index(data):
    def mutated(name):
        text = list(CASE.question)
        for _ in range(data.draw(st.integers(0, 8))):
            text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from("左右上下中"))
        return replace(CASE, id=name, question="".join(text))

    train, evaluation = ([mutated(f"{side}{i}") for i in range(4)] for side in "te")
    expected = {
        q.id: max(alike)
        for q in train
        if (alike := [s for e in evaluation if text_key(e) != text_key(q)
                      and (s := jaccard(shingles(q), shingles(e))) >= THRESHOLD])
    }  # fmt: skip
    assert {leak.train_id: leak.similarity for leak in find_near_duplicates(train, evaluation)} == expected


def test_real_years_have_the_one_question_that_was_set_again(data_dir):
    questions = read_igakuqa(data_dir / "igakuqa")
    # 113E2 and 116B10 differ in the years that one choice asks for. The next pair, 114F50 and 116A24 (0.53), asks
    # about different patients.
    exam_119 = read_igakuqa119(data_dir / "igakuqa119")[0]
    train = [q for q in questions if q.year < 2022]
    evaluation = [q for q in questions if q.year == 2022]
    assert pairs(train, evaluation + exam_119) == [("113E2", "116B10")]
    # These files repeat the case in each question of a series: who trained on one has read it.
    assert pairs([q for q in exam_119 if q.id == "119C72"], [q for q in exam_119 if q.id != "119C72"]) == [
        ("119C72", "119C73")
    ]


def test_the_mini_exam_has_none():
    questions = read_questions("mini_exam")
    years = sorted({q.year for q in questions})
    for year in years:
        others = [q for q in questions if q.year != year]
        assert find_near_duplicates([q for q in questions if q.year == year], others) == []
