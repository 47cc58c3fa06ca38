import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from medgrpo.errors import MedgrpoError
from medgrpo.statistics import MCNEMAR_METHODS, discordant, mcnemar

counts = st.integers(0, 5000)


def exact_fraction(b: int, c: int) -> Fraction:
    """The exact p in whole numbers, as a check on the floating-point one."""
    n = b + c
    tail = sum(math.comb(n, i) for i in range(min(b, c) + 1))
    return min(Fraction(2 * tail, 2**n), Fraction(1))


def mid_p_fraction(b: int, c: int) -> Fraction:
    """The mid-p in whole numbers: the exact p less the observed outcome's probability."""
    n = b + c
    tail = sum(math.comb(n, i) for i in range(min(b, c) + 1))
    return min(Fraction(2 * tail - math.comb(n, min(b, c)), 2**n), Fraction(1))


@pytest.mark.parametrize(
    ("b", "c", "exact", "corrected", "mid_p", "chi2"),
    [
        (32, 41, 0.34918, 0.34910, 0.295, 0.292),
        # Sometimes quoted as .39613; the whole-number value is .396125, see the test below.
        (30, 38, 0.39612, 0.39595, 0.336, 0.332),
        (30, 40, 0.28198, 0.28206, 0.235, 0.232),
    ],
)
def test_published_comparisons(b, c, exact, corrected, mid_p, chi2):
    assert mcnemar(b, c) == pytest.approx(exact, abs=5e-6)
    assert mcnemar(b, c, "chi2-cc") == pytest.approx(corrected, abs=5e-6)
    assert mcnemar(b, c, "mid-p") == pytest.approx(mid_p, abs=5e-4)
    assert mcnemar(b, c, "chi2") == pytest.approx(chi2, abs=5e-4)


def test_the_value_that_rounds_either_way():
    assert round(float(exact_fraction(30, 38)), 7) == 0.3961248
    assert mcnemar(30, 38) == pytest.approx(float(exact_fraction(30, 38)), rel=1e-13)


@pytest.mark.parametrize(
    ("b", "c", "method", "p"),
    [
        (0, 0, "exact", 1.0),
        (0, 0, "mid-p", 1.0),
        (0, 0, "chi2", 1.0),
        (0, 0, "chi2-cc", 1.0),
        (0, 1, "exact", 1.0),
        (0, 1, "mid-p", 0.5),
        (0, 1, "chi2", 0.31731),
        (0, 1, "chi2-cc", 1.0),
        (0, 6, "exact", 2 / 64),
        (1, 5, "mid-p", (2 * 1 + 6) / 64),
        (35, 55, "exact", 0.0446),
        (35, 55, "chi2-cc", 0.0452),
        (35, 55, "mid-p", 0.03545),
        (74, 52, "exact", 0.0609),
        (74, 52, "mid-p", 0.0505),
        (74, 52, "chi2", 0.0500),
        (248, 302, "exact", 0.0237),
        (248, 302, "mid-p", 0.0213),
    ],
)
def test_known_values(b, c, method, p):
    assert mcnemar(b, c, method) == pytest.approx(p, abs=5e-5)


def test_agrees_with_statsmodels_on_a_grid_up_to_2000():
    for b, c in product([0, 1, 2, 3, 7, 20, 21, 50, 177, 400, 999, 1500, 1999, 2000], repeat=2):
        table = [[10, b], [c, 10]]
        assert mcnemar(b, c) == pytest.approx(min(statsmodels_mcnemar(table, exact=True).pvalue, 1), rel=1e-9)
        if b == c:  # statsmodels divides by zero at (0, 0) and corrects past zero elsewhere on the diagonal
            assert mcnemar(b, c, "chi2") == mcnemar(b, c, "chi2-cc") == 1.0
            continue
        for method, correction in (("chi2", False), ("chi2-cc", True)):
            theirs = statsmodels_mcnemar(table, exact=False, correction=correction).pvalue
            assert mcnemar(b, c, method) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("method", MCNEMAR_METHODS)
@pytest.mark.parametrize(("b", "c"), [(5000, 1), (1, 5000), (0, 10**7), (10**6, 10**6 + 3)])
def test_extreme_counts_stay_inside_zero_and_one(b, c, method):
    p = mcnemar(b, c, method)
    assert 0 < p <= 1
    assert (p < 1e-300) == (abs(b - c) > 1000)


@given(counts, counts, st.sampled_from(MCNEMAR_METHODS))
def test_p_is_a_probability_and_symmetric(b, c, method):
    p = mcnemar(b, c, method)
    assert 0 < p <= 1
    assert p == mcnemar(c, b, method)


@given(st.integers(0, 300), st.integers(0, 300))
def test_exact_and_mid_p_equal_whole_number_arithmetic(b, c):
    assert mcnemar(b, c) == pytest.approx(float(exact_fraction(b, c)), rel=1e-9, abs=1e-300)
    assert mcnemar(b, c, "mid-p") == pytest.approx(float(mid_p_fraction(b, c)), rel=1e-9, abs=1e-300)


@given(st.integers(0, 200), st.integers(0, 200))
def test_more_wins_on_the_leading_side_never_raise_p(b, extra):
    ps = [mcnemar(b, b + extra + step) for step in range(3)]
    assert ps[0] >= ps[1] * (1 - 1e-12) >= ps[2] * (1 - 1e-12)


@pytest.mark.parametrize(("n", "share"), [(100, 0.02), (100, 0.1), (289, 0.14), (1122, 0.065), (3757, 0.16)])
def test_the_exact_test_keeps_its_level_without_a_true_difference(n, share):
    """2,000 pairs of runs that are equally good: at most 5.5 % may look different at .05."""
    generator = np.random.default_rng([n, 1])
    drawn = generator.multinomial(n, [share / 2, share / 2, 1 - share], size=2000)
    assert np.mean([mcnemar(b, c) < 0.05 for b, c in drawn[:, :2].tolist()]) <= 0.055


def test_bad_counts_and_methods_are_refused():
    with pytest.raises(ValueError, match="negative"):
        mcnemar(-1, 3)
    with pytest.raises(TypeError):
        mcnemar(1.5, 3)
    with pytest.raises(MedgrpoError, match=r"'midp'.*exact, mid-p"):
        mcnemar(1, 3, "midp")
    assert mcnemar(np.int64(30), np.int64(40)) == mcnemar(30, 40)


def test_discordant_counts_each_direction():
    assert discordant([1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 0]) == (2, 1)
    assert discordant([], []) == (0, 0)
    with pytest.raises(ValueError, match="2 and 1"):
        discordant([True, False], [True])
    with pytest.raises(ValueError, match="run_correct"):
        discordant([1, 0], [1, math.nan])
    with pytest.raises(ValueError, match="base_correct"):
        discordant(["True", "False"], [1, 0])
