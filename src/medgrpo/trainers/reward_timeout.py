"""Reward functions get a limit in time, and a run that one of them holds up is saved."""

from typing import Any

import torch

from medgrpo.trainers.resumable_log import ResumableLogGRPOTrainer
from medgrpo.trainers.resume_command import resume_command
from medgrpo.trainers.reward_limit import RewardLimit, RewardTimeout


class LimitedRewardsGRPOTrainer(ResumableLogGRPOTrainer):
    """Ends reward functions that run longer than `args.reward_timeout` seconds with `RewardTimeout`.

    On one process the state after the last finished step is saved first. On several, a process can't save alone:
    it stops, the others with it, and the last checkpoint counts.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reward_limit = RewardLimit()
        self.reward_funcs = [
            function if isinstance(function, torch.nn.Module) else self._reward_limit.wrap(function, name)
            for function, name in zip(self.reward_funcs, self.reward_func_names, strict=True)
        ]

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        self._reward_limit.seconds = self.args.reward_timeout
        try:
            with self._reward_limit.enforced():
                return super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        except RewardTimeout as error:
            alone = self.accelerator.num_processes == 1
            if not self.model.training or not alone or self.save_last_step() is None:
                raise
            raise RewardTimeout(f"{error}; step {self.state.global_step} is saved: {resume_command()}") from error
