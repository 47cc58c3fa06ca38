"""Paired comparison of two runs over the same questions: McNemar's test and the intervals beside it.

Two runs answer the same questions, so their scores are not independent and a test for two separate samples
would waste what the pairing tells. Only the discordant pairs speak: `b` questions that the base got right and
the run got wrong, `c` the reverse.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from scipy import special

from medgrpo.errors import MedgrpoError

McNemarMethod = Literal["exact", "mid-p", "chi2", "chi2-cc"]
MCNEMAR_METHODS: tuple[str, ...] = get_args(McNemarMethod)

# A p-value is never 0: below this the truth is smaller than a float can say ("p < 5e-324").
SMALLEST_P = math.ulp(0.0)


@dataclass(frozen=True)
class PairedComparison:
    """What one run gained or lost against the base on the same `n` questions.

    `delta` is `run_accuracy - base_accuracy` and `delta_ci` its paired Wald interval at `confidence`, all as
    shares of 1. `b` counts questions that only the base got right, `c` those that only the run got right, and
    `p` is McNemar's two-sided p by `method`.
    """

    n: int
    base_accuracy: float
    run_accuracy: float
    delta: float
    delta_ci: tuple[float, float]
    b: int
    c: int
    p: float
    method: str
    confidence: float


def mcnemar(b: int, c: int, method: McNemarMethod = "exact") -> float:
    """Two-sided p of McNemar's test, in (0, 1], from the discordant counts `b` and `c`.

    - `exact`: twice the smaller tail of Binomial(b + c, 1/2), at most 1.
    - `mid-p`: the exact test with the observed outcome counted half (Fagerland, Lydersen & Laake, 2013).
    - `chi2`: (b - c)^2 / (b + c) against chi-squared with one degree of freedom (McNemar, 1947).
    - `chi2-cc`: (|b - c| - 1)^2 / (b + c) (Edwards, 1948). At b = c nothing is left to correct: p is 1, as in
      R's `mcnemar.test`; statsmodels lets the correction overshoot there and returns less than 1.

    No discordant pair gives p = 1. Raises `ValueError` for a negative count and `MedgrpoError` for an unknown
    method.
    """
    b, c = operator.index(b), operator.index(c)
    if b < 0 or c < 0:
        raise ValueError(f"discordant counts cannot be negative: b = {b}, c = {c}")
    if method not in MCNEMAR_METHODS:
        raise MedgrpoError(f"unknown McNemar method {method!r}: choose from {', '.join(MCNEMAR_METHODS)}")
    n, smaller = b + c, min(b, c)
    if n == 0:
        return 1.0
    if method == "exact":
        p = 2 * float(special.bdtr(smaller, n, 0.5))
    elif method == "mid-p":
        # Tail below the observed count plus half the observed probability, doubled: a sum and never a
        # difference, so that it cannot turn negative where the tail underflows.
        p = 2 * _binomial_cdf(smaller - 1, n) + _binomial_pmf(smaller, n)
    else:
        correction = 1 if method == "chi2-cc" else 0
        distance = max(abs(b - c) - correction, 0)
        p = math.erfc(distance / math.sqrt(2 * n))  # P(chi2_1 > z^2) = erfc(z / sqrt 2)
    return min(max(p, SMALLEST_P), 1.0)


def discordant(base_correct: Sequence[bool], run_correct: Sequence[bool]) -> tuple[int, int]:
    """`(b, c)`: how many questions only the base, and how many only the run, answered right.

    Both sequences hold one true/false (or 1/0) a question in the same order; `ValueError` otherwise.
    """
    base, run = _outcomes(base_correct, run_correct)
    return int(np.sum(base & ~run)), int(np.sum(~base & run))


def wilson_interval(k: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval (1927) for a share of `k` in `n`, inside [0, 1]; (0, 1) where `n` is 0."""
    k, n = operator.index(k), operator.index(n)
    if not 0 <= k <= n:
        raise ValueError(f"a share needs 0 <= k <= n, got k = {k}, n = {n}")
    z = _two_sided_z(confidence)
    if n == 0:
        return 0.0, 1.0
    centre = (k + z * z / 2) / (n + z * z)
    half = z * math.sqrt(k * (n - k) / n + z * z / 4) / (n + z * z)
    # The ends are exactly 0 and 1 there; the formula reaches them only up to rounding.
    low = 0.0 if k == 0 else max(centre - half, 0.0)
    high = 1.0 if k == n else min(centre + half, 1.0)
    return low, high


def compare_paired(
    base_correct: Sequence[bool],
    run_correct: Sequence[bool],
    method: McNemarMethod = "exact",
    confidence: float = 0.95,
) -> PairedComparison:
    """Compares a run with its base on the same questions, given in the same order.

    The interval of the difference is the paired Wald interval, delta ± z sqrt(b + c - (b - c)^2 / n) / n, cut
    to [-1, 1]. It has no width where no pair is discordant: read it together with `b` and `c`.
    Raises `ValueError` for sequences of unequal length, for anything but true/false, or for no pairs at all.
    """
    base, run = _outcomes(base_correct, run_correct)
    n = len(base)
    if n == 0:
        raise ValueError("nothing to compare: no question was answered by both runs")
    b, c = discordant(base, run)
    delta = (c - b) / n
    half = _two_sided_z(confidence) * math.sqrt(b + c - (b - c) ** 2 / n) / n
    return PairedComparison(
        n=n,
        base_accuracy=int(base.sum()) / n,
        run_accuracy=int(run.sum()) / n,
        delta=delta,
        delta_ci=(max(delta - half, -1.0), min(delta + half, 1.0)),
        b=b,
        c=c,
        p=mcnemar(b, c, method),
        method=method,
        confidence=confidence,
    )


def _binomial_cdf(k: int, n: int) -> float:
    return float(special.bdtr(k, n, 0.5)) if k >= 0 else 0.0


def _binomial_pmf(k: int, n: int) -> float:
    log_choose = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return math.exp(log_choose - n * math.log(2))


def _two_sided_z(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    return float(special.ndtri(0.5 + confidence / 2))


def _outcomes(base_correct: Sequence[bool], run_correct: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
    base, run = np.asarray(base_correct), np.asarray(run_correct)
    for name, outcomes in (("base_correct", base), ("run_correct", run)):
        if outcomes.ndim != 1 or not np.isin(outcomes, (0, 1)).all():
            raise ValueError(f"{name} must be a flat sequence of true/false (or 1/0)")
    if len(base) != len(run):
        raise ValueError(f"the runs answered different numbers of questions: {len(base)} and {len(run)}")
    return base.astype(bool), run.astype(bool)
