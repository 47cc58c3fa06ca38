"""Several seeds of one method: questions and seeds both vary, and neither may be counted as the other."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from medgrpo.statistics.intervals import tango_interval
from medgrpo.statistics.mcnemar import SMALLEST_P, mcnemar
from medgrpo.statistics.outcomes import read_outcomes

# With fewer questions than this outside the commonest of lost, won and unchanged, their variance is not believed.
FEW = 10

# (variance, degrees of freedom) of one source of variation of the mean difference.
Part = tuple[float, int]


@dataclass(frozen=True)
class SeedComparison:
    """The mean over a method's seeds against the mean over the base's, on the same `n` questions.

    `delta_ci` takes in the variation of questions and of seeds, and `p` is two-sided, of no mean difference:
    below 1 - confidence exactly where the interval leaves out 0. `seed_sd` is the standard deviation of the
    run's accuracies over its seeds (0 for one). Accuracies and differences are shares of 1.
    """

    n: int
    base_accuracies: tuple[float, ...]
    run_accuracies: tuple[float, ...]
    delta: float
    delta_ci: tuple[float, float]
    p: float
    seed_sd: float
    confidence: float


def compare_seeds(base_correct: ArrayLike, run_correct: ArrayLike, confidence: float = 0.95) -> SeedComparison:
    """Compare (S0, n) outcomes of a base with (S, n) outcomes of a method, a row a seed; n >= 2.

    Pooling the S x n answers would count one question S times over and make the interval too narrow. Here the
    question is the unit: each gets its mean over the seeds. The layout question x seed is crossed, and the mean
    difference varies by two parts, as in its two-way analysis (Cornfield & Tukey, 1956):

        questions   var(question means) / n, with n - 1 degrees of freedom
        seeds       max(var(seed means) / S - MS_residual / (n S), 0), with S - 1, for each side with S > 1

    The first already holds the noise of single answers, so the second leaves it out. The interval's half width
    is the root of the summed squares of t x standard error, each part with its own degrees of freedom (the
    modified large-sample interval, Graybill & Wang, 1980): three seeds are believed as little as three numbers
    should be. Satterthwaite's pooled degrees of freedom are too bold there (91 to 93 % coverage against 94 to
    97 %; tests/statistics/test_seed_comparison.py). A side with a single row is taken as it stands: its variation over
    seeds is unknown and not in the interval.

    Where nearly all questions fare alike, the variance is that of a handful of them, or 0, and tells little: an
    interval without width would claim to know what n questions cannot show. So, where fewer than `FEW` are
    outside the commonest of lost, won and unchanged, the interval is widened to hold Tango's for n questions and
    the mean discordant counts over the pairs of rows, rounded; p is then no smaller than the chi-square test's,
    which goes with it. Averaged over seeds the truth may be known better than that: the rule errs on the safe side.
    Raises `ValueError` for anything but true/false, other lengths, or fewer than two questions.
    """
    base = read_outcomes("base_correct", base_correct, ndim=2)
    run = read_outcomes("run_correct", run_correct, ndim=2)
    if base.shape[1] != run.shape[1]:
        raise ValueError(f"the runs answered different numbers of questions: {base.shape[1]} and {run.shape[1]}")
    n = base.shape[1]
    if n < 2 or not len(base) or not len(run):
        raise ValueError(f"seeds need at least one row a side and two questions, got {base.shape} and {run.shape}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    difference = run.mean(axis=0) - base.mean(axis=0)
    delta = float(difference.mean())
    parts = [(float(difference.var(ddof=1)) / n, n - 1)]
    parts += [_seed_part(side) for side in (base, run) if len(side) > 1]
    half = _half_width(parts, 1 - confidence)
    low, high = max(delta - half, -1.0), min(delta + half, 1.0)
    p = _two_sided_p(abs(delta), parts, n)
    b, c = _mean_discordant(base, run)
    if n - max(b, c, n - b - c) < FEW:
        tango_low, tango_high = tango_interval(b, c, n, confidence)
        low, high = min(low, float(tango_low)), max(high, float(tango_high))
        p = max(p, mcnemar(b, c, "chi2"))
    return SeedComparison(
        n=n,
        base_accuracies=tuple(base.mean(axis=1).tolist()),
        run_accuracies=tuple(run.mean(axis=1).tolist()),
        delta=delta,
        delta_ci=(low, high),
        p=p,
        seed_sd=float(run.mean(axis=1).std(ddof=1)) if len(run) > 1 else 0.0,
        confidence=confidence,
    )


def _mean_discordant(base: np.ndarray, run: np.ndarray) -> tuple[int, int]:
    """Questions lost and won by a row of the run against a row of the base, mean over all such pairs, rounded."""
    was, now = base.mean(axis=0), run.mean(axis=0)
    b = round(float((was * (1 - now)).sum()))
    return b, min(round(float((now * (1 - was)).sum())), base.shape[1] - b)


def _seed_part(correct: np.ndarray) -> Part:
    seeds, n = correct.shape
    means = correct.mean(axis=1)
    residual = correct - correct.mean(axis=0) - means[:, None] + correct.mean()
    noise = float((residual**2).sum()) / ((seeds - 1) * (n - 1)) / (n * seeds)
    return max(float(means.var(ddof=1)) / seeds - noise, 0.0), seeds - 1


def _half_width(parts: list[Part], p: float) -> float:
    # stdtrit: Student's quantile, here of the lower tail.
    return math.hypot(*(float(special.stdtrit(df, p / 2)) * math.sqrt(variance) for variance, df in parts))


def _two_sided_p(distance: float, parts: list[Part], n: int) -> float:
    """The p at which the interval's edge touches no difference."""
    if distance == 0:
        return 1.0
    if sum(variance for variance, _ in parts) == 0:
        return mcnemar(0, n)  # Every question changed alike: nothing varies, and the sign test is what is left.
    smallest = 1e-300
    if _half_width(parts, smallest) < distance:
        return SMALLEST_P
    logarithm = optimize.brentq(lambda x: _half_width(parts, math.exp(x)) - distance, math.log(smallest), 0.0)
    return math.exp(logarithm)
