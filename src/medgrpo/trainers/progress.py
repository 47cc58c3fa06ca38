"""A progress bar that says how the rewards stand, in place of a printed dictionary a step."""

from typing import Any

from transformers import ProgressCallback, TrainerControl, TrainerState, TrainingArguments

SHOWN = {"reward": "reward", "kl": "kl", "clip_ratio/region_mean": "clipped", "completions/mean_length": "length"}


class RewardProgress(ProgressCallback):
    """Shows the last values of a few metrics on the bar; all of them are in `metrics.jsonl`."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: dict[str, str] = {}

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Update the bar's values; a metric that this step did not log keeps its last one."""
        if not state.is_world_process_zero or self.training_bar is None:
            return
        for key, name in SHOWN.items():
            value = (logs or {}).get(key)
            if value is not None:
                self.shown[name] = f"{value:.3g}"
        self.training_bar.set_postfix(self.shown)
