import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from statsmodels.stats.proportion import proportion_confint

from medgrpo.statistics import mcnemar, tango_interval, wilson_interval


@st.composite
def discordant_counts(draw):
    n = draw(st.integers(1, 3000))
    b = draw(st.integers(0, n))
    return b, draw(st.integers(0, n - b)), n


def test_wilson_published_and_edges():
    low, high = wilson_interval(1004, 1122)
    assert (low, high) == (pytest.approx(0.8755, abs=5e-5), pytest.approx(0.9115, abs=5e-5))
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert wilson_interval(0, 5)[0] == 0.0
    assert wilson_interval(5, 5)[1] == 1.0
    with pytest.raises(ValueError, match="k = 6"):
        wilson_interval(6, 5)
    with pytest.raises(ValueError, match="confidence"):
        wilson_interval(1, 5, 95)


@given(st.integers(1, 2000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_equals_statsmodels_and_contains_the_share(k_n):
    k, n = k_n
    low, high = wilson_interval(k, n)
    assert (low, high) == pytest.approx(proportion_confint(k, n, method="wilson"), abs=1e-12)
    assert 0 <= low <= k / n <= high <= 1


def test_tango_published_example():
    """Airway hyper-responsiveness before and after transplantation, 21 children: -0.517 to -0.026 (Fagerland,
    Lydersen & Laake, 2014, where the difference has the other sign)."""
    low, high = tango_interval(1, 7, 21)
    assert (low, high) == (pytest.approx(0.026, abs=5e-4), pytest.approx(0.517, abs=5e-4))


def score_by_likelihood(b: int, c: int, n: int, difference: float) -> float:
    """Tango's score with the restricted likelihood maximised by search, not by its formula."""

    def minus_log_likelihood(q):  # q: share of "only the base right"
        terms = [(b, q), (c, q + difference), (n - b - c, 1 - 2 * q - difference)]
        return -sum(count * math.log(share) for count, share in terms if count)

    lowest, highest = max(0.0, -difference) + 1e-12, (1 - difference) / 2 - 1e-12
    q = optimize.minimize_scalar(
        minus_log_likelihood, bounds=(lowest, highest), method="bounded", options={"xatol": 1e-13}
    ).x
    return (c - b - n * difference) / math.sqrt(n * (2 * q + difference * (1 - difference)))


@pytest.mark.parametrize(("b", "c", "n"), [(32, 41, 1122), (1, 7, 21), (3, 3, 100), (200, 20, 500), (5, 9, 14)])
def test_the_score_is_z_at_both_ends(b, c, n):
    low, high = tango_interval(b, c, n)
    assert score_by_likelihood(b, c, n, float(low)) == pytest.approx(1.959964, abs=2e-3)
    assert score_by_likelihood(b, c, n, float(high)) == pytest.approx(-1.959964, abs=2e-3)


@given(discordant_counts())
def test_the_interval_holds_the_difference_and_mirrors(counts):
    b, c, n = counts
    low, high = tango_interval(b, c, n)
    assert -1 <= low <= (c - b) / n <= high <= 1
    assert low < high
    assert tango_interval(c, b, n) == (pytest.approx(-high, abs=1e-9), pytest.approx(-low, abs=1e-9))


@given(discordant_counts())
def test_the_interval_leaves_out_zero_where_the_uncorrected_test_rejects(counts):
    b, c, n = counts
    p = mcnemar(b, c, "chi2")
    low, high = tango_interval(b, c, n)
    if abs(p - 0.05) > 1e-9:
        assert (low > 0 or high < 0) == (p < 0.05)


def test_arrays_go_in_and_come_out():
    low, high = tango_interval([32, 0], [41, 0], 1122)
    assert low.shape == high.shape == (2,)
    assert low[0] == tango_interval(32, 41, 1122)[0]
    assert -low[1] == pytest.approx(high[1])
    assert 0 < high[1] < 0.005


@pytest.mark.parametrize(("b", "c", "n"), [(-1, 0, 5), (3, 3, 5), (0, 0, 0)])
def test_impossible_counts_are_refused(b, c, n):
    with pytest.raises(ValueError, match="discordant counts"):
        tango_interval(b, c, n)


def test_all_won_or_all_lost():
    assert tango_interval(0, 8, 8)[1] == 1.0
    assert tango_interval(8, 0, 8)[0] == -1.0
    assert np.all(np.abs(tango_interval(0, 0, 1)) < 1)
