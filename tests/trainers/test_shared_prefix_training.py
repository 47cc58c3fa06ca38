"""Whole trainings that run prompts once end where TRL's own passes end, and what can't be packed takes those."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from prefix_models import MODELS, build
from small_model import build_tokenizer
from transformers import MixtralConfig, MixtralForCausalLM, PreTrainedModel, Qwen3ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention
from trl import GRPOTrainer

from medgrpo import MedGRPOConfig, MedGRPOTrainer
from medgrpo.errors import MedgrpoError
from medgrpo.trainers.shared_prefix import SharedPrefixGRPOTrainer, attention, mixers
from medgrpo.trainers.shared_prefix import trainer as trainer_module
from medgrpo.trainers.shared_prefix.layout import PackedRows

SGD = {"optim": "sgd", "learning_rate": 0.2, "max_grad_norm": 1e9}


class TrlPasses(SharedPrefixGRPOTrainer):
    """The same micro-batches, and TRL's passes over them."""

    def _packs(self, *args: Any) -> bool:
        return False


def rollouts(prompts: list[str], trainer: GRPOTrainer) -> dict[str, list]:
    """Ragged completions that follow from the prompts and the step alone."""
    prompt_ids = [trainer.processing_class(prompt)["input_ids"] for prompt in prompts]
    generator = torch.Generator().manual_seed(sum(map(sum, prompt_ids)) + trainer.state.global_step)
    lengths = torch.randint(1, 9, (len(prompts),), generator=generator).tolist()
    completion_ids = [torch.randint(2, 29, (length,), generator=generator).tolist() for length in lengths]
    return {"prompt_ids": prompt_ids, "completion_ids": completion_ids, "logprobs": None}


def share_of_a(completions: list[str], **kwargs: Any) -> list[float]:
    return [completion.count("a") + len(completion) % 3 for completion in completions]


@pytest.fixture
def make(tmp_path: Path) -> Callable:
    def make(trainer: type[GRPOTrainer], model: PreTrainedModel, peft_config: Any = None, **settings: Any):
        tokenizer = build_tokenizer()
        folder = tmp_path / trainer.__name__
        # The reference is loaded from where the policy comes from.
        model.save_pretrained(folder / "base")
        model.config._name_or_path = str(folder / "base")
        return trainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=[share_of_a],
            rollout_func=rollouts,
            peft_config=peft_config,
            train_dataset=Dataset.from_dict(
                {"prompt": [f"question {'x' * (place % 5)}{letter}" for place, letter in enumerate("abcdefghijkl")]}
            ),
            args=MedGRPOConfig(
                **{
                    "output_dir": str(folder),
                    "per_device_train_batch_size": 8,
                    "num_generations": 4,
                    # 16 rows of 4 prompts a generation, 2 micro-batches, each a step, twice: all three passes.
                    "steps_per_generation": 2,
                    "num_iterations": 2,
                    "max_steps": 5,
                    "max_completion_length": 8,
                    "beta": 0.1,
                    "seed": 3,
                    "report_to": "none",
                    "save_strategy": "no",
                    "log_completions": False,
                    "disable_tqdm": True,
                    "gradient_checkpointing": False,
                    **settings,
                }
            ),
        )

    return make


def train(trainer: GRPOTrainer) -> dict[str, torch.Tensor]:
    trainer.train()
    return {name: value.detach().clone() for name, value in trainer.model.named_parameters()}


def assert_same_training(make: Callable, model: Callable[[], PreTrainedModel], **settings: Any) -> None:
    expected = train(make(TrlPasses, model(), **settings))
    trainer = make(SharedPrefixGRPOTrainer, model(), **settings)
    start = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    found = train(trainer)
    assert all(isinstance(rows, PackedRows) and len(rows.groups) == 2 for rows in trainer.packed_passes)
    assert trainer.packed_passes
    assert max((found[name] - expected[name]).abs().max().item() for name in found) < 1e-5
    assert max((found[name] - start[name]).abs().max().item() for name in found) > 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_parameters_after_five_steps(make, name: str) -> None:
    assert_same_training(make, lambda: build(name), **SGD)


@pytest.mark.parametrize("name", MODELS)
def test_parameters_after_five_steps_of_adamw_with_checkpointing(make, name: str) -> None:
    # AdamW divides a gradient by its own size, and with 1e-8 in the divisor also one that is nothing but rounding.
    adamw = {"learning_rate": 1e-3, "adam_epsilon": 1e-3}
    assert_same_training(make, lambda: build(name), **adamw, gradient_checkpointing=True, loss_type="dapo")


@pytest.mark.parametrize("name", ["qwen3", "qwen3_next"])
def test_adapter_and_its_reference_share_prompts(make, name: str) -> None:
    peft = pytest.importorskip("peft")
    targets = ["q_proj", "v_proj", "in_proj_qkvz", "out_proj"] if name == "qwen3_next" else ["q_proj", "v_proj"]
    config = peft.LoraConfig(r=4, target_modules=targets, task_type="CAUSAL_LM")
    assert_same_training(make, lambda: build(name), peft_config=config, **SGD)


def assert_takes_trls_pass(make: Callable, model: Callable[[], PreTrainedModel], **settings: Any) -> None:
    """Bit for bit: it is the same pass."""
    expected = train(make(TrlPasses, model(), **settings))
    trainer = make(SharedPrefixGRPOTrainer, model(), **settings)
    found = train(trainer)
    assert not any(isinstance(rows, PackedRows) for rows in trainer.packed_passes)
    assert all(torch.equal(found[name], expected[name]) for name in found)


def with_dropout() -> PreTrainedModel:
    model = build("qwen3")
    model.config.attention_dropout = 0.3
    for layer in model.model.layers:
        layer.self_attn.attention_dropout = 0.3
    return model


class ForgetfulAttention(Qwen3Attention):
    """An attention of somebody's own that knows no cache: each token sees only itself and the one before."""

    def forward(self, hidden_states, position_embeddings=None, attention_mask=None, cache=None, **kwargs):
        mixed = hidden_states + 0.5 * torch.roll(hidden_states, 1, dims=1)
        return self.o_proj(self.q_proj(mixed)), None


def with_own_attention() -> PreTrainedModel:
    model = build("qwen3")
    for index, layer in enumerate(model.model.layers):
        weights = layer.self_attn.state_dict()
        layer.self_attn = ForgetfulAttention(model.config, index)
        layer.self_attn.load_state_dict(weights)
    return model


def of_another_architecture() -> PreTrainedModel:
    torch.manual_seed(2)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    return MixtralForCausalLM(
        MixtralConfig(**sizes, vocab_size=61, num_key_value_heads=1, num_local_experts=4, eos_token_id=1)
    )


@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        (with_dropout, {"beta": 0.0}, "dropout is on"),
        (with_own_attention, {"beta": 0.0}, "mixes tokens in another way"),
        (of_another_architecture, {}, "MixtralForCausalLM is none of"),
        (
            lambda: build("qwen3"),
            {"per_device_train_batch_size": 1, "steps_per_generation": 4},
            "no two completions of the same prompt",
        ),
        (
            lambda: build("qwen3"),
            # Without the passes of old policy and reference, which have no gradient and are packed.
            {
                "gradient_checkpointing": True,
                "gradient_checkpointing_kwargs": {"use_reentrant": True},
                "beta": 0.0,
                "steps_per_generation": 1,
                "num_iterations": 1,
            },
            "reentrant",
        ),
        (lambda: build("qwen3"), {"shared_prefix": False}, None),
    ],
)
def test_what_is_not_packed_is_trls_and_said_once(make, caplog, model, settings, said: str | None) -> None:
    caplog.set_level("WARNING")
    # Once a process, and another test may have heard it.
    trainer_module.logger.warning_once.cache_clear()
    assert_takes_trls_pass(make, model, **SGD, max_steps=2, **settings)
    assert said is None or said in caplog.text


def test_wrong_packed_pass_is_refused_at_its_first_use(make, monkeypatch) -> None:
    def sees_no_prompt(module, query, key, value, *args: Any, shared_prefix: PackedRows, **kwargs: Any):
        key = key.clone()
        key[:, :, : shared_prefix.prompt_tokens] = 0
        return attention.packed_attention(module, query, key, value, *args, shared_prefix=shared_prefix, **kwargs)

    trainer = make(SharedPrefixGRPOTrainer, build("qwen3"))
    mixers.AttentionInterface.register(attention.NAME, sees_no_prompt)
    try:
        with pytest.raises(MedgrpoError, match="set shared_prefix: false"):
            trainer.train()
    finally:
        mixers.AttentionInterface.register(attention.NAME, attention.packed_attention)


def test_resumed_between_micro_batches_is_the_uninterrupted_run(make) -> None:
    settings = {"steps_per_generation": 4, "num_iterations": 1, "save_strategy": "steps", "save_steps": 2}
    whole = make(MedGRPOTrainer, build("qwen3"), **SGD, **settings)
    expected = train(whole)
    resumed = make(MedGRPOTrainer, build("qwen3"), **SGD, **settings)
    resumed.train(resume_from_checkpoint=str(Path(whole.args.output_dir) / "checkpoint-2"))
    assert all(torch.equal(value, expected[name]) for name, value in resumed.model.named_parameters())
    assert isinstance(resumed.model, Qwen3ForCausalLM) and resumed.packed_passes


def test_experts_of_packed_rows_are_compared_as_those_of_trls_passes(make) -> None:
    def flips(shared: bool) -> list[float]:
        trainer = make(MedGRPOTrainer, build("qwen3_moe"), **SGD, steps_per_generation=1, shared_prefix=shared)
        trainer.train()
        key = "moe/expert_flip_rate"
        return [row[key] for row in trainer.state.log_history if key in row]

    ours, theirs = flips(True), flips(False)
    assert len(ours) == len(theirs) == 5 and max(ours) > 0
    assert ours == pytest.approx(theirs, abs=2e-3)
