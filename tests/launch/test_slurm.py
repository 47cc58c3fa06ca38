"""The scripts of launch/ on a real Slurm, with programs in place of the launcher and the server that end as told."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from slurm_cluster import SlurmCluster

from medgrpo import GSPOConfig
from medgrpo.cli import build_parser
from medgrpo.experiment.arguments import parse_arguments

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = Path(__file__).parent / "stand_in"
SITE = """
MODEL=tiny
LOGS={folder}
HF_HOME={folder}/hf
NODE_CACHE={folder}/cache
CONTAINER=()
TRAIN_BIN={stand_in}
SERVE_PYTHON=/usr/bin/python3
SYNC=filesystem
NETWORK_INTERFACE=lo
SERVER_TIMEOUT=60
prepare_site() {{ export LOGS; }}
"""


class Job:
    """A job of two nodes, its folder of logs, and what became of it."""

    def __init__(
        self, slurm: SlurmCluster, folder: Path, script: str, options: tuple[str, ...], **settings: str
    ) -> None:
        self.slurm, self.folder = slurm, folder
        site = folder / "site.sh"
        site.write_text(SITE.format(folder=folder, stand_in=STAND_IN), encoding="utf-8")
        env = {
            "SITE": str(site),
            "CONFIG": "recipes/configs/tiny_gspo_cpu.yaml",
            "ACCELERATE_CONFIG": "accelerate_configs/cpu.yaml",
            "TRAIN_NODES": "2",
            "ROLLOUT_NODES": "0",
            **settings,
        }
        size = ("--nodes=2", "--gpus-per-node=0", f"--output={folder}/job.log", "--time=30", *options)
        submitted = slurm.ask(
            "sbatch", "--parsable", *size, f"launch/{script}.sbatch", "--seed", "4", env=env, cwd=ROOT
        )
        self.id = submitted.strip()

    def wait(self, timeout: float = 90) -> dict[str, str]:
        shown = self.slurm.wait_until_ended(self.id, timeout)
        return {name: shown[name] for name in ("JobState", "ExitCode", "Restarts")}

    def wait_for(self, *names: str, timeout: float = 60) -> None:
        end = time.monotonic() + timeout
        while not all((self.folder / name).exists() for name in names):
            assert time.monotonic() < end, f"no {names}: {self.log}"
            time.sleep(0.2)

    def started(self, name: str) -> dict:
        return json.loads((self.folder / f"started-{name}.json").read_text(encoding="utf-8"))

    @property
    def log(self) -> str:
        return (self.folder / "job.log").read_text(encoding="utf-8")


Submit = Callable[..., Job]


@pytest.fixture(scope="module", autouse=True)
def warned_job(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A job that Slurm warns, which takes Slurm half a minute; it runs beside the other tests.

    The script asks for the warning 600 s before the limit: with a limit of five minutes, at once.
    """
    return Job(slurm, tmp_path_factory.mktemp("warned"), "train_8x8", ("--time=5",), STAND_IN="waits")


@pytest.fixture
def submit(slurm: SlurmCluster, tmp_path: Path) -> Submit:
    return lambda stand_in, script="train_8x8", options=(), **settings: Job(
        slurm, tmp_path, script, options, STAND_IN=stand_in, **settings
    )


def option(started: dict, name: str) -> str:
    """The value of an option that the launcher was started with."""
    return started["words"][started["words"].index(name) + 1]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_each_node_is_told_its_place(submit: Submit) -> None:
    job = submit("ends", "train_12x8")
    assert job.wait() == {"JobState": "COMPLETED", "ExitCode": "0:0", "Restarts": "0"}
    assert "training is done" in job.log
    nodes = [job.started(f"0-{rank}") for rank in (0, 1)]
    assert len({node["environment"]["SLURMD_NODENAME"] for node in nodes}) == 2
    for rank, node in enumerate(nodes):
        assert option(node, "--num_machines") == "2"
        assert option(node, "--num_processes") == "16"
        assert option(node, "--machine_rank") == str(rank)
        assert option(node, "--main_process_ip") == "127.0.0.1"
        assert option(node, "--resume_from_checkpoint") == "auto"
        assert node["words"][-2:] == ["--seed", "4"]
        assert node["environment"]["NCCL_SOCKET_IFNAME"] == "lo"
        assert node["environment"]["HF_HUB_OFFLINE"] == "1"
    assert len({option(node, "--main_process_port") for node in nodes}) == 1


def test_a_failed_rank_ends_the_job_with_its_status(submit: Submit) -> None:
    job = submit("fails")  # on the second node; the first one would go on for five minutes
    assert job.wait() == {"JobState": "FAILED", "ExitCode": "7:0", "Restarts": "0"}
    assert "1 [rank1]: ValueError: the loss is not finite" in job.log


def test_rollout_server_is_waited_for_locked_started_again_and_stopped(submit: Submit) -> None:
    job = submit("asks", TRAIN_NODES="1", ROLLOUT_NODES="1")
    assert job.wait()["JobState"] == "COMPLETED", job.log
    statuses = json.loads((job.folder / "statuses.json").read_text(encoding="utf-8"))
    assert statuses[:3] == [401, 200, 0]  # no key; the key; dead
    assert statuses[-1] == 200
    logs = job.folder / f"{job.id}.0"
    assert "ended with status 1 and is started again" in (logs / "rollouts-0.log").read_text(encoding="utf-8")
    key = logs / "key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert len(key.read_text(encoding="utf-8")) == 64
    assert key.read_text(encoding="utf-8") not in job.log + json.dumps(job.started("0-0"))
    url = option(job.started("0-0"), "--vllm_server_base_url")
    port = int(url.rsplit(":", 1)[1])
    assert not listens(port)
    # The stand-ins take whatever they are given; the real programs know all of it.
    served = build_parser().parse_args(json.loads((job.folder / "served.json").read_text(encoding="utf-8")))
    assert (served.model, served.port, served.api_key_file) == ("tiny", port, str(key))
    words = job.started("0-0")["words"]
    _, config, _ = parse_arguments(GSPOConfig, Path("unused"), words[words.index("recipes/gspo.py") + 1 :])
    assert (config.vllm_server_base_url, config.vllm_api_key_file) == (url, str(key))
    assert (config.use_vllm, config.vllm_mode, config.vllm_sync, config.seed) == (True, "server", "filesystem", 4)


def test_a_server_that_cannot_start_ends_the_job_at_once(submit: Submit) -> None:
    job = submit("has no server", TRAIN_NODES="1", ROLLOUT_NODES="1")
    assert job.wait(30) == {"JobState": "FAILED", "ExitCode": "2:0", "Restarts": "0"}
    assert "--model nowhere: there is no such folder" in job.log


def test_an_operators_requeue_lets_the_ranks_save(submit: Submit) -> None:
    job = submit("waits")
    job.wait_for("ready-0-0", "ready-0-1")
    job.slurm.ask("scontrol", "requeue", job.id)
    assert job.wait() == {"JobState": "COMPLETED", "ExitCode": "0:0", "Restarts": "1"}
    stopped = (job.folder / f"{job.id}.0" / "ranks").rglob("stdout.log")
    assert [path.read_text(encoding="utf-8")[:18] for path in stopped] == ["stopped by SIGTERM"] * 2


def test_a_cancelled_job_saves_and_stays_cancelled(submit: Submit) -> None:
    job = submit("waits")
    job.wait_for("ready-0-0", "ready-0-1")
    job.slurm.ask("scancel", job.id)
    assert job.wait()["JobState"] == "CANCELLED"
    stopped = (job.folder / f"{job.id}.0" / "ranks").rglob("stdout.log")
    assert [path.read_text(encoding="utf-8")[:18] for path in stopped] == ["stopped by SIGTERM"] * 2
    time.sleep(7)  # a requeued job would be back by then
    assert job.wait()["JobState"] == "CANCELLED"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"TRAIN_NODES": "8"}, "TRAIN_NODES=8 and ROLLOUT_NODES=0, but the job has 2 nodes"),
        ({"CONFIG": "nowhere.yaml"}, "nowhere.yaml: there is no such file"),
        ({"ROLLOUT_NODES": "2", "TRAIN_NODES": "0"}, "a run has one rollout server, or none"),
    ],
)
def test_wrong_settings_end_the_job_with_one_line(submit: Submit, settings: dict[str, str], message: str) -> None:
    job = submit("ends", **settings)
    assert job.wait()["ExitCode"] == "2:0"
    assert job.log.splitlines() == [f"error: {job.log.strip().removeprefix('error: ')}"]
    assert message in job.log


def test_outside_slurm_the_script_says_how_it_is_started() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    done = subprocess.run(
        ["bash", "launch/train_8x8.sbatch"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 2
    assert done.stderr == "error: not a Slurm job: start it with sbatch launch/train_8x8.sbatch\n"


def test_slurms_warning_before_the_time_limit_saves_and_requeues(warned_job: Job) -> None:
    job = warned_job
    assert job.wait() == {"JobState": "COMPLETED", "ExitCode": "0:0", "Restarts": "1"}
    assert "the time is nearly up" in job.log
    assert "the job is queued again" in job.log
    assert job.log.count("training is done") == 1
    # The same command, so that the run goes on in the same folder.
    assert job.started("1-0")["words"][-8:] == job.started("0-0")["words"][-8:]
