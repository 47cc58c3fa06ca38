"""What ends a reward function that hangs, without a training run around it."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from medgrpo.trainers.reward_calls import RewardError
from medgrpo.trainers.reward_limit import RewardLimit, RewardTimeout

LIMIT = 0.3


def backtracks(**columns) -> list[float]:
    re.match(r"(a+)+b", "a" * 64)
    return []


def waits_for_a_lock(**columns) -> list[float]:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
    return []


def takes_exceptions(**columns) -> list[float]:
    with contextlib.suppress(Exception):
        time.sleep(3600)
    return [0.0]


def takes_everything_once(**columns) -> list[float]:
    try:
        time.sleep(3600)
    except BaseException:
        return [0.0]
    return [1.0]


def runs_a_program(**columns) -> list[float]:
    subprocess.run(["sleep", "60"], check=True)
    return []


@pytest.mark.parametrize(
    "function", [backtracks, waits_for_a_lock, takes_exceptions, takes_everything_once, runs_a_program]
)
def test_a_function_that_hangs_is_ended_and_named(function) -> None:
    limit = RewardLimit(LIMIT)
    call = limit.wrap(function, function.__name__)
    before = signal.getsignal(signal.SIGUSR2)
    said = f"'{function.__name__}' ran longer than reward_timeout \\(0.3 s\\)"
    with pytest.raises(RewardTimeout, match=said), limit.enforced():
        call(completions=[])
    assert signal.getsignal(signal.SIGUSR2) is before
    # The next batch has its whole time.
    with limit.enforced():
        assert limit.wrap(lambda **columns: [1.0], "quick")(completions=[]) == [1.0]


def test_an_async_function_is_given_up() -> None:
    limit = RewardLimit(LIMIT)

    async def blocks(**columns) -> list[float]:
        time.sleep(5)
        return []

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    with pytest.raises(RewardTimeout, match="'blocks'"), limit.enforced():
        asyncio.run_coroutine_threadsafe(limit.wrap(blocks, "blocks")(completions=[]), loop).result()


def test_an_alarm_of_the_functions_own_is_left_alone() -> None:
    heard = []
    limit = RewardLimit(5.0)

    def sets_an_alarm(**columns) -> list[float]:
        before = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        time.sleep(0.2)
        signal.signal(signal.SIGALRM, before)
        return [1.0]

    with limit.enforced():
        assert limit.wrap(sets_an_alarm, "sets_an_alarm")(completions=[]) == [1.0]
    assert heard == [1]


@pytest.mark.parametrize("started_s", [0.0, 0.01, 0.3])
def test_signals_meant_for_the_run_do_not_end_the_clock(started_s: float) -> None:
    """Whenever they come: Slurm warns a run in its first step, while the clock's Python is still starting."""
    limit = RewardLimit(LIMIT)
    with limit.enforced():
        time.sleep(started_s)
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
            os.kill(limit._clock.pid, number)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
    with pytest.raises(RewardTimeout), limit.enforced():
        limit.wrap(takes_exceptions, "sleeps")(completions=[])


def test_a_clock_that_is_gone_is_said() -> None:
    limit = RewardLimit(LIMIT)
    with pytest.raises(RewardError, match="the process that watches reward_timeout has ended"), limit.enforced():
        limit._clock.kill()
        limit._clock.wait()
        limit.wrap(lambda **columns: [1.0], "quick")(completions=[])


STUCK = """
import ctypes
from medgrpo.trainers import reward_limit
reward_limit.GRACE_S = 0.3
limit = reward_limit.RewardLimit(0.3)
def in_c(**columns):
    # PyDLL keeps Python's lock, and a mutex is not left for a signal.
    libc = ctypes.PyDLL(None)
    mutex = ctypes.create_string_buffer(64)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)
with limit.enforced():
    limit.wrap(in_c, "in_c")(completions=[])
"""


def test_a_function_stuck_in_c_is_killed_with_a_message() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert "error: reward 'in_c' ran longer than reward_timeout (0.3 s) and can't be interrupted" in done.stderr
