"""Experts that change between rollout and update: counted by hand, and against the model's own router logits."""

import pytest
import torch
from transformers import (
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from medgrpo.trainers.expert_diagnostics import ExpertRecorder, count_flips, experts_of_completions, find_routers

SMALL = {
    "vocab_size": 29,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


def qwen_moe() -> Qwen3MoeForCausalLM:
    torch.manual_seed(1)
    config = Qwen3MoeConfig(**SMALL, head_dim=8, moe_intermediate_size=8, num_experts=6, num_experts_per_tok=2)
    return Qwen3MoeForCausalLM(config).eval()


def test_flips_by_hand() -> None:
    old = torch.tensor([[[[0, 1]], [[2, 3]], [[4, 5]]]], dtype=torch.int16)  # (1, 3 tokens, 1 layer, 2 experts)
    new = torch.tensor([[[[1, 0]], [[2, 5]], [[0, 1]]]], dtype=torch.int16)
    assert count_flips(new, old, torch.tensor([[1, 1, 1]])).tolist() == [3, 6], "order does not count"
    assert count_flips(new, old, torch.tensor([[1, 1, 0]])).tolist() == [1, 4], "a masked token does not count"
    assert count_flips(old, old, torch.tensor([[1, 1, 1]])).tolist() == [0, 6]


def test_recorded_experts_are_the_top_of_the_models_own_router_logits() -> None:
    model = qwen_moe()
    recorder = ExpertRecorder(model)
    ids = torch.randint(29, (4, 9), generator=torch.Generator().manual_seed(2))
    with torch.no_grad(), recorder.listening() as choices:
        for rows in (ids[:3], ids[3:]):  # in chunks, as TRL scores
            model(rows)
    with torch.no_grad():
        model(ids)  # not listened to
    found = experts_of_completions(choices, 4, 9, 5)
    assert found.shape == (4, 5, 3, 2)
    with torch.no_grad():
        logits = model(ids, output_router_logits=True).router_logits
    for layer, own in enumerate(logits):
        expected = own.view(4, 9, 6)[:, 3:8].topk(2).indices  # places 3-7 predict tokens 4-8
        assert torch.equal(found[:, :, layer].sort().values, expected.sort().values.to(torch.int16))


def test_changed_router_of_one_layer_is_a_third_of_the_experts_at_most() -> None:
    model = qwen_moe()
    recorder = ExpertRecorder(model)
    ids = torch.randint(29, (4, 9), generator=torch.Generator().manual_seed(2))

    def listen() -> torch.Tensor:
        with torch.no_grad(), recorder.listening() as choices:
            model(ids)
        return experts_of_completions(choices, 4, 9, 5)

    before = listen()
    with torch.no_grad():
        model.model.layers[2].mlp.gate.weight.neg_()
    flips, routed = count_flips(listen(), before, torch.ones(4, 5)).tolist()
    assert routed == 4 * 5 * 3 * 2
    # Of 6 experts the top 2 of the negated scores are the bottom 2: all of the last layer's change, no others.
    assert flips == routed / 3


@pytest.mark.parametrize(
    "model",
    [
        lambda: MixtralForCausalLM(MixtralConfig(**SMALL, num_local_experts=4, num_experts_per_tok=2)),
        lambda: DeepseekV3ForCausalLM(
            DeepseekV3Config(
                **SMALL,
                moe_intermediate_size=8,
                n_routed_experts=8,
                n_group=2,
                topk_group=1,
                num_experts_per_tok=2,
                first_k_dense_replace=1,
                q_lora_rank=8,
                kv_lora_rank=8,
                qk_nope_head_dim=8,
                qk_rope_head_dim=8,
                v_head_dim=8,
            )
        ),
    ],
    ids=["mixtral", "deepseek_v3"],
)
def test_routers_of_other_architectures_are_heard(model) -> None:
    torch.manual_seed(3)
    model = model().eval()
    recorder = ExpertRecorder(model)
    with torch.no_grad(), recorder.listening() as choices:
        model(torch.arange(12).view(2, 6))
    found = experts_of_completions(choices, 2, 6, 3)
    assert found.shape == (2, 3, len(recorder.routers), 2)
    assert len(recorder.routers) in (2, 3)  # DeepSeek's first layer is dense


def test_dense_model_has_no_routers(make_model) -> None:
    assert find_routers(make_model()) == []


def test_pass_that_is_not_each_token_once_is_not_compared() -> None:
    assert experts_of_completions([[torch.zeros(7, 2)]], 2, 4, 2) is None
    assert experts_of_completions([[]], 2, 4, 2) is None
    assert experts_of_completions([[torch.zeros(8, 2)], [torch.zeros(8, 1)]], 2, 4, 2) is None
