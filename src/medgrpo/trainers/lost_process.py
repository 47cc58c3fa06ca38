"""Says in one line that another process of the run is gone, where the library says it in its own words."""

from typing import Any

import torch
from trl import GRPOTrainer

from medgrpo.errors import MedgrpoError


class LostProcessError(MedgrpoError):
    """Another process died or no longer answers; only those that are left know."""


class WatchfulGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer` that ends with `LostProcessError` where it waits for a process that is dead or hangs.

    A dead process is noticed at once where its connections break (gloo), and within `ddp_timeout` seconds
    otherwise. The launcher (`accelerate launch`, `torchrun`) ends the others within 30 seconds of its own accord.
    """

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as TRL does."""
        try:
            return super().train(*args, **kwargs)
        except RuntimeError as error:
            # gloo raises plain RuntimeErrors, whose text names it; NCCL has a class.
            if not isinstance(error, torch.distributed.DistError) and "gloo" not in str(error).lower():
                raise
            said = " ".join(str(error).split())
            raise LostProcessError(
                f"process {self.accelerator.process_index} waited in vain for another one, which died or hangs (its "
                f"own message says why; this one heard: {said:.200}): go on with --resume_from_checkpoint last"
            ) from error
