"""Stops a run between two steps when the system asks for it, saves, and says how to go on."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from trl import GRPOTrainer

from medgrpo.trainers.resume_command import resume_command

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
"""What Slurm, Kubernetes and the like send before they kill."""


class InterruptibleGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer` that survives being asked to stop.

    On SIGTERM or SIGUSR1 on any process during training, all finish the optimizer step, save a checkpoint, and exit
    with status 0 (`SystemExit`, out of `train`); the first one prints the command that resumes. A further signal
    changes nothing. Signals can be heard in the main thread only: trained elsewhere, the defaults stay.
    """

    _heard: int | None = None
    _stopped_by: int | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_callback(_StopBetweenSteps(self))

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as TRL does; raise `SystemExit(0)` where a signal ended it."""
        self._heard = self._stopped_by = None
        only_model = self.args.save_only_model
        with self._listening():
            try:
                output = super().train(*args, **kwargs)
            finally:
                self.args.save_only_model = only_model
        if self._stopped_by is None:
            if self._heard is not None:
                # Too late to stop between steps: the signal does now what it does by default.
                os.kill(os.getpid(), self._heard)
            return output
        saved = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
        self.accelerator.print(
            f"stopped by {signal.Signals(self._stopped_by).name} after step {self.state.global_step} of "
            f"{self.state.max_steps}, saved {saved}; resume with\n{resume_command()}",
            flush=True,
        )
        raise SystemExit(0)

    def stop_if_asked(self, control: TrainerControl) -> None:
        """Have the run saved and ended after this step where any process has heard a signal."""
        heard = torch.tensor(self._heard or 0, device=self.accelerator.device)
        if self.accelerator.num_processes > 1:
            heard = self.accelerator.gather(heard.view(1)).max()
        if heard.item():
            self._stopped_by = int(heard.item())
            self.args.save_only_model = False
            control.should_save = control.should_training_stop = True

    @contextmanager
    def _listening(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._hear) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._heard = self._heard or number


class _StopBetweenSteps(TrainerCallback):
    def __init__(self, trainer: InterruptibleGRPOTrainer) -> None:
        self.trainer = trainer

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self.trainer.stop_if_asked(control)
