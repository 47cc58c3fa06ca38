"""A log as a healthy run leaves it, to be spoilt in one respect by each test."""

import random
from collections.abc import Callable
from typing import Any

from medgrpo.audit.training_log import TrainingLog

STEPS = 60
WEIGHTS = {"ophtho": 1.5, "japanese": 1.0}
ARGUMENTS = {
    "importance_sampling_level": "token",
    "epsilon": 0.2,
    "epsilon_high": None,
    "gradient_accumulation_steps": 1,
    "steps_per_generation": 4,
    "num_iterations": 1,
    "num_generations": 16,
    "max_completion_length": 512,
    "beta": 0.1,
}


def healthy_rows(seed: int = 0) -> list[dict[str, Any]]:
    """60 steps, four to a generation: rewards rise and level off, with the noise of batches of 64."""
    draw = random.Random(seed)
    rows = []
    for step in range(1, STEPS + 1):
        done = step / STEPS
        first = step % 4 == 1
        row = {
            "step": step,
            "loss": draw.gauss(0, 0.05),
            "grad_norm": draw.uniform(0.5, 1.5),
            "kl": 0.05 * done + draw.uniform(0, 0.01) + (2.5 if step == 31 else 0),
            "entropy": 0.6 - 0.3 * done + draw.gauss(0, 0.03),
            "clip_ratio/region_mean": 0.0 if first else draw.uniform(0, 0.1),
            "ratio/token_max": 1.0 if first else draw.uniform(1.1, 4),
            "ratio/token_min": 1.0 if first else draw.uniform(0.3, 0.95),
            "ratio/seq_max": 1.0 if first else draw.uniform(1.001, 1.1),
            "ratio/seq_min": 1.0 if first else draw.uniform(0.9, 0.999),
            "ratio/token_spike_share": 0.0 if first else draw.uniform(0, 0.01),
        }
        if first:
            accuracy = 0.55 + 0.2 * done + draw.gauss(0, 0.05)
            fluent = min(1.0, 0.94 + 0.04 * done + draw.gauss(0, 0.02))
            share = draw.uniform(0.55, 0.85)
            row |= {
                "rewards/ophtho/mean": accuracy,
                "rewards/japanese/mean": fluent,
                "reward": 1.5 * accuracy + fluent,
                "reward_std": 0.8,
                "frac_reward_zero_std": draw.uniform(0.1, 0.5),
                "rewards/ophtho/group_std": 0.4,
                "rewards/japanese/group_std": 0.15,
                "rewards/ophtho/frac_constant": draw.uniform(0.2, 0.5),
                "rewards/japanese/frac_constant": draw.uniform(0.6, 0.9),
                "advantage_share/ophtho": (1 + share) / 2,
                "advantage_share/japanese": (1 - share) / 2,
                "advantage_share_varying/ophtho": share,
                "advantage_share_varying/japanese": 1 - share,
                "completions/mean_length": 180 + 60 * done + draw.gauss(0, 10),
                "completions/clipped_ratio": draw.uniform(0, 0.05),
                "answers/parse_failure_rate": max(0.0, 0.1 * (1 - done) + draw.gauss(0, 0.02)),
            }
        rows.append(row)
    return rows


def healthy_log(change: Callable[[dict[str, Any], float], dict[str, Any]] | None = None, **changes: Any) -> TrainingLog:
    """The log, with `change(row, progress)` merged into each row (progress from 0 to 1)."""
    rows = healthy_rows()
    if change is not None:
        # A metric of rollouts is logged at the steps that generate only.
        rows = [
            row | {key: value for key, value in change(row, row["step"] / STEPS).items() if key in row} for row in rows
        ]
    return TrainingLog(**{"rows": rows, "weights": WEIGHTS, "arguments": ARGUMENTS, **changes})
