from dataclasses import replace

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.exams.question import read_questions, write_questions
from medgrpo.experiment.arguments import ExamArguments
from medgrpo.experiment.exam import load_exam, to_dataset

YEARS = {"train_years": "2019-2022", "eval_years": "2023-2026"}


def test_mini_exam_is_split_by_year_and_described() -> None:
    exam = load_exam(ExamArguments(train_file="mini_exam", **YEARS))
    assert (len(exam.train), len(exam.held_out), exam.dropped) == (260, 260, [])
    assert exam.describe() == "260 + 260 questions (2019-2022 to train on, 2023-2026 held out)"


def test_withdrawn_questions_are_not_trained_on_but_stay_held_out(tmp_path) -> None:
    questions = read_questions("mini_exam")
    questions[0] = replace(questions[0], scoring="excluded")
    questions[-1] = replace(questions[-1], scoring="credited")
    write_questions(tmp_path / "q.jsonl", questions)
    exam = load_exam(ExamArguments(train_file=str(tmp_path / "q.jsonl"), **YEARS))
    assert [question.id for question in exam.dropped] == [questions[0].id]
    assert (len(exam.train), len(exam.held_out)) == (259, 260)
    assert "1 withdrawn by the board left out" in exam.describe()


def test_same_file_without_years_is_refused_as_a_leak() -> None:
    with pytest.raises(MedgrpoError, match="are in it"):
        load_exam(ExamArguments(train_file="mini_exam"))


def test_missing_file_is_asked_for() -> None:
    with pytest.raises(MedgrpoError, match="train_file is missing"):
        load_exam(ExamArguments())


def test_unknown_years_are_said_to_be_unknown(tmp_path) -> None:
    questions = read_questions("mini_exam")
    for name, chosen in (("train", questions[:10]), ("eval", questions[10:20])):
        write_questions(tmp_path / f"{name}.jsonl", [replace(question, year=0) for question in chosen])
    exam = load_exam(ExamArguments(train_file=str(tmp_path / "train.jsonl"), eval_file=str(tmp_path / "eval.jsonl")))
    assert exam.describe() == "10 + 10 questions (year unknown to train on, year unknown held out)"


def test_dataset_has_what_the_rewards_read() -> None:
    questions = read_questions("mini_exam")[:5]
    dataset = to_dataset(questions)
    assert dataset.column_names == ["prompt", "id", "answer", "answer_type"]
    assert dataset[0]["prompt"][-1]["content"].startswith(questions[0].question)
    assert [row["answer"] for row in dataset] == [question.answer for question in questions]
