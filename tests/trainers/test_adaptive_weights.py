import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medgrpo.trainers.adaptive_weights import AdaptiveWeights, adapt_weights, reward_slope


def test_slope_is_least_squares_and_passes_gaps_over() -> None:
    values = [0.3, 0.1, 0.9, 0.4, 0.8, 0.7, 1.0, 0.2, 0.6, 0.5, 0.9, 1.1]
    assert reward_slope(values) == pytest.approx(np.polyfit(range(12), values, 1)[0])
    assert reward_slope([1.0, None, 2.0, None, 3.0]) == pytest.approx(0.5)
    assert reward_slope([None, 1.0]) == reward_slope([]) == 0.0


def test_one_step_by_hand() -> None:
    # .5 e^-.1 = .4524 and .5 e^.1 = .5526 are within the bounds and sum to 1.0050.
    assert adapt_weights([0.5, 0.5], [0.1, -0.1]) == pytest.approx([0.45017, 0.54983], abs=1e-5)
    # .2 e^-1 = .0736 is lifted to .1; .8 e^1 = 2.17 is cut to .8.
    assert adapt_weights([0.2, 0.8], [1.0, -1.0]) == pytest.approx([0.1 / 0.9, 0.8 / 0.9])


@given(st.lists(st.tuples(st.floats(0.01, 1), st.floats(-1e300, 1e300)), min_size=2, max_size=6))
def test_weights_stay_a_distribution_whatever_the_slopes(rows) -> None:
    total = sum(weight for weight, _ in rows)
    weights = adapt_weights([weight / total for weight, _ in rows], [slope for _, slope in rows])
    assert sum(weights) == pytest.approx(1)
    assert max(weights) / min(weights) <= 8 + 1e-9


def test_weights_wait_for_a_full_window_and_keep_their_sum() -> None:
    adaptive = AdaptiveWeights([1.5, 0.5], window=3)
    for mean in (0.0, 0.5):
        assert adaptive.observe([mean, 0.2]) == [1.5, 0.5]
    weights = adaptive.observe([1.0, 0.2])
    assert sum(weights) == pytest.approx(2)
    # Slope .5 on .75, slope 0 on .25.
    want = 0.75 * math.exp(-0.5) / (0.75 * math.exp(-0.5) + 0.25)
    assert weights[0] == pytest.approx(2 * want)
    # A batch on which a reward abstains leaves its window as it is.
    adaptive.observe([math.nan, 0.2])
    assert adaptive.means[0] == [0.0, 0.5, 1.0, None]
    adaptive.observe([2.0, 0.2])
    assert adaptive.means[0] == [0.5, 1.0, None, 2.0]
