"""Advantages against numbers by hand, an implementation of their own, properties, and the papers' theorems."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from medgrpo.advantages import (
    METHODS,
    advantage_contributions,
    advantage_shares,
    constant_groups,
    contribution_shares,
    gdpo_advantages,
    grpo_advantages,
    mo_grpo_advantages,
)
from medgrpo.errors import MedgrpoError

NAN = math.nan
# No deadline: the time of an example is the machine's, not the code's.
few = settings(deadline=None, max_examples=40)
GRPO_SCALES = {"grpo": "group", "grpo_batch": "batch", "dr_grpo": "none"}


def advantages(method: str, rewards: torch.Tensor, size: int, weights=None) -> torch.Tensor:
    if method in GRPO_SCALES:
        return grpo_advantages(rewards, size, weights, scale=GRPO_SCALES[method])
    return {"mo_grpo": mo_grpo_advantages, "gdpo": gdpo_advantages}[method](rewards, size, weights)


def table(*rows: list[float], dtype=torch.float64) -> torch.Tensor:
    """One reward a row, completions along it, as people write it down -> (N, K)."""
    return torch.tensor(rows, dtype=dtype).T


# ----- by hand -------------------------------------------------------------------------------------------------

# The MO-GRPO paper's worked example. Its numbers divide by n, ours by n - 1: a factor sqrt(3/2).
PAPER = table([0.1, 0.5, 0.9], [0.15, 0.13, 0.05])


def test_the_papers_worked_example() -> None:
    ours = mo_grpo_advantages(PAPER, 3) * math.sqrt(3 / 2)
    assert ours.tolist() == pytest.approx([-1.22 + 0.93, 0 + 0.46, 1.22 - 1.39], abs=1e-2)
    # Not the line printed in the paper, which contradicts the mean (.61) and std (.29) printed beside it.
    ours = grpo_advantages(PAPER, 3) * math.sqrt(3 / 2)
    assert ours.tolist() == pytest.approx([-1.258, 0.070, 1.188], abs=1e-3)
    # The point of the example: the two prefer different completions.
    assert grpo_advantages(PAPER, 3).argmax() == 2
    assert mo_grpo_advantages(PAPER, 3).argmax() == 1


def test_two_groups_with_weights_by_hand() -> None:
    # Group 1: reward 1 is (0, 2), reward 2 constant. Group 2: reward 1 constant, reward 2 is (5, 1). z = +-1/sqrt(2).
    rewards = table([0, 2, 3, 3], [7, 7, 5, 1])
    z = 1 / math.sqrt(2)
    assert mo_grpo_advantages(rewards, 2, [1.5, 3.0]).tolist() == pytest.approx([-1.5 * z, 1.5 * z, 3 * z, -3 * z])
    assert grpo_advantages(rewards, 2, [1.5, 3.0]).tolist() == pytest.approx([-z, z, z, -z])
    assert grpo_advantages(rewards, 2, [1.5, 3.0], scale="none").tolist() == pytest.approx([-1.5, 1.5, 6, -6])
    # Sums 21, 24, 19.5, 7.5 have mean 18 and squared deviations 9, 36, 2.25, 110.25 over 3.
    std = math.sqrt(157.5 / 3)
    batch = grpo_advantages(rewards, 2, [1.5, 3.0], scale="batch")
    assert batch.tolist() == pytest.approx([-1.5 / std, 1.5 / std, 6 / std, -6 / std])
    size = math.sqrt((2 * (1.5 * z) ** 2 + 2 * (3 * z) ** 2) / 3)
    assert gdpo_advantages(rewards, 2, [1.5, 3.0]).tolist() == pytest.approx(
        [-1.5 * z / size, 1.5 * z / size, 3 * z / size, -3 * z / size]
    )


def test_gdpo_papers_example_grpo_cannot_tell_them_apart() -> None:
    # Two binary rewards: sums (0, 1) and (0, 2). GRPO gives +-.7071 for both, MO-GRPO +-.7071 and +-1.4142.
    one, both = table([0, 1], [0, 0]), table([0, 1], [0, 1])
    assert grpo_advantages(one, 2).tolist() == pytest.approx(grpo_advantages(both, 2).tolist())
    assert mo_grpo_advantages(one, 2).tolist() == pytest.approx([-0.70711, 0.70711], abs=1e-5)
    assert mo_grpo_advantages(both, 2).tolist() == pytest.approx([-1.41421, 1.41421], abs=1e-5)


def test_abstentions_by_hand() -> None:
    # Reward 1 abstains on completion 3: z of (1, 3) for the others. Reward 2 has a single value: nothing.
    rewards = table([1, 3, NAN, NAN], [NAN, NAN, 4, NAN])
    z = 1 / math.sqrt(2)
    assert mo_grpo_advantages(rewards, 4).tolist() == pytest.approx([-z, z, 0, 0])
    assert gdpo_advantages(rewards, 4).tolist() == pytest.approx([-1, 1, 0, 0])  # over 3 samples: std = z
    # GRPO counts an abstention as 0, as TRL does, and leaves out the completion on which all abstain.
    total = np.array([1.0, 3.0, 4.0])
    want = (total - total.mean()) / total.std(ddof=1)
    assert grpo_advantages(rewards, 4).tolist() == pytest.approx([*want, 0])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "rewards",
    [
        table([0.6] * 8),
        table([0.1 + 0.2, 0.3, 0.3, 0.3], dtype=torch.float32),
        table([0.7, 0.7 * (1 + 5e-7), 0.7, 0.7]),
        table([1e8, 1e8 + 1, 1e8, 1e8]),
        table([-3e-9] * 4),
        table([0.0] * 4),
        table([NAN] * 4),
        table([NAN, NAN, 0.4, NAN]),
    ],
)
def test_constant_rewards_give_exactly_zero(method: str, rewards: torch.Tensor) -> None:
    if rewards.isnan().any() and not rewards.isnan().all() and method in GRPO_SCALES:
        assert (advantages(method, rewards, 4) == 0).all()  # one scored completion in the group
        return
    assert (advantages(method, rewards, 4) == 0).all()
    # Nor do they change what another reward contributes.
    other = torch.arange(len(rewards), dtype=rewards.dtype)[:, None].square()
    alone, beside = advantages(method, other, 4), advantages(method, torch.cat([other, rewards], 1), 4)
    if not rewards.isnan().any() and rewards.abs().max() < 10:
        torch.testing.assert_close(beside, alone)


def test_all_saturated_batch_has_no_advantages() -> None:
    # Groups constant at different levels, float noise on top: TRL's GDPO gives advantages of 1.2 here.
    level = torch.tensor([0.1, 0.3, 0.7, 0.9]).repeat_interleave(8)[:, None]
    noise = torch.rand(32, 1, generator=torch.Generator().manual_seed(0)) * 1e-7
    for method in METHODS:
        assert (advantages(method, level * (1 + noise), 8) == 0).all()


def test_rewards_that_cancel_leave_no_noise() -> None:
    share = torch.rand(16, 1, generator=torch.Generator().manual_seed(0)) / 10
    rewards = torch.cat([share, 1 - share], 1)
    for method in METHODS:
        assert advantages(method, rewards, 8).abs().max() < 3e-5, method


def test_a_reward_in_tiny_units_counts() -> None:
    tiny = table([0, 1e-30, 2e-30, 5e-30])
    torch.testing.assert_close(mo_grpo_advantages(tiny, 4), mo_grpo_advantages(tiny * 1e30, 4))
    assert mo_grpo_advantages(tiny, 4).abs().max() > 1


def test_a_group_of_one_has_no_advantage() -> None:
    for method in ("grpo", "dr_grpo", "mo_grpo", "gdpo"):
        assert (advantages(method, table([1.0, 2.0, 3.0]), 1) == 0).all()


# ----- an implementation of its own ----------------------------------------------------------------------------


def reference(method: str, rewards: np.ndarray, size: int, weights: np.ndarray) -> np.ndarray:
    """Straight from the formulas, one group and one reward at a time."""
    result = np.zeros(len(rewards))
    if method in ("mo_grpo", "gdpo"):
        for start in range(0, len(rewards), size):
            for column, weight in enumerate(weights):
                values = rewards[start : start + size, column]
                kept = values[~np.isnan(values)]
                if len(kept) < 2 or kept.max() - kept.min() <= 1e-6 * np.abs(kept).max():
                    continue
                z = (values - kept.mean()) / kept.std(ddof=1)
                result[start : start + size] += weight * np.where(np.isnan(z), 0, z)
        live = result[~np.isnan(rewards).all(1)]
        if method == "gdpo" and np.abs(live).max(initial=0) > 1e-9:
            result = result / live.std(ddof=1)
        return result
    dead = np.isnan(rewards).all(1)
    total = np.where(dead, np.nan, np.nansum(rewards * weights, axis=1))
    for start in range(0, len(rewards), size):
        group = total[start : start + size]
        kept = group[~np.isnan(group)]
        if len(kept) < 2:
            continue
        std = {"grpo": kept, "grpo_batch": total[~dead]}.get(method)
        scale = 1.0 if std is None else std.std(ddof=1)
        if np.ptp(kept) > 1e-9:
            result[start : start + size] = np.nan_to_num((group - kept.mean()) / scale)
    return result


GRID = st.integers(-32, 32).map(lambda n: n / 8)


@st.composite
def batches(draw, values=GRID, nan: bool = True, smallest: int = 2):
    """(rewards float64 (N, K), num_generations, weights)."""
    size, groups, rewards = draw(st.integers(smallest, 5)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    cell = st.one_of(values, values, st.just(NAN)) if nan else values
    rows = draw(st.lists(cell, min_size=size * groups * rewards, max_size=size * groups * rewards))
    weights = draw(st.lists(st.sampled_from([0.25, 1.0, 1.5, 3.0]), min_size=rewards, max_size=rewards))
    return torch.tensor(rows, dtype=torch.float64).view(-1, rewards), size, weights


@pytest.mark.parametrize("method", METHODS)
@few
@given(batch=batches())
def test_equals_an_independent_implementation(method: str, batch) -> None:
    rewards, size, weights = batch
    want = reference(method, rewards.numpy(), size, np.array(weights))
    np.testing.assert_allclose(advantages(method, rewards, size, weights).numpy(), want, atol=1e-9)
    np.testing.assert_allclose(advantages(method, rewards.float(), size, weights).numpy(), want, atol=1e-5)


# ----- properties ----------------------------------------------------------------------------------------------


@few
@given(batch=batches(), data=st.data())
def test_mo_grpo_is_invariant_under_positive_affine_maps(batch, data) -> None:
    rewards, size, weights = batch
    a = torch.tensor([10.0 ** data.draw(st.floats(-6, 6)) for _ in range(rewards.shape[1])], dtype=torch.float64)
    b = a * torch.tensor([data.draw(st.floats(-100, 100)) for _ in range(rewards.shape[1])], dtype=torch.float64)
    for method in ("mo_grpo", "gdpo"):
        torch.testing.assert_close(
            advantages(method, rewards * a + b, size, weights),
            advantages(method, rewards, size, weights),
            atol=1e-5,
            rtol=0,
        )


@pytest.mark.parametrize("method", METHODS)
@few
@given(batch=batches(), data=st.data())
def test_the_order_of_rewards_and_of_completions_does_not_matter(method: str, batch, data) -> None:
    rewards, size, weights = batch
    plain = advantages(method, rewards, size, weights)
    columns = data.draw(st.permutations(range(rewards.shape[1])))
    turned = advantages(method, rewards[:, columns], size, [weights[c] for c in columns])
    torch.testing.assert_close(turned, plain, atol=1e-9, rtol=0)
    within = data.draw(st.permutations(range(size)))
    rows = [start + place for start in range(0, len(rewards), size) for place in within]
    torch.testing.assert_close(advantages(method, rewards[rows], size, weights), plain[rows], atol=1e-9, rtol=0)


@pytest.mark.parametrize("method", METHODS)
@few
@given(batch=batches())
def test_sums_to_zero_in_each_group_and_over_contributions(method: str, batch) -> None:
    rewards, size, weights = batch
    parts = advantage_contributions(rewards, size, weights, method=method)
    assert parts.shape == rewards.shape
    result = advantages(method, rewards, size, weights)
    torch.testing.assert_close(parts.sum(1), result, atol=1e-12, rtol=0)
    assert result.view(-1, size).sum(1).abs().max() < 1e-9
    assert (result[rewards.isnan().all(1)] == 0).all()
    flat = constant_groups(rewards, size).repeat_interleave(size, 0)
    if method in ("mo_grpo", "gdpo"):
        assert (parts[flat] == 0).all()
        assert (parts[rewards.isnan()] == 0).all()


ANY = st.floats(allow_nan=True, allow_infinity=False, width=64)
ANY_32 = st.floats(allow_nan=True, allow_infinity=False, width=32)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "dr_grpo"])
@few
@given(batch=batches(values=ANY, smallest=1))
def test_no_nan_or_inf_out_of_any_finite_or_nan_input(method: str, batch) -> None:
    rewards, size, weights = batch
    result = advantages(method, rewards, size, weights)
    assert torch.isfinite(result).all()
    assert result.abs().max() <= (1 + sum(weights)) * len(rewards)
    assert torch.isfinite(advantages(method, rewards.clamp(-3e38, 3e38).float(), size, weights)).all()


@few
@given(batch=batches(values=ANY_32, smallest=1))
def test_dr_grpo_has_the_rewards_unit_and_says_where_it_overflows(batch) -> None:
    rewards, size, weights = batch
    assert torch.isfinite(advantages("dr_grpo", rewards, size, weights)).all()
    with pytest.raises(MedgrpoError, match="overflow"):
        advantages("dr_grpo", table([3e38, -3e38, -3e38], dtype=torch.float32), 3)


@few
@given(batch=batches())
def test_gdpo_times_its_batch_std_is_mo_grpo(batch) -> None:
    rewards, size, weights = batch
    mo, gdpo = mo_grpo_advantages(rewards, size, weights), gdpo_advantages(rewards, size, weights)
    live = mo[~rewards.isnan().all(1)]
    if len(live) > 1:
        torch.testing.assert_close(gdpo * live.std(), mo, atol=1e-4, rtol=0)


# ----- shares --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@few
@given(batch=batches())
def test_shares_sum_to_one_or_say_that_nothing_moved(method: str, batch) -> None:
    rewards, size, weights = batch
    shares = advantage_shares(rewards, size, weights, method=method)
    if advantages(method, rewards, size, weights).abs().max() > 1e-6:
        assert shares.sum().item() == pytest.approx(1, abs=1e-6)
    else:
        assert shares.isnan().all()


def test_shares_by_hand() -> None:
    # Within the group reward 1 is 10 z, reward 2 is u, uncorrelated: variances 100 and 1 of 101.
    rewards = table([10, 10, -10, -10], [1, -1, 1, -1])
    assert advantage_shares(rewards, 4, method="grpo").tolist() == pytest.approx([100 / 101, 1 / 101])
    assert advantage_shares(rewards, 4, [1.0, 3.0], method="dr_grpo").tolist() == pytest.approx([100 / 109, 9 / 109])
    assert advantage_shares(rewards, 4, method="mo_grpo").tolist() == pytest.approx([0.5, 0.5])
    assert advantage_shares(rewards, 4, [1.0, 3.0], method="gdpo").tolist() == pytest.approx([0.1, 0.9])
    # A reward that the other outvotes: A = -1.5 R2, so that R2's share is -2.
    opposed = torch.stack([torch.tensor([3.0, -3.0]), torch.tensor([-2.0, 2.0])], 1)
    assert contribution_shares(opposed).tolist() == pytest.approx([3, -2])
    # In units whose squares overflow or vanish.
    for unit in (1e-200, 1e200):
        assert contribution_shares(opposed.double() * unit).tolist() == pytest.approx([3, -2])


# ----- the theorems --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("std", "correlation"),
    [
        ([10.0, 1.0, 0.1], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        ([10.0, 1.0, 0.1], [[1, 0.4, -0.2], [0.4, 1, 0.3], [-0.2, 0.3, 1]]),
        ([1.0, 1.0, 5.0], [[1, -0.5, -0.4], [-0.5, 1, 0.2], [-0.4, 0.2, 1]]),
    ],
)
def test_correlation_of_a_reward_with_the_advantage_is_the_theorems(std, correlation) -> None:
    """Theorems 1-3 of the MO-GRPO paper (group size to infinity), against simulation."""
    sigma, rho = np.array(std), np.array(correlation, dtype=float)
    covariance = rho * np.outer(sigma, sigma)
    size = 4000
    draws = np.random.default_rng(1).multivariate_normal([3, -1, 0], covariance, size=10 * size)
    rewards = torch.tensor(draws)
    # Theorem 1: (sigma_i^2 + X_i) / (sigma sigma_i), X_i = sum_j Cov(R_i, R_j), sigma = std of the sum.
    total = math.sqrt(covariance.sum())
    theorem_1 = covariance.sum(1) / (total * sigma)
    # Theorem 2: (1 + Z_i) / sqrt(K + Y), Z_i and Y the sums of correlations off the diagonal.
    theorem_2 = rho.sum(1) / math.sqrt(rho.sum())
    for method, theorem in (("grpo", theorem_1), ("dr_grpo", theorem_1), ("mo_grpo", theorem_2)):
        result = advantages(method, rewards, size).numpy()
        measured = [np.corrcoef(draws[:, column], result)[0, 1] for column in range(3)]
        assert measured == pytest.approx(theorem, abs=0.015), method
    if (rho == np.eye(3)).all():
        assert theorem_2 == pytest.approx(1 / math.sqrt(3))


# ----- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rewards", "size", "weights", "reason"),
    [
        (table([1.0, math.inf, 0.0], [0.0, 1.0, 2.0]), 3, None, "row 1 of reward 0 is inf"),
        (table([0.0, 1.0, 2.0], [1.0, 1.0, -math.inf]), 3, None, "row 2 of reward 1 is -inf"),
        (table([0.0, 1.0, 2.0]), 2, None, "3 rows are no whole groups of 2"),
        (table([0.0, 1.0]), 0, None, "groups of 0"),
        (torch.tensor([0.0, 1.0]), 2, None, r"got torch.float32 \(2,\)"),
        (torch.tensor([[0], [1]]), 2, None, "int64"),
        (torch.zeros(0, 2), 2, None, r"\(0, 2\)"),
        (table([0.0, 1.0]), 2, [1.0, 2.0], "not 1 finite numbers"),
        (table([0.0, 1.0]), 2, [NAN], "not 1 finite numbers"),
    ],
)
def test_bad_input_is_named(rewards, size, weights, reason) -> None:
    for method in METHODS:
        with pytest.raises(MedgrpoError, match=reason):
            advantages(method, rewards, size, weights)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(MedgrpoError, match="scale='std': has to be one of group, batch, none"):
        grpo_advantages(PAPER, 3, scale="std")
    with pytest.raises(MedgrpoError, match="'gspo': has to be one of grpo"):
        advantage_shares(PAPER, 3, method="gspo")
