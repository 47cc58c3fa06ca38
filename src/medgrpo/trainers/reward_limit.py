"""A time limit for reward functions that really ends them."""

import functools
import inspect
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from medgrpo.trainers.reward_calls import RewardError

SIGNAL = signal.SIGUSR2
CLOCK = Path(__file__).with_name("reward_clock.py")
GRACE_S = 30.0
"""How long a function that can't be interrupted may go on before its process is killed."""
FOR_THE_TRAINING = {signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP}
"""Signals that Slurm, a terminal or an operator sends to every process of a run."""
ENDED = "the process that watches reward_timeout has ended: start again, or set it to null"


class _TimeUp(BaseException):
    """Not an `Exception`, so that a reward function's own `except Exception` does not take it."""


class RewardTimeout(RewardError):
    """A reward function ran longer than `reward_timeout`."""


class RewardLimit:
    """Ends a reward function that runs longer than `seconds` (None: no limit).

    Reward functions run in the main thread, as some of them need (`math_verify` sets alarms). Another process watches
    the clock and sends this one a signal, whose handler raises in the main thread. That ends Python code, regular
    expressions, sleeping, locks, sockets and subprocesses, and gives async functions up. A function stuck inside a
    C library hears nothing: `GRACE_S` later the process is killed, with a line that says why.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._clock: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count()

    def wrap(self, reward_func: Callable[..., Any], name: str) -> Callable[..., Any]:
        """The same function (plain or async), its time taken."""
        if inspect.iscoroutinefunction(reward_func) or inspect.iscoroutinefunction(type(reward_func).__call__):

            @functools.wraps(reward_func, updated=())
            async def call_async(**kwargs: Any) -> Any:
                with self._running(name):
                    return await reward_func(**kwargs)

            return call_async

        @functools.wraps(reward_func, updated=())
        def call(**kwargs: Any) -> Any:
            with self._running(name):
                return reward_func(**kwargs)

        return call

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Within this the wrapped functions are limited; raises `RewardTimeout`. For the main thread only."""
        if self.seconds is None or threading.current_thread() is not threading.main_thread():
            yield
            return
        if self._clock is None:
            self._clock = _start_clock()
        before = signal.signal(SIGNAL, self._raise)
        try:
            yield
        except _TimeUp:
            pass
        finally:
            # No signal comes after the answer. One before it may raise while it is being read.
            self._say("end")
            late = self._answer()
            signal.signal(SIGNAL, before)
        if late:
            raise RewardTimeout(
                f"reward {late!r} ran longer than reward_timeout ({self.seconds:g} s) and was ended: mend it, or "
                "set a longer reward_timeout"
            )

    @contextmanager
    def _running(self, name: str) -> Iterator[None]:
        if self._clock is None or self.seconds is None:
            yield
            return
        number = next(self._numbers)
        self._say(f"start {number} {self.seconds} {GRACE_S} {name}")
        try:
            yield
        finally:
            self._say(f"stop {number}")

    def _say(self, words: str) -> None:
        try:
            os.write(self._clock.stdin.fileno(), f"{words}\n".encode())
        except BrokenPipeError as error:
            raise RewardError(ENDED) from error

    def _answer(self) -> str:
        read = b""
        while not read.endswith(b"\n"):
            try:
                part = os.read(self._clock.stdout.fileno(), 1 << 12)
            except _TimeUp:
                continue
            if not part:
                raise RewardError(ENDED)
            read += part
        return read.decode().strip()

    def _raise(self, number: int, frame: FrameType | None) -> None:
        raise _TimeUp


def _start_clock() -> "subprocess.Popen[bytes]":
    """The watching process, deaf to the training's signals from its first instruction on: it inherits the mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FOR_THE_TRAINING)
    try:
        return subprocess.Popen([sys.executable, str(CLOCK)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    finally:
        # One that came meanwhile reaches this process now.
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
