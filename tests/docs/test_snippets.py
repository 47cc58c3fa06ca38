"""Every command and snippet in the documentation does what the page says: Python runs, commands parse."""

import dataclasses
import re
import shlex
from pathlib import Path

import pytest
import yaml
from shown import ROOT, blocks, commands
from trl import ModelConfig

from medgrpo import CHORDConfig, GSPOConfig, MedGRPOConfig, MOGRPOConfig
from medgrpo.cli import build_parser
from medgrpo.comparison.request import ComparisonRequest
from medgrpo.experiment.arguments import AgainstGRPOArguments, ExamArguments
from medgrpo.experiment.side_by_side.design import read_design
from medgrpo.tiny import TINY_MODEL

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "README.ja.md"])
# What a page names and a test can't have: a model of the Hub, a reader's own questions.
STAND_INS = {"Qwen/Qwen3-4B-Instruct-2507": str(TINY_MODEL), '"train.jsonl"': '"mini_exam"'}
SMALL = "num_generations=4, per_device_train_batch_size=8, max_completion_length=8, max_steps=1, report_to='none', "
RECIPES = {
    "grpo": (MedGRPOConfig, ExamArguments),
    "gspo": (GSPOConfig, ExamArguments),
    "mo_grpo": (MOGRPOConfig, AgainstGRPOArguments),
    "chord": (CHORDConfig, AgainstGRPOArguments),
    "compare": (ComparisonRequest, ComparisonRequest),
}


WITH_PYTHON = [page for page in PAGES if blocks(page, "python")]
WITH_COMMANDS = [page for page in PAGES if blocks(page, "bash")]


@pytest.mark.parametrize("page", WITH_PYTHON, ids=lambda page: page.name)
def test_python_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for text in blocks(page, "python"):
        for name, instead in STAND_INS.items():
            text = text.replace(name, instead)
        if page.stem.startswith("README"):
            text = text.replace("per_device_train_batch_size=16", SMALL).replace(", ,", ",")
        exec(compile(text, str(page), "exec"), names)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_commands_are_ones_that_there_are(page: Path) -> None:
    for words in commands(page):
        told = shlex.join(words)
        if words[0] == "medgrpo":
            _, unknown = build_parser().parse_known_args(words[1:])
            assert not unknown, told
            continue
        for word in words:
            if word.startswith(("recipes/", "accelerate_configs/", "benchmarks/", "launch/", "notebooks/")):
                assert (ROOT / word).exists(), told
        recipe = next((Path(word).stem for word in words if word.startswith("recipes/") and word.endswith(".py")), None)
        if recipe in RECIPES:
            kinds = (*RECIPES[recipe], ModelConfig)
            known = {field.name for kind in kinds for field in dataclasses.fields(kind)} | {"config"}
            after = words[next(i for i, word in enumerate(words) if word.endswith(f"{recipe}.py")) :]
            given = {word[2:].split("=")[0] for word in after if word.startswith("--")}
            assert given <= known, f"{told}: {given - known}"
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), told


def test_the_design_shown_is_one(tmp_path: Path) -> None:
    (text,) = blocks(ROOT / "docs" / "side-by-side.md", "yaml")
    path = tmp_path / "my_experiment.yaml"
    path.write_text(text, encoding="utf-8")
    design = read_design(path)
    assert design.labels == list(yaml.safe_load(text)["methods"])
    assert len(design.runs) == 1 + 5 * 3
