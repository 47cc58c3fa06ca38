"""What stops a run of one process, for real: signals, a full disk, NaN, rewards that hang, damaged checkpoints."""

import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from same import check_same_runs
from warm import Run, WarmProcess

from medgrpo.trainers.checkpoints import MANIFEST, UNFINISHED, find_last

FEW = {"eval_strategy": "no", "eval_on_start": False, "max_steps": 6}
"""Enough steps for what is tested here."""


@pytest.fixture(scope="module")
def whole(warm: WarmProcess, base: Path, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert start(warm, base, folder).wait() == [0]
    return folder


def start(warm: WarmProcess, base: Path, folder: Path, resume: str | None = None, **changes) -> Run:
    settings = {**FEW, "save_steps": 3, **changes.pop("settings", {})}
    return warm.start(kind="plain", model=str(base), folder=str(folder), resume=resume, settings=settings, **changes)


@pytest.mark.parametrize(("number", "phase"), [(signal.SIGTERM, "generation"), (signal.SIGUSR1, "saving")])
def test_a_signal_saves_and_says_how_to_resume(warm, base, whole, tmp_path, number, phase) -> None:
    folder = tmp_path / "run"
    # The first generation is before any checkpoint, the second write of one is at the last step.
    run = start(warm, base, folder, settings={"save_steps": 2, "save_only_model": phase == "generation"})
    assert run.reach(phase)
    run.kill(0.0, number)
    assert run.status == 0, run.output
    step = {"generation": 1, "saving": 3}[phase]
    assert f"stopped by {number.name} after step {step} of 6, saved {folder}/checkpoint-{step}" in run.output
    assert run.output.rstrip().endswith("train.py --max_steps 8 --resume_from_checkpoint last")
    assert start(warm, base, folder, resume="last").wait() == [0]
    check_same_runs(whole, folder)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 450 KiB: room for two checkpoints, and half of the next one."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=450k", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"a file system can be mounted by root only: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_keeps_the_older_checkpoint(warm, base, whole, full_disk) -> None:
    folder = full_disk / "run"
    printed = {"output": str(full_disk.parent / "printed")}
    run = start(warm, base, folder, settings={"save_steps": 1, "log_completions": False}, **printed)
    run.wait()
    assert run.status == 2, run.output
    error = run.output.rstrip().splitlines()[-1]
    assert "No space left on device" in error and "Traceback" not in run.output
    last = find_last(folder, None)
    assert f"{last} is kept; make room" in error
    assert not (folder / UNFINISHED).exists()
    # With room again the same command goes on.
    subprocess.run(["mount", "-o", "remount,size=8m", str(full_disk)], check=True)
    assert start(warm, base, folder, resume="last", settings={"log_completions": False}, **printed).wait() == [0]
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    wanted = [json.loads(line) for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert [(line["step"], line.get("loss")) for line in lines] == [(line["step"], line.get("loss")) for line in wanted]


@pytest.mark.parametrize("poison", ["loss", "gradient"])
def test_nan_stops_before_the_update(warm, base, tmp_path, poison) -> None:
    folder = tmp_path / "run"
    run = start(warm, base, folder, poison=poison)
    run.wait()
    assert run.status == 2, run.output
    error = run.output.rstrip().splitlines()[-1]
    path = folder / "nonfinite" / "step_5_process_0.json"
    assert f"step 5: {'the loss and the gradient are' if poison == 'loss' else 'the gradient is'} NaN" in error
    assert str(path) in error and f"the weights in {folder}/checkpoint-3 are sound" in error
    record = json.loads(path.read_text())
    assert record["losses"][0] == "nan" if poison == "loss" else math.isfinite(record["losses"][0])
    assert record["metrics"]["kl"]
    assert len(record["rows"]) == 16
    row = record["rows"][0]
    # This tokenizer puts a space between letters, and its first letter has the id 2.
    assert row["prompt"].replace(" ", "").startswith("question") and len(row["prompt_ids"]) == 10
    for row in record["rows"]:
        letters = [chr(ord("a") + number - 2) for number in row["completion_ids"] if 2 <= number < 28]
        text = row["completion"].replace("<eos>", "").replace("<pad>", "")
        assert [letter for letter in text if letter.isalpha()] == letters
    share = row["rewards"]["share_of_vowels"]
    assert 0 <= share < 1 and (share > 0) == any(letter in "aeiou" for letter in letters)
    assert isinstance(row["advantage"], float)


@pytest.mark.parametrize("reward", ["sleeps", "backtracks", "awaits"])
def test_a_hanging_reward_is_ended_and_the_run_saved(warm, base, whole, tmp_path, reward) -> None:
    folder = tmp_path / "run"
    started = time.monotonic()
    run = start(warm, base, folder, rewards=[reward], settings={"reward_timeout": 2.0, "save_steps": 100})
    run.wait()
    assert run.status == 2, run.output
    error = run.output.rstrip().splitlines()[-1]
    assert f"reward '{reward}' ran longer than reward_timeout (2 s)" in error and "step 4 is saved" in error
    assert time.monotonic() - started < 100
    last = find_last(folder, None)
    assert last == folder / "checkpoint-4"


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda c: os.truncate(c / "optimizer.pt", 1000), "optimizer.pt has 1000 bytes, not"),
        (lambda c: flip_a_byte(c / "model.safetensors"), "model.safetensors is not what was written"),
        (lambda c: (c / "rng_state.pth").unlink(), "rng_state.pth is missing"),
        (lambda c: (c / MANIFEST).unlink(), f"has no {MANIFEST}"),
        (lambda c: (c / MANIFEST).write_text('{"run": 3, "fil'), f"{MANIFEST} can't be read"),
    ],
    ids=["cut off", "a byte flipped", "a file missing", "no manifest", "half a manifest"],
)
def test_a_damaged_checkpoint_is_passed_over(whole, tmp_path, caplog, damage, found) -> None:
    copied = tmp_path / "run"
    subprocess.run(["cp", "-r", str(whole), str(copied)], check=True)
    assert find_last(copied, None) == copied / "checkpoint-6"
    damage(copied / "checkpoint-6")
    assert find_last(copied, None) == copied / "checkpoint-3"


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-7] ^= 1
    path.write_bytes(data)


def test_a_run_resumes_from_the_last_whole_checkpoint_with_a_message(warm, base, whole, tmp_path) -> None:
    folder = tmp_path / "run"
    subprocess.run(["cp", "-r", str(whole), str(folder)], check=True)
    os.truncate(folder / "checkpoint-6" / "optimizer.pt", 1000)
    run = start(warm, base, folder, resume="last")
    run.wait()
    assert run.status == 0, run.output
    assert f"{folder}/checkpoint-6: optimizer.pt has 1000 bytes, not" in run.output
    assert f"resuming from {folder}/checkpoint-3" in run.output
    check_same_runs(whole, folder)
    # Named by its path it is refused, and another run's checkpoint is not this one's.
    os.truncate(folder / "checkpoint-6" / "optimizer.pt", 1000)
    run = start(warm, base, folder, resume=str(folder / "checkpoint-6"))
    assert run.wait() == [2]
    assert "checkpoint-6 is damaged (optimizer.pt has 1000 bytes" in run.output
    settings = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**settings, "run_id": "another"}))
    run = start(warm, base, folder, resume="last")
    assert run.wait() == [2]
    assert "no whole checkpoint in" in run.output and "is of another run" in run.output


def test_resuming_a_run_that_is_over_trains_no_further(warm, base, whole, tmp_path) -> None:
    folder = tmp_path / "run"
    subprocess.run(["cp", "-r", str(whole), str(folder)], check=True)
    assert start(warm, base, folder, resume="auto").wait() == [0]
    check_same_runs(whole, folder)
