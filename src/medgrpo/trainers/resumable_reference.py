"""A reference model that moves (`sync_ref_model`) goes into checkpoints, too."""

from pathlib import Path
from typing import Any

from safetensors.torch import load_model, save_model
from trl import GRPOTrainer

from medgrpo.errors import MedgrpoError

REFERENCE = "reference.safetensors"


class ResumableReferenceGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer`, which keeps a reference model that follows the policy in its checkpoints.

    TRL begins a resumed run with the reference that the run started from. Raises `MedgrpoError` for a checkpoint
    without it, and for `sync_ref_model` with a sharded engine, where no process has the whole reference.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sharded = self.is_deepspeed_enabled or self.is_fsdp_enabled
        if self.args.sync_ref_model and self.ref_model is not None and sharded and self.args.save_strategy != "no":
            raise MedgrpoError(
                "sync_ref_model: under DeepSpeed or FSDP no process has the whole reference, so that checkpoints can't "
                "keep it: leave it out, or set save_strategy=no"
            )

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        if not self.args.sync_ref_model or self.ref_model is None:
            return
        if self.args.should_save:
            save_model(self.accelerator.unwrap_model(self.ref_model), str(Path(output_dir) / REFERENCE))

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None or not self.args.sync_ref_model or self.ref_model is None:
            return
        path = Path(checkpoint) / REFERENCE
        if not path.is_file():
            raise MedgrpoError(f"{checkpoint}: no {REFERENCE} in it: it was trained without sync_ref_model; resume so")
        load_model(self.accelerator.unwrap_model(self.ref_model), str(path))
