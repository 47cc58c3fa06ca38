import json

import pytest

from medgrpo.cli import main
from medgrpo.exams.question import read_questions


@pytest.fixture
def completions(tmp_path):
    """The mini exam answered: every key right but the first, which is unreadable, and the second, wrong."""
    lines = []
    for number, question in enumerate(read_questions("mini_exam")):
        answer = ",".join(question.answer[0])
        text = {0: "わからない。", 1: "[ans]z[/ans]"}.get(number, f"根拠はこうである。[ans]{answer}[/ans]")
        lines.append(json.dumps({"id": question.id, "completion": text}))
    path = tmp_path / "completions.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_score_counts_parse_failures_and_names_the_denominator(completions, tmp_path, capsys) -> None:
    assert main(["score", str(completions), "--questions", "mini_exam", "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    assert "(518/520)" in printed
    assert "parse failures, counted as wrong" in printed
    rows = [json.loads(line) for line in (tmp_path / "run" / "samples.jsonl").read_text().splitlines()]
    assert len(rows) == 520
    assert rows[0]["parsed"] is None and rows[0]["parse_failure"] and not rows[0]["correct"]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["model"] is None


def test_evaluate_the_embedded_model(tmp_path, capsys) -> None:
    out = str(tmp_path / "base")
    command = ["evaluate", "--model", "tiny", "--questions", "mini_exam", "--years", "2023", "--out", out]
    assert main([*command, "--limit", "20", "--max-new-tokens", "24"]) == 0
    assert "greedy decoding" in capsys.readouterr().out
    info = json.loads((tmp_path / "base" / "run.json").read_text())
    assert info["sampling"]["temperature"] == 0
    assert info["sampling"]["dtype"] == "float32"


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["evaluate", "--model", "/nowhere/m", "--questions", "mini_exam", "--out", "o"], "no such folder"),
        (["evaluate", "--model", "tiny", "--questions", "missing.jsonl", "--out", "o"], "missing.jsonl"),
        (["evaluate", "--model", "tiny", "--questions", "mini_exam", "--years", "1999", "--out", "o"], "1999"),
        (["evaluate", "--model", "tiny", "--questions", "mini_exam", "--limit", "0", "--out", "o"], "limit"),
        (["score", "missing.jsonl", "--questions", "mini_exam", "--out", "o"], "missing.jsonl"),
    ],
)
def test_bad_use_is_one_line_and_status_2(command, reason, capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert "Traceback" not in error
