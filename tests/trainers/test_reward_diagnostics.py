"""What each reward did to the advantage, by hand and against TRL's own advantages."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from medgrpo.advantages import advantage_contributions
from medgrpo.trainers.reward_diagnostics import learning_slope, reward_metrics, trl_contributions

NAN = math.nan


def describe(rewards: list[list[float]], contributions: list[list[float]], group: int) -> dict[str, float]:
    parts = torch.tensor(contributions)
    return reward_metrics(["a", "b"], torch.tensor(rewards), parts, parts.sum(dim=1), group)


def test_two_groups_by_hand() -> None:
    # Group 1: a = 0 2 4 6 (std sqrt(20/3)), b = 1 1 1 1. Group 2: a = 5 5 5 5, b = 0 0 0 1 (std 0.5).
    rewards = [[0, 1.0], [2, 1.0], [4, 1.0], [6, 1.0], [5, 0.0], [5, 0.0], [5, 0.0], [5, 1.0]]
    contributions = [[-3, 0.0], [-1, 0.0], [1, 0.0], [3, 0.0], [0, -1.0], [0, -1.0], [0, -1.0], [0, 3.0]]
    found = describe(rewards, contributions, 4)
    assert found["rewards/a/group_std"] == pytest.approx((math.sqrt(20 / 3) + 0) / 2)
    assert found["rewards/b/group_std"] == pytest.approx((0 + 0.5) / 2)
    assert found["rewards/a/frac_constant"] == found["rewards/b/frac_constant"] == 0.5
    # Variance of the advantage: 20 from a's group, 12 from b's.
    assert found["advantage_share/a"] == pytest.approx(20 / 32)
    assert found["advantage_share/b"] == pytest.approx(12 / 32)
    # Each reward moves in its own group only, where the advantage is a multiple of it: r = sqrt(its share).
    assert found["advantage_correlation/a"] == pytest.approx(math.sqrt(20 / 32))
    assert found["advantage_correlation/b"] == pytest.approx(math.sqrt(12 / 32))
    assert math.isnan(found["advantage_share_varying/a"]), "in no group do both vary"


def test_only_groups_in_which_all_rewards_vary_count_as_varying() -> None:
    rewards = [[0, 0.0], [1, 1.0], [0, 7.0], [1, 7.0]]
    contributions = [[-1, -3.0], [1, 3.0], [-9, 0.0], [9, 0.0]]
    found = describe(rewards, contributions, 2)
    assert found["advantage_share_varying/a"] == pytest.approx(1 / 4)
    assert found["advantage_share/a"] == pytest.approx((1 * 4 * 2 + 81 * 2) / (16 * 2 + 81 * 2))


def test_no_advantage_anywhere_has_no_shares() -> None:
    found = describe([[1, 2.0]] * 4, [[0, 0.0]] * 4, 2)
    assert found["rewards/a/frac_constant"] == 1
    assert all(math.isnan(found[f"advantage_{kind}/a"]) for kind in ("share", "share_varying", "correlation"))


def test_rounding_in_a_constant_reward_is_neither_varying_nor_a_correlation() -> None:
    noise = [0.6, 0.6 + 1e-8, 0.6 - 1e-8, 0.6]
    parts = torch.tensor([[-1.0, 0], [1, 0], [-1, 0], [1, 0]])
    rewards = torch.tensor([[i, noise[i]] for i in range(4)], dtype=torch.float64)
    found = reward_metrics(["a", "b"], rewards, parts, parts.sum(dim=1), 4)
    assert found["rewards/b/frac_constant"] == 1
    assert math.isnan(found["advantage_correlation/b"])


def test_abstentions_are_left_out() -> None:
    rewards = torch.tensor([[0.0, NAN], [1.0, NAN], [2.0, NAN], [3.0, 5.0]])
    parts = torch.tensor([[-3.0, 0], [-1, 0], [1, 0], [3, 0]])
    found = reward_metrics(["a", "b"], rewards, parts, parts.sum(dim=1), 4)
    assert found["rewards/b/frac_constant"] == 1, "a single value does not vary"
    assert math.isnan(found["rewards/b/group_std"])
    assert found["advantage_correlation/a"] == pytest.approx(1)


def test_without_contributions_there_are_no_shares() -> None:
    found = reward_metrics(["a"], torch.tensor([[0.0], [1.0]]), None, torch.tensor([-1.0, 1.0]), 2)
    assert "advantage_correlation/a" in found
    assert not any(key.startswith("advantage_share") for key in found)


@settings(max_examples=80, deadline=None)
@given(
    rewards=st.lists(
        st.tuples(*[st.one_of(st.just(NAN), st.floats(-50, 50, width=32)) for _ in range(3)]), min_size=8, max_size=8
    ),
    weights=st.tuples(*[st.floats(0.25, 4, width=32) for _ in range(3)]),
    scale=st.sampled_from(["group", "batch", "none"]),
)
def test_shares_sum_to_one_and_nothing_is_infinite(rewards, weights, scale) -> None:
    given_rewards = torch.tensor(rewards)
    parts = trl_contributions(given_rewards, 4, torch.tensor(weights), scale, "sum_then_normalize")
    assert torch.isfinite(parts).all()
    torch.testing.assert_close(parts.view(2, 4, 3).sum(dim=1), torch.zeros(2, 3), atol=2e-3 * 50, rtol=0)
    found = reward_metrics(["a", "b", "c"], given_rewards, parts, parts.sum(dim=1), 4)
    shares = [found[f"advantage_share/{name}"] for name in "abc"]
    assert math.isnan(shares[0]) or sum(shares) == pytest.approx(1, abs=1e-6)
    assert not any(math.isinf(value) for value in found.values())


def test_equals_the_advantage_modules_contributions_where_trls_epsilon_is_small() -> None:
    rewards = 100 * torch.rand(24, 3, generator=torch.Generator().manual_seed(5))
    weights = torch.tensor([1.0, 0.5, 2.0])
    for scale, method in (("group", "grpo"), ("batch", "grpo_batch"), ("none", "dr_grpo")):
        ours = trl_contributions(rewards, 8, weights, scale, "sum_then_normalize")
        torch.testing.assert_close(
            ours, advantage_contributions(rewards, 8, weights, method=method), rtol=1e-4, atol=1e-4
        )
    ours = trl_contributions(rewards, 8, weights, "group", "normalize_then_sum")
    gdpo = advantage_contributions(rewards, 8, weights, method="gdpo")
    torch.testing.assert_close(ours, gdpo, rtol=1e-3, atol=1e-3)


def test_slope_is_per_step_over_the_last_twelve_values() -> None:
    # A reward logged every other step that rises by 0.1 a step, after a jump that is more than 12 values old.
    history = [
        {"step": 0, "m": 100.0},
        *({"step": s, "m": 0.1 * s} for s in range(2, 26, 2)),
        {"step": 25, "loss": 1.0},
    ]
    assert learning_slope(history, "m", 26, 2.6) == pytest.approx(0.1)
    assert math.isnan(learning_slope([], "m", 1, 0.5))
    assert math.isnan(learning_slope([{"step": 1, "m": None}], "m", 2, 0.5))
    assert learning_slope([{"step": 1, "m": 3.0}], "m", 3, 2.0) == pytest.approx(-0.5)
