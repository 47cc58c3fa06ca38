import json
from dataclasses import replace

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.score import (
    apply_policy,
    read_completions,
    read_run,
    score_completions,
    score_file,
    summarise,
)
from medgrpo.exams.question import Question, write_questions

CHOICES = {letter: f"選択肢{letter}" for letter in "abcde"}


def question(name: str, answer: list[list[str]], **fields) -> Question:
    fields = {"choices": CHOICES, "exam": "模擬試験", "year": 2022, **fields}
    return Question(id=name, question=f"問{name}", answer=answer, **fields)


QUESTIONS = [
    question("A1", [["a"]], year=2021, department="内科", contraindicated=["d", "e"]),
    question("A2", [["a", "c"]]),
    question("A3", [["a"], ["d"]], text_only=False),
    question("A4", [["2.1"]], choices={}, answer_type="number"),
    question("A5", [["b"]], scoring="excluded", points=0),
    question("A6", [["b"]], scoring="credited"),
]
COMPLETIONS = {
    "A1": "[ans]d, e[/ans]",
    "A2": "理由。[ans]c、a[/ans]",
    "A3": "[ans]d[/ans]",
    "A4": "わかりません。",
    "A5": "[ans]b[/ans]",
    "A6": "読めない答え",
}


def test_samples_carry_outcome_and_the_questions_fields():
    samples = score_completions(QUESTIONS, COMPLETIONS)
    assert [sample.id for sample in samples] == ["A1", "A2", "A3", "A4", "A5", "A6"]
    assert [sample.parsed for sample in samples] == [["d", "e"], ["a", "c"], ["d"], None, ["b"], None]
    assert [sample.correct for sample in samples] == [False, True, True, False, True, True]
    assert [sample.parse_failure for sample in samples] == [False, False, False, True, False, True]
    assert samples[0].contraindicated_chosen == ["d", "e"]
    assert samples[1].contraindicated_chosen == []
    assert (samples[0].year, samples[0].department, samples[2].text_only) == (2021, "内科", False)
    assert samples[4].scoring == "excluded"
    right = score_completions([QUESTIONS[3]], {"A4": "[ans]2.10[/ans]"})[0]
    assert right.correct
    assert isinstance(right.parsed, str)


def test_excluded_leaves_the_denominator_and_credited_is_right_for_everyone():
    summary = summarise(score_completions(QUESTIONS, COMPLETIONS))
    # Counted: A1 wrong, A2 right, A3 right, A4 unreadable, A6 credited (and unreadable). A5 is excluded.
    assert (summary.n, summary.correct, summary.accuracy) == (5, 3, 0.6)
    assert (summary.parse_failures, summary.format_compliance) == (2, 0.6)
    assert (summary.excluded, summary.credited) == (1, 1)
    assert {year: (t.n, t.correct) for year, t in summary.by_year.items()} == {2021: (1, 0), 2022: (4, 3)}
    assert (summary.text_only.n, summary.text_only.correct, summary.text_only.parse_failures) == (4, 2, 2)


def test_the_policy_key_counts_every_question_by_its_key():
    summary = summarise(score_completions(apply_policy(QUESTIONS, "key"), COMPLETIONS))
    # A5 is right by its key and counted now; A6 is unreadable and no longer credited.
    assert (summary.n, summary.correct, summary.parse_failures) == (6, 3, 2)
    assert (summary.excluded, summary.credited) == (0, 0)
    with pytest.raises(MedgrpoError, match="'bord': is none: board or key"):
        apply_policy(QUESTIONS, "bord")


def test_departments_are_told_with_their_denominators():
    summary = summarise(score_completions(QUESTIONS, {**COMPLETIONS, "A1": "[ans]a[/ans]"}))
    assert {name: (t.n, t.correct) for name, t in summary.by_department.items()} == {"内科": (1, 1)}
    assert "100.0 % (1/1)  内科" in summary.describe()


def test_an_unreadable_answer_to_a_credited_question_is_not_called_wrong():
    samples = score_completions(QUESTIONS, COMPLETIONS)  # A4 and the credited A6 are unreadable
    assert "(3/5), " in summarise(samples).describe()
    assert "(2 parse failures, counted as wrong unless credited)" in summarise(samples).describe()
    assert "(1 parse failures, counted as wrong)" in summarise(samples[:5]).describe()


def test_a_run_with_nothing_counted_has_no_accuracy():
    summary = summarise(score_completions(QUESTIONS[4:5], {"A5": "[ans]b[/ans]"}))
    assert (summary.n, summary.accuracy, summary.format_compliance) == (0, None, None)
    assert summarise([]).n == 0


def test_missing_extra_and_doubled_ids_are_named():
    partial = {name: text for name, text in COMPLETIONS.items() if name != "A3"} | {"B9": "[ans]a[/ans]"}
    with pytest.raises(MedgrpoError, match=r"no completion for A3 \(1\); no question for B9 \(1\)"):
        score_completions(QUESTIONS, partial)
    with pytest.raises(MedgrpoError, match=r"A1, A2, A3, A4, A5, \.\.\. \(6\)"):
        score_completions(QUESTIONS, {})
    with pytest.raises(MedgrpoError, match="A1"):
        score_completions([QUESTIONS[0], QUESTIONS[0]], COMPLETIONS)


def test_score_file_writes_a_run_that_reads_back(tmp_path):
    write_questions(tmp_path / "questions.jsonl", QUESTIONS)
    lines = [json.dumps({"id": name, "completion": text, "model": "x"}) for name, text in COMPLETIONS.items()]
    (tmp_path / "completions.jsonl").write_text("\n\n".join(reversed(lines)), encoding="utf-8-sig")
    run = score_file(tmp_path / "completions.jsonl", tmp_path / "questions.jsonl", tmp_path / "runs" / "base")
    assert run == read_run(tmp_path / "runs" / "base")
    assert run.samples == score_completions(QUESTIONS, COMPLETIONS)
    assert run.run_info["model"] is None
    assert run.run_info["questions"].endswith("questions.jsonl")
    fields = json.loads((tmp_path / "runs" / "base" / "samples.jsonl").read_text("utf-8").splitlines()[0])
    assert list(fields) == [
        *("id", "completion", "parsed", "parse_failure", "correct", "contraindicated_chosen"),
        *("exam", "year", "department", "text_only", "points", "required", "scoring"),
        *("contraindicated", "counted_only_if_right", "student_accuracy"),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no completion"),
        ('{"id": "A1"}', "line 1, field completion"),
        ('{"id": "A1", "completion": null}', "line 1, field completion"),
        ('{"id": 7, "completion": "x"}', "line 1, field id"),
        ('{"id": "A1", "completion": "x"}\n{"id": "A1", "completion": "y"}', "line 2, field id.*twice"),
        ('{"id": "A1", "completion": "x"}\n{broken', "line 2: not JSON"),
    ],
)
def test_bad_completion_files_name_line_and_field(tmp_path, content, message):
    path = tmp_path / "completions.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(MedgrpoError, match=message):
        read_completions(path)


def test_missing_completion_file_is_the_users_error(tmp_path):
    with pytest.raises(MedgrpoError, match=r"nowhere\.jsonl"):
        read_completions(tmp_path / "nowhere.jsonl")


def test_line_separators_inside_a_completion_survive(tmp_path):
    text = "一行目\u2028二行目\u0085\r\n[ans]a[/ans]\x00"
    path = tmp_path / "completions.jsonl"
    path.write_text(json.dumps({"id": "A1", "completion": text}, ensure_ascii=False), encoding="utf-8")
    assert read_completions(path) == {"A1": text}


def test_real_predictions_of_a_year(data_dir, tmp_path):
    """Every real question answered with its own key: all counted ones are right, excluded ones stay."""
    from medgrpo.exams.igakuqa import read_igakuqa

    questions = read_igakuqa(data_dir / "igakuqa")
    keys = {q.id: f"根拠。[ans]{','.join(q.answer[-1])}[/ans]" for q in questions}
    summary = summarise(score_completions(questions, keys))
    assert (summary.n, summary.correct, summary.excluded, summary.credited) == (1989, 1989, 11, 1)
    assert [tally.n for tally in summary.by_year.values()] == [399, 396, 398, 400, 396]
    silent = summarise(score_completions(questions, dict.fromkeys(keys, "")))
    assert (silent.correct, silent.parse_failures) == (1, 1989)
    first = replace(questions[0], id="new")
    with pytest.raises(MedgrpoError, match="new"):
        score_completions([*questions, first], keys)
