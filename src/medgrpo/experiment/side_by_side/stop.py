"""A request to stop that reaches the process which launches runs is handed on to the run that is going."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import psutil


class StopRequest:
    """The signal that was heard, if any; `handed_on_to` says to whose processes it goes meanwhile.

    A training that hears it saves a checkpoint and ends (`medgrpo.trainers.interruptible`). Left to the default, it
    would end the launching process alone, and the run would go on with nobody waiting for it.
    """

    heard: signal.Signals | None = None

    @contextmanager
    def handed_on_to(self, launcher: "subprocess.Popen[bytes]") -> Iterator[None]:
        """Within this, SIGTERM or SIGUSR1 to this process is SIGTERM to what `launcher` (accelerate) has started."""

        def hear(number: int, frame: FrameType | None) -> None:
            self.heard = signal.Signals(number)
            with suppress(psutil.NoSuchProcess):
                # Accelerate itself would die of it; it ends by itself when its processes have.
                trainings = psutil.Process(launcher.pid).children()
                for process in trainings or [psutil.Process(launcher.pid)]:
                    with suppress(psutil.NoSuchProcess):
                        process.terminate()

        if threading.current_thread() is not threading.main_thread():
            yield  # a signal can be heard in the main thread only
            return
        before = {number: signal.signal(number, hear) for number in (signal.SIGTERM, signal.SIGUSR1)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
