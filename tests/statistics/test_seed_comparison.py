import numpy as np
import pytest
from scipy import stats

from medgrpo.statistics import compare_paired, compare_seeds, mcnemar, tango_interval


def test_counts_by_hand():
    """Two seeds, four questions; one base."""
    base = [[1, 0, 0, 0]]
    run = [[1, 1, 0, 0], [1, 1, 1, 0]]
    result = compare_seeds(base, run)
    assert (result.n, result.base_accuracies, result.run_accuracies) == (4, (0.25,), (0.5, 0.75))
    assert result.delta == 0.375
    assert result.seed_sd == pytest.approx(0.25 / np.sqrt(2))
    # Differences of the question means: 0, 1, .5, 0. Seeds: var(means) / 2 = .015625, of which the residual
    # mean square (.1875 / 2 over 3 degrees of freedom, / 8) = .015625 is noise: nothing is left. The upper end is cut.
    questions = np.var([0, 1, 0.5, 0], ddof=1) / 4
    half = stats.t.ppf(0.975, 3) * np.sqrt(questions)
    assert result.delta_ci == pytest.approx((0.375 - half, 1.0))


def test_one_seed_a_side_is_the_paired_t_interval():
    generator = np.random.default_rng(0)
    base, run = generator.random((2, 400)) < 0.7
    result = compare_seeds([base], [run])
    theirs = stats.ttest_rel(run.astype(float), base.astype(float))
    assert result.p == pytest.approx(theirs.pvalue, rel=1e-6)
    assert result.delta_ci == pytest.approx(tuple(theirs.confidence_interval()), abs=1e-9)
    assert result.delta_ci == pytest.approx(compare_paired(base, run).delta_ci, abs=3e-3)
    assert result.seed_sd == 0


def test_equal_seeds_are_not_more_questions():
    """Five copies of one run know no more than that run."""
    generator = np.random.default_rng(1)
    base, run = generator.random((2, 300)) < 0.6
    one, five = compare_seeds([base], [run]), compare_seeds([base], [run] * 5)
    assert five.delta_ci == pytest.approx(one.delta_ci)
    assert five.p == pytest.approx(one.p)


def test_seeds_that_scatter_widen_the_interval():
    """The same mean over seeds, once from like seeds, once from seeds 20 points apart."""
    generator = np.random.default_rng(2)
    base = generator.random((1, 500)) < 0.6
    like = generator.random((3, 500)) < 0.65
    apart = generator.random((3, 500)) < np.array([[0.45], [0.65], [0.85]])
    wide, narrow = compare_seeds(base, apart), compare_seeds(base, like)
    assert np.ptp(wide.delta_ci) > 4 * np.ptp(narrow.delta_ci)
    assert wide.seed_sd == pytest.approx(0.2, abs=0.05)


@pytest.mark.parametrize("p", [0.2, 0.049, 0.001])
def test_p_is_the_level_whose_interval_touches_zero(p):
    generator = np.random.default_rng(3)
    run = generator.random((3, 200)) < 0.68
    base = generator.random((3, 200)) < 0.6
    found = compare_seeds(base, run)
    low, high = compare_seeds(base, run, confidence=1 - found.p).delta_ci
    assert min(abs(low), abs(high)) == pytest.approx(0, abs=1e-6)
    low, high = compare_seeds(base, run, confidence=1 - p).delta_ci
    assert (low > 0 or high < 0) == (found.p < p)


def test_the_ends():
    zeros, ones = np.zeros((1, 40)), np.ones((3, 40))
    assert compare_seeds(zeros, zeros).p == 1
    won = compare_seeds(zeros, ones)
    low, _ = tango_interval(0, 40, 40)
    assert (won.delta, won.delta_ci) == (1.0, (pytest.approx(low), 1.0))
    assert won.p == mcnemar(0, 40, "chi2") < 1e-9
    # Two seeds, one all right and one all wrong, say nothing about the method's mean.
    assert compare_seeds(zeros, [[1] * 40, [0] * 40]).delta_ci == (-1.0, 1.0)


def simulate(generator, questions, seeds, n, seed_sd, shift):
    """(seeds, n) outcomes: difficulty + the seed's own ability + each answer's noise."""
    ability = shift + generator.normal(0, seed_sd, (seeds, 1)) + generator.normal(0, 0.5, (seeds, n))
    return questions + ability > 0


@pytest.mark.parametrize(("n", "seeds", "seed_sd"), [(500, 3, 0.0), (500, 3, 0.1), (200, 5, 0.1), (1000, 2, 0.05)])
def test_the_interval_covers_the_mean_over_questions_and_seeds(n, seeds, seed_sd):
    generator = np.random.default_rng([n, seeds])
    truth = stats.norm.cdf(1.0 / np.sqrt(1.25 + seed_sd**2)) - stats.norm.cdf(0.8 / np.sqrt(1.25))
    hits = 0
    for _ in range(400):
        questions = generator.normal(0, 1, n)
        base = simulate(generator, questions, 1, n, 0.0, 0.8)
        low, high = compare_seeds(base, simulate(generator, questions, seeds, n, seed_sd, 1.0)).delta_ci
        hits += low <= truth <= high
    # 400 draws: 92.5 to 98 % is what an interval between 94.5 and 96.5 % gives.
    assert 0.925 <= hits / 400 <= 0.98


def test_pooling_would_cover_far_less():
    """What the docstring warns of: 3 x 500 answers counted as 1,500 questions."""
    generator = np.random.default_rng(9)
    truth = stats.norm.cdf(1.0 / np.sqrt(1.25 + 0.01)) - stats.norm.cdf(0.8 / np.sqrt(1.25))
    hits = 0
    for _ in range(200):
        questions = generator.normal(0, 1, 500)
        base = simulate(generator, questions, 1, 500, 0.0, 0.8)
        run = simulate(generator, questions, 3, 500, 0.1, 1.0)
        low, high = compare_paired(np.tile(base[0], 3), run.ravel()).delta_ci
        hits += low <= truth <= high
    assert hits / 200 < 0.85


@pytest.mark.parametrize(
    ("base", "run"),
    [
        ([[1, 0]], [[1]]),
        ([[1]], [[1]]),
        (np.zeros((0, 5)), [[1] * 5]),
        ([1, 0], [[1, 0]]),
        ([[2, 0]], [[1, 0]]),
    ],
)
def test_what_cannot_be_compared_is_refused(base, run):
    with pytest.raises(ValueError):
        compare_seeds(base, run)


def with_discordant(n, lost, won, seeds=3):
    """`seeds` equal rows that lose and win these many questions against a base that is half right."""
    base = np.arange(n) % 2 == 0
    run = base.copy()
    run[np.flatnonzero(base)[:lost]] = False
    run[np.flatnonzero(~base)[:won]] = True
    return base[None], np.tile(run, (seeds, 1))


@pytest.mark.parametrize(("n", "lost", "won"), [(50, 0, 0), (50, 1, 0), (50, 0, 5), (1000, 2, 3), (9, 4, 5)])
def test_few_discordant_questions_leave_tangos_width(n, lost, won):
    found = compare_seeds(*with_discordant(n, lost, won))
    low, high = tango_interval(lost, won, n)
    assert found.delta_ci[0] <= low and high <= found.delta_ci[1]
    assert found.delta_ci[0] < found.delta < found.delta_ci[1]
    assert (found.p < 0.05) == (found.delta_ci[0] > 0 or found.delta_ci[1] < 0)


def test_three_seeds_like_the_base_do_not_claim_certainty():
    found = compare_seeds(*with_discordant(50, 0, 0))
    assert found.p == 1
    # Tango's at b = c = 0: +- z^2 / (n + z^2).
    assert found.delta_ci == pytest.approx((-3.8415 / 53.8415, 3.8415 / 53.8415), abs=1e-5)


def test_seeds_that_each_miss_another_question_are_as_wide_as_one():
    """Mean counts b = 1, c = 0, though no question is lost by all."""
    base, run = np.ones((1, 60), bool), np.ones((3, 60), bool)
    run[[0, 1, 2], [0, 1, 2]] = False
    low, high = tango_interval(1, 0, 60)
    assert np.ptp(compare_seeds(base, run).delta_ci) >= high - low


@pytest.mark.parametrize("share", [0.002, 0.01])
def test_the_interval_covers_where_hardly_a_question_differs(share):
    """200 questions, of which a share is lost and as many won by each seed: the truth is 0."""
    generator = np.random.default_rng(4)
    hits = 0
    for _ in range(400):
        base = generator.random((1, 200)) < 0.5
        run = base ^ (generator.random((3, 200)) < 2 * share)
        low, high = compare_seeds(base, run).delta_ci
        hits += low <= 0 <= high
    assert hits / 400 >= 0.94
