"""Real published answers, scored as `medgrpo score` does, against the publishers' own grading."""

import csv
import json
from pathlib import Path

import pytest

from medgrpo.evaluation.score import score_completions, summarise
from medgrpo.exams.igakuqa import read_igakuqa
from medgrpo.exams.igakuqa119 import read_igakuqa119
from medgrpo.exams.question import Question

# Right answers of 400, as published, and as read; unreadable answers.
SYSTEMS = {
    "CA-DSR1-DQ32B-JP-base": (282, 283, 1),
    "CA-DSR1-DQ32B-JP-sft": (294, 295, 1),
    "qwen2_5-72b": (314, 314, 0),
}

# Every row of the 1,200 on which the two part, and why the publisher's grading is the wrong one.
MISGRADED_119 = {
    ("CA-DSR1-DQ32B-JP-base", "119A75"): "2450ml-1850ml=600ml ends in the 600 ml asked for; it was compared as a text",
    ("CA-DSR1-DQ32B-JP-sft", "119F64"): "the letter e with the text of its choice; it was compared as a text",
}

# Of IgakuQA's 196 odd predictions: what the publisher's comparison of split texts counts as wrong and a reader as
# right, beside the 24 lists written `a, c` with a blank.
MISGRADED_IGAKUQA = {
    "the letter with a remark or its choice's text": {
        ("chatgpt", "114B3"), ("translate_chatgpt-en", "113B29"), ("translate_chatgpt-en", "113D30"),
        ("translate_chatgpt-en", "114A47"), ("translate_chatgpt-en", "114E37"), ("translate_chatgpt-en", "115E49"),
        ("translate_chatgpt-en", "116C16"), ("translate_chatgpt-en", "116D19"),
    },
    "a number with its unit, or at the end of its working": {
        ("gpt3", "115C75"), ("gpt4", "115F75"), ("translate_chatgpt-en", "113A75"), ("translate_chatgpt-en", "114F75"),
    },
    "the key lost its decimal point (`21` for 2.1, `04` for 0.4)": {("gpt4", "116B50"), ("gpt4", "116F74")},
    "the answer announced after the reasoning": {("gpt4", "113F21"), ("gpt4", "114C36"), ("gpt4", "116E38")},
}  # fmt: skip


@pytest.fixture(scope="module")
def questions_119(data_dir: Path) -> dict[str, Question]:
    return {question.id: question for question in read_igakuqa119(data_dir / "igakuqa119")[0]}


def tagged(answer: str) -> str:
    return f"根拠は次のとおりである。[ans]{answer}[/ans]"


def publisher_119(answer: str, key: str, question: str = "") -> bool:
    """IgakuQA119's own rule: the same characters in any order; for 119E28 either of its two letters."""
    return answer in key if question == "119E28" and answer else sorted(answer) == sorted(key)


def publisher_igakuqa(prediction: str, key: list[str]) -> bool:
    """IgakuQA's own rule: the same texts between the commas, in any order."""
    return sorted(prediction.split(",")) == sorted(key)


def test_three_systems_on_the_119th_exam(data_dir, questions_119):
    differing = {}
    for system, (published, read, unreadable) in SYSTEMS.items():
        path = data_dir / "igakuqa119" / f"119_{system}_grading_results.csv"
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = {row["question_number"]: row for row in csv.DictReader(file)}
        assert list(rows) == list(questions_119)
        samples = score_completions(
            list(questions_119.values()), {name: tagged(row["model_answer"]) for name, row in rows.items()}
        )
        summary = summarise(samples)
        assert (summary.n, summary.correct, summary.parse_failures) == (400, read, unreadable)
        assert sum(row["is_correct"] == "True" for row in rows.values()) == published
        # Nothing is unreadable but what is empty.
        assert all(rows[sample.id]["model_answer"] == "" for sample in samples if sample.parse_failure)
        for sample in samples:
            row = rows[sample.id]
            verdict = row["is_correct"] == "True"
            assert verdict == publisher_119(row["model_answer"], row["correct_answer"], sample.id)
            if sample.correct != verdict:
                differing[system, sample.id] = sample.correct
    assert differing == dict.fromkeys(MISGRADED_119, True)


@pytest.mark.parametrize(
    ("question", "answer", "published", "right", "reason"),
    [
        ("119C74", "36", True, True, "the key"),
        ("119C74", "63", True, False, "the publisher sorts the digits"),
        ("119C75", "72", True, False, "the publisher sorts the digits"),
        ("119F75", "40.0", False, True, "the same number"),
        ("119A75", "600 mL", False, True, "the number with its unit"),
        ("119E28", "a", True, True, "one of two accepted answers"),
        ("119E28", "c", True, True, "the other one"),
        ("119E28", "ac", True, False, "the question asks for one; the key `ac` means a or c"),
    ],
)
def test_cases_of_the_119th_exam(question, answer, published, right, reason, questions_119):
    key = {"119C74": "36", "119C75": "27", "119F75": "40", "119A75": "600", "119E28": "ac"}[question]
    assert publisher_119(answer, key, question) is published, reason
    (sample,) = score_completions([questions_119[question]], {question: tagged(answer)})
    assert (sample.correct, sample.parse_failure) == (right, False), reason


def test_an_echoed_placeholder_is_a_parse_failure_and_no_letter(questions_119):
    for echo in ("選んだ回答(単数/複数/数値)", "[選んだ回答(単数/複数/数値)]", "…", "選択肢"):
        samples = score_completions(list(questions_119.values()), dict.fromkeys(questions_119, tagged(echo)))
        summary = summarise(samples)
        assert (summary.n, summary.correct, summary.parse_failures) == (400, 0, 400)


def test_odd_predictions_of_igakuqa(data_dir):
    questions = {question.id: question for question in read_igakuqa(data_dir / "igakuqa")}
    rows = [json.loads(line) for line in (data_dir / "igakuqa/odd_predictions.jsonl").open(encoding="utf-8")]
    lists, others = [], set()
    for row in rows:
        name = row["problem_id"]
        (sample,) = score_completions([questions[name]], {name: tagged(row["prediction"])})
        assert not publisher_igakuqa(row["prediction"], row["gold"])  # it counts all 196 as wrong
        if sample.correct:
            spaced = row["prediction"].replace(", ", ",")
            if publisher_igakuqa(spaced, row["gold"]):
                lists.append(spaced)
            else:
                others.add((row["system"], name))
    assert len(rows) == 196
    assert len(lists) == 24
    assert others == set().union(*MISGRADED_IGAKUQA.values())
