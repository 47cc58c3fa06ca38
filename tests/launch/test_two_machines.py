"""Two launches find each other over the network and train as one process does."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ranks import free_port
from safetensors.numpy import load_file

from medgrpo.trainers.metrics_file import read_metrics

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def start(folder: Path, batch: int, launcher: list[str], log: Path) -> subprocess.Popen:
    path = os.pathsep.join([str(HERE.parent / "trainers"), str(ROOT / "src")])
    with log.open("w") as output:
        return subprocess.Popen(
            [*launcher, str(HERE / "two_machines_run.py"), str(folder), str(batch)],
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            stdout=output,
            stderr=output,
        )


def finish(run: subprocess.Popen, log: Path) -> None:
    assert run.wait(400) == 0, log.read_text(encoding="utf-8")[-3000:]


@pytest.mark.timeout(900)
def test_two_machines_equal_one_process_at_the_same_global_batch(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(HERE / "two_machines.yaml")]
    launch += ["--main_process_ip", "127.0.0.1", "--main_process_port", str(free_port())]
    logs = [tmp_path / f"machine-{rank}.log" for rank in (0, 1)]
    machines = [start(two, 8, [*launch, "--machine_rank", str(rank)], logs[rank]) for rank in (0, 1)]
    try:
        for machine, log in zip(machines, logs, strict=True):
            finish(machine, log)
    finally:
        for machine in machines:
            machine.terminate()  # the launcher takes its rank with it
            machine.wait(60)
    alone_log = tmp_path / "alone.log"
    finish(start(one, 16, [sys.executable], alone_log), alone_log)

    before = load_file(one / "start-0.safetensors")
    alone = load_file(one / "rank-0.safetensors")
    first, second = (load_file(two / f"rank-{rank}.safetensors") for rank in (0, 1))
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert max(np.abs(first[name] - alone[name]).max() for name in alone) < 1e-5
    assert max(np.abs(alone[name] - before[name]).max() for name in before) > 1e-4
    losses = [[row["loss"] for row in read_metrics(folder) if "loss" in row] for folder in (one, two)]
    assert len(losses[0]) == 4
    assert losses[1] == pytest.approx(losses[0], rel=1e-4, abs=1e-5)
    assert any(abs(loss) > 1e-4 for loss in losses[0])
