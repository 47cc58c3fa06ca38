"""From the rewards of a group to advantages: GRPO, Dr. GRPO, MO-GRPO and GDPO, and each reward's part in them.

Every function takes `rewards` (N, K): N completions, the `num_generations` of a group side by side, K rewards
in their own units, NaN where a reward abstains. Each advantage is a sum of K contributions, one a reward;
within a group every contribution sums to 0.

A reward is constant in a group where its spread (largest minus smallest) is at most `CONSTANT` times its
largest absolute value there; it then contributes exactly 0. The rule is relative, so that float noise of a
constant reward never becomes an advantage and a reward in tiny units still counts. Nothing is added to a
standard deviation; all of them divide by n - 1, as TRL's do. The arithmetic is done in float64 and the result
has the dtype of `rewards`.

Every function raises `MedgrpoError` for a reward that is infinite (naming its row and column), for shapes that
don't fit, and for weights that aren't K finite numbers.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from medgrpo.errors import MedgrpoError

CONSTANT = 1e-6
# GDPO: contributions that cancel to this share of themselves everywhere leave rounding, which it must not blow up.
CANCELLED = 1e-4
METHODS = ("grpo", "grpo_batch", "dr_grpo", "mo_grpo", "gdpo")
_GRPO_SCALES = {"group": "grpo", "batch": "grpo_batch", "none": "dr_grpo"}

Weights = Tensor | Sequence[float] | None


def grpo_advantages(rewards: Tensor, num_generations: int, weights: Weights = None, *, scale: str = "group") -> Tensor:
    """Sum the weighted rewards, then centre them in the group and divide by the sum's standard deviation.

    DeepSeekMath (arXiv 2402.03300). `scale` says whose standard deviation: the `group`'s, the `batch`'s, or
    `none`, which is Dr. GRPO (arXiv 2503.20783). As in TRL, a reward that abstains counts as 0 in the sum; TRL
    adds 1e-4 to the standard deviation besides. Returns (N,).
    """
    if scale not in _GRPO_SCALES:
        raise MedgrpoError(f"scale={scale!r}: has to be one of {', '.join(_GRPO_SCALES)}")
    return _advantages(rewards, num_generations, weights, _GRPO_SCALES[scale])


def mo_grpo_advantages(rewards: Tensor, num_generations: int, weights: Weights = None) -> Tensor:
    """Normalise each reward in its group, then sum: `A_g = sum_i w_i (R_i - mean_i) / std_i`. Returns (N,).

    MO-GRPO (arXiv 2509.22047). A reward that abstains takes no part in its mean and standard deviation and
    contributes 0; so does the only one in its group that did not abstain.
    """
    return _advantages(rewards, num_generations, weights, "mo_grpo")


def gdpo_advantages(rewards: Tensor, num_generations: int, weights: Weights = None) -> Tensor:
    """Divide MO-GRPO's advantages by their standard deviation over the batch. Returns (N,).

    GDPO (arXiv 2601.05242). Their mean over the batch is 0 already. The published code and TRL add 1e-4 to the
    standard deviation and to each group's; here nothing is added, so that the result times that standard
    deviation is MO-GRPO exactly, and a batch without any difference gives 0.
    """
    return _advantages(rewards, num_generations, weights, "gdpo")


def advantage_contributions(rewards: Tensor, num_generations: int, weights: Weights = None, *, method: str) -> Tensor:
    """What each reward contributes to the advantage of `method` (one of `METHODS`): (N, K), sum over K = advantage."""
    return _fitting(_contributions(rewards, num_generations, weights, method), rewards.dtype)


def advantage_shares(rewards: Tensor, num_generations: int, weights: Weights = None, *, method: str = "grpo") -> Tensor:
    """Each reward's share in the advantage of `method`: see `contribution_shares`. Returns (K,)."""
    return contribution_shares(advantage_contributions(rewards, num_generations, weights, method=method))


def contribution_shares(contributions: Tensor) -> Tensor:
    """Covariance of each contribution (N, K) with the advantage, over the advantage's variance. Returns (K,).

    The shares sum to 1; a reward that others outvote has a negative one. All are NaN where every advantage is 0.
    """
    parts = contributions.double()
    # Far from 1 a square would overflow or vanish; shares don't depend on the unit.
    parts = parts / _positive(parts.abs().amax())
    parts = parts - parts.mean(0)
    advantages = parts.sum(1)
    variance = advantages.square().sum()
    if variance <= (CONSTANT * parts.abs().amax()) ** 2:
        return torch.full_like(parts[0], torch.nan).to(contributions.dtype)
    return (parts * advantages[:, None]).sum(0).div(variance).to(contributions.dtype)


def constant_groups(rewards: Tensor, num_generations: int) -> Tensor:
    """Whether a reward is constant in a group (or gave fewer than two values there): (N / num_generations, K) bool."""
    groups = _groups(rewards, num_generations)
    return _is_constant(groups, ~groups.isnan()).squeeze(1)


def _advantages(rewards: Tensor, num_generations: int, weights: Weights, method: str) -> Tensor:
    """(N,), rounded once, after the sum."""
    return _fitting(_contributions(rewards, num_generations, weights, method).sum(1), rewards.dtype)


def _contributions(rewards: Tensor, num_generations: int, weights: Weights, method: str) -> Tensor:
    """float64 (N, K)."""
    if method not in METHODS:
        raise MedgrpoError(f"advantage {method!r}: has to be one of {', '.join(METHODS)}")
    groups = _groups(rewards, num_generations)
    weight = _weights(weights, groups)
    if method not in ("mo_grpo", "gdpo"):
        return _sum_then_normalise(groups, weight, method).reshape(rewards.shape)
    parts = weight * _standardise(groups)
    if method == "gdpo":
        # Rows on which every reward abstained are no samples; the mean over the others is 0.
        samples = (~groups.isnan().all(-1)).sum()
        parts = parts / _positive(parts.abs().amax())
        total = parts.sum(-1)
        std = (total.square().sum() / (samples - 1).clamp(min=1)).sqrt()
        parts = parts / std if total.abs().amax() > CANCELLED else torch.zeros_like(parts)
    return parts.reshape(rewards.shape)


def _fitting(values: Tensor, dtype: torch.dtype) -> Tensor:
    values = values.to(dtype)
    if not torch.isfinite(values).all():
        raise MedgrpoError(f"advantages overflow {dtype}: scale the rewards or their weights down")
    return values


def _standardise(groups: Tensor) -> Tensor:
    """(R - mean) / std over dim 1 of (B, G, K), abstentions left out; 0 for abstentions and constants."""
    valid = ~groups.isnan()
    values = groups.nan_to_num(nan=0.0) / _largest(groups, 1)
    count = valid.sum(1, keepdim=True)
    centred = torch.where(valid, values - values.sum(1, keepdim=True) / count.clamp(min=1), 0.0)
    std = (centred.square().sum(1, keepdim=True) / (count - 1).clamp(min=1)).sqrt()
    constant = _is_constant(groups, valid)
    return torch.where(constant, 0.0, centred / torch.where(constant, 1.0, std))


def _sum_then_normalise(groups: Tensor, weight: Tensor, method: str) -> Tensor:
    """GRPO's contributions, (B, G, K): each weighted reward centred, over the standard deviation of their sum."""
    scored = ~groups.isnan().all(-1, keepdim=True)  # (B, G, 1)
    values = groups.nan_to_num(nan=0.0)
    unit = _positive(values.abs().amax()) if method == "grpo_batch" else _largest(groups, (1, 2))
    values = values / unit
    mean = torch.where(scored, values, 0.0).sum(1, keepdim=True) / scored.sum(1, keepdim=True).clamp(min=1)
    constant = _is_constant(values, scored.expand_as(values))
    centred = torch.where(scored & ~constant, weight * (values - mean), 0.0)
    if method == "dr_grpo":
        return centred * unit
    if method == "grpo_batch":
        total = (weight * values).sum(-1)[scored.squeeze(-1)]
        term = (weight * values).abs().amax()
        if total.numel() < 2 or total.amax() - total.amin() <= CONSTANT * term:
            return torch.zeros_like(centred)
        return centred / total.std()
    # Rounding of a sum is judged by the terms that were added.
    term = _largest(torch.where(scored & ~constant, weight * values, 0.0), (1, 2))
    centred = centred / term
    total = centred.sum(-1, keepdim=True)
    std = (total.square().sum(1, keepdim=True) / (scored.sum(1, keepdim=True) - 1).clamp(min=1)).sqrt()
    alike = total.amax(1, keepdim=True) - total.amin(1, keepdim=True) <= CONSTANT
    return torch.where(alike, 0.0, centred / torch.where(alike, 1.0, std))


def _is_constant(groups: Tensor, valid: Tensor) -> Tensor:
    """(B, 1, K) bool, from (B, G, K) values and which of them count."""
    values = groups.nan_to_num(nan=0.0) / _largest(groups, 1)
    top = torch.where(valid, values, -torch.inf).amax(1, keepdim=True)
    bottom = torch.where(valid, values, torch.inf).amin(1, keepdim=True)
    return top - bottom <= CONSTANT


def _largest(groups: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """Largest absolute value along `dim`, kept; 1 where all are 0 or NaN. Dividing by it keeps squares in range."""
    return _positive(groups.nan_to_num(nan=0.0).abs().amax(dim, keepdim=True))


def _positive(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, torch.ones_like(values))


def _groups(rewards: Tensor, num_generations: int) -> Tensor:
    """(N, K) -> float64 (B, G, K); raises for shapes that don't fit and for infinite rewards."""
    if rewards.ndim != 2 or not rewards.is_floating_point() or rewards.numel() == 0:
        raise MedgrpoError(
            f"rewards: have to be floats of shape (completions, rewards), got {rewards.dtype} {tuple(rewards.shape)}"
        )
    if num_generations < 1 or len(rewards) % num_generations:
        raise MedgrpoError(f"rewards: {len(rewards)} rows are no whole groups of {num_generations} completions")
    infinite = rewards.isinf()
    if infinite.any():
        row, column = infinite.nonzero()[0].tolist()
        raise MedgrpoError(
            f"rewards: row {row} of reward {column} is {rewards[row, column].item()}: "
            "a reward has to be finite, or NaN to abstain"
        )
    return rewards.double().reshape(-1, num_generations, rewards.shape[1])


def _weights(weights: Weights, groups: Tensor) -> Tensor:
    """float64 (K,)."""
    if weights is None:
        return groups.new_ones(groups.shape[-1])
    weight = torch.as_tensor(weights, dtype=torch.float64, device=groups.device)
    if weight.shape != groups.shape[-1:] or not torch.isfinite(weight).all():
        raise MedgrpoError(f"weights: {weight.tolist()} are not {groups.shape[-1]} finite numbers, one a reward")
    return weight
