"""Nothing goes to the Hub before its evaluation is known, and never a run's whole folder."""

from typing import Any, NoReturn

from transformers.utils import logging
from trl import GRPOTrainer

from medgrpo.errors import MedgrpoError

logger = logging.get_logger(__name__)


class HubGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer`, whose own pushes are left to the end of the recipe.

    With `push_to_hub` the Trainer makes a repository at once and uploads its whole `output_dir` at every
    checkpoint and at `save_model`: the samples with the exam's text, the logs, `training_args.bin`, and TRL's card.
    Here it uploads nothing: the recipes push when the verdict is known, and `medgrpo push` does for any run.
    """

    def init_hf_repo(self, token: str | None = None, private: bool | None = None) -> None:
        """Make no repository yet."""
        if self.is_world_process_zero():
            logger.warning(
                "push_to_hub: nothing is uploaded while training; a recipe pushes at its end, any other run is "
                f"pushed with `medgrpo push {self.args.output_dir} --repo-id OWNER/NAME`"
            )

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save, and push nothing."""
        super().save_model(output_dir, _internal_call=True)

    def push_to_hub(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse, with the command that pushes with the evaluation."""
        raise MedgrpoError(
            "trainer.push_to_hub() would upload the run's whole folder, samples and logs with it: use "
            f"`medgrpo push {self.args.output_dir} --repo-id OWNER/NAME`"
        )

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Upload no checkpoint."""
