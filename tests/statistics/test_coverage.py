"""How often the paired interval holds the true difference: summed over all outcomes, not simulated."""

import math

import numpy as np
import pytest
from scipy import stats

from medgrpo.statistics import compare_paired, discordant, tango_interval

# n, true shares of questions that only the base, and only the run, gets right.
SETTINGS = [
    (30, 0.20, 0.10),
    (50, 0.10, 0.10),
    (100, 0.02, 0.02),
    (100, 0.03, 0.05),
    (100, 0.05, 0.10),
    (100, 0.40, 0.10),
    (200, 0.03, 0.03),
    (289, 0.06, 0.08),
    (289, 0.02, 0.02),
    (1122, 0.003, 0.003),
    (1122, 0.005, 0.01),
    (1122, 0.0285, 0.0365),
    (2000, 0.28, 0.06),
    (3757, 0.07, 0.09),
]


def wald_interval(b, c, n):
    delta, half = (c - b) / n, 1.959964 * np.sqrt(b + c - (b - c) ** 2 / n) / n
    return delta - half, delta + half


def coverage(interval, n: int, only_base: float, only_run: float) -> float:
    """The exact probability that the interval holds `only_run - only_base`."""
    share = only_base + only_run
    pairs = np.arange(n + 1)
    weight_of = stats.binom.pmf(pairs, n, share)
    pairs = pairs[weight_of > 1e-9]
    discordant = np.concatenate([np.full(d + 1, d) for d in pairs])
    b = np.concatenate([np.arange(d + 1) for d in pairs])
    weight = stats.binom.pmf(b, discordant, only_base / share) * weight_of[discordant]
    kept = weight > 1e-11
    b, c, weight = b[kept], discordant[kept] - b[kept], weight[kept]
    low, high = interval(b, c, n)
    truth = only_run - only_base
    return float(weight[(low <= truth + 1e-12) & (truth - 1e-12 <= high)].sum() / weight.sum())


@pytest.mark.parametrize(("n", "only_base", "only_run"), SETTINGS)
def test_the_paired_interval_covers_in_94_to_96_point_5_percent(n, only_base, only_run):
    assert 0.94 <= coverage(tango_interval, n, only_base, only_run) <= 0.965


def test_why_not_wald():
    assert coverage(wald_interval, 50, 0.1, 0.1) < 0.935
    assert coverage(wald_interval, 30, 0.2, 0.1) < 0.935


@pytest.mark.parametrize(("n", "accuracy", "share"), [(100, 0.9, 0.08), (1122, 0.895, 0.065)])
def test_simulated_pairs_of_runs_near_the_ceiling(n, accuracy, share):
    """2,000 pairs of runs, question by question: a base of `accuracy`, and a run one point better."""
    generator = np.random.default_rng([n, 2])
    only_base, only_run = share / 2 - 0.005, share / 2 + 0.005
    outcomes = [(1, 1), (1, 0), (0, 1), (0, 0)]
    chances = [accuracy - only_base, only_base, only_run, 1 - accuracy - only_run]
    drawn = [np.array(outcomes)[generator.choice(4, size=n, p=chances)].T for _ in range(2000)]
    b, c = np.array([discordant(base, run) for base, run in drawn]).T
    low, high = tango_interval(b, c, n)
    for i in range(20):
        assert compare_paired(*drawn[i]).delta_ci == (low[i], high[i])
    truth = only_run - only_base
    assert 0.94 <= np.mean((low <= truth) & (truth <= high)) <= 0.965
    assert math.isclose(sum(chances), 1)
