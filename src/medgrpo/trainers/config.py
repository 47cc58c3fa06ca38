"""The settings that every method shares, with GRPO's own."""

from dataclasses import dataclass, field

import torch
from trl import GRPOConfig


@dataclass
class MedGRPOConfig(GRPOConfig):
    """Settings of `MedGRPOTrainer`: TRL's `GRPOConfig` with this project's defaults.

    The defaults are those of the experiment that the project was made for (learning rate 1e-6, beta 0.1,
    16 generations at temperature 0.9, a group a micro-batch) and GRPO as DeepSeekMath (arXiv 2402.03300) states
    it: the mean over a sequence's tokens, then over sequences, clipped at 0.2. TRL's own default,
    `loss_type="dapo"`, sums over tokens instead.

    Raises `ValueError` where TRL's config does.
    """

    learning_rate: float = field(default=1e-6, metadata={"help": "Initial learning rate of AdamW."})
    beta: float = field(default=0.1, metadata={"help": "Weight of the KL term; 0 loads no reference model."})
    per_device_train_batch_size: int = field(
        default=16, metadata={"help": "Completions of a micro-batch on each device: one group by default."}
    )
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
    reward_timeout: float | None = field(
        default=900.0,
        metadata={"help": "Seconds that a reward function may take for a batch; the run then saves and stops."},
    )
    shared_prefix: bool = field(
        default=True,
        metadata={
            "help": "Run a prompt once for the completions of a micro-batch that share it; same numbers, faster."
        },
    )
    # TRL's field takes a single name on the command line.
    report_to: list[str] = field(
        default_factory=lambda: ["none"],
        metadata={"help": "Where metrics go beside metrics.jsonl: tensorboard, trackio, wandb, ... or none, or all."},
    )
    project: str = field(default="medgrpo", metadata={"help": "The project's name at trackio and W&B."})
    seed: int = field(default=0, metadata={"help": "Seeds sampling, shuffling and initialisation."})
    hub_private_repo: bool | None = field(
        default=True, metadata={"help": "Whether a repository that push_to_hub makes is private."}
    )
    vllm_sync: str | None = field(
        default=None,
        metadata={
            "help": "How a vLLM server gets the weights: `nccl` (GPU to GPU) or `filesystem` (a folder that both "
            "see); default: nccl where there are GPUs."
        },
    )
    vllm_sync_dir: str | None = field(
        default=None,
        metadata={
            "help": "The folder of vllm_sync=filesystem, on storage that trainer and server share; default: "
            "weight_sync in output_dir."
        },
    )
    vllm_server_wait: float = field(
        default=600.0,
        metadata={"help": "Seconds to wait for a rollout server that is away, before the run is saved and stops."},
    )
    vllm_request_timeout: float = field(
        default=600.0,
        metadata={"help": "Seconds after which a request that the server does not answer counts as hung."},
    )
    vllm_sync_tolerance: float | None = field(
        default=None,
        metadata={
            "help": "How far the server's log-probabilities may be from the trainer's after a sync, in nats; "
            "default: 1e-3 in float32 (the largest), 0.1 in 16 bits (the mean)."
        },
    )
    vllm_api_key_file: str | None = field(
        default=None,
        metadata={"help": "File with the server's API key; default: MEDGRPO_VLLM_API_KEY, where it is set."},
    )

    def __post_init__(self) -> None:
        if self.completions_every < 1:
            raise ValueError(f"completions_every has to be at least 1, got {self.completions_every}")
        if not 1 < self.ratio_spike_threshold < float("inf"):
            raise ValueError(f"ratio_spike_threshold has to be above 1, got {self.ratio_spike_threshold}")
        if self.vllm_sync is None:
            self.vllm_sync = "nccl" if torch.cuda.is_available() else "filesystem"
        if self.vllm_sync not in ("nccl", "filesystem"):
            raise ValueError(f"vllm_sync has to be nccl or filesystem, got {self.vllm_sync!r}")
        for name in ("vllm_server_wait", "vllm_request_timeout"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name} has to be a number of seconds above 0, got {getattr(self, name)}")
        if self.use_vllm and self.vllm_request_timeout >= self.ddp_timeout:
            raise ValueError(
                f"vllm_request_timeout {self.vllm_request_timeout:g} has to be below ddp_timeout {self.ddp_timeout}: "
                "the other processes wait as long for the first one"
            )
        if self.reward_timeout is not None and not self.reward_timeout > 0:
            raise ValueError(f"reward_timeout has to be above 0 seconds, got {self.reward_timeout}")
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
