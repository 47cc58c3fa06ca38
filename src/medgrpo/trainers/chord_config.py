"""CHORD's settings, under the names that ms-swift's users know."""

from dataclasses import dataclass, field

from transformers.utils import logging

from medgrpo.trainers.config import MedGRPOConfig

logger = logging.get_logger(__name__)

REENTRANT = (
    "gradient checkpointing with use_reentrant=True does not go with CHORD, whose loss runs the model twice before "
    "one backward pass: reentrant checkpointing then reports a parameter's gradient twice under DDP and drops the "
    "gradient of the router's auxiliary loss; set use_reentrant to False"
)


@dataclass
class CHORDConfig(MedGRPOConfig):
    """Settings of `CHORDTrainer`: L = (1 - mu) L_GRPO + mu L_SFT (Zhang et al., arXiv 2508.11408).

    mu rises from 0 to `chord_mu_peak` over `chord_mu_warmup_steps` optimizer steps, falls along a cosine to
    `chord_mu_valley` over `chord_mu_decay_steps`, and stays there. The defaults are those of the experiment that
    the project was made for (0.1 to 0.01 over 500 steps, phi off). The paper's own variants: CHORD-mu 0.9 to 0.05
    over 200 steps; CHORD-phi a constant 0.1 (peak = valley, no decay) with phi on.

    Raises `ValueError` for a peak or valley outside [0, 1], a valley above the peak, negative steps, and reentrant
    gradient checkpointing.
    """

    chord_sft_dataset: str | None = field(
        default=None,
        metadata={"help": "JSONL to be taught from: `prompt` and `completion`, or `messages`, a line."},
    )
    chord_sft_per_device_train_batch_size: int = field(
        default=1,
        metadata={
            "help": "SFT samples a micro-batch on each device. Their logits over the whole vocabulary are held at "
            "once, about four times in float32: raise it with care."
        },
    )
    chord_sft_max_length: int = field(
        default=4096,
        metadata={"help": "Tokens of the longest SFT sample, prompt included; longer ones are left out and counted."},
    )
    chord_mu_peak: float = field(default=0.1, metadata={"help": "mu after the warm-up, in [0, 1]."})
    chord_mu_valley: float = field(default=0.01, metadata={"help": "mu after the decay, in [0, chord_mu_peak]."})
    chord_mu_warmup_steps: int = field(default=0, metadata={"help": "Optimizer steps over which mu rises from 0."})
    chord_mu_decay_steps: int = field(
        default=500,
        metadata={"help": "Optimizer steps over which mu falls; 0: mu is the valley right after the warm-up."},
    )
    chord_enable_phi_function: bool = field(
        default=False, metadata={"help": "Weight each taught token by p (1 - p), its uncertainty."}
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("chord_mu_peak", "chord_mu_valley"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} has to lie in [0, 1], got {getattr(self, name)}")
        if self.chord_mu_valley > self.chord_mu_peak:
            raise ValueError(
                f"chord_mu_valley={self.chord_mu_valley} lies above chord_mu_peak={self.chord_mu_peak}: mu falls "
                "from the peak to the valley"
            )
        for name in ("chord_mu_warmup_steps", "chord_mu_decay_steps"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} has to be 0 or more, got {getattr(self, name)}")
        for name, least in (("chord_sft_per_device_train_batch_size", 1), ("chord_sft_max_length", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} has to be at least {least}, got {getattr(self, name)}")
        if self.chord_mu_decay_steps == 0 and self.chord_mu_peak != self.chord_mu_valley:
            logger.warning(
                f"chord_mu_decay_steps=0: after {self.chord_mu_warmup_steps} steps mu is chord_mu_valley="
                f"{self.chord_mu_valley}, and chord_mu_peak={self.chord_mu_peak} is never reached"
            )
        self.refuse_reentrant()

    def refuse_reentrant(self) -> None:
        """Raise `ValueError` where reentrant gradient checkpointing is asked for."""
        # The second is the first's older name; TRL still writes to it.
        options = [self.activation_checkpointing_kwargs, self.gradient_checkpointing_kwargs]
        if self.activation_checkpointing and any((given or {}).get("use_reentrant") for given in options):
            raise ValueError(REENTRANT)
