"""Many tests at once: p-values corrected over the family that was declared."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats


def holm(p: ArrayLike) -> np.ndarray:
    """Holm's step-down correction (1979), in the order given: (n,) -> (n,), each at most 1.

    Below alpha with any dependence between the tests: the chance of even one false alarm is at most alpha.
    Raises `ValueError` for what are no p-values.
    """
    p = _read(p)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def benjamini_hochberg(p: ArrayLike) -> np.ndarray:
    """Benjamini & Hochberg's correction (1995), in the order given: (n,) -> (n,), each at most 1.

    Below alpha: at most this share of such findings is false on average. Raises as `holm` does.
    """
    p = _read(p)
    return stats.false_discovery_control(p, method="bh") if len(p) else p


def _read(p: ArrayLike) -> np.ndarray:
    array = np.asarray(p, dtype=float)
    if array.ndim != 1 or not ((array >= 0) & (array <= 1)).all():
        raise ValueError("p-values must be a flat sequence of numbers between 0 and 1")
    return array
