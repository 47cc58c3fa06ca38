"""docs/metrics.md names every key that a real run logs, and none of ours that no run logs."""

import re
from pathlib import Path

import pytest
from example_rewards import hash_reward, share_of_vowels
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from medgrpo import MOGRPOConfig, MOGRPOTrainer
from medgrpo.trainers.metrics_file import read_metrics

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"
OURS = ("advantage", "ratio/", "moe/", "answers/")


def documented() -> dict[str, str]:
    """Key -> its row."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    return {re.match(r"\| `([^`]+)`", row)[1]: row for row in rows}


@pytest.fixture
def logged(tokenizer, dataset, tmp_path) -> set[str]:
    """The keys of a run in which as much happens as one run can hold."""
    config = Qwen3MoeConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        moe_intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        num_experts=4,
        num_experts_per_tok=2,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = tmp_path / "model"
    Qwen3MoeForCausalLM(config).save_pretrained(model)
    exam = dataset.add_column("answer", [[["a"]]] * len(dataset))
    trainer = MOGRPOTrainer(
        model=str(model),
        processing_class=tokenizer,
        reward_funcs=[share_of_vowels, hash_reward],
        train_dataset=exam,
        eval_dataset=exam.select(range(2)),
        args=MOGRPOConfig(
            output_dir=str(tmp_path),
            adapt_reward_weights=True,
            reward_weights=[1.0, 1.0],
            per_device_train_batch_size=8,
            num_generations=4,
            steps_per_generation=2,
            max_completion_length=8,
            max_steps=4,
            eval_strategy="steps",
            eval_steps=2,
            per_device_eval_batch_size=8,
            beta=0.1,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            save_strategy="no",
            log_completions=False,
            disable_tqdm=True,
        ),
    )
    trainer.train()
    return {key.removeprefix("eval_") for row in read_metrics(tmp_path) for key in row}


def test_every_logged_key_is_documented_and_every_key_of_ours_is_logged(logged: set[str]) -> None:
    names = ("share_of_vowels", "hash_reward")
    known = {key.replace("{name}", name) for key in documented() for name in names}
    assert logged - known == set()
    ours = {key for key in known if key.startswith(OURS) or key.endswith(("group_std", "frac_constant", "slope"))}
    assert ours - logged == set()


def test_every_row_has_meaning_unit_and_when() -> None:
    for row in documented().values():
        assert [bool(cell.strip()) for cell in row.split("|")[1:-1]] == [True] * 4, row
