"""The two engines of `update_step.py`: TRL's trainer and ours, on equal models, doing one update step over and over."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch.profiler import ProfilerActivity, profile
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)
from trl import GRPOConfig, GRPOTrainer

from medgrpo import MedGRPOConfig, MedGRPOTrainer

PASSES = ("old", "reference", "update", "step")
EXPERTS = {"moe_intermediate_size": 128, "num_experts": 8, "num_experts_per_tok": 2}
DELTA_NET = {
    "shared_expert_intermediate_size": 128,
    "linear_num_value_heads": 8,
    "linear_num_key_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
}


@dataclass(frozen=True)
class Case:
    """One update step: a prompt of `prompt` tokens, and `group` completions of `completion` tokens each."""

    model: str
    prompt: int
    completion: int
    group: int
    checkpointing: bool = False
    hidden: int = 256
    layers: int = 4
    vocabulary: int = 2048

    @property
    def bound(self) -> float:
        """How many times fewer tokens there are with the prompt counted once: G (P + C) / (P + G C)."""
        return self.group * (self.prompt + self.completion) / (self.prompt + self.group * self.completion)


def build_model(case: Case, seed: int) -> PreTrainedModel:
    """The same random weights every time."""
    sizes = {
        "vocab_size": case.vocabulary,
        "hidden_size": case.hidden,
        "intermediate_size": 3 * case.hidden,
        "num_hidden_layers": case.layers,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": case.hidden // 8,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": 1,
    }
    torch.manual_seed(seed)
    if case.model == "qwen3":
        return Qwen3ForCausalLM(Qwen3Config(**sizes))
    if case.model == "qwen3_moe":
        return Qwen3MoeForCausalLM(Qwen3MoeConfig(**sizes, **EXPERTS))
    kinds = ["full_attention" if layer % 4 == 3 else "linear_attention" for layer in range(case.layers)]
    return Qwen3NextForCausalLM(Qwen3NextConfig(**sizes, **EXPERTS, **DELTA_NET, layer_types=kinds))


class PassesSeen(GRPOTrainer):
    """Tells `seen` of the passes of the old policy and of the reference."""

    seen: Callable[[str], Any]

    def _get_per_token_logps_and_entropies(self, model: torch.nn.Module, *args: Any, **kwargs: Any):
        score = super()._get_per_token_logps_and_entropies
        if torch.is_grad_enabled():
            return score(model, *args, **kwargs)
        with self.seen("reference" if model is self.ref_model else "old"):
            return score(model, *args, **kwargs)


class TRL(PassesSeen, GRPOTrainer):
    """TRL's trainer."""


class Ours(PassesSeen, MedGRPOTrainer):
    """This project's trainer."""


class Engine:
    """A trainer that scores one batch with the old policy and the reference, and updates on it, again and again."""

    def __init__(self, case: Case, trainer_class: type[PassesSeen], folder: Path) -> None:
        # The reference is loaded from there: another model, so that the loss is not 0.
        build_model(case, seed=1).save_pretrained(folder)
        model = build_model(case, seed=0)
        model.config._name_or_path = str(folder)
        config = MedGRPOConfig if issubclass(trainer_class, MedGRPOTrainer) else GRPOConfig
        self.trainer = trainer_class(
            model=model,
            processing_class=_tokenizer(case.vocabulary),
            reward_funcs=[_reward],
            rollout_func=_rollouts(case),
            train_dataset=Dataset.from_dict({"prompt": ["w2"] * 2, "answer": [[["a"]]] * 2}),
            args=config(
                output_dir=str(folder),
                per_device_train_batch_size=case.group,
                num_generations=case.group,
                max_completion_length=case.completion,
                # Rollouts serve two updates, so that the old policy has to be scored; the first is measured.
                steps_per_generation=1,
                num_iterations=2,
                loss_type="grpo",
                beta=0.1,
                temperature=0.9,
                # AdamW does all its work, and each step is the same step.
                learning_rate=0.0,
                seed=0,
                gradient_checkpointing=case.checkpointing,
                bf16=False,
                use_cpu=not torch.cuda.is_available(),
                report_to="none",
                save_strategy="no",
                log_completions=False,
                disable_tqdm=True,
            ),
        )
        if case.checkpointing:
            self.trainer.model.gradient_checkpointing_enable({"use_reentrant": False})
        self.trainer.current_gradient_accumulation_steps = 1
        self.optimizer = self.trainer.create_optimizer()
        for parameter in self.trainer.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        self.optimizer.step()  # its state is there from the beginning
        self.optimizer.zero_grad()
        self.rows = [{"prompt": "w2", "answer": [["a"]]} for _ in range(case.group)]
        self.loss = float("nan")
        self.gradient = torch.empty(0)

    def step(self, seen: Callable[[str], Any]) -> None:
        """Score, compute the loss, backpropagate and step; keeps the loss and the gradient."""
        trainer = self.trainer
        trainer.seen = seen
        trainer._step = 0
        trainer.model.train()
        with seen("step"):
            trainer._prepare_inputs(self.rows)
            trainer._step = 1  # an update takes the rollouts that are there
            with seen("update"):
                self.loss = trainer.training_step(trainer.model, self.rows, None).item()
                self.optimizer.step()
        parts = [parameter.grad.flatten() for parameter in trainer.model.parameters() if parameter.grad is not None]
        self.gradient = torch.cat(parts)
        self.optimizer.zero_grad()

    def seconds(self) -> dict[str, float]:
        """One step: seconds of each of `PASSES`; processor time on a CPU, wall time on a GPU."""
        taken: dict[str, float] = {}

        @contextmanager
        def seen(name: str) -> Iterator[None]:
            began = _clock()
            yield
            taken[name] = _clock() - began

        self.step(seen)
        return taken

    def peaks(self) -> dict[str, float]:
        """One step: the most MiB alive in each pass, weights and optimizer state included.

        On a CPU every allocation and release is counted, so that the figure is exact and repeats itself.
        """
        found: dict[str, float] = {}
        resident = self._resident()

        @contextmanager
        def seen(name: str) -> Iterator[None]:
            if name == "step":
                yield
                found[name] = max(found.values())
            elif torch.cuda.is_available():
                torch.cuda.reset_peak_memory_stats()
                yield
                found[name] = torch.cuda.max_memory_allocated() / 2**20
            else:
                with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
                    yield
                alive = highest = 0
                for event in profiler.profiler.kineto_results.events():
                    if event.name() == "[memory]":
                        alive += event.nbytes()
                        highest = max(highest, alive)
                found[name] = (resident + highest) / 2**20

        self.step(seen)
        return found

    def _resident(self) -> int:
        kept = [*self.trainer.model.parameters(), *self.trainer.ref_model.parameters()]
        for state in self.optimizer.state.values():
            kept += [value for value in state.values() if isinstance(value, torch.Tensor)]
        storages = {value.untyped_storage().data_ptr(): value.untyped_storage().nbytes() for value in kept}
        return sum(storages.values())


def _clock() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return time.process_time()


def _rollouts(case: Case) -> Callable[[list[str], GRPOTrainer], dict[str, Any]]:
    generator = torch.Generator().manual_seed(1)
    prompt = torch.randint(2, case.vocabulary, (case.prompt,), generator=generator).tolist()
    completions = torch.randint(2, case.vocabulary, (case.group, case.completion), generator=generator).tolist()

    def rollouts(prompts: list[str], trainer: GRPOTrainer) -> dict[str, Any]:
        return {"prompt_ids": [prompt for _ in prompts], "completion_ids": completions, "logprobs": None}

    return rollouts


def _reward(completion_ids: list[list[int]], **columns: Any) -> list[float]:
    return [float(ids[0] % 7) for ids in completion_ids]


def _tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    words = {"<pad>": 0, "<eos>": 1, **{f"w{number}": number for number in range(2, vocabulary)}}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="w2")), pad_token="<pad>", eos_token="<eos>"
    )
