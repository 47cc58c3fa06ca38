"""Mixtures of experts small enough for a dozen trainings on two processes."""

import torch
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
)

SHARED = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "norm_topk_prob": True,
    "router_aux_loss_coef": 0.01,
}


def build_moe(tokenizer: PreTrainedTokenizerFast, kind: str) -> PreTrainedModel:
    """The same random weights every time: `moe` ties its embeddings and has a dense layer, `next` does neither."""
    torch.manual_seed(5)
    tokens = {
        "vocab_size": len(tokenizer),
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    if kind == "moe":
        config = Qwen3MoeConfig(**SHARED, **tokens, num_hidden_layers=3, mlp_only_layers=[1], tie_word_embeddings=True)
        model = Qwen3MoeForCausalLM(config)
    else:
        config = Qwen3NextConfig(
            **SHARED,
            **tokens,
            num_hidden_layers=4,  # three of linear attention, one of full attention
            shared_expert_intermediate_size=16,
            linear_key_head_dim=16,
            linear_value_head_dim=16,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
        )
        model = Qwen3NextForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("gate.weight"):
                parameter.mul_(20)  # routers that choose clearly: rounding must not turn a choice over
    return model
