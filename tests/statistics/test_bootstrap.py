import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from medgrpo.statistics import probability_best


def naive(correct: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """The same by its definition: draw question numbers, count, share ties."""
    generator = np.random.default_rng(seed)
    shares = np.zeros(len(correct))
    for _ in range(draws):
        scores = correct[:, generator.integers(0, correct.shape[1], correct.shape[1])].sum(axis=1)
        best = scores == scores.max()
        shares += best / best.sum()
    return shares / draws


def test_agrees_with_the_definition():
    generator = np.random.default_rng(5)
    correct = generator.random((4, 120)) < np.array([[0.6], [0.65], [0.7], [0.72]])
    assert probability_best(correct, 20_000, 1) == pytest.approx(naive(correct, 20_000, 2), abs=0.015)


def test_two_methods_follow_the_binomial_of_their_discordant_pairs():
    """Only b = 3 and c = 9 of 40 questions speak; the counts drawn of them are multinomial."""
    correct = np.array([[1] * 3 + [0] * 9 + [1] * 28, [0] * 3 + [1] * 9 + [1] * 28])
    b, c = np.mgrid[0:41, 0:41]
    chance = np.where(b + c <= 40, stats.multinomial.pmf(np.stack([b, c, 40 - b - c], -1), 40, [3 / 40, 9 / 40, 28 / 40]), 0)  # fmt: skip # noqa: E501
    expected = chance[c > b].sum() + chance[c == b].sum() / 2
    assert probability_best(correct, 50_000)[1] == pytest.approx(expected, abs=0.006)


def test_methods_that_did_alike_share_the_place():
    assert probability_best([[1, 0, 1], [1, 0, 1]]).tolist() == [0.5, 0.5]
    assert probability_best([[1, 1, 1], [0, 0, 0]]).tolist() == [1.0, 0.0]
    assert probability_best([[1, 0]]).tolist() == [1.0]


def test_means_over_seeds_tie_in_spite_of_rounding():
    third = np.array([1 / 3, 2 / 3, 1.0] * 7)
    other = 1 - (1 - third)  # not the same floats
    assert (third != other).any()
    assert probability_best(np.stack([third, other]), 500) == pytest.approx([0.5, 0.5])


@given(st.integers(1, 5), st.integers(1, 30), st.integers(0, 2**20))
def test_the_shares_sum_to_one_and_repeat(methods, n, seed):
    correct = np.random.default_rng(seed).random((methods, n)) < 0.5
    first = probability_best(correct, 50, seed)
    assert first.sum() == pytest.approx(1)
    assert np.array_equal(first, probability_best(correct, 50, seed))


def test_six_methods_on_5000_questions_take_seconds():
    correct = np.random.default_rng(0).random((6, 5000)) < 0.7
    started = time.process_time()
    probability_best(correct)
    assert time.process_time() - started < 3


@pytest.mark.parametrize("correct", [[1, 0], [[2, 0]], [[float("nan"), 0]], np.zeros((0, 3)), np.zeros((3, 0))])
def test_what_is_no_outcome_is_refused(correct):
    with pytest.raises(ValueError, match="correct|nothing to draw"):
        probability_best(correct)
    with pytest.raises(ValueError, match="0 draws"):
        probability_best([[1, 0]], draws=0)
