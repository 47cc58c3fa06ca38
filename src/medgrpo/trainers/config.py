"""The settings that every method shares, with GRPO's own."""

from dataclasses import dataclass, field

import torch
from trl import GRPOConfig


@dataclass
class MedGRPOConfig(GRPOConfig):
    """Settings of `MedGRPOTrainer`: TRL's `GRPOConfig` with this project's defaults.

    The defaults are those of the experiment that the project was made for (learning rate 1e-6, beta 0.1,
    16 generations at temperature 0.9) and GRPO as DeepSeekMath (arXiv 2402.03300) states it: the mean over a
    sequence's tokens, then over sequences, clipped at 0.2. TRL's own default, `loss_type="dapo"`, sums over
    tokens instead.

    Raises `ValueError` where TRL's config does.
    """

    learning_rate: float = field(default=1e-6, metadata={"help": "Initial learning rate of AdamW."})
    beta: float = field(default=0.1, metadata={"help": "Weight of the KL term; 0 loads no reference model."})
    num_generations: int = field(default=16, metadata={"help": "Completions of a prompt: the group's size."})
    temperature: float = field(default=0.9, metadata={"help": "Temperature of the rollouts."})
    loss_type: str = field(
        default="grpo",
        metadata={"help": "How tokens are averaged: `grpo` is mean over tokens, then sequences."},
    )
    epsilon: float = field(default=0.2, metadata={"help": "Clip range of the ratio below 1, and above by default."})
    logging_steps: float = field(default=1, metadata={"help": "Every how many steps metrics are written."})
    log_completions: bool = field(
        default=True, metadata={"help": "Print and save TRL's table of prompts, completions and rewards."}
    )
    num_completions_to_print: int | None = field(default=4, metadata={"help": "Rows of the printed table."})
    completions_every: int = field(
        default=20,
        metadata={"help": "Every how many optimizer steps that table is made; TRL makes it at each log."},
    )
    diagnostics: bool = field(
        default=True, metadata={"help": "Log what docs/metrics.md lists: advantage shares, ratio spikes, ..."}
    )
    ratio_spike_threshold: float = field(
        default=2.0,
        metadata={"help": "A token's ratio above this, or below its inverse, counts as a spike in the log."},
    )
    seed: int = field(default=0, metadata={"help": "Seeds sampling, shuffling and initialisation."})

    def __post_init__(self) -> None:
        if self.completions_every < 1:
            raise ValueError(f"completions_every has to be at least 1, got {self.completions_every}")
        if not 1 < self.ratio_spike_threshold < float("inf"):
            raise ValueError(f"ratio_spike_threshold has to be above 1, got {self.ratio_spike_threshold}")
        if not torch.accelerator.is_available():
            # Said openly, because processes without a GPU find each other only when told that this is meant.
            self.use_cpu = True
            if self.bf16 is None:
                # TRL's default is bfloat16 wherever fp16 is off, which the Trainer refuses without a GPU.
                self.bf16 = False
        super().__post_init__()

    @property
    def optimizer_steps_per_generation(self) -> float:
        """Optimizer steps that one batch of rollouts serves; above 1 the later ones are off-policy."""
        return self.steps_per_generation * self.num_iterations / self.gradient_accumulation_steps

    @property
    def ratios_are_one(self) -> bool:
        """Whether every importance ratio is exactly 1: rollouts serve a single update, so nothing is clipped.

        TRL then takes the current policy as the old one. Rollouts by vLLM are corrected apart from this ratio.
        """
        return self.gradient_accumulation_steps % (self.steps_per_generation * self.num_iterations) == 0
