"""Starts runs in a warm process, follows their phases, and kills them."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

HERE = Path(__file__).parent
LONG = 300.0


class WarmProcess:
    """Forks runs, one at a time; `start` begins one."""

    def __init__(self, folder: Path) -> None:
        self.pipe = folder / "phases"
        os.mkfifo(self.pipe)
        # Open for writing, too, so that neither side waits for the other.
        self.phases = os.open(self.pipe, os.O_RDWR | os.O_NONBLOCK)
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "warm_process.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "HF_HUB_OFFLINE": "1",
                "TOKENIZERS_PARALLELISM": "false",
                "PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")]),
            },
        )
        assert self.process.stdout.readline() == b"ready\n"

    def start(self, **order: Any) -> "Run":
        return Run(self, order)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *what: object) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=LONG)
        os.close(self.phases)


class Run:
    """One run; `output` is what it printed, `statuses` its processes' exit codes, or minus the signal."""

    def __init__(self, warm: WarmProcess, order: Mapping[str, Any]) -> None:
        self.warm = warm
        self.folder = Path(order["folder"])
        self.printed = Path(order.get("output", self.folder.with_name(self.folder.name + ".log")))
        self.printed.unlink(missing_ok=True)
        self.statuses: list[int] = []
        self._rest = b""
        order = {**order, "output": str(self.printed), "pipe": str(warm.pipe)}
        warm.process.stdin.write(json.dumps(order).encode() + b"\n")
        warm.process.stdin.flush()
        self._words = self._follow()
        self.open: list[str] = []
        self.pids: list[int] = json.loads(warm.process.stdout.readline())

    @property
    def status(self) -> int:
        """Of a run of one process."""
        (status,) = self.statuses
        return status

    @property
    def output(self) -> str:
        return self.printed.read_text(errors="replace")

    def wait(self) -> list[int]:
        """Let it end."""
        for _ in self._words:
            pass
        return self.statuses

    def reach(self, phase: str, times: int = 1) -> bool:
        """Wait until it enters a phase for the given time; False where it ended before."""
        for word in self._words:
            times -= word == f"+{phase}"
            if not times:
                return True
        return False

    def kill(self, delay: float, number: int = signal.SIGKILL) -> str:
        """Kill it after a delay; returns the phase that it was in."""
        until = time.perf_counter() + delay
        while time.perf_counter() < until:
            pass
        for pid in self.pids:
            os.kill(pid, number)
        self.wait()
        return self.open[-1] if self.open else "between"

    def _follow(self) -> Iterator[str]:
        """What it says, until it has ended; `open` holds the phases that it is in."""
        status = self.warm.process.stdout
        until = time.monotonic() + LONG
        while True:
            ready, _, _ = select.select([self.warm.phases, status], [], [], 1.0)
            if self.warm.phases in ready:
                *words, self._rest = (self._rest + os.read(self.warm.phases, 1 << 16)).split(b"\n")
                for word in map(bytes.decode, words):
                    if word.startswith("+"):
                        self.open.append(word[1:])
                    elif word.startswith("-"):
                        self.open.remove(word[1:])
                    yield word
            elif status in ready:
                self.statuses = json.loads(status.readline())
                return
            assert time.monotonic() < until, f"the run hangs in {self.open}: {self.output[-2000:]}"
