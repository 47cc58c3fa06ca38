"""A time limit for reward functions that really ends them."""

import functools
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch

from medgrpo.trainers.resumable_log import ResumableLogGRPOTrainer
from medgrpo.trainers.resume_command import resume_command
from medgrpo.trainers.reward_calls import RewardError

SIGNAL = signal.SIGUSR2
GRACE_S = 30.0
"""How long a function that can't be interrupted may go on before the process ends itself."""


class _TimeUp(BaseException):
    """Not an `Exception`, so that a reward function's own `except Exception` does not take it."""


class RewardTimeout(RewardError):
    """A reward function ran longer than `reward_timeout`."""


class RewardLimit:
    """Ends a reward function that runs longer than `seconds` (None: no limit).

    Reward functions run in the main thread, as some of them need (`math_verify` sets alarms); another thread
    watches the clock and sends the main thread a signal, whose handler raises. That ends Python code, regular
    expressions, sleeping, locks, sockets and subprocesses. A function stuck inside a C library hears nothing:
    `GRACE_S` later the process ends itself with status 2. Async functions are given up in the same way.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._late: str | None = None
        self._clocks: list[threading.Event] = []
        self._lock = threading.Lock()

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
        self._late, self._clocks = None, []
        before = signal.signal(SIGNAL, self._raise)
        try:
            yield
        except _TimeUp:
            pass
        finally:
            self._stop_clocks()
            signal.signal(SIGNAL, before)
        if self._late is not None:
            raise RewardTimeout(
                f"reward {self._late!r} ran longer than reward_timeout ({self.seconds:g} s) and was ended: mend it, or "
                "set a longer reward_timeout"
            )

    @contextmanager
    def _running(self, name: str) -> Iterator[None]:
        if self.seconds is None:
            yield
            return
        over = threading.Event()
        self._clocks.append(over)
        threading.Thread(target=self._watch, args=(name, self.seconds, over), daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                over.set()

    def _stop_clocks(self) -> None:
        with self._lock:
            for over in self._clocks:
                over.set()

    def _watch(self, name: str, seconds: float, over: threading.Event) -> None:
        if over.wait(seconds):
            return
        with self._lock:  # never after the function has returned: the signal's default is to kill
            if over.is_set():
                return
            self._late = name
            signal.pthread_kill(threading.main_thread().ident, SIGNAL)
        if over.wait(GRACE_S):
            return
        print(
            f"error: reward {name!r} ran longer than reward_timeout ({seconds:g} s) and can't be interrupted: the "
            "process ends here; go on with --resume_from_checkpoint last",
            file=sys.stderr,
            flush=True,
        )
        os._exit(2)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        raise _TimeUp


class LimitedRewardsGRPOTrainer(ResumableLogGRPOTrainer):
    """Ends reward functions that run longer than `args.reward_timeout` seconds with `RewardTimeout`.

    On one process the state after the last finished step is saved first. On several, a process can't save alone:
    it stops, the others with it, and the last checkpoint counts.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reward_limit = RewardLimit()
        self.reward_funcs = [
            function if isinstance(function, torch.nn.Module) else self._reward_limit.wrap(function, name)
            for function, name in zip(self.reward_funcs, self.reward_func_names, strict=True)
        ]

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        self._reward_limit.seconds = self.args.reward_timeout
        try:
            with self._reward_limit.enforced():
                return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        except RewardTimeout as error:
            alone = self.accelerator.num_processes == 1
            if not self.model.training or not alone or self.save_last_step() is None:
                raise
            raise RewardTimeout(f"{error}; step {self.state.global_step} is saved: {resume_command()}") from error
