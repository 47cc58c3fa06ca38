import json
import subprocess
import sys

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
        (
            ["evaluate", "--model", "tiny", "--questions", "mini_exam", "--out", "o"]
            + ["--chat-template-kwargs", '{"tokenize": false}'],
            "tokenize is set by the evaluation itself",
        ),
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


@pytest.mark.parametrize(
    ("name", "held", "reason"),
    [
        ("run.json", '{"schema": 1, "model": "tiny"}', "the run of a model"),
        ("run.json", "{", "may be a model's run"),
        ("completions.partial.jsonl", '{"settings": {}}\n', "a begun evaluation"),
    ],
)
def test_score_replaces_a_models_run_only_when_told_to(completions, tmp_path, capsys, name, held, reason) -> None:
    out = tmp_path / "base"
    out.mkdir()
    (out / name).write_text(held)
    command = ["score", str(completions), "--questions", "mini_exam", "--out", str(out)]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert reason in error and "--overwrite" in error and error.count("\n") == 1
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [(name, held)]
    assert main([*command, "--overwrite"]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["run.json", "samples.jsonl"]
    assert main(command) == 0, "a run that `score` itself wrote loses nothing"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            "--overwrit",
            "medgrpo score: unknown option --overwrit: did you mean --overwrite? (see medgrpo score --help)",
        ),
        ("--zzz=1", "medgrpo score: unknown option --zzz (see medgrpo score --help)"),
        ("more.jsonl", "medgrpo score: unexpected argument 'more.jsonl' (see medgrpo score --help)"),
    ],
)
def test_an_unknown_option_is_told_with_its_verb(given, said, capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["score", "c.jsonl", "--questions", "mini_exam", "--out", "o", given])
    assert stop.value.code == 2
    assert capsys.readouterr().err == said + "\n"


def test_a_reader_that_leaves_and_an_interruption_show_no_traceback(completions, tmp_path, capsys, monkeypatch) -> None:
    command = ["score", str(completions), "--questions", "mini_exam", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        [sys.executable, "-m", "medgrpo.cli", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    assert (process.wait(timeout=120), process.stderr.read()) == (1, "")
    process.stderr.close()

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("medgrpo.evaluation.score.score_file", interrupt)
    assert main(command) == 130
    assert capsys.readouterr().err == "medgrpo score: interrupted\n"


def test_another_limit_is_told_in_words(tmp_path, capsys) -> None:
    command = ["evaluate", "--model", "tiny", "--questions", "mini_exam", "--out", str(tmp_path / "base")]
    command += ["--max-new-tokens", "1"]
    assert main([*command, "--limit", "2"]) == 0
    assert main([*command, "--limit", "3"]) == 2
    error = capsys.readouterr().err
    assert "(other questions or prompts): use those" in error
    assert "sha256" not in error
