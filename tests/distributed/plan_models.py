"""Configs of tiny models of the kinds that the plan knows, with sizes that two ranks don't divide everywhere."""

from collections.abc import Callable

from transformers import PretrainedConfig, Qwen3Config, Qwen3MoeConfig, Qwen3NextConfig

SMALL = {
    "vocab_size": 515,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
}
EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "decoder_sparse_step": 1}
DELTA = {
    "shared_expert_intermediate_size": 40,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 24,
}

CONFIGS: dict[str, Callable[[], PretrainedConfig]] = {
    "qwen3": lambda: Qwen3Config(**SMALL),
    "qwen3_moe": lambda: Qwen3MoeConfig(**SMALL, **EXPERTS),
    "qwen3_next": lambda: Qwen3NextConfig(**SMALL, **EXPERTS, **DELTA),
}
