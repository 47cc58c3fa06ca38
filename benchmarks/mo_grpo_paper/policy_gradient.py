"""What the two experiments share: three ways from rewards to advantages, small policies, and one update."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from medgrpo.advantages import grpo_advantages, mo_grpo_advantages
from medgrpo.errors import MedgrpoError

Advantages = Callable[[Tensor, int], Tensor]


def dr_grpo_advantages(rewards: Tensor, num_generations: int) -> Tensor:
    """Dr. GRPO: the rewards' sum less its group mean, not divided by the group's std."""
    return grpo_advantages(rewards, num_generations, scale="none")


# Each takes rewards (N, K), G rows a group, and gives advantages (N,).
METHODS: dict[str, Advantages] = {
    "GRPO": grpo_advantages,
    "Dr. GRPO": dr_grpo_advantages,
    "MO-GRPO": mo_grpo_advantages,
}
# Fused: the networks are so small that the optimizer's own loop would be a third of the time.
OPTIMIZERS = {"adam": partial(torch.optim.Adam, fused=True), "sgd": partial(torch.optim.SGD, fused=True)}


class Policies:
    """One network a seed, all S of them in one pass: the seeds stay independent, and 20 cost little more than one.

    Tanh between the layers; the last layer starts near 0, so that the first policy is nearly uniform.
    """

    def __init__(self, seeds: Sequence[int], inputs: int, actions: int, width: int, hidden_layers: int):
        sizes = [inputs, *[width] * hidden_layers, actions]
        self.parameters: list[nn.Parameter] = []
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        for layer, (before, after) in enumerate(pairwise(sizes)):
            std = 0.01 if layer == hidden_layers else before**-0.5
            drawn = [std * torch.randn(before, after, generator=generator) for generator in generators]
            self.parameters += [nn.Parameter(torch.stack(drawn)), nn.Parameter(torch.zeros(len(seeds), 1, after))]

    def logits(self, inputs: Tensor) -> Tensor:
        """(S, ..., actions) of `inputs` (S, ..., D)."""
        hidden = inputs.flatten(1, -2)
        layers = list(zip(self.parameters[::2], self.parameters[1::2], strict=True))
        for weight, bias in layers[:-1]:
            hidden = torch.baddbmm(bias, hidden, weight).tanh()
        weight, bias = layers[-1]
        return torch.baddbmm(bias, hidden, weight).unflatten(1, inputs.shape[1:-1])


def sample(logits: Tensor, uniform: Tensor) -> Tensor:
    """Actions (...) int64 from `logits` (..., A), by `uniform` (...) float64 in [0, 1): the same for every method."""
    cumulative = logits.detach().double().softmax(-1).cumsum(-1)
    actions = torch.searchsorted(cumulative, uniform.unsqueeze(-1).contiguous()).squeeze(-1)
    return actions.clamp(max=logits.shape[-1] - 1)  # the last sum may be rounded to just below 1


def update(optimizer: torch.optim.Optimizer, logits: Tensor, actions: Tensor, advantages: Tensor) -> None:
    """One on-policy step up the mean of advantage x log pi(action), the mean being over each group.

    Every probability ratio is 1 here, so GRPO's clipping has nothing to cut and is left out. `logits` (..., G, A),
    `actions` (..., G) int64, `advantages` (..., G). Raises `MedgrpoError` where training has diverged.
    """
    chosen = logits.log_softmax(-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    loss = -(advantages * chosen).mean(-1).sum()
    if not torch.isfinite(loss):
        raise MedgrpoError("the loss is no longer finite: lower --learning-rate")
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
