import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from forked import run_forked

from medgrpo.cli import main
from medgrpo.comparison.compare import compare_runs
from medgrpo.evaluation.samples import read_run
from medgrpo.evaluation.score import score_completions, write_run
from medgrpo.exams.question import read_questions

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The mini exam answered by a base and three runs, each a little better: name -> folder."""
    folder = tmp_path_factory.mktemp("runs")
    questions = read_questions("mini_exam")
    generator = np.random.default_rng(0)
    difficulty = generator.random(len(questions))
    for name, ability in (("base", 0.5), ("grpo/after", 0.6), ("gspo/after", 0.62), ("seed1", 0.58)):
        right = difficulty + generator.normal(0, 0.1, len(questions)) < ability
        answers = {
            question.id: f"[ans]{','.join(question.answer[0])}[/ans]" if ok else "<b>わからない</b>[ans]z[/ans]"
            for question, ok in zip(questions, right, strict=True)
        }
        write_run(folder / name, score_completions(questions, answers), {"model": name, "sampling": {"temperature": 0}})
    return folder


def test_compare_prints_the_headline_and_writes_everything(runs, tmp_path, capsys) -> None:
    out = tmp_path / "out"
    command = ["compare", f"Base={runs}/base", f"{runs}/grpo/after", f"{runs}/gspo/after", "--pairs", "--out", str(out)]
    assert main([*command, "--questions", "mini_exam"]) == 0
    printed = capsys.readouterr().out
    expected = compare_runs(
        {"Base": read_run(runs / "base"), "G": read_run(runs / "grpo/after"), "H": read_run(runs / "gspo/after")},
        "Base",
        family="pairs",
    )
    cell = expected.cell("G")
    row = next(line for line in printed.splitlines() if line.startswith("grpo/after "))
    for value in (520, f"{100 * cell.accuracy:.1f}", f"{100 * cell.delta:+.1f}", cell.b, cell.c):
        assert str(value) in row
    assert f"{100 * cell.detectable_difference:.1f}" == row.split()[-1]
    assert "each run against Base, and every pair of runs, on all questions: 3 tests" in printed
    assert "gspo/after - grpo/after" in printed
    data = json.loads((out / "comparison.json").read_text(encoding="utf-8"))
    assert data["cells"][0]["b"] == cell.b
    assert data["facts"][0]["folder"] == "base"
    assert {"comparison.html", "comparison.md"} <= {path.name for path in out.iterdir()}
    assert list(out.glob("*.png")) and list(out.glob("*.svg"))


def test_seeds_and_options_from_a_file(runs, tmp_path, capsys) -> None:
    config = tmp_path / "comparison.yaml"
    config.write_text(
        f"base: {runs}/base\ngroup: ['GRPO={runs}/grpo/after,{runs}/seed1']\ncorrection: bh\nmethod: chi2\n"
        f"lang: en\nout: {tmp_path}/out\n"
    )
    assert main(["compare", "--config", str(config), "--method", "mid-p"]) == 0
    printed = capsys.readouterr().out
    assert "seeds of" in printed and "520 x 2" in printed
    data = json.loads((tmp_path / "out" / "comparison.json").read_text(encoding="utf-8"))
    assert (data["method"], data["correction"], data["seeds"][0]["name"]) == ("mid-p", "bh", "GRPO")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ([], "name at least one run"),
        (["/nowhere"], "/nowhere: no such folder"),
        (["{runs}/seed1", "--alpha", "7"], "alpha has to lie between 0 and 1"),
        (["{runs}/seed1", "--questions", "missing.jsonl"], "missing.jsonl"),
        (["{runs}/seed1", "--group", "GRPO={runs}/grpo/after"], "seeds of one method are two or more"),
    ],
)
def test_bad_use_is_one_line_and_status_2(runs, tmp_path, capsys, more, reason) -> None:
    more = [word.format(runs=runs) for word in more]
    assert main(["compare", f"{runs}/base", *more, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.startswith("medgrpo compare: ") and error.count("\n") == 1


def test_an_unknown_method_is_told_by_the_parser(runs, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["compare", f"{runs}/base", f"{runs}/seed1", "--out", "o", "--method", "fisher"])
    assert "mid-p" in capsys.readouterr().err


def test_help_does_not_wait_for_scipy() -> None:
    code = "import sys; import medgrpo.cli; print([m for m in ('scipy', 'torch', 'matplotlib') if m in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).strip() == "[]"


def test_the_recipe_does_the_same(runs, tmp_path) -> None:
    asked = ["--base", f"{runs}/base", "--runs", f"GRPO={runs}/grpo/after", f"{runs}/seed1"]
    done = run_forked(ROOT / "recipes" / "compare.py", *asked, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "GRPO " in done.stdout and "seed1 " in done.stdout
    assert (tmp_path / "out" / "comparison.html").is_file()
