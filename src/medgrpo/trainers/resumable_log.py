"""What is counted and not yet logged goes into checkpoints, so that a resumed run's log goes on as it would have."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOTrainer


class SaveAfterEpochEnd(TrainerCallback):
    """Puts off a checkpoint at an epoch's last step until what is logged and evaluated at its end is done.

    It would otherwise be from before that, while a resumed run begins after it.
    """

    def __init__(self) -> None:
        self.due = False

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Hold back."""
        if control.should_save and float(state.epoch or 0.5).is_integer():
            control.should_save, self.due = False, True

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Save now."""
        if self.due:
            control.should_save, self.due = True, False


class ResumableLogGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer` whose log, resumed, equals the uninterrupted run's line for line.

    Each process keeps what it has counted since the last logged line in the checkpoint, as `log_<process>.json`;
    TRL drops it. `eval_on_start` evaluates at step 0 only, and a checkpoint of the last step trains no further.
    """

    _log_to_restore: dict[str, Any] | None = None
    _kept: dict[str, Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_callback(SaveAfterEpochEnd())

    def log_state(self) -> dict[str, Any]:
        """What is counted and not yet logged, as JSON; a subclass that counts more adds to it."""
        return {
            "metrics": {
                mode: {key: [*map(float, values)] for key, values in found.items()}
                for mode, found in self._metrics.items()
            },
            "loss": self._tr_loss.item(),
            "total_loss": self._total_loss_scalar,
            "last_logged": self._globalstep_last_logged,
            "tokens": self.state.num_input_tokens_seen,
            # The first process alone shows it; a copy for each of hundreds would be large.
            "table": {
                key: {name: list(column) for name, column in value.items()} if isinstance(value, dict) else list(value)
                for key, value in self._logs.items()
                if key != "images" and self.accelerator.is_main_process
            },
        }

    def load_log_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `log_state` returned."""
        for mode, found in state["metrics"].items():
            self._metrics[mode].clear()
            self._metrics[mode].update({key: list(values) for key, values in found.items()})
        self._tr_loss.fill_(state["loss"])
        self._total_loss_scalar = state["total_loss"]
        self._globalstep_last_logged = state["last_logged"]
        self.state.num_input_tokens_seen = state["tokens"]
        for key, value in state["table"].items():
            columns = self._logs[key]
            columns.clear()
            if isinstance(value, Mapping):
                for name, column in value.items():
                    columns[name].extend(column)
            else:
                columns.extend(value)

    def save_last_step(self) -> Path | None:
        """Save the state after the last finished step, from inside the next one's generation; all processes together.

        For a run that can't go on. Returns the checkpoint, or None where there is nothing to add to those that
        there are: no step since the last one, or part of the next one's micro-batches learnt already.
        """
        kept = self._kept
        if kept is None or self._step != kept["micro_batches_done"]:
            return None
        random.setstate(kept["python"])
        np.random.set_state(kept["numpy"])
        torch.set_rng_state(kept["torch"])
        if kept["cuda"]:
            torch.cuda.set_rng_state_all(kept["cuda"])
        self.load_log_state(kept["log"])
        self.save_whole_checkpoint()
        return Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"

    def save_whole_checkpoint(self) -> None:
        """Save what a run is resumed from, also with `save_only_model`; collective."""
        only_model, self.args.save_only_model = self.args.save_only_model, False
        try:
            self._save_checkpoint(self.model, None)
        finally:
            self.args.save_only_model = only_model

    def _maybe_log_save_evaluate(self, *args: Any, **kwargs: Any) -> None:
        saves = self.control.should_save
        super()._maybe_log_save_evaluate(*args, **kwargs)
        self._kept = None
        if not saves:
            self._kept = {
                "micro_batches_done": self._step,
                "python": random.getstate(),
                "numpy": np.random.get_state(),
                "torch": torch.get_rng_state(),
                "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
                "log": self.log_state(),
            }

    def _evaluate(self, trial: Any, ignore_keys_for_eval: list[str] | None, skip_scheduler: bool = False):
        # Only eval_on_start skips the scheduler; the run that is resumed has had that evaluation.
        if skip_scheduler and self.state.global_step > 0:
            return {}
        return super()._evaluate(trial, ignore_keys_for_eval, skip_scheduler)

    def _run_epoch(self, **kwargs: Any) -> None:
        self._restore_log()
        if self.state.global_step >= self.state.max_steps:
            self.control.should_training_stop = True
            return
        super()._run_epoch(**kwargs)

    def _restore_log(self) -> None:
        # Not when the checkpoint is read: the Trainer sets its sums to 0 after that.
        restore, self._log_to_restore = self._log_to_restore, None
        if restore is not None:
            self.load_log_state(restore)

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        self._restore_log()  # where no epoch was left
        output = super()._finalize_training(*args, **kwargs)
        return output._replace(training_loss=output.metrics["train_loss"])

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log as TRL does; the summary's `train_loss` is the mean over the whole run, also where it was resumed."""
        if "train_loss" in logs:
            logs["train_loss"] = self._total_loss_scalar / max(self.state.global_step, 0.001)
        super().log(logs, start_time)

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        # A column of the table may hold objects of the user's own; the file of completions shows text.
        self._log_file(output_dir).write_text(json.dumps(self.log_state(), default=str) + "\n", encoding="utf-8")

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        path = self._log_file(checkpoint)
        # All processes log together: with other processes than then, all begin a new line.
        same = path.is_file() and not self._log_file(checkpoint, self.accelerator.num_processes).is_file()
        if all(gather_object([same])):
            self._log_to_restore = json.loads(path.read_text(encoding="utf-8"))

    def _log_file(self, folder: str, process: int | None = None) -> Path:
        return Path(folder) / f"log_{self.accelerator.process_index if process is None else process}.json"
