"""What a comparison of n questions could have shown, so that "not significant" is read rightly."""

import bisect
import math
from functools import lru_cache

import numpy as np
from scipy import optimize, special, stats

from medgrpo.statistics.mcnemar import McNemarMethod, mcnemar

# Numbers of discordant pairs farther than this from their mean (in standard deviations) weigh under 1e-6.
WINDOW_SD = 5.0

# A share below this gives no discordant pair at any n that exists.
SMALLEST_SHARE = 1e-12


def mcnemar_power(n: int, discordant_share: float, difference: float, alpha: float = 0.05) -> float:
    """The chance that exact McNemar gives p < alpha on n questions.

    `discordant_share` is the true share of questions on which exactly one of the two is right, `difference` the
    true difference of the accuracies; |difference| <= discordant_share. Unconditional: the number of discordant
    pairs is binomial, and so is their division given it. Raises `ValueError` for shares outside that.
    """
    _check(n, discordant_share, alpha)
    if not abs(difference) <= discordant_share:
        raise ValueError(f"a difference of {difference} does not fit into a discordant share of {discordant_share}")
    return _power(*_critical(n, discordant_share, alpha), difference / discordant_share if discordant_share else 0.0)


@lru_cache(maxsize=100_000)
def smallest_detectable_difference(
    n: int, discordant_share: float, alpha: float = 0.05, power: float = 0.8
) -> float | None:
    """The smallest true difference that exact McNemar shows (p < alpha) with the chance `power`.

    `n` questions, `discordant_share` as in `mcnemar_power`. None where even the largest difference that fits
    into this discordance (all of it on one side) is shown less often. Raises `ValueError` for shares outside
    [0, 1], or an alpha or power outside (0, 1).
    """
    _check(n, discordant_share, alpha)
    if not 0 < power < 1:
        raise ValueError(f"power must lie between 0 and 1, got {power}")
    weights, pairs, critical = _critical(n, discordant_share, alpha)
    if _power(weights, pairs, critical, 1.0) < power:
        return None
    if _power(weights, pairs, critical, 0.0) >= power:
        return 0.0
    imbalance = optimize.brentq(lambda x: _power(weights, pairs, critical, x) - power, 0.0, 1.0, xtol=1e-6)
    return float(imbalance * discordant_share)


@lru_cache(maxsize=100_000)
def smallest_significant_imbalance(discordant: int, alpha: float = 0.05, method: McNemarMethod = "exact") -> int | None:
    """The smallest |c - b| that gives p < alpha at this number of discordant pairs; None where none does."""
    if discordant < 0 or not 0 < alpha < 1:
        raise ValueError(f"discordant must be 0 or more and alpha inside (0, 1): {discordant}, {alpha}")
    # p rises with the smaller of the two counts.
    significant = bisect.bisect_left(
        range(discordant // 2 + 1), alpha, key=lambda smaller: mcnemar(smaller, discordant - smaller, method)
    )
    return discordant - 2 * (significant - 1) if significant else None


def _check(n: int, discordant_share: float, alpha: float) -> None:
    if n < 1 or not 0 <= discordant_share <= 1 or not 0 < alpha < 1:
        raise ValueError(
            f"n must be 1 or more, the discordant share in [0, 1], alpha in (0, 1): {n}, {discordant_share}, {alpha}"
        )


def _critical(n: int, discordant_share: float, alpha: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Numbers of discordant pairs that occur, with their weight and the largest smaller count with p < alpha."""
    if discordant_share < SMALLEST_SHARE:
        return np.zeros(0), np.zeros(0, dtype=int), np.zeros(0, dtype=int)
    mean, sd = n * discordant_share, math.sqrt(n * discordant_share * (1 - discordant_share))
    pairs = np.arange(max(math.floor(mean - WINDOW_SD * sd), 0), min(math.ceil(mean + WINDOW_SD * sd), n) + 1)
    weights = stats.binom.pmf(pairs, n, discordant_share)
    # The largest count whose tail stays below alpha / 2; -1 where there is none.
    critical = stats.binom.ppf(alpha / 2, pairs, 0.5) - 1
    testable = (critical >= 0) & (pairs > 0)
    return weights[testable] / weights.sum(), pairs[testable], critical[testable].astype(int)


def _power(weights: np.ndarray, pairs: np.ndarray, critical: np.ndarray, imbalance: float) -> float:
    share = (1 + imbalance) / 2
    tails = special.bdtr(critical, pairs, share) + special.bdtr(critical, pairs, 1 - share)
    return float(weights @ tails)
