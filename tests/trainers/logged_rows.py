"""A callback that keeps what was logged."""

from transformers import TrainerCallback


class Listener(TrainerCallback):
    """Appends each logged row, with its step, to a list."""

    def __init__(self, rows: list[dict]) -> None:
        self.rows = rows

    def on_log(self, args, state, control, logs=None, **kwargs) -> None:
        self.rows.append({"step": state.global_step, **logs})
