import csv
import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.proportion import proportion_confint

from medgrpo.errors import MedgrpoError
from medgrpo.statistics import MCNEMAR_METHODS, compare_paired, discordant, mcnemar, wilson_interval

counts = st.integers(0, 5000)


def exact_fraction(b: int, c: int) -> Fraction:
    """The exact p in whole numbers, as a check on the floating-point one."""
    n = b + c
    tail = sum(math.comb(n, i) for i in range(min(b, c) + 1))
    return min(Fraction(2 * tail, 2**n), Fraction(1))


@pytest.mark.parametrize(
    ("b", "c", "exact", "corrected", "mid_p", "chi2"),
    [
        (32, 41, 0.34918, 0.34910, 0.295, 0.292),
        (30, 38, 0.39612, 0.39595, 0.336, 0.332),
        (30, 40, 0.28198, 0.28206, 0.235, 0.232),
    ],
)
def test_published_comparisons(b, c, exact, corrected, mid_p, chi2):
    assert mcnemar(b, c) == pytest.approx(exact, abs=5e-6)
    assert mcnemar(b, c, "chi2-cc") == pytest.approx(corrected, abs=5e-6)
    assert mcnemar(b, c, "mid-p") == pytest.approx(mid_p, abs=5e-4)
    assert mcnemar(b, c, "chi2") == pytest.approx(chi2, abs=5e-4)


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


def test_agrees_with_statsmodels_on_a_grid():
    for b, c in product([0, 1, 2, 3, 7, 20, 21, 50, 400], repeat=2):
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
def test_exact_equals_whole_number_arithmetic_and_mid_p_lies_below(b, c):
    assert mcnemar(b, c) == pytest.approx(float(exact_fraction(b, c)), rel=1e-9, abs=1e-300)
    assert mcnemar(b, c, "mid-p") <= mcnemar(b, c) * (1 + 1e-9)


@given(st.integers(0, 200), st.integers(0, 200))
def test_more_wins_on_the_leading_side_never_raise_p(b, extra):
    ps = [mcnemar(b, b + extra + step) for step in range(3)]
    assert ps[0] >= ps[1] * (1 - 1e-12) >= ps[2] * (1 - 1e-12)


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


def test_compare_paired_gives_the_published_interval():
    base = [1] * (1004 - 32) + [1] * 32 + [0] * 41 + [0] * (1122 - 1004 - 41)
    run = [1] * (1004 - 32) + [0] * 32 + [1] * 41 + [0] * (1122 - 1004 - 41)
    result = compare_paired(base, run)
    assert (result.n, result.b, result.c) == (1122, 32, 41)
    assert result.base_accuracy == 1004 / 1122
    assert result.run_accuracy == 1013 / 1122
    assert result.delta == pytest.approx(0.0080, abs=5e-5)
    assert result.delta_ci == pytest.approx((-0.0069, 0.0229), abs=5e-5)
    assert result.p == mcnemar(32, 41)


def test_compare_paired_at_the_ends():
    same = compare_paired([True, False], [True, False])
    assert (same.delta, same.delta_ci, same.p) == (0.0, (0.0, 0.0), 1.0)
    won = compare_paired([False] * 8, [True] * 8)
    assert (won.delta, won.delta_ci) == (1.0, (1.0, 1.0))
    assert won.p == 2 / 2**8
    with pytest.raises(ValueError, match="nothing to compare"):
        compare_paired([], [])


def test_real_paired_outcomes(data_dir):
    with (data_dir / "paired" / "igakuqa_2018_2022_correct.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    outcomes = {system: [int(row[system]) for row in rows] for system in rows[0] if system != "problem_id"}

    # Graded with "a, c" read as two letters; the published totals, which take it for a wrong answer, are 1534
    # and 1080 with 571 and 117 discordant.
    gpt4 = compare_paired(outcomes["gpt4"], outcomes["chatgpt"])
    assert (gpt4.n, gpt4.b, gpt4.c) == (2000, 563, 113)
    assert (gpt4.base_accuracy, gpt4.run_accuracy) == (1545 / 2000, 1095 / 2000)
    assert gpt4.p == pytest.approx(float(exact_fraction(563, 113)), rel=1e-9)
    assert gpt4.delta_ci[1] < -0.2

    english = compare_paired(outcomes["chatgpt"], outcomes["translate_chatgpt-en"])
    assert (english.b, english.c) == (242, 304)
    assert english.p == pytest.approx(float(exact_fraction(242, 304)), rel=1e-9)
