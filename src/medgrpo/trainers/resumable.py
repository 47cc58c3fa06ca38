"""What TRL leaves out of a checkpoint: rollouts that are still to be learnt from, and the order of the prompts."""

from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from torch.utils.data import Sampler
from transformers.utils import logging
from trl import GRPOTrainer

logger = logging.get_logger(__name__)


class ResumableGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer`, resumed exactly where it was cut.

    A generation serves several micro-batches. TRL saves neither the rollouts nor how many of their micro-batches
    are done, so that a run resumed in between generates at other steps than the uninterrupted one. Here each
    process keeps both in the checkpoint, as `rollouts_<process>.pt`. TRL also starts a resumed run on the first
    epoch's order of the prompts, whichever epoch it is in; here it goes on with the order that is due.
    """

    _prompt_sampler: Sampler | None = None

    def _get_train_sampler(self, dataset: Dataset | None = None) -> Sampler:
        self._prompt_sampler = super()._get_train_sampler(dataset)
        return self._prompt_sampler

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        between = self._step % self._micro_batches_per_generation != 0
        torch.save(
            {
                "micro_batches_done": self._step,
                "layout": self._layout,
                "rollouts": self._buffered_inputs if between else None,
            },
            self._rollouts_file(output_dir),
        )

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        if self._prompt_sampler is not None:
            for _ in range(int(self.state.epoch)):
                # The sampler draws the order of an epoch with the epoch's first prompt.
                next(iter(self._prompt_sampler))
        path = self._rollouts_file(checkpoint)
        saved: dict[str, Any] = {}
        if path.is_file():
            device = self.accelerator.device
            # DeepSpeed's CPU is called cpu:0, which torch does not know as a place to load to.
            saved = torch.load(path, map_location="cpu" if device.type == "cpu" else device, weights_only=True)
        # All processes go on with rollouts, or none: they generate and learn together.
        if not all(gather_object([saved.get("layout") == self._layout])):
            then = saved.get("layout") or {}
            other = [
                f"{key} was {then[key]}, is now {now}" for key, now in self._layout.items() if then.get(key, now) != now
            ]
            logger.warning(
                f"{checkpoint}: no rollouts that all processes can go on with ({', '.join(other) or 'missing'}): the "
                "resumed run generates anew, and so at other steps than an uninterrupted one"
            )
            return
        self._step, self._buffered_inputs = saved["micro_batches_done"], saved["rollouts"]

    @property
    def _layout(self) -> dict[str, Any]:
        """What decides how rollouts are cut into micro-batches, and what they have to hold."""
        return {
            "micro_batches_per_generation": self._micro_batches_per_generation,
            "per_device_train_batch_size": self.args.per_device_train_batch_size,
            "gradient_accumulation_steps": self.args.gradient_accumulation_steps,
            "num_generations": self.num_generations,
            "num_processes": self.accelerator.num_processes,
            "reference": self.beta != 0.0,
            "rollout_logps": self.use_vllm and self.vllm_importance_sampling_correction,
        }

    @property
    def _micro_batches_per_generation(self) -> int:
        return self.args.steps_per_generation * self.num_iterations

    def _rollouts_file(self, folder: str) -> Path:
        return Path(folder) / f"rollouts_{self.accelerator.process_index}.pt"
