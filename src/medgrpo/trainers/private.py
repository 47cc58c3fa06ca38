"""What a run leaves behind tells no token and gives a terminal no command."""

from collections import deque
from pathlib import Path
from typing import Any

from transformers.trainer import TRAINING_ARGS_NAME
from trl import GRPOTrainer

from medgrpo.plain_text import visible


class PrivateGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer` without `training_args.bin`, and with completions that are safe to print.

    The file is a pickle, which runs code when it is loaded, and holds `hub_token` and the paths of this machine;
    nothing reads it: `run.json` has the settings. Control characters of a completion (a terminal's commands) are
    written out in the printed table and in the completions that are saved with it.
    """

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model without that file; the first of a trainer's bases, so that none writes it afterwards."""
        super().save_model(output_dir, _internal_call)
        (Path(output_dir or self.args.output_dir) / TRAINING_ARGS_NAME).unlink(missing_ok=True)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, with TRL's table of completions made visible."""
        for name in ("prompt", "completion"):
            shown = self._logs[name]
            self._logs[name] = deque(map(_visible, shown), maxlen=shown.maxlen)
        super().log(logs, start_time)


def _visible(text: Any) -> Any:
    """A text, or the texts of a list of messages."""
    if isinstance(text, str):
        return visible(text)
    if isinstance(text, list):
        return [{**turn, "content": _visible(turn.get("content"))} for turn in text]
    return text
