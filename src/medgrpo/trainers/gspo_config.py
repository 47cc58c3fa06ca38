"""GSPO's settings, and the refusal of those under which it silently is something else."""

from dataclasses import dataclass, field

from transformers.utils import logging

from medgrpo.trainers.config import MedGRPOConfig

logger = logging.get_logger(__name__)

# Losses that average over sequences, so that a sequence's ratio weighs the sequence and not its length.
SEQUENCE_LOSSES = ("grpo", "luspo")
# Four updates a batch of rollouts, as the paper's experiments.
UPDATES_PER_GENERATION = 4
WIDE_EPSILON = 0.1


@dataclass
class GSPOConfig(MedGRPOConfig):
    """Settings of `GSPOTrainer`, with the defaults of Zheng et al., Group Sequence Policy Optimization
    (arXiv 2507.18071): one ratio a sequence, clipped at 3e-4 below and 4e-4 above 1, four updates a generation.

    Raises `ValueError` for settings under which GSPO is not itself: another `importance_sampling_level`, a
    `loss_type` that sums over tokens (each sequence then weighs as much as it is long), and rollouts that serve
    a single update (every ratio is then exactly 1, nothing is clipped, and GSPO equals GRPO). An epsilon
    above 0.1, at which next to nothing is clipped, is warned about.
    """

    importance_sampling_level: str = field(
        default="sequence", metadata={"help": "One ratio a sequence: what makes it GSPO."}
    )
    epsilon: float = field(default=3e-4, metadata={"help": "Clip range of the sequence ratio below 1."})
    epsilon_high: float | None = field(default=4e-4, metadata={"help": "Clip range of the ratio above 1."})
    steps_per_generation: int | None = field(
        default=None,
        metadata={"help": "Micro-batches that one generation serves; default 4 x gradient_accumulation_steps."},
    )
    use_bias_correction_kl: bool = field(
        default=False,
        metadata={"help": "Weight the KL term by the ratio; derived for token ratios, so off for a sequence's."},
    )

    def __post_init__(self) -> None:
        if self.importance_sampling_level != "sequence":
            raise ValueError(
                f"importance_sampling_level={self.importance_sampling_level!r} is not GSPO: "
                "leave it at 'sequence', or use MedGRPOConfig for token ratios"
            )
        if self.loss_type not in SEQUENCE_LOSSES:
            raise ValueError(
                f"loss_type={self.loss_type!r} sums over tokens, so that under GSPO each sequence weighs as much "
                "as it is long: use loss_type='grpo'"
            )
        if self.steps_per_generation is None and self.generation_batch_size is None:
            self.steps_per_generation = UPDATES_PER_GENERATION * self.gradient_accumulation_steps
        super().__post_init__()
        if self.ratios_are_one:
            raise ValueError(
                f"steps_per_generation={self.steps_per_generation} with gradient_accumulation_steps="
                f"{self.gradient_accumulation_steps} and num_iterations={self.num_iterations} serves a single update: "
                "every ratio is exactly 1 and GSPO equals GRPO; raise steps_per_generation to "
                f"{2 * self.gradient_accumulation_steps} or more"
            )
        if max(self.epsilon, self.epsilon_high or 0.0) > WIDE_EPSILON:
            logger.warning_once(
                f"epsilon={self.epsilon}, epsilon_high={self.epsilon_high}: a sequence's ratio is a geometric mean "
                f"and hardly leaves 1 by more than {WIDE_EPSILON}, so next to nothing is clipped; the paper's are "
                "3e-4 and 4e-4"
            )
