"""GRPO on TRL, with the two hooks that TRL lacks, and the log that every method writes."""

from typing import Any

import torch
from transformers import ProgressCallback
from trl import GRPOTrainer

from medgrpo.trainers.config import MedGRPOConfig
from medgrpo.trainers.progress import RewardProgress
from medgrpo.trainers.run_log import RunLog


class MedGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer`, and the base of every method.

    Two methods are hooks for subclasses, and both do nothing here, so that this class trains exactly as TRL's
    does: `compute_advantages` (advantages from the rewards of each function) and `extend_loss` (a further loss
    term). Each calls `super()` in a subclass, so that methods combine.

    Beside TRL's own logs the run's folder gets `metrics.jsonl` (one line a logged step) and `run.json`
    (settings, seed, versions).
    """

    _tag_names = ["trl", "grpo", "medgrpo"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rewards_per_func: torch.Tensor | None = None
        if not isinstance(self.args, MedGRPOConfig):
            raise TypeError(f"args has to be a MedGRPOConfig, got {type(self.args).__name__}")
        if not self.args.disable_tqdm:
            self.remove_callback(ProgressCallback)
            self.add_callback(RewardProgress())
        self.add_callback(RunLog(self.reward_func_names, self.reward_weights.tolist()))

    def compute_advantages(self, rewards_per_func: torch.Tensor, num_generations: int) -> torch.Tensor | None:
        """Hook: advantages (N,) from the raw rewards (N, K) of all processes, rows of a group side by side.

        A reward that abstained is NaN. `None` keeps TRL's advantages (weighted sum, normalised in the group).
        """
        return None

    def extend_loss(self, loss: torch.Tensor, model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        """Hook: the loss of one micro-batch, from the policy loss `loss` (a scalar).

        `loss` is already divided by the micro-batches of the accumulation window, and whatever is added has to
        be, too: the Trainer does not divide again.
        """
        return loss

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        self._rewards_per_func = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        return self._rewards_per_func

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        rewards_per_func, self._rewards_per_func = self._rewards_per_func, None
        training = self.model.training
        num_generations = self.num_generations if training else self.num_generations_eval
        advantages = self.compute_advantages(rewards_per_func, num_generations)  # (N,) over all processes
        if advantages is not None:
            local = len(output["advantages"])
            start = self.accelerator.process_index * local
            output["advantages"] = advantages[start : start + local]
            # TRL's table of completions has just been given its own advantages for these rows.
            shown = self._logs["advantages"]
            for _ in range(len(advantages)):
                shown.pop()
            shown.extend(advantages.tolist())
        return output

    def _compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        return self.extend_loss(super()._compute_loss(model, inputs), model, inputs)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does, with the table of completions only every `completions_every` steps."""
        wanted = self.log_completions
        self.log_completions = wanted and self.state.global_step % self.args.completions_every == 0
        try:
            super().log(logs, start_time)
        finally:
            self.log_completions = wanted
