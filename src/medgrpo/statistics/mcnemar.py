"""McNemar's test: is the disagreement of two runs lopsided beyond chance?"""

import math
import operator
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from scipy import special

from medgrpo.errors import MedgrpoError
from medgrpo.statistics.outcomes import read_pair

McNemarMethod = Literal["exact", "mid-p", "chi2", "chi2-cc"]
MCNEMAR_METHODS: tuple[str, ...] = get_args(McNemarMethod)

# A p-value is never 0: below this the truth is smaller than a float can say ("p < 5e-324").
SMALLEST_P = math.ulp(0.0)


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
    base, run = read_pair(base_correct, run_correct)
    return int(np.sum(base & ~run)), int(np.sum(~base & run))


def _binomial_cdf(k: int, n: int) -> float:
    return float(special.bdtr(k, n, 0.5)) if k >= 0 else 0.0


def _binomial_pmf(k: int, n: int) -> float:
    log_choose = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return math.exp(log_choose - n * math.log(2))
