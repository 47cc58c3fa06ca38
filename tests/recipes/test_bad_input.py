"""Whatever is wrong with what a user gives: one readable line, exit status 2, no traceback."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.exams.question import EMBEDDED
from medgrpo.experiment.arguments import run
from medgrpo.trainers.lost_process import LostProcessError
from medgrpo.trainers.reward_calls import RewardError
from medgrpo.trainers.saving import UnsavedError

ROOT = Path(__file__).resolve().parents[2]
CONFIG_FILE = ROOT / "recipes" / "configs" / "tiny_gspo_cpu.yaml"
CONFIG = CONFIG_FILE.read_text()


@pytest.fixture
def refused(tmp_path: Path, monkeypatch, capsys):
    """Run the recipe as `python recipes/gspo.py ...` would, and check that it refuses with the reasons given."""
    monkeypatch.chdir(tmp_path)

    def check(arguments: list[str], *reasons: str) -> None:
        monkeypatch.setattr(sys, "argv", ["gspo.py", *arguments, "--output_dir", str(tmp_path / "run")])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(ROOT / "recipes" / "gspo.py"), run_name="__main__")
        assert stopped.value.code == 2
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1
        for reason in reasons:
            assert reason in lines[0]
        assert not (tmp_path / "run").exists()

    return check


def test_as_a_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "recipes" / "gspo.py"), "--model_name_or_path", "./missing", "--train_file", "x"],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2
    assert "error: x: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "reasons"),
    [
        (["--train_file", "missing.jsonl"], ["missing.jsonl"]),
        (["--report_to", "wand"], ["report_to: unknown 'wand'", "did you mean 'wandb'"]),
        (["--reward_funcs", "ophto"], ["ophto", "did you mean 'ophtho'"]),
        (["--reward_weights", "1", "2", "3"], ["reward_weights", "3 weights for 2 rewards"]),
        (["--config", str(CONFIG_FILE), "--model_name_or_path", "./missing"], ["./missing", "no such folder"]),
        (["--lerning_rate", "1"], ["--lerning_rate", "did you mean 'learning_rate'"]),
        (["--learning_rate", "fast"], ["learning_rate", "fast"]),
        (["--fp16", "true"], ["fp16", "needs a GPU"]),
        (["--use_vllm", "true"], ["use_vllm", "needs a GPU"]),
        (["--loss_type", "dapo"], ["loss_type='dapo'", "as it is long"]),
        (["--steps_per_generation", "1"], ["exactly 1", "raise steps_per_generation"]),
        (["--eval_years", "1999"], ["eval_years", "1999"]),
        (["--eval_years", "20x3"], ["eval_years", "20x3"]),
        (["--eval_years", "2022-2023"], ["2022", "year"]),
        (["--config", "missing.yaml"], ["missing.yaml"]),
        (["--config"], ["--config"]),
    ],
    ids=lambda value: " ".join(value) if value and value[0].startswith("--") else "",
)
def test_options(arguments: list[str], reasons: list[str], refused) -> None:
    refused(arguments, *reasons)


@pytest.mark.parametrize(
    ("text", "reasons"),
    [
        (
            CONFIG.replace("num_generations", "num_generation"),
            ["bad.yaml, line 12", "'num_generation'", "num_generations"],
        ),
        ("model_name_or_path: [tiny\n", ["bad.yaml", "not YAML"]),
        ("just words\n", ["bad.yaml"]),
        (CONFIG + "learning_rate: quick\n", ["learning_rate", "quick"]),
    ],
)
def test_config_files(text: str, reasons: list[str], refused, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    refused(["--config", "bad.yaml"], *reasons)


def test_broken_line_of_the_exam_is_named(refused, tmp_path: Path) -> None:
    lines = EMBEDDED.read_text().splitlines()
    lines[6] = lines[6][:-20]
    (tmp_path / "exam.jsonl").write_text("\n".join(lines))
    refused(["--train_file", "exam.jsonl"], "exam.jsonl", "7")


def test_question_slipped_from_the_held_out_years_is_named(refused, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in EMBEDDED.read_text().splitlines()]
    train = [row for row in rows if row["year"] < 2023]
    slipped = next(row for row in rows if row["year"] == 2024)
    train.append({**slipped, "id": "new-1", "year": 2019})
    for name, chosen in (("train", train), ("eval", [row for row in rows if row["year"] >= 2023])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(json.dumps(row) for row in chosen))
    files = ["--train_file", "train.jsonl", "--eval_file", "eval.jsonl"]
    refused([*files, "--train_years", "2019-2022"], "new-1", slipped["id"])


@pytest.mark.parametrize("kind", [RewardError, LostProcessError, UnsavedError, MedgrpoError])
def test_a_process_that_alone_knows_says_why_it_ends(kind: type[MedgrpoError], monkeypatch, capsys) -> None:
    def main() -> None:
        raise kind("no room")

    monkeypatch.setenv("RANK", "1")
    with pytest.raises(SystemExit) as stopped:
        run(main)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == ("" if kind is MedgrpoError else "error: no room\n")
