"""Rollouts that prefill a prompt once are the ordinary rollouts, and what can't be shared is generated as ever."""

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from prefix_models import MODELS, build
from small_model import build_tokenizer
from transformers import GenerationConfig, PreTrainedModel

from medgrpo import MedGRPOConfig, MedGRPOTrainer
from medgrpo.trainers.shared_prefill import prompts_prefilled_once

# Groups of three, one and two, not side by side, of four lengths, left-padded.
PROMPTS = [[5, 6, 7, 8, 9, 10, 11, 12], [13, 14], [5, 6, 7, 8, 9, 10, 11, 12], [15, 16, 17, 18, 19], [13, 14]]
PROMPTS += [[20], [5, 6, 7, 8, 9, 10, 11, 12]]
GREEDY = {"do_sample": False}
SAMPLED = {"do_sample": True, "temperature": 0.9, "top_k": 0, "top_p": 1.0}


class Prefills:
    """Counts the rows of the first pass of each generation."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.rows: list[int] = []
        model.base_model.register_forward_pre_hook(self._hear, with_kwargs=True)

    def _hear(self, module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        if ids.shape[1] > 1:
            self.rows.append(len(ids))


def left_padded(prompts: list[list[int]]) -> dict[str, torch.Tensor]:
    width = max(map(len, prompts))
    return {
        "input_ids": torch.tensor([[0] * (width - len(ids)) + ids for ids in prompts]),
        "attention_mask": torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in prompts]),
    }


def generate(model: PreTrainedModel, prompts: list[list[int]], **settings: Any) -> list[list[int]]:
    torch.manual_seed(4)
    config = GenerationConfig(max_new_tokens=12, pad_token_id=0, eos_token_id=1, **settings)
    with torch.no_grad():
        return model.generate(**left_padded(prompts), generation_config=config).tolist()


@pytest.mark.parametrize("settings", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("name", MODELS)
def test_completions_are_the_ordinary_ones(name: str, settings: dict[str, Any]) -> None:
    model = build(name).eval()
    expected = generate(model, PROMPTS, **settings)
    prefills = Prefills(model)
    with prompts_prefilled_once(model):
        assert generate(model, PROMPTS, **settings) == expected
    assert prefills.rows == [4]
    assert generate(model, PROMPTS, **settings) == expected
    assert prefills.rows == [4, 7]  # and afterwards as before
    assert len({tuple(row[8:]) for row in expected}) > 3


def test_prompts_that_differ_in_a_token_or_in_padding_alone_are_not_shared() -> None:
    model = build("qwen3").eval()
    # The last two have the same columns of ids, because padding is a token like any other.
    prompts = [[5, 6, 7], [5, 6, 8], [0, 6, 7], [6, 7]]
    expected = generate(model, prompts, **SAMPLED)
    prefills = Prefills(model)
    with prompts_prefilled_once(model):
        assert generate(model, prompts, **SAMPLED) == expected
    assert prefills.rows == [4]


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"cache_implementation": "static"}, "StaticCache"), ({"use_cache": False}, "no cache")],
)
def test_a_cache_that_cannot_be_repeated_is_filled_as_ever(settings: dict[str, Any], said: str, caplog) -> None:
    model = build("qwen3").eval()
    expected = generate(model, PROMPTS, **GREEDY, **settings)
    prefills = Prefills(model)
    with caplog.at_level("WARNING"), prompts_prefilled_once(model):
        assert generate(model, PROMPTS, **GREEDY, **settings) == expected
    assert set(prefills.rows) == {7}
    assert said in caplog.text


def test_prompts_of_one_length_come_without_a_mask() -> None:
    model = build("qwen3").eval()
    prompts = [[5, 6, 7], [8, 9, 10], [5, 6, 7]]
    expected = generate(model, prompts, **SAMPLED)
    prefills = Prefills(model)
    with prompts_prefilled_once(model):
        assert generate(model, prompts, **SAMPLED) == expected
    assert prefills.rows == [2]


def test_chunks_of_a_long_prompt() -> None:
    model = build("qwen3").eval()
    expected = generate(model, PROMPTS, **GREEDY)
    with prompts_prefilled_once(model):
        assert generate(model, PROMPTS, **GREEDY, prefill_chunk_size=3) == expected


@pytest.mark.parametrize(("name", "adapter"), [("qwen3", True), ("qwen3_next", False)])
def test_a_training_draws_the_same_rollouts(tmp_path: Path, name: str, adapter: bool) -> None:
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM") if adapter else None

    def train(shared: bool) -> tuple[list[str], list[int]]:
        seen: list[str] = []

        def reward(completions: list[str], **columns: Any) -> list[float]:
            seen.extend(completions)
            return [float(len(completion) % 5) for completion in completions]

        model = build(name)
        prefills = Prefills(model)
        trainer = MedGRPOTrainer(
            model=model,
            processing_class=build_tokenizer(),
            reward_funcs=[reward],
            peft_config=lora,
            train_dataset=Dataset.from_dict({"prompt": ["question a", "question bb", "question ccc", "question"]}),
            args=MedGRPOConfig(
                output_dir=str(tmp_path / f"{shared}"),
                per_device_train_batch_size=8,
                num_generations=4,
                max_completion_length=6,
                max_steps=3,
                beta=0.0,
                learning_rate=1e-3,
                optim="sgd",
                shared_prefix=shared,
                report_to="none",
                save_strategy="no",
                log_completions=False,
                disable_tqdm=True,
            ),
        )
        prefills.rows.clear()
        trainer.train()
        return seen, prefills.rows

    ordinary, _ = train(False)
    shared, rows = train(True)
    assert shared == ordinary
    assert len(set(shared)) > 8
    assert 2 in rows  # two prompts, four completions each
