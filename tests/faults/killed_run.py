"""A training run that says where it is, so that it can be killed there."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trainers"))

from combined_run import TEXTS, ZERO3, CombinedConfig, CombinedTrainer
from datasets import Dataset
from example_rewards import hash_reward, share_of_vowels
from faulty_rewards import FAULTY_REWARDS
from transformers import AutoTokenizer, TrainerCallback

from medgrpo import MedGRPOConfig, MedGRPOTrainer

STEPS = 8
SETTINGS: dict[str, Any] = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 2,
    # Rollouts serve four steps, lines are logged every second one, checkpoints come at each: none fits another.
    "steps_per_generation": 4,
    "num_iterations": 2,
    "num_generations": 4,
    "max_completion_length": 6,
    "max_steps": STEPS,
    "logging_steps": 2,
    "completions_every": 3,
    "num_completions_to_print": 1,
    "save_strategy": "steps",
    "save_steps": 1,
    "save_total_limit": 2,
    "eval_strategy": "steps",
    "eval_steps": 3,
    "eval_on_start": True,
    "per_device_eval_batch_size": 4,
    "learning_rate": 1e-2,
    "beta": 0.1,
    "seed": 3,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "disable_tqdm": True,
}
COMBINED = {
    "importance_sampling_level": "sequence",
    "epsilon": 0.01,
    "epsilon_high": 0.02,
    "use_bias_correction_kl": False,
    "adapt_reward_weights": True,
    "reward_weight_window": 2,
    "chord_sft_per_device_train_batch_size": 4,
    "chord_mu_warmup_steps": 2,
    "chord_mu_peak": 0.6,
    "chord_mu_decay_steps": 10,
}


class Phases:
    """Writes `+name` and `-name` to a pipe where a part of the run begins and ends."""

    def __init__(self, pipe: str | None) -> None:
        self.pipe = None if pipe is None else os.open(pipe, os.O_WRONLY)

    def say(self, word: str) -> None:
        if self.pipe is not None:
            os.write(self.pipe, f"{word}\n".encode())

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        self.say(f"+{name}")
        yield
        self.say(f"-{name}")


class AnnounceOptimizer(TrainerCallback):
    def __init__(self, phases: Phases) -> None:
        self.phases = phases

    def on_pre_optimizer_step(self, args, state, control, **kwargs) -> None:
        self.phases.say("+optimizer")

    def on_optimizer_step(self, args, state, control, **kwargs) -> None:
        self.phases.say("-optimizer")


class Announced:
    """In front of a trainer class."""

    phases: Phases

    def _generate(self, prompts):
        with self.phases.during("generation"):
            return super()._generate(prompts)

    def _save_checkpoint(self, *args):
        with self.phases.during("saving"):
            super()._save_checkpoint(*args)

    def training_step(self, *args, **kwargs):
        backward = self.accelerator.backward

        def announced(*inner, **options):
            with self.phases.during("backward"):
                backward(*inner, **options)

        self.accelerator.backward = announced
        try:
            return super().training_step(*args, **kwargs)
        finally:
            self.accelerator.backward = backward


class AnnouncedPlain(Announced, MedGRPOTrainer):
    pass


class AnnouncedCombined(Announced, CombinedTrainer):
    pass


def poison(trainer: MedGRPOTrainer, what: str, rank: int) -> None:
    """NaN from the fifth step on: in the loss, or from an operation whose forward pass is finite."""

    def due() -> bool:
        return trainer.state.global_step >= 4 and trainer.accelerator.process_index == rank

    if what == "loss":
        trainer.extend_loss = lambda loss, model, inputs: loss * float("nan") if due() else loss
    else:
        weight = trainer.model.model.norm.weight
        # The square root's derivative at 0 is infinite.
        trainer.extend_loss = lambda loss, model, inputs: (
            loss + ((weight - weight.detach()).abs().sum().sqrt() if due() else 0)
        )


def run(order: Mapping[str, Any]) -> None:
    """Train as `order` says: kind, folder, model, resume, settings, rewards, pipe."""
    combined = order["kind"] == "combined"
    trainer_class = AnnouncedCombined if combined else AnnouncedPlain
    trainer_class.phases = Phases(order.get("pipe"))
    settings = {**SETTINGS, **(COMBINED if combined else {}), **order.get("settings", {})}
    if order.get("zero3"):
        settings["deepspeed"] = ZERO3
    sft = Dataset.from_list([{"prompt": prompt, "completion": answer} for prompt, answer in TEXTS])
    questions = Dataset.from_dict({"prompt": [f"question {letter}" for letter in "abcdefghijklmn"]})
    trainer = trainer_class(
        model=order["model"],
        processing_class=AutoTokenizer.from_pretrained(order["model"]),
        reward_funcs=[share_of_vowels, hash_reward, *(FAULTY_REWARDS[name] for name in order.get("rewards", ()))],
        train_dataset=questions,
        eval_dataset=questions.select([0, 1]),
        args=(CombinedConfig if combined else MedGRPOConfig)(output_dir=order["folder"], **settings),
        **({"chord_sft_dataset": sft} if combined else {}),
    )
    trainer.add_callback(AnnounceOptimizer(trainer.phases))
    if "poison" in order:
        poison(trainer, order["poison"], order.get("poisoned_rank", 0))
    trainer.train(resume_from_checkpoint=order.get("resume"))
    trainer.save_model()
