"""GRPO on TRL, with the two hooks that TRL lacks, and the log that every method writes."""

from collections.abc import Mapping
from typing import Any

import torch
from transformers import ProgressCallback

from medgrpo.trainers.config import MedGRPOConfig
from medgrpo.trainers.diagnostics import Diagnostics
from medgrpo.trainers.exporting import ExportingGRPOTrainer
from medgrpo.trainers.hub_pushes import HubGRPOTrainer
from medgrpo.trainers.interruptible import InterruptibleGRPOTrainer
from medgrpo.trainers.lost_process import WatchfulGRPOTrainer
from medgrpo.trainers.nonfinite import FiniteGRPOTrainer
from medgrpo.trainers.private import PrivateGRPOTrainer
from medgrpo.trainers.progress import RewardProgress
from medgrpo.trainers.resumable import ResumableGRPOTrainer
from medgrpo.trainers.resumable_reference import ResumableReferenceGRPOTrainer
from medgrpo.trainers.reward_calls import checked, refuse_infinite
from medgrpo.trainers.reward_diagnostics import trl_contributions
from medgrpo.trainers.reward_timeout import LimitedRewardsGRPOTrainer
from medgrpo.trainers.run_log import RunLog
from medgrpo.trainers.saving import SavingGRPOTrainer
from medgrpo.trainers.server_rollouts import ServerRolloutsGRPOTrainer
from medgrpo.trainers.shared_prefill import SharedPrefillGRPOTrainer
from medgrpo.trainers.shared_prefix import SharedPrefixGRPOTrainer


# HubGRPOTrainer stands first: it keeps a save from pushing, whichever class saves.
# A signal has to be heard before SaveAfterEpochEnd decides, so Interruptible stands after LimitedRewards.
class MedGRPOTrainer(
    PrivateGRPOTrainer,
    HubGRPOTrainer,
    WatchfulGRPOTrainer,
    ServerRolloutsGRPOTrainer,
    SavingGRPOTrainer,
    FiniteGRPOTrainer,
    LimitedRewardsGRPOTrainer,
    InterruptibleGRPOTrainer,
    ResumableGRPOTrainer,
    ResumableReferenceGRPOTrainer,
    SharedPrefixGRPOTrainer,
    SharedPrefillGRPOTrainer,
    ExportingGRPOTrainer,
):
    """TRL's `GRPOTrainer`, and the base of every method.

    Two methods are hooks for subclasses, and both do nothing here, so that this class trains as TRL's does:
    `compute_advantages` (advantages from the rewards of each function) and `extend_loss` (a further loss term). Each
    calls `super()` in a subclass, so that methods combine. With `shared_prefix` off, micro-batches are TRL's, too.

    Beside TRL's own logs the run's folder gets `metrics.jsonl` (one line a logged step) and `run.json`
    (settings, seed, versions).
    """

    _tag_names = ["trl", "grpo", "medgrpo"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rewards_per_func: torch.Tensor | None = None
        if not isinstance(self.args, MedGRPOConfig):
            raise TypeError(f"args has to be a MedGRPOConfig, got {type(self.args).__name__}")
        self.reward_funcs = [
            function if isinstance(function, torch.nn.Module) else checked(function, name)
            for function, name in zip(self.reward_funcs, self.reward_func_names, strict=True)
        ]
        if not self.args.disable_tqdm:
            self.remove_callback(ProgressCallback)
            self.add_callback(RewardProgress())
        self.add_callback(RunLog(self.reward_func_names, self.reward_weights.tolist(), lambda: self.run_id))
        # How many times `completions_every` steps had gone by when the table was last shown.
        self._completions_shown = 0
        self._diagnostics = Diagnostics(self, self.args.diagnostics, self.args.ratio_spike_threshold)

    def compute_advantages(self, rewards_per_func: torch.Tensor, num_generations: int) -> torch.Tensor | None:
        """Hook: advantages (N,) from the raw rewards (N, K) of all processes, rows of a group side by side.

        Both are on the CPU. A reward that abstained is NaN. `None` keeps TRL's advantages (weighted sum, normalised in
        the group).
        """
        return None

    def advantage_contributions(self, rewards_per_func: torch.Tensor, num_generations: int) -> torch.Tensor:
        """Hook: what each reward put into the advantages, `(N, K)`; its rows sum to them. For the log only.

        It is told what `compute_advantages` is told, and whoever overrides that overrides this, too: the log
        leaves the advantage shares out, with a warning, where the rows don't sum to the advantages.
        """
        return trl_contributions(
            rewards_per_func,
            num_generations,
            self.reward_weights,
            self.scale_rewards,
            self.multi_objective_aggregation,
        )

    def extend_loss(self, loss: torch.Tensor, model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        """Hook: the loss of one micro-batch, from the policy loss `loss` (a scalar).

        `loss` is already divided by the micro-batches of the accumulation window, and whatever is added has to
        be, too: the Trainer does not divide again.
        """
        return loss

    def log_state(self) -> dict[str, Any]:
        """What is counted and not yet logged."""
        state = super().log_state()
        return {**state, "completions_shown": self._completions_shown, "diagnostics": self._diagnostics.state()}

    def load_log_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `log_state` returned."""
        super().load_log_state(state)
        self._completions_shown = state["completions_shown"]
        self._diagnostics.load_state(state["diagnostics"])

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        self._rewards_per_func = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        refuse_infinite(self._rewards_per_func, self.reward_func_names)
        self._diagnostics.read_answers(inputs, completions)
        return self._rewards_per_func

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        with self._diagnostics.watch(once=True) as scored:
            output = super()._generate_and_score_completions(inputs)
        self._diagnostics.keep_experts(output, scored)
        rewards_per_func, self._rewards_per_func = self._rewards_per_func, None
        training = self.model.training
        num_generations = self.num_generations if training else self.num_generations_eval
        # On the CPU: a few numbers, summed in float64, which not every accelerator has.
        rewards_per_func = rewards_per_func.cpu()
        advantages = self.compute_advantages(rewards_per_func, num_generations)  # (N,) over all processes
        if advantages is not None:
            local = len(output["advantages"])
            start = self.accelerator.process_index * local
            output["advantages"] = advantages[start : start + local].to(output["advantages"])
            # TRL's table of completions has just been given its own advantages for these rows.
            shown = self._logs["advantages"]
            for _ in range(min(len(advantages), len(shown))):
                shown.pop()
            shown.extend(advantages.tolist())
            # TRL's number is about the sum of the rewards, which may be constant where they are not.
            dead = advantages.view(-1, num_generations).abs().amax(dim=1) < 1e-5
            self._metrics["train" if training else "eval"]["frac_reward_zero_std"][-1] = dead.float().mean().item()
        if self._diagnostics.enabled:
            contributions = self.advantage_contributions(rewards_per_func, num_generations)
            self._diagnostics.add_rewards(rewards_per_func, contributions, advantages, num_generations)
        return output

    def _compute_loss(self, model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        with self._diagnostics.watch() as scored:
            loss = super()._compute_loss(model, inputs)
        self._diagnostics.add_update(inputs, scored)
        return self.extend_loss(loss, model, inputs)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does, with the table of completions only every `completions_every` steps."""
        wanted = self.log_completions
        step = self.state.global_step
        # The summary of a run that was stopped is no line of the run that goes on.
        cut = "train_runtime" in logs and step < self.state.max_steps
        self.log_completions = wanted and not cut and step // self.args.completions_every > self._completions_shown
        if self.log_completions:
            self._completions_shown = step // self.args.completions_every
        self._diagnostics.before_log()
        try:
            super().log(logs, start_time)
        finally:
            self.log_completions = wanted
