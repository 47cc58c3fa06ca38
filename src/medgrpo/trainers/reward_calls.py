"""Calls reward functions so that a bad one is named, with the sample it stumbled over."""

import asyncio
import functools
import inspect
import math
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Set
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from medgrpo.errors import MedgrpoError

# TRL keeps rewards in float32.
LARGEST = torch.finfo(torch.float32).max
SHOWN_CHARACTERS = 60
# A failing reward may be slow or cost money: how long its sample is searched for.
SEARCH_S = 10.0


class RewardError(MedgrpoError):
    """A reward function failed or returned what is no reward; only the process that called it knows."""


def checked(reward_func: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a reward function (plain or async): the same call, its result a list of floats or None (= abstains).

    NumPy and torch scalars (on any device) and arrays of them are taken as the floats that they hold. The wrapped
    function raises `RewardError` naming `name` and the sample where `reward_func` raises, returns another number
    of rewards than there are completions, or something that is neither a finite number nor None or NaN.
    `MedgrpoError` raised inside passes as it is.
    """
    if inspect.iscoroutinefunction(reward_func) or inspect.iscoroutinefunction(type(reward_func).__call__):

        @functools.wraps(reward_func, updated=())
        async def call_async(**kwargs: Any) -> list[float | None]:
            try:
                returned = await reward_func(**kwargs)
            except (MedgrpoError, asyncio.CancelledError):
                raise
            except Exception as error:  # somebody else's code may raise anything
                raise _explain_raise(name, error, kwargs, None) from error
            return _read(name, returned, kwargs)

        return call_async

    @functools.wraps(reward_func, updated=())
    def call(**kwargs: Any) -> list[float | None]:
        try:
            returned = reward_func(**kwargs)
        except MedgrpoError:
            raise
        except Exception as error:  # somebody else's code may raise anything
            raise _explain_raise(name, error, kwargs, reward_func) from error
        return _read(name, returned, kwargs)

    return call


def refuse_infinite(rewards_per_func: torch.Tensor, names: list[str]) -> None:
    """Raise `RewardError` where a reward model's (N, K) rewards are infinite; functions are checked as they return."""
    infinite = rewards_per_func.isinf()
    if infinite.any():
        row, column = infinite.nonzero()[0].tolist()
        raise RewardError(f"reward {names[column]!r} is infinite on completion {row} of {len(rewards_per_func)}")


def _read(name: str, returned: Any, kwargs: Mapping[str, Any]) -> list[float | None]:
    expected = len(kwargs["completions"])
    if isinstance(returned, torch.Tensor | np.ndarray) and returned.ndim == 1:
        returned = returned.tolist()
    if isinstance(returned, str | bytes | Mapping | Set) or not isinstance(returned, Iterable):
        raise RewardError(
            f"reward {name!r} returned {_shown(returned)}, not a list with one number for each of the "
            f"{expected} completions"
        )
    values = list(returned)
    if len(values) != expected:
        raise RewardError(
            f"reward {name!r} returned {len(values)} rewards for {expected} completions: return one for each, "
            "None where it has no say"
        )
    return [_number(name, value, index, kwargs) for index, value in enumerate(values)]


def _number(name: str, value: Any, index: int, kwargs: Mapping[str, Any]) -> float | None:
    if isinstance(value, torch.Tensor | np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if value is None:
        return None
    if not isinstance(value, Real):
        raise RewardError(
            f"reward {name!r} returned {_shown(value)} for {_sample(kwargs, index)}: "
            "a reward is a number, or None where it has no say"
        )
    # Compared before the conversion, which fails for an integer beyond all floats.
    if not (math.isnan(value) if isinstance(value, float) else False) and not -LARGEST <= value <= LARGEST:
        raise RewardError(
            f"reward {name!r} returned {_shown(value)} for {_sample(kwargs, index)}: a reward has to be finite"
        )
    return float(value)


def _explain_raise(
    name: str, error: Exception, kwargs: Mapping[str, Any], reward_func: Callable[..., Any] | None
) -> RewardError:
    """Say what was raised, where, and on which completion; found by calling a plain `reward_func` on each alone."""
    number = len(kwargs["completions"])
    sample = f"a batch of {number} completions"
    # A reward that waits for other processes must not be called on one of them only.
    if reward_func is not None and not torch.distributed.is_initialized():
        started = time.monotonic()
        for index in range(number):
            if time.monotonic() - started > SEARCH_S:
                break
            alone = {key: [v[index]] if isinstance(v, list) and len(v) == number else v for key, v in kwargs.items()}
            try:
                reward_func(**alone)
            except type(error) as again:
                error, sample = again, _sample(kwargs, index)
                break
            except Exception:  # not what is being looked for
                continue
    frame = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())
    return RewardError(
        f"reward {name!r} raised {type(error).__name__}{f': {said}' if said else ''} "
        f"({Path(frame.filename).name}, line {frame.lineno}) on {sample}"
    )


def _sample(kwargs: Mapping[str, Any], index: int) -> str:
    """`completion 3 of 16 (question 116A1, '...')`."""
    completion = kwargs["completions"][index]
    text = completion if isinstance(completion, str) else (completion[-1].get("content") if completion else "")
    ids = kwargs.get("id")
    question = f"question {ids[index]}, " if isinstance(ids, list) and len(ids) > index else ""
    return f"completion {index} of {len(kwargs['completions'])} ({question}{_shown(text)})"


def _shown(value: Any) -> str:
    text = repr(value)
    if len(text) > SHOWN_CHARACTERS:
        text = text[:SHOWN_CHARACTERS] + "..."
    return text if isinstance(value, str | bytes | Real) or value is None else f"{text} ({type(value).__name__})"
