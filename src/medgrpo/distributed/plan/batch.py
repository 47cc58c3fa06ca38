"""How many completions and tokens an optimizer step, a micro-batch and a generation have."""

from dataclasses import dataclass
from math import ceil
from typing import Any

from medgrpo.errors import MedgrpoError


@dataclass(frozen=True)
class Batch:
    """TRL's batch arguments, in completions, and the lengths, in tokens."""

    per_device: int = 1
    """Completions of one micro-batch on one GPU (`per_device_train_batch_size`)."""
    accumulation: int = 1
    """n: micro-batches of an optimizer step (`gradient_accumulation_steps`)."""
    steps_per_generation: int = 1
    """Micro-batches, not optimizer steps, that one generation serves."""
    num_generations: int = 16
    """G: completions of a prompt."""
    prompt: int = 1024
    """P: tokens of the longest prompt."""
    completion: int = 3072
    """C: tokens of the longest completion."""
    reference: bool = True
    """Whether beta > 0, so that a reference model is held and run."""
    old_logps: bool = True
    """Whether rollouts are scored once more before the first update."""
    checkpointing: bool = True
    """Gradient checkpointing: a layer keeps only its input and is run again in the backward pass."""
    shared_prefix: bool = False
    """Whether a prompt is run once for its completions in a micro-batch."""
    sft: int = 0
    """CHORD's SFT samples beside a micro-batch on one GPU."""
    sft_length: int = 4096
    """Tokens of the longest SFT sample."""

    def __post_init__(self) -> None:
        least = {"per_device": 1, "accumulation": 1, "steps_per_generation": 1, "num_generations": 1}
        for name, smallest in {**least, "prompt": 1, "completion": 1, "sft": 0, "sft_length": 2}.items():
            if getattr(self, name) < smallest:
                raise MedgrpoError(f"{name.replace('_', ' ')} has to be at least {smallest}, got {getattr(self, name)}")

    @property
    def prompts_run(self) -> int:
        """Prompts of a micro-batch that go through the model."""
        return ceil(self.per_device / self.num_generations) if self.shared_prefix else self.per_device

    @property
    def tokens(self) -> int:
        """T: tokens of a micro-batch on one GPU, each padded to its longest length, SFT samples left out."""
        return self.prompts_run * self.prompt + self.completion_tokens

    @property
    def completion_tokens(self) -> int:
        """Tokens of a micro-batch that the LM head scores."""
        return self.per_device * self.completion

    @property
    def sft_tokens(self) -> int:
        """Tokens of a micro-batch's SFT samples."""
        return self.sft * self.sft_length

    @property
    def attended_pairs(self) -> float:
        """Token pairs that causal attention forms in a micro-batch."""
        own = self.prompts_run * self.prompt**2 / 2
        crossed = self.per_device * (self.completion * self.prompt + self.completion**2 / 2)
        return own + crossed + self.sft * self.sft_length**2 / 2

    @property
    def forward_passes(self) -> int:
        """Passes without gradients over each completion: old log-probabilities and reference."""
        return self.old_logps + self.reference

    def global_batch(self, processes: int) -> int:
        """Completions of an optimizer step."""
        return self.per_device * self.accumulation * processes

    def generation_batch(self, processes: int) -> int:
        """Completions of a generation (TRL's `generation_batch_size`)."""
        return self.per_device * self.steps_per_generation * processes

    def check(self, processes: int) -> None:
        """Raise `MedgrpoError` where TRL would refuse: whole groups have to make up a generation."""
        rollouts = self.generation_batch(processes)
        if rollouts % self.num_generations:
            raise MedgrpoError(
                f"a generation has {self.per_device} x {self.steps_per_generation} x {processes} GPUs = {rollouts} "
                f"completions, which is no multiple of num_generations {self.num_generations}"
            )


def split_batch(global_batch: int, per_device: int, processes: int) -> int:
    """Accumulation steps that make `global_batch` completions; raises `MedgrpoError` where they don't come out even."""
    if global_batch < 1 or per_device < 1 or global_batch % (per_device * processes):
        fits = [n for n in range(1, processes + 1) if global_batch > 0 and global_batch % n == 0]
        near = f"; {global_batch} goes over {fits[-1]} GPUs evenly" if fits else ""
        raise MedgrpoError(
            f"--batch {global_batch} completions don't divide over {processes} training GPUs x {per_device} in a "
            f"micro-batch{near}: change --batch, --micro-batch or the number of nodes"
        )
    return global_batch // (per_device * processes)


def batch_of(settings: dict[str, Any]) -> Batch:
    """The batch that an experiment's settings mean, with the recipes' defaults for what they leave out."""
    accumulation = _whole(settings, "gradient_accumulation_steps", 1)
    per_device = _whole(settings, "per_device_train_batch_size", 16)
    steps = _whole(settings, "steps_per_generation", accumulation)
    completion = _whole(settings, "max_completion_length", 512)
    longest = _whole(settings, "vllm_max_model_length", completion + 1024)
    if longest <= completion:
        raise MedgrpoError(f"vllm_max_model_length {longest} leaves no room for a prompt beside {completion} tokens")
    served = bool(settings.get("use_vllm", False))
    corrected = served and settings.get("vllm_importance_sampling_correction", True)
    reused = accumulation % (steps * _whole(settings, "num_iterations", 1)) != 0
    sft = _whole(settings, "chord_sft_per_device_train_batch_size", 1) if settings.get("chord_sft_dataset") else 0
    return Batch(
        per_device=per_device,
        accumulation=accumulation,
        steps_per_generation=steps,
        num_generations=_whole(settings, "num_generations", 16),
        prompt=longest - completion,
        completion=completion,
        reference=_number(settings, "beta", 0.1) > 0,
        old_logps=bool(reused or corrected),
        checkpointing=bool(settings.get("gradient_checkpointing", True)),
        shared_prefix=bool(settings.get("shared_prefix", True)),
        sft=sft,
        sft_length=_whole(settings, "chord_sft_max_length", 4096),
    )


def _number(settings: dict[str, Any], name: str, default: float) -> float:
    value = settings.get(name, default)
    try:
        return float(value)  # YAML reads 1e-3 as a word
    except (TypeError, ValueError) as error:
        raise MedgrpoError(f"{name} has to be a number, got {value!r}") from error


def _whole(settings: dict[str, Any], name: str, default: int) -> int:
    value = settings.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise MedgrpoError(f"{name} has to be a whole number, got {value!r}")
    return value
