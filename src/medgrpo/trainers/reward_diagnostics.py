"""What each reward did to the advantage: spreads, dead groups, shares, correlation, learning slope."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from medgrpo.advantages import constant_groups, contribution_shares

SLOPE_POINTS = 12


def trl_contributions(
    rewards_per_func: torch.Tensor,
    num_generations: int,
    reward_weights: torch.Tensor,
    scale_rewards: str,
    aggregation: str,
) -> torch.Tensor:
    """What each reward put into TRL's advantages: `(N, K)`, whose rows sum to them.

    `rewards_per_func` `(N, K)` with NaN where a reward abstained, the rows of a group side by side. TRL counts
    an abstention as 0 in the sum that it normalises, and gives 0 to a completion on which all abstain. Under
    `sum_then_normalize` reward i contributes `w_i (R_i - mean_i) / (std of the sum + 1e-4)`.
    """
    weights = reward_weights.to(rewards_per_func)
    scorable = ~rewards_per_func.isnan().all(dim=1, keepdim=True)  # (N, 1)
    groups = rewards_per_func.view(-1, num_generations, len(weights))
    live = scorable.view(-1, num_generations, 1)
    if aggregation == "normalize_then_sum":
        parts = (groups - groups.nanmean(dim=1, keepdim=True)) / (_nanstd(groups, 1) + 1e-4)
        parts = (parts * weights).nan_to_num(0.0).masked_fill(~live, 0.0)
        centre = parts.sum(dim=(0, 1), keepdim=True) / live.sum()
        scale = _nanstd(parts.sum(dim=2, keepdim=True).masked_fill(~live, math.nan).view(-1), 0)
    else:
        parts = (groups * weights).nan_to_num(0.0).masked_fill(~live, 0.0)
        centre = parts.sum(dim=1, keepdim=True) / live.sum(dim=1, keepdim=True)
        total = parts.sum(dim=2, keepdim=True).masked_fill(~live, math.nan)  # (groups, G, 1)
        scale = _nanstd(total.view(-1), 0) if scale_rewards == "batch" else _nanstd(total, 1)
    contributions = (parts - centre).masked_fill(~live, 0.0)
    if aggregation == "normalize_then_sum" or scale_rewards != "none":
        contributions = contributions / (scale.nan_to_num(0.0) + 1e-4)
    return contributions.reshape(rewards_per_func.shape)


def reward_metrics(
    names: Sequence[str],
    rewards_per_func: torch.Tensor,
    contributions: torch.Tensor | None,
    advantages: torch.Tensor,
    num_generations: int,
) -> dict[str, float]:
    """The metrics of one batch of rollouts, by their key.

    `rewards_per_func` and `contributions` are `(N, K)`, `advantages` `(N,)`, of all processes. `contributions`
    of `None` (unknown) leave the shares out. NaN stands where a metric has no value, such as a share where
    every advantage is 0. What is constant in a group, and what a share is, `medgrpo.advantages` says; the
    shares over varying groups leave out the groups in which some reward is constant.
    """
    rewards = rewards_per_func.detach().double().cpu()
    advantages = advantages.detach().double().cpu()
    groups = rewards.view(-1, num_generations, len(names))
    constant = constant_groups(rewards, num_generations)  # (groups, K)
    metrics: dict[str, float] = {}
    spread = _nanstd(groups, 1).squeeze(1).nanmean(dim=0)
    # Rounding in a constant reward is no correlation.
    centred = (groups - groups.nanmean(dim=1, keepdim=True)).masked_fill(constant.unsqueeze(1) & ~groups.isnan(), 0.0)
    centred = centred.reshape(rewards.shape)
    shares = varying = [math.nan] * len(names)
    if contributions is not None:
        contributions = contributions.detach().double().cpu()
        rows = (~constant).all(dim=1).repeat_interleave(num_generations)
        shares = contribution_shares(contributions).tolist()
        if rows.any():
            varying = contribution_shares(contributions[rows]).tolist()
    for column, name in enumerate(names):
        metrics[f"rewards/{name}/group_std"] = spread[column].item()
        metrics[f"rewards/{name}/frac_constant"] = constant[:, column].double().mean().item()
        metrics[f"advantage_correlation/{name}"] = _correlation(centred[:, column], advantages)
        if contributions is not None:
            metrics[f"advantage_share/{name}"] = shares[column]
            metrics[f"advantage_share_varying/{name}"] = varying[column]
    return metrics


def learning_slope(earlier: Sequence[Mapping[str, Any]], key: str, step: int, value: float) -> float:
    """Least-squares slope of the last 12 logged values of `key`, in units of the value per optimizer step.

    `earlier` are the rows logged before, oldest first, each with its `step`; `value` is what is about to be
    logged at `step`. NaN with fewer than two values at different steps.
    """
    points = [(float(step), value)]
    for row in reversed(earlier):
        if len(points) == SLOPE_POINTS:
            break
        if row.get(key) is not None:
            points.append((float(row["step"]), float(row[key])))
    x = torch.tensor(points, dtype=torch.float64)
    centred = x - x.mean(dim=0)
    across = (centred[:, 0] ** 2).sum()
    return ((centred[:, 0] * centred[:, 1]).sum() / across).item() if across > 0 else math.nan


def _correlation(centred: torch.Tensor, advantages: torch.Tensor) -> float:
    """Pearson's r of a reward (centred in its group) with the advantage, over completions that have the reward."""
    present = ~centred.isnan()
    x, y = centred[present], advantages[present]
    if len(x) < 2:
        return math.nan
    x, y = x - x.mean(), y - y.mean()
    scale = x.norm() * y.norm()
    return ((x * y).sum() / scale).item() if scale > 0 else math.nan


def _nanstd(values: torch.Tensor, dim: int) -> torch.Tensor:
    """Sample standard deviation along `dim` (kept) of what is not NaN, as TRL's; NaN for fewer than two values."""
    count = (~values.isnan()).sum(dim=dim, keepdim=True)
    squares = ((values - values.nanmean(dim=dim, keepdim=True)) ** 2).nansum(dim=dim, keepdim=True)
    return torch.where(count > 1, (squares / (count - 1)).sqrt(), math.nan)
