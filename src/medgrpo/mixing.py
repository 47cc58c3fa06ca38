"""CHORD's arithmetic: how much teaching is mixed in, how each taught token weighs, and the loss of the taught tokens.

Zhang et al., On-Policy RL Meets Off-Policy Experts (CHORD), arXiv 2508.11408: L = (1 - mu) L_GRPO + mu L_SFT.
"""

import math

import torch


def mu_schedule(step: int, warmup_steps: int, decay_steps: int, peak: float, valley: float) -> float:
    """The weight mu of the SFT loss at an optimizer step (the first is 0).

    Linear from 0 to `peak` over `warmup_steps`, then a cosine from `peak` to `valley` over `decay_steps`, then
    `valley`. Without warm-up the first step is at `peak`; without decay mu is `valley` as soon as the warm-up is
    over, so with neither it is `valley` throughout and `peak` plays no part.
    """
    if step < warmup_steps:
        return step / warmup_steps * peak
    if step >= warmup_steps + decay_steps:
        return valley
    progress = (step - warmup_steps) / decay_steps
    return valley + (peak - valley) * 0.5 * (1 + math.cos(math.pi * progress))


def phi_weights(token_logps: torch.Tensor) -> torch.Tensor:
    """p (1 - p) of each taught token, from its log-probability; the same shape, at most 1/4, without gradient.

    Tokens that the model holds for certain or for impossible hardly weigh, those at even odds the most.
    """
    logps = token_logps.detach()
    return logps.exp() * -torch.expm1(logps)


def sft_loss(token_logps: torch.Tensor, total_tokens: int, weights: torch.Tensor | None = None) -> torch.Tensor:
    """What these tokens contribute to the mean negative log-likelihood of `total_tokens` tokens; a scalar.

    `token_logps` (n,) are the taught tokens of one micro-batch on one process, `total_tokens` those of the whole
    accumulation window on all processes: the sum of all contributions is the mean over the window, in which
    each token counts the same wherever it stands. `weights` (n,), where given, multiply the tokens and are not
    normalised again.
    """
    nll = -token_logps if weights is None else -token_logps * weights
    return nll.sum() / total_tokens
