"""AW-GRPO: reward weights that adapt to how fast each reward is being learned."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

SMALLEST, LARGEST = 0.1, 0.8


def reward_slope(means: Sequence[float | None]) -> float:
    """Least-squares slope of a reward's batch means, per batch; None (every completion abstained) is passed over.

    0 for fewer than two means.
    """
    points = [(batch, mean) for batch, mean in enumerate(means) if mean is not None]
    if len(points) < 2:
        return 0.0
    x, y = np.array(points).T
    x = x - x.mean()
    return float(x @ (y - y.mean()) / (x @ x))


def adapt_weights(weights: Sequence[float], slopes: Sequence[float]) -> list[float]:
    """One step of AW-GRPO: `w_i exp(-slope_i)` of weights that sum to 1, clipped to 0.1-0.8, summing to 1 again.

    A reward that rises loses weight to one that doesn't.
    """
    # From exponent -50 on a weight is at its bound anyway; beyond 700 exp would overflow.
    grown = [weight * math.exp(max(-50.0, min(50.0, -slope))) for weight, slope in zip(weights, slopes, strict=True)]
    clipped = [min(max(weight, SMALLEST), LARGEST) for weight in grown]
    return [weight / sum(clipped) for weight in clipped]


class AdaptiveWeights(TrainerCallback, ExportableState):
    """The weights of a run, adapted at each batch of rollouts and kept in the checkpoint's trainer state.

    AW-GRPO (EMNLP 2025 Industry): the slope of each reward's mean over the last `window` batches of rollouts,
    and `adapt_weights`. Until a reward has that many means its slope counts as 0. The weights keep the sum that
    they start with, so that the advantages keep their size.
    """

    def __init__(self, weights: Sequence[float], window: int) -> None:
        self.start = list(weights)
        self.window = window
        self.shares = [weight / sum(weights) for weight in weights]
        self.means: list[list[float | None]] = [[] for _ in weights]

    def observe(self, means: Sequence[float]) -> list[float]:
        """Take in the rewards' means over one batch (NaN = every completion abstained); return the new weights."""
        for past, mean in zip(self.means, means, strict=True):
            past.append(None if math.isnan(mean) else mean)
            while sum(value is not None for value in past) > self.window or past[:1] == [None]:
                past.pop(0)
        full = [sum(value is not None for value in past) == self.window for past in self.means]
        slopes = [reward_slope(past) if ready else 0.0 for past, ready in zip(self.means, full, strict=True)]
        if any(full):
            self.shares = adapt_weights(self.shares, slopes)
        return self.weights

    @property
    def weights(self) -> list[float]:
        """The weights as they stand."""
        return [share * sum(self.start) for share in self.shares]

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {
            "args": {"weights": self.start, "window": self.window},
            "attributes": {"shares": self.shares, "means": self.means},
        }

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take up the checkpoint's weights where the run resumes from one that has them."""
        # The Trainer itself restores callbacks only with restore_callback_states_from_checkpoint.
        saved = state.stateful_callbacks.setdefault(type(self).__name__, self.state())
        if state.global_step == 0:
            # Another run of the same trainer may have gone before.
            self.shares = [weight / sum(self.start) for weight in self.start]
            self.means = [[] for _ in self.start]
            state.stateful_callbacks[type(self).__name__] = self.state()
        else:
            self.shares = list(saved["attributes"]["shares"])
            self.means = [list(past) for past in saved["attributes"]["means"]]
