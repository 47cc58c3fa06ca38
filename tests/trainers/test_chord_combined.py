"""CHORD, MO-GRPO and sequence ratios in one class: on one process, on two, and on two under ZeRO-3."""

import importlib.util
from pathlib import Path

import pytest
import torch
from forked import run_forked
from safetensors.torch import load_file
from small_model import build_model, build_tokenizer

from medgrpo.trainers.run_log import read_metrics

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("combined") / "base"
    tokenizer = build_tokenizer()
    build_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def launch(processes: int, place: str, base: Path) -> Path:
    folder = base.parent / f"{place}_{processes}"
    done = run_forked(
        HERE / "combined_run.py",
        *(place, str(folder), str(base), str(8 // processes), str(4 // processes)),
        processes=processes,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def alone(base: Path) -> Path:
    return launch(1, "plain", base)


def load_weights(folder: Path) -> dict[str, torch.Tensor]:
    """All shards: under ZeRO-3 each process writes its own."""
    return {name: tensor for path in folder.glob("model*.safetensors") for name, tensor in load_file(path).items()}


def check(folder: Path, alone: Path, base: Path, tolerance: float) -> None:
    start, one, other = (load_weights(path) for path in (base, alone, folder))
    assert other.keys() == one.keys()
    assert max((one[name] - other[name]).abs().max().item() for name in one) < tolerance
    still = [name for name in other if (other[name] - start[name]).abs().max() < 1e-4]
    assert not still, f"parameters that four steps did not move: {still}"


def test_all_three_are_at_work(alone: Path) -> None:
    rows = [row for row in read_metrics(alone) if "loss" in row]
    assert [row["chord/mu"] > 0 for row in rows] == [False, True, True, True]
    assert rows[-1]["chord/sft_loss"] < rows[1]["chord/sft_loss"]
    assert max(row["clip_ratio/region_mean"] for row in rows) > 0
    # MO-GRPO: the reward that is ten times as wide moves the policy as much as the other, not ten times as much.
    shares = [rows[0][f"advantage_share/{name}"] for name in ("share_of_vowels", "hash_reward")]
    assert shares == pytest.approx([0.5, 0.5], abs=0.1)


def test_two_processes_equal_one(alone: Path, base: Path) -> None:
    check(launch(2, "plain", base), alone, base, tolerance=1e-5)


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="needs the extra `deepspeed`")
def test_two_processes_under_zero3_equal_one(alone: Path, base: Path) -> None:
    folder = launch(2, "zero3", base)
    check(folder, alone, base, tolerance=1e-4)
    losses = [[row["loss"] for row in read_metrics(path) if "loss" in row] for path in (folder, alone)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
