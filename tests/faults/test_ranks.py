"""Two processes: killed together, resumed to 1e-6, and what one does when the other is gone or has NaN."""

import importlib.util
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest
from same import check_same_runs
from warm import Run, WarmProcess

from medgrpo.trainers.checkpoints import find_last

FEW = {"eval_strategy": "no", "eval_on_start": False, "max_steps": 6, "per_device_train_batch_size": 4, "save_steps": 2}


def start(warm: WarmProcess, base: Path, folder: Path, kind: str = "plain", **changes) -> Run:
    settings = {**FEW, **changes.pop("settings", {})}
    if kind == "combined":
        settings["chord_sft_per_device_train_batch_size"] = 2
    return warm.start(kind=kind, processes=2, model=str(base), folder=str(folder), settings=settings, **changes)


def kill_and_resume(warm: WarmProcess, base: Path, folder: Path, kills: list[tuple[str, int]], **order) -> None:
    """Kill both processes at a random moment of each named phase, resume, and compare the end."""
    whole, cut = folder / "whole", folder / "cut"
    run = start(warm, base, whole, **order)
    assert run.wait() == [0, 0], run.output[-3000:]
    chance = random.Random(4)
    for phase, times in kills:
        run = start(warm, base, cut, resume="auto", **order)
        assert run.reach(phase, times), run.output[-3000:]
        run.kill(chance.uniform(0, 0.02))
        assert run.statuses == [-9, -9]
    run = start(warm, base, cut, resume="auto", **order)
    assert run.wait() == [0, 0], run.output[-3000:]
    check_same_runs(whole, cut, tolerance=1e-6)


def test_two_processes_resume_to_a_millionth(warm: WarmProcess, base: Path, tmp_path: Path) -> None:
    kill_and_resume(warm, base, tmp_path, [("backward", 5), ("saving", 2)])


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="needs the extra `deepspeed`")
def test_three_kills_under_zero3(warm: WarmProcess, base: Path, tmp_path: Path) -> None:
    # Under ZeRO-3 the optimizer steps inside `backward`.
    kills = [("saving", 1), ("backward", 8), ("generation", 1)]
    kill_and_resume(warm, base, tmp_path, kills, kind="combined", zero3=True)


def test_the_other_process_ends_when_one_dies(warm: WarmProcess, base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = start(warm, base, folder, rewards=["dies"])
    started = time.monotonic()
    run.wait()
    assert run.statuses == [2, -9], run.output[-3000:]
    assert time.monotonic() - started < 200
    assert "error: process 0 waited in vain for another one, which died or hangs" in run.output
    assert "Traceback" not in run.output
    assert find_last(folder, None) == folder / "checkpoint-4"


def test_all_processes_load_the_best_checkpoint(warm: WarmProcess, base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    # Rewards rise, so that the lowest one is not the last.
    best = {"load_best_model_at_end": True, "metric_for_best_model": "reward", "greater_is_better": False}
    steps = {"max_steps": 4, "save_steps": 1, "eval_strategy": "steps", "eval_steps": 1, "save_total_limit": None}
    run = start(warm, base, folder, settings={**best, **steps})
    assert run.wait() == [0, 0], run.output[-3000:]
    state = json.loads((folder / "checkpoint-4" / "trainer_state.json").read_text())
    assert state["best_model_checkpoint"] == str(folder / f"checkpoint-{state['best_global_step']}")
    assert state["best_global_step"] < 4
    # Also by the process that does not write.
    assert "Could not locate the best model" not in run.output


def test_nan_on_one_process_stops_both(warm: WarmProcess, base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = start(warm, base, folder, poison="loss", poisoned_rank=1)
    run.wait()
    assert run.statuses == [2, 2], run.output[-3000:]
    records = [json.loads((folder / "nonfinite" / f"step_5_process_{rank}.json").read_text()) for rank in (0, 1)]
    assert records[0]["losses"][0] != "nan" == records[1]["losses"][0]


def test_a_signal_to_one_process_stops_both(warm: WarmProcess, base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = start(warm, base, folder, settings={"save_strategy": "no"})
    assert run.reach("backward", 1)
    os.kill(run.pids[1], signal.SIGUSR1)
    run.wait()
    assert run.statuses == [0, 0], run.output[-3000:]
    assert run.output.count("stopped by SIGUSR1 after step 1 of 6") == 1
    assert find_last(folder, None) == folder / "checkpoint-1"
