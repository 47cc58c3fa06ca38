"""MO-GRPO: each reward normalised in its group, then summed, so that none is drowned by another's spread."""

from typing import Any

import torch
from transformers.utils import logging

from medgrpo.advantages import advantage_contributions, gdpo_advantages, mo_grpo_advantages
from medgrpo.errors import MedgrpoError
from medgrpo.trainers.adaptive_weights import AdaptiveWeights
from medgrpo.trainers.base import MedGRPOTrainer
from medgrpo.trainers.mo_grpo_config import MOGRPOConfig

logger = logging.get_logger(__name__)

ADVANTAGE_FUNCTIONS = {"mo_grpo": mo_grpo_advantages, "gdpo": gdpo_advantages}


class MOGRPOTrainer(MedGRPOTrainer):
    """Multi-Objective GRPO (Ichihara et al., arXiv 2509.22047), with GDPO and AW-GRPO as choices of its config.

    `A_g = sum_i w_i (R_i - mean_i) / std_i` within the group: every reward moves the policy as much as its weight
    says, whatever its unit. `medgrpo.advantages` states it exactly, constant and abstaining rewards included.

    With a single reward MO-GRPO equals GRPO (times the reward's weight), which is warned about once. Raises
    `MedgrpoError` where the weights of a single reward are to adapt.
    """

    _tag_names = ["trl", "mo-grpo", "medgrpo"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(self.args, MOGRPOConfig):
            raise TypeError(f"args has to be a MOGRPOConfig, got {type(self.args).__name__}")
        if len(self.reward_funcs) == 1:
            if self.args.adapt_reward_weights:
                raise MedgrpoError("adapt_reward_weights with a single reward: there is nothing to weigh it against")
            if self.args.advantage == "mo_grpo":
                logger.warning_once("MO-GRPO with a single reward equals GRPO: give it two or more")
        if self.args.adapt_reward_weights:
            self.add_callback(AdaptiveWeights(self.reward_weights.tolist(), self.args.reward_weight_window))

    def compute_advantages(self, rewards_per_func: torch.Tensor, num_generations: int) -> torch.Tensor | None:
        """Advantages (N,) by the config's `advantage`, from rewards (N, K)."""
        if self.args.advantage == "grpo":
            return super().compute_advantages(rewards_per_func, num_generations)
        advantages = ADVANTAGE_FUNCTIONS[self.args.advantage]
        return advantages(rewards_per_func, num_generations, self.reward_weights)

    def advantage_contributions(self, rewards_per_func: torch.Tensor, num_generations: int) -> torch.Tensor:
        """What each reward put into those advantages, (N, K)."""
        if self.args.advantage == "grpo":
            return super().advantage_contributions(rewards_per_func, num_generations)
        # float64, so that contributions that cancel still add up to the advantages.
        exact = rewards_per_func.double()
        return advantage_contributions(exact, num_generations, self.reward_weights, method=self.args.advantage)

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        rewards_per_func = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        if not self.args.adapt_reward_weights:
            return rewards_per_func
        # Resuming may have put another instance in its place.
        adaptive = next(c for c in self.callback_handler.callbacks if isinstance(c, AdaptiveWeights))
        if self.model.training:
            # Rewards are those of all processes, so all of them come to the same weights.
            adaptive.observe(rewards_per_func.cpu().double().nanmean(dim=0).tolist())
        # In evaluation, too: a resumed run may evaluate before it generates.
        weights = adaptive.weights
        self.reward_weights = torch.tensor(weights, dtype=torch.float32)
        if self.model.training:
            for name, weight in zip(self.reward_func_names, weights, strict=True):
                self._metrics["train"][f"rewards/{name}/weight"].append(weight)
        return rewards_per_func
