from pathlib import Path

import pytest
import torch
from forked import run_forked
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from medgrpo.trainers.metrics_file import read_metrics

HERE = Path(__file__).parent
NAMES = ("share_of_vowels", "hash_reward")
COMPARED = [
    *(f"rewards/{name}/{part}" for name in NAMES for part in ("mean", "group_std", "frac_constant", "slope")),
    *(f"advantage_{part}/{name}" for name in NAMES for part in ("share", "share_varying", "correlation")),
    *(f"ratio/{part}" for part in ("token_max", "token_min", "seq_max", "seq_min", "token_spikes")),
    "ratio/token_spike_share",
    "ratio/frac_exactly_one",
    "answers/parse_failure_rate",
    "moe/expert_flip_rate",
]


def launch(processes: int, folder: Path, model: Path, batch: int) -> list[dict]:
    done = run_forked(
        HERE / "ddp_diagnostics_run.py",
        *(str(folder), str(model), str(batch)),
        processes=processes,
        env={"TRL_EXPERIMENTAL_SILENCE": "1"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [row for row in read_metrics(folder) if "loss" in row]


def test_two_processes_log_what_one_logs(tokenizer, tmp_path) -> None:
    base = tmp_path / "base"
    torch.manual_seed(7)
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
    Qwen3MoeForCausalLM(config).save_pretrained(base)
    tokenizer.save_pretrained(base)
    one = launch(1, tmp_path / "one", base, batch=16)
    two = launch(2, tmp_path / "two", base, batch=8)
    assert [row["step"] for row in one] == [row["step"] for row in two] == [2, 4, 6]
    for row, other in zip(one, two, strict=True):
        for key in COMPARED:
            assert other[key] == (None if row[key] is None else pytest.approx(row[key], rel=2e-3, abs=1e-4)), key
    # The run is one on which there is something to see.
    assert one[-1]["ratio/token_max"] > 1.05
    assert one[-1]["moe/expert_flip_rate"] > 0
    assert one[-1]["answers/parse_failure_rate"] == 1
    assert sum(one[-1][f"advantage_share/{name}"] for name in NAMES) == pytest.approx(1)
