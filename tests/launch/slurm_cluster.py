"""A Slurm of four nodes on this machine: its own configuration, key, ports and folder; no root needed."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
NODES = ("node0", "node1", "node2", "node3")

# cred_expire: as long (5 s at least) does a requeued job wait before it starts again. KillWait: from TERM to KILL.
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1
KillWait=5
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
NodeName=node[0-3] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}] CPUs=4
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing_daemons() -> list[str]:
    """The programs of Slurm and munge that are not installed."""
    return [name for name in (*DAEMONS, "sbatch") if shutil.which(name, path=PATH) is None]


class SlurmCluster:
    """Use as a context manager: the daemons run inside, and are gone after it."""

    def __enter__(self) -> "SlurmCluster":
        # Not pytest's folder: a socket's path has at most 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="slurm"))
        self._daemons: list[subprocess.Popen] = []
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        if len(self._daemons) > len(NODES):
            self._cancel_all()
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self._daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def ask(self, *command: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
        """Run one of Slurm's commands; returns what it prints."""
        done = subprocess.run(
            command, env={**self.environment, **(env or {})}, cwd=cwd, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def show(self, job: str) -> dict[str, str]:
        """What Slurm knows of a job: `JobState`, `Restarts`, `ExitCode`, ..."""
        words = self.ask("scontrol", "show", "job", job, "--oneliner").split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait_until_ended(self, job: str, timeout: float) -> dict[str, str]:
        """Wait until a job is neither waiting nor running."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            shown = self.show(job)
            if shown["JobState"] not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED"):
                return shown
            time.sleep(0.5)
        raise TimeoutError(f"job {job} is {shown['JobState']} after {timeout:g} s")

    def _start(self) -> None:
        host = socket.gethostname().split(".")[0]
        folder = self.folder
        (folder / "munge").mkdir(mode=0o700)
        (folder / "state").mkdir()
        key = folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        config = folder / "slurm.conf"
        user = pwd.getpwuid(os.getuid()).pw_name
        config.write_text(CONFIG.format(host=host, folder=folder, user=user, ports=_find_ports()), encoding="utf-8")
        self.environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(config)}
        for name in [name for name in self.environment if name.startswith(("SLURM_", "SBATCH_"))]:
            if name != "SLURM_CONF":
                del self.environment[name]
        munge = folder / "munge"
        files = [f"--{name}={munge / file}" for name, file in MUNGE_FILES.items()]
        self._run("munged", "--foreground", "--force", "--num-threads=2", *files)
        _wait(lambda: (munge / "socket").exists(), "munged")
        self._run("slurmctld", "-D")
        for node in NODES:
            self._run("slurmd", "-D", "-N", node)
        _wait(lambda: self._states() == ["idle"] * len(NODES), "Slurm")

    def _cancel_all(self) -> None:
        """A job's processes would outlive the daemons."""
        user = pwd.getpwuid(os.getuid()).pw_name
        subprocess.run(["scancel", "--user", user], env=self.environment, timeout=60, check=False)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            jobs = subprocess.run(["squeue", "--noheader"], env=self.environment, capture_output=True, timeout=60)
            if not jobs.stdout.strip():
                return
            time.sleep(0.5)

    def _run(self, name: str, *options: str) -> None:
        program = shutil.which(name, path=PATH)
        assert program is not None
        with (self.folder / f"{name}-{len(self._daemons)}.log").open("w") as log:
            command = [program, *options]
            # No part of this process's group: Ctrl-C reaches the tests first.
            daemon = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        self._daemons.append(daemon)

    def _states(self) -> list[str]:
        command = ["sinfo", "--noheader", "--Node", "--format=%T"]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60)
        return done.stdout.split()


MUNGE_FILES = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}


def _find_ports() -> tuple[int, int, int]:
    """A free port for the controller, and the first and last of as many side by side as there are nodes."""
    while True:
        with socket.socket() as controller, ExitStack() as opened:
            controller.bind(("127.0.0.1", 0))
            first = controller.getsockname()[1] + 1
            try:
                for port in range(first, first + len(NODES)):
                    opened.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except (OSError, OverflowError):
                continue
            return first - 1, first, first + len(NODES) - 1


def _wait(ready: Callable[[], bool], name: str, timeout: float = 60) -> None:
    end = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{name} is not up after {timeout:g} s")
        time.sleep(0.2)
