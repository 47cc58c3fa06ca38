"""`recipes/evaluate.py` and `medgrpo evaluate --config`: the same evaluation, by the same options."""

import json
import runpy
import sys
from pathlib import Path

import pytest

from medgrpo.cli import main
from medgrpo.evaluation.samples import read_run

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "evaluate.py"
CONFIG = """\
model: tiny
questions: mini_exam
years: 2023-2024
limit: 6
max_new_tokens: 24
out: configured
"""


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Run the recipe in `tmp_path` as `python recipes/evaluate.py ...` would; returns its exit status."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["evaluate.py", *arguments])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(RECIPE), run_name="__main__")
        return stopped.value.code

    return run


def test_without_arguments_the_embedded_model_answers_the_mini_exam(recipe, capsys):
    assert recipe() == 0
    printed = capsys.readouterr().out
    assert "greedy decoding" in printed and "/260)" in printed
    run = read_run("runs/evaluate_tiny")
    assert len(run.samples) == 260
    assert run.run_info["policy"] == "board"


def test_recipe_and_verb_read_one_config_and_the_command_line_wins(recipe, tmp_path, capsys):
    (tmp_path / "my.yaml").write_text(CONFIG)
    assert recipe("--config", "my.yaml", "--out", "by_recipe", "--limit", "5") == 0
    assert main(["evaluate", "--config", "my.yaml", "--out", "by_verb", "--limit", "5"]) == 0
    assert read_run("by_recipe").samples == read_run("by_verb").samples
    assert len(read_run("by_verb").samples) == 5
    infos = [json.loads(Path(d, "run.json").read_text()) for d in ("by_recipe", "by_verb")]
    assert infos[0] == infos[1]
    assert main(["evaluate", "--config", "my.yaml"]) == 0
    assert len(read_run("configured").samples) == 6


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (CONFIG.replace("limit", "limits"), "'limits'"),
        (CONFIG.replace("max_new_tokens: 24", "max_new_tokens: few"), "few"),
        (CONFIG + "policy: mine\n", "mine"),
        (CONFIG + "backend: tgi\n", "tgi"),
        (CONFIG.replace("model: tiny", ""), "model is missing"),
    ],
)
def test_a_bad_config_is_one_line_for_both(text, told, recipe, tmp_path, capsys):
    (tmp_path / "my.yaml").write_text(text)
    for start in (lambda: recipe("--config", "my.yaml"), lambda: main(["evaluate", "--config", "my.yaml"])):
        assert start() == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1
        assert told in lines[0]
