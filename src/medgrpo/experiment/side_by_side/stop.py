"""A request to stop that reaches the process which launches runs is handed on to the run that is going."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import psutil


class StopRequest:
    """Whether SIGTERM was heard; `handed_on_to` says to whose processes it goes meanwhile.

    A training that hears it saves a checkpoint and ends (`medgrpo.trainers.interruptible`). Left to the default, it
    would end the launching process alone, and the run would go on with nobody waiting for it.
    """

    heard = False

    @contextmanager
    def handed_on_to(self, launcher: "subprocess.Popen[bytes]") -> Iterator[None]:
        """Within this, SIGTERM to this process is one to the processes that `launcher` (accelerate) has started."""

        def hear(number: int, frame: FrameType | None) -> None:
            self.heard = True
            with suppress(psutil.NoSuchProcess):
                # Accelerate itself would die of it; it ends by itself when its processes have.
                trainings = psutil.Process(launcher.pid).children()
                for process in trainings or [psutil.Process(launcher.pid)]:
                    with suppress(psutil.NoSuchProcess):
                        process.terminate()

        if threading.current_thread() is not threading.main_thread():
            yield  # a signal can be heard in the main thread only
            return
        before = signal.signal(signal.SIGTERM, hear)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)
