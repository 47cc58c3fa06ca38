"""CHORD's recipe as people launch it: the show without arguments, and what it refuses."""

import json
import runpy
import sys
from pathlib import Path

import pytest
from forked import run_forked

from medgrpo.evaluation.samples import pair_outcomes, read_run
from medgrpo.exams.prompts import build_prompt
from medgrpo.exams.question import read_questions
from medgrpo.statistics import compare_paired
from medgrpo.trainers.run_log import read_metrics

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "chord.py"


def test_without_arguments_chord_learns_where_grpo_stays(tmp_path: Path) -> None:
    done = run_forked(RECIPE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    run = tmp_path / "runs" / "chord_tiny"
    # The base never answers in the tag, and after GRPO it still doesn't.
    for folder in (run / "before", run / "grpo" / "before", run / "grpo" / "after"):
        assert not any(sample.correct for sample in read_run(folder).samples)
    _, was, now = pair_outcomes(read_run(run / "before"), read_run(run / "after"))
    paired = compare_paired(was, now)
    assert paired.n >= 200
    assert paired.c / paired.n > 0.35
    assert paired.p < 1e-6
    chord, grpo = ([row for row in read_metrics(folder) if "loss" in row] for folder in (run, run / "grpo"))
    assert max(row["rewards/ophtho/mean"] for row in grpo if "rewards/ophtho/mean" in row) < 0.02
    assert chord[0]["rewards/ophtho/mean"] == 0
    assert (chord[0]["chord/mu"], chord[-1]["chord/mu"]) == (0.9, 0.05)
    assert chord[-1]["chord/sft_loss"] < chord[0]["chord/sft_loss"] / 4
    table = [line.split() for line in done.stdout.splitlines()]
    assert ["step", "mu", "L_GRPO", "L_SFT", "accuracy", "GRPO's"] in table
    assert ["1", "0.900"] in [row[:2] for row in table]
    assert (run / "chord.png").read_bytes().startswith(b"\x89PNG")
    rows = read_metrics(run) + read_metrics(run / "grpo")
    assert max(row["train_runtime"] for row in rows if "train_runtime" in row) < 180


@pytest.fixture
def refused(tmp_path: Path, monkeypatch, capsys):
    """Run the recipe with arguments and check that it refuses in one line, with the reasons given."""
    monkeypatch.chdir(tmp_path)

    def check(arguments: list[str], *reasons: str) -> None:
        config = ["--config", str(RECIPE.parent / "configs" / "tiny_chord_cpu.yaml"), "--output_dir", "run"]
        tiny = ["--model_name_or_path", "tiny", "--against_grpo", "false"]
        monkeypatch.setattr(sys, "argv", ["chord.py", *config, *tiny, *arguments])
        with pytest.raises(SystemExit) as stopped:
            runpy.run_path(str(RECIPE), run_name="__main__")
        assert stopped.value.code == 2
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1
        for reason in reasons:
            assert reason in lines[0]
        assert not (tmp_path / "run" / "metrics.jsonl").exists()

    return check


@pytest.mark.parametrize(
    ("arguments", "reasons"),
    [
        (["--chord_mu_peak", "1.5"], ["chord_mu_peak", "[0, 1]"]),
        (["--chord_mu_valley", "0.95"], ["lies above"]),
        (["--chord_mu_decay_steps", "-1"], ["chord_mu_decay_steps", "0 or more"]),
        (["--chord_mu_pek", "0.5"], ["did you mean 'chord_mu_peak'"]),
        (["--chord_sft_dataset", "missing.jsonl"], ["missing.jsonl", "cannot be read"]),
        (["--train_years", "2019-2022", "--train_file", "other.jsonl"], ["other.jsonl"]),
    ],
    ids=lambda value: " ".join(value) if value and value[0].startswith("--") else "",
)
def test_options(arguments: list[str], reasons: list[str], refused) -> None:
    refused(arguments, *reasons)


@pytest.mark.parametrize(
    ("rows", "reasons"),
    [
        ([], ["sft.jsonl", "holds no sample"]),
        ([{"question": "a", "answer": "b"}], ["sft.jsonl, line 1", "none of these fields"]),
        ([{"prompt": "a", "completion": ""}], ["sft.jsonl, line 1", "no trainable token"]),
    ],
)
def test_sft_files(rows: list[dict], reasons: list[str], refused, tmp_path: Path) -> None:
    (tmp_path / "sft.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    refused(["--chord_sft_dataset", "sft.jsonl"], *reasons)


def test_sft_data_that_teaches_a_held_out_question_is_refused(refused, tmp_path: Path) -> None:
    question = next(question for question in read_questions("mini_exam") if question.year == 2024)
    row = {"id": "slipped", "prompt": build_prompt(question), "completion": [{"role": "assistant", "content": "a"}]}
    (tmp_path / "sft.jsonl").write_text(json.dumps(row) + "\n")
    refused(["--chord_sft_dataset", "sft.jsonl"], "slipped", question.id)
