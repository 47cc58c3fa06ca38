"""MO-GRPO's settings, and the refusal of those under which it silently is something else."""

import math
from dataclasses import dataclass, field

from medgrpo.trainers.config import MedGRPOConfig

ADVANTAGES = ("mo_grpo", "gdpo", "grpo")


@dataclass
class MOGRPOConfig(MedGRPOConfig):
    """Settings of `MOGRPOTrainer`: how several rewards become one advantage.

    `advantage` is MO-GRPO (arXiv 2509.22047), GDPO (arXiv 2601.05242), or GRPO, which sums first and is TRL's own
    code; `adapt_reward_weights` adds AW-GRPO's weights to any of them (`advantage="grpo"` with it is AW-GRPO as
    published). Everything else is as in `MedGRPOConfig`, so `importance_sampling_level="sequence"` makes it GSPO
    with these advantages. A config that combines methods lists this class last: `class C(CHORDConfig, MOGRPOConfig)`.

    Raises `ValueError` for an unknown `advantage`, for `scale_rewards` and `multi_objective_aggregation` that
    MO-GRPO and GDPO would ignore, and for weights that are not finite or can't adapt.
    """

    advantage: str = field(
        default="mo_grpo",
        metadata={"help": "How rewards become advantages.", "choices": list(ADVANTAGES)},
    )
    adapt_reward_weights: bool = field(
        default=False, metadata={"help": "AW-GRPO: move weight from rewards that rise to those that don't."}
    )
    reward_weight_window: int = field(
        default=12, metadata={"help": "Batches of rollouts over which a reward's slope is taken."}
    )

    def __post_init__(self) -> None:
        if self.advantage not in ADVANTAGES:
            raise ValueError(f"advantage={self.advantage!r}: has to be one of {', '.join(ADVANTAGES)}")
        super().__post_init__()
        if self.advantage != "grpo" and self.scale_rewards != "group":
            raise ValueError(
                f"scale_rewards={self.scale_rewards!r} would be ignored: {self.advantage} divides each reward by its "
                "group's standard deviation; leave it out, or use advantage='grpo'"
            )
        if self.advantage != "grpo" and self.multi_objective_aggregation != "sum_then_normalize":
            raise ValueError(
                f"multi_objective_aggregation={self.multi_objective_aggregation!r} would be ignored: it is TRL's GDPO; "
                "say advantage='gdpo' for that, or leave it out"
            )
        weights = self.reward_weights or []
        if not all(math.isfinite(weight) for weight in weights):
            raise ValueError(f"reward_weights={weights}: have to be finite")
        if self.adapt_reward_weights and not all(weight > 0 for weight in weights):
            raise ValueError(f"reward_weights={weights}: have to be above 0 to adapt")
        if self.reward_weight_window < 2:
            raise ValueError(f"reward_weight_window={self.reward_weight_window}: a slope takes at least 2 batches")
