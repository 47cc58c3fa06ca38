"""The script of launch/ trains on a real Slurm, is warned midway, and goes on to the end."""

import sys
import time
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster

from medgrpo.trainers.metrics_file import read_metrics

ROOT = Path(__file__).resolve().parents[2]
STEPS = 20
SITE = f"""
MODEL=tiny
LOGS={{folder}}
HF_HOME={{folder}}/hf
NODE_CACHE={{folder}}/cache
CONTAINER=()
TRAIN_BIN={Path(sys.executable).parent}
SERVE_PYTHON={sys.executable}
SYNC=filesystem
NETWORK_INTERFACE=lo
prepare_site() {{{{ export OMP_NUM_THREADS=1 PYTHONPATH={ROOT / "src"}; }}}}
"""
RUN = f"""
train_file: mini_exam
train_years: 2019-2022
eval_file: {{folder}}/held_out.jsonl
output_dir: {{folder}}/run
num_generations: 4
per_device_train_batch_size: 4
steps_per_generation: 1
max_completion_length: 8
max_steps: {STEPS}
learning_rate: 1.0e-4
bf16: false
gradient_checkpointing: false
save_steps: 1000
report_to: none
log_completions: false
"""


@pytest.mark.timeout(900)
def test_a_run_that_slurm_warns_goes_on_from_its_checkpoint(slurm: SlurmCluster, tmp_path: Path) -> None:
    exam = (ROOT / "src" / "medgrpo" / "exams" / "mini_exam.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "held_out.jsonl").write_text("\n".join(exam[-4:]) + "\n", encoding="utf-8")
    (tmp_path / "site.sh").write_text(SITE.format(folder=tmp_path), encoding="utf-8")
    (tmp_path / "run.yaml").write_text(RUN.format(folder=tmp_path), encoding="utf-8")
    env = {
        "SITE": f"{tmp_path}/site.sh",
        "RECIPE": "recipes/grpo.py",
        "CONFIG": f"{tmp_path}/run.yaml",
        "ACCELERATE_CONFIG": "tests/launch/two_machines.yaml",
        "TRAIN_NODES": "2",
        "RANKS_PER_NODE": "1",
        "ROLLOUT_NODES": "0",
    }
    size = ("--nodes=2", "--gpus-per-node=0", "--time=60", f"--output={tmp_path}/job.log")
    job = slurm.ask("sbatch", "--parsable", *size, "launch/train_8x8.sbatch", env=env, cwd=ROOT).strip()
    run, log = tmp_path / "run", tmp_path / "job.log"
    end = time.monotonic() + 400
    while not (run / "metrics.jsonl").exists():
        assert time.monotonic() < end, log.read_text(encoding="utf-8")
        assert slurm.show(job)["JobState"] in ("PENDING", "CONFIGURING", "RUNNING"), read_logs(tmp_path)
        time.sleep(0.2)
    # What Slurm does by itself before the time limit (test_slurm.py waits for that).
    slurm.ask("scancel", "--batch", "--signal=USR1", job)
    shown = slurm.wait_until_ended(job, 400)
    assert (shown["JobState"], shown["ExitCode"]) == ("COMPLETED", "0:0"), read_logs(tmp_path)
    assert shown["Restarts"] == "1"

    told = log.read_text(encoding="utf-8")
    assert "the job is queued again" in told
    assert "training is done" in told
    first, second = (read_rank(tmp_path / f"{job}.{start}", 0) for start in (0, 1))
    stopped = int(first.split("stopped by SIGUSR1 after step ")[1].split()[0])
    assert 0 < stopped < STEPS
    assert f"checkpoint-{stopped}" in second
    assert [row["step"] for row in read_metrics(run) if "loss" in row] == list(range(1, STEPS + 1))
    assert (run / "after" / "samples.jsonl").is_file()
    # Each rank has a log of its own.
    assert read_rank(tmp_path / f"{job}.1", 1)


def read_rank(logs: Path, node: int) -> str:
    files = (logs / "ranks" / f"node-{node}").rglob("std*.log")
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(files))


def read_logs(folder: Path) -> str:
    return "\n".join(f"{path}:\n{path.read_text(encoding='utf-8')[-3000:]}" for path in sorted(folder.rglob("*.log")))
