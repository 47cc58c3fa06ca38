"""Tiny models of the five architectures whose prompts can be shared, with TRL's head on them."""

from collections.abc import Callable

import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

VOCABULARY = 61
# Three layers and grouped key-value heads; heads times head_dim is not the hidden size.
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
}
EXPERTS = {"moe_intermediate_size": 16, "num_experts": 6, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.05}
DELTA_NET = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 6,
    "shared_expert_intermediate_size": 16,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
}
# Windows shorter than most prompts, and than some completions.
WINDOWS = {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}

MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SIZES)),
    "qwen3_moe": lambda: Qwen3MoeForCausalLM(Qwen3MoeConfig(**SIZES, **EXPERTS)),
    "qwen3_next": lambda: Qwen3NextForCausalLM(Qwen3NextConfig(**SIZES, **EXPERTS, **DELTA_NET)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**SIZES, **WINDOWS)),
}


def build(name: str, seed: int = 5) -> PreTrainedModel:
    """The same random weights every time, in train mode; larger than at initialisation, so that mistakes show."""
    torch.manual_seed(seed)
    model = MODELS[name]().train()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3)
    return model


def has_experts(name: str) -> bool:
    return name in ("qwen3_moe", "qwen3_next")
