"""SIGKILL at random moments: what is resumed is the uninterrupted run, bit for bit."""

import random
from collections import Counter
from pathlib import Path

from same import check_same_checkpoints, check_same_runs
from warm import WarmProcess

from medgrpo.trainers.checkpoints import find_last

PHASES = ("generation", "backward", "optimizer", "saving")
# Seconds within which a phase is left again, here or on a slower machine.
LONGEST = {"generation": 0.06, "backward": 0.006, "optimizer": 0.004, "saving": 0.06}
# A moment is a random one, so that each phase is aimed at until it was met as often as this.
TRIES = 3


def kill_again_and_again(
    warm: WarmProcess, kind: str, base: Path, folder: Path, kills: int, least: int
) -> Counter[str]:
    """Train with kills in between; check the state after each and at the end against an uninterrupted run."""
    whole = folder / "whole"
    order = {"kind": kind, "model": str(base)}
    assert warm.start(**order, folder=str(whole), settings={"save_total_limit": None}).wait() == [0]
    chance, met, runs, tried = random.Random(8), Counter[str](), 0, 0
    cut = folder / "cut_0"
    while sum(met.values()) < kills or min(met[phase] for phase in PHASES) < least:
        tried += 1
        assert tried < TRIES * kills, f"the phases are not met: {met}"
        phase = min(PHASES, key=lambda name: (met[name], chance.random()))
        run = warm.start(**order, folder=str(cut), resume="auto")
        if run.reach(phase, chance.randint(1, 2)):
            met[run.kill(chance.uniform(0, LONGEST[phase]))] += 1
            assert run.status == -9, run.output
            last = find_last(cut, None)
            if last is not None:
                check_same_checkpoints(whole / last.name, last)
        else:
            assert run.wait() == [0], run.output
            check_same_runs(whole, cut)
            runs += 1
            cut = folder / f"cut_{runs}"
    assert warm.start(**order, folder=str(cut), resume="auto").wait() == [0]
    check_same_runs(whole, cut)
    check_same_checkpoints(whole / "checkpoint-8", cut / "checkpoint-8")
    assert not (cut / "_unfinished_checkpoint").exists()
    assert sorted(path.name for path in cut.glob("checkpoint-*")) == ["checkpoint-7", "checkpoint-8"]
    return met


def test_twenty_kills(warm: WarmProcess, base: Path, tmp_path: Path) -> None:
    met = kill_again_and_again(warm, "plain", base, tmp_path, kills=20, least=2)
    print(met)


def test_five_kills_of_all_methods_together(warm: WarmProcess, base: Path, tmp_path: Path) -> None:
    met = kill_again_and_again(warm, "combined", base, tmp_path, kills=5, least=1)
    print(met)
