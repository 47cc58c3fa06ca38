"""GSPO: GRPO with one importance ratio a sequence."""

from typing import Any

from medgrpo.trainers.base import MedGRPOTrainer
from medgrpo.trainers.gspo_config import GSPOConfig


class GSPOTrainer(MedGRPOTrainer):
    """Group Sequence Policy Optimization (Zheng et al., arXiv 2507.18071).

    The ratio of a sequence is the geometric mean of its tokens' ratios and multiplies, clipped, all of them:
    a single token at which another expert was chosen can't be thrown out of proportion. TRL computes it for
    `importance_sampling_level="sequence"`; what this class adds is a config that keeps it GSPO.
    """

    _tag_names = ["trl", "gspo", "medgrpo"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(self.args, GSPOConfig):
            raise TypeError(f"args has to be a GSPOConfig, got {type(self.args).__name__}")
