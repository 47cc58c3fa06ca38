"""Stops before an update with a loss or gradient that is NaN or infinite, and keeps what led to it."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather
from trl import GRPOTrainer

from medgrpo.errors import MedgrpoError
from medgrpo.trainers.checkpoints import find_last
from medgrpo.trainers.metrics_file import read_current_run

FOLDER = "nonfinite"
REWARDS = "rewards_per_func"


class NonFiniteError(MedgrpoError):
    """The loss or the gradient of a step is not finite; raised on all processes, before the update."""


class FiniteGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer` that never updates with a NaN or infinite loss or gradient.

    Before each optimizer step the processes ask each other. Where one has such a loss, or the gradient's norm is
    not finite, each writes its batch (prompts, completions, their tokens, rewards, advantages) and the metrics since
    the last logged line to `nonfinite/step_<step>_process_<process>.json`, and all raise `NonFiniteError`. Under
    float16 an infinite gradient is the loss scaler's business; only the loss is looked at. DeepSpeed itself passes
    over such an update, and is stopped right after.
    """

    _rewards_of_batch: torch.Tensor | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The micro-batches of the step in progress, each with its loss.
        self._step_batches: list[tuple[Mapping[str, Any], torch.Tensor]] = []

    def _calculate_rewards(self, inputs, prompts, completions, completion_ids_list):
        self._rewards_of_batch = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list)
        return self._rewards_of_batch

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        output = super()._generate_and_score_completions(inputs)
        rewards, self._rewards_of_batch = self._rewards_of_batch, None
        local = len(output["advantages"])
        start = self.accelerator.process_index * local
        # Beside the rows, so that TRL shuffles and splits them together.
        output[REWARDS] = rewards[start : start + local]
        return output

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The loss as it is; in training it is noted for the check before the update."""
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        if self.model.training:
            self._step_batches.append((inputs, loss.detach()))
        return loss

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        norm = super()._get_grad_norm(model, grad_norm)
        batches, self._step_batches = self._step_batches, []
        losses = torch.stack([loss for _, loss in batches])
        if self.is_deepspeed_enabled:
            bad_gradient = torch.tensor(self.accelerator.optimizer_step_was_skipped and not self.args.fp16)
        else:
            bad_gradient = ~torch.as_tensor(norm).isfinite() & (self.accelerator.scaler is None)
        found = torch.stack([~losses.isfinite().all(), bad_gradient.to(losses.device)])
        if self.accelerator.num_processes > 1:
            found = gather(found.view(1, 2).int()).amax(dim=0).bool()  # (processes, 2) -> (2,)
        if found.any():
            self._stop(batches, losses.tolist(), math.nan if norm is None else float(norm), *found.tolist())
        return norm

    def _stop(
        self,
        batches: list[tuple[Mapping[str, Any], torch.Tensor]],
        losses: list[float],
        norm: float,
        bad_loss: bool,
        bad_gradient: bool,
    ) -> None:
        step = self.state.global_step + 1
        folder = Path(self.args.output_dir) / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"step_{step}_process_{self.accelerator.process_index}.json"
        record = {
            "step": step,
            "losses": losses,
            "grad_norm": norm,
            "learning_rate": self._get_learning_rate(),
            "metrics": {key: list(values) for key, values in self._metrics["train"].items()},
            "rows": [row for inputs, _ in batches for row in self._rows(inputs)],
        }
        path.write_text(json.dumps(_finite(record), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        last = None
        if self.accelerator.is_main_process:  # reading it all is one process's work
            last = find_last(Path(self.args.output_dir), read_current_run(self.args.output_dir))
        named = [word for word, bad in (("the loss", bad_loss), ("the gradient", bad_gradient)) if bad]
        what = " and ".join(named) + (" are" if len(named) > 1 else " is")
        raise NonFiniteError(
            f"step {step}: {what} NaN or infinite: stopped before the update. The batch and its metrics are in "
            f"{path}; "
            + (f"the weights in {last} are sound. " if last else "")
            + "Look there for the reward, advantage or completion at fault; a lower learning_rate, a smaller "
            "max_grad_norm or bf16 in place of fp16 are the usual remedies"
        )

    def _rows(self, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
        rewards = inputs.get(REWARDS)
        rows = []
        for index in range(len(inputs["completion_ids"])):
            prompt, completion = (
                inputs[f"{part}_ids"][index][inputs[f"{part}_mask"][index].bool()].tolist()
                for part in ("prompt", "completion")
            )
            rows.append(
                {
                    "prompt": self._tokenizer.decode(prompt),
                    "completion": self._tokenizer.decode(completion),
                    "prompt_ids": prompt,
                    "completion_ids": completion,
                    "advantage": inputs["advantages"][index].tolist(),
                    "rewards": None
                    if rewards is None
                    else dict(zip(self.reward_func_names, rewards[index].tolist(), strict=True)),
                }
            )
        return rows


def _finite(value: Any) -> Any:
    """JSON knows neither NaN nor infinity: they become the words."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list) else value
