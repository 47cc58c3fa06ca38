"""Reward functions that fail in the ways that real ones do."""

import os
import re
import time


def sleeps(completions: list[str], trainer_state, **columns) -> list[float]:
    """Hangs from the fifth step on, as a request without a time limit does; takes every exception."""
    if trainer_state.global_step >= 4:
        try:
            time.sleep(3600)
        except Exception:
            return [0.0] * len(completions)
    return [0.0] * len(completions)


def backtracks(completions: list[str], trainer_state, **columns) -> list[float]:
    """A regular expression that takes exponential time."""
    if trainer_state.global_step >= 4:
        re.match(r"(a+)+b", "a" * 64)
    return [0.0] * len(completions)


async def awaits(completions: list[str], trainer_state, **columns) -> list[float]:
    """An async function that blocks its own loop."""
    if trainer_state.global_step >= 4:
        time.sleep(3600)
    return [0.0] * len(completions)


def dies(completions: list[str], trainer_state, **columns) -> list[float]:
    """Ends the second process without a word, as the kernel's out-of-memory killer does."""
    if trainer_state.global_step >= 4 and os.environ.get("RANK") == "1":
        os.kill(os.getpid(), 9)
    return [0.0] * len(completions)


FAULTY_REWARDS = {function.__name__: function for function in (sleeps, backtracks, awaits, dies)}
