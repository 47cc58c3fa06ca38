"""True/false outcomes as arrays, checked: the one way in for everything that is counted."""

from collections.abc import Sequence

import numpy as np


def read_outcomes(name: str, outcomes: Sequence[bool], ndim: int = 1) -> np.ndarray:
    """Return a bool array of `ndim` dimensions; `ValueError` for anything but true/false (or 1/0)."""
    array = np.asarray(outcomes)
    if array.ndim != ndim or not np.isin(array, (0, 1)).all():
        shape = "a flat sequence" if ndim == 1 else f"an array of {ndim} dimensions"
        raise ValueError(f"{name} must be {shape} of true/false (or 1/0)")
    return array.astype(bool)


def read_pair(base_correct: Sequence[bool], run_correct: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
    """Return two bool arrays (n,); `ValueError` where they aren't of one length."""
    base, run = read_outcomes("base_correct", base_correct), read_outcomes("run_correct", run_correct)
    if len(base) != len(run):
        raise ValueError(f"the runs answered different numbers of questions: {len(base)} and {len(run)}")
    return base, run
