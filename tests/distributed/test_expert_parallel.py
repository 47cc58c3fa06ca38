"""What `configure_experts` completes in a DeepSpeed config, and what it refuses in one line."""

import copy
import importlib.util
from typing import Any

import pytest
from transformers import MixtralConfig, Qwen3Config, Qwen3MoeConfig, Qwen3NextConfig

from medgrpo.distributed.expert_parallel import (
    LEAF_BLOCKS,
    LORA_LAYERS,
    PRESET,
    Wishes,
    configure_experts,
    trains_aux_loss,
)
from medgrpo.errors import MedgrpoError

NEEDS_DEEPSPEED = pytest.mark.skipif(
    importlib.util.find_spec("deepspeed") is None, reason="needs the extra `deepspeed`"
)
MOE = Qwen3MoeConfig(num_experts=8)


def experts_over(size: Any, stage: int = 3) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage}, "expert_parallel": {"enabled": True, "autoep_size": size}}


@pytest.mark.parametrize(
    ("config", "model", "wishes", "said"),
    [
        (experts_over(3), MOE, Wishes(6), "autoep_size 3 does not divide the 8 experts"),
        (experts_over(2), MOE, Wishes(5), "autoep_size 2 does not divide the 5 processes"),
        (experts_over(16), MOE, Wishes(16), "autoep_size 16 does not divide the 8 experts"),
        (experts_over(0), MOE, Wishes(2), "whole number from 1"),
        (experts_over("auto"), MOE, Wishes(2), "whole number from 1"),
        (experts_over(2), Qwen3Config(), Wishes(2), "qwen3 is a dense model"),
        (experts_over(2), MixtralConfig(), Wishes(2), "not for mixtral"),
        (experts_over(2, stage=2), MOE, Wishes(2), "only with ZeRO stage 3"),
        (experts_over(2), MOE, Wishes(2, lora=True), "save_strategy: 'no'"),
        (None, MOE, Wishes(1, aux_loss=True, reentrant=True), "reentrant gradient checkpointing drops"),
    ],
)
def test_what_can_not_be_trained_is_refused_in_one_line(config, model, wishes, said) -> None:
    with pytest.raises(MedgrpoError, match=said) as error:
        configure_experts(config, model, wishes)
    assert "\n" not in str(error.value)


@NEEDS_DEEPSPEED
@pytest.mark.parametrize("model", [MOE, Qwen3NextConfig()], ids=["moe", "next"])
def test_a_size_is_all_that_has_to_be_given(model) -> None:
    from deepspeed.module_inject.auto_ep_presets import registry

    config = experts_over(2)
    configure_experts(config, model, Wishes(4))
    assert config["expert_parallel"]["preset_model"] == PRESET
    assert "moe_layer_pattern" not in config["expert_parallel"]
    assert "leaf_module" not in config["zero_optimization"]
    # DeepSpeed resolves the model type to the preset, in which it did not know Qwen3-Next.
    assert registry.preset_name_for_hf_model_type(model.model_type) == PRESET
    again = copy.deepcopy(config)
    configure_experts(again, model, Wishes(4))
    assert again == config


@NEEDS_DEEPSPEED
def test_what_a_person_set_stays() -> None:
    config = experts_over(2)
    config["expert_parallel"] |= {"preset_model": "qwen3_5_moe", "moe_layer_pattern": "x"}
    configure_experts(config, MOE, Wishes(2, lora=True, checkpoints=False))
    assert config["expert_parallel"]["preset_model"] == "qwen3_5_moe"
    assert config["expert_parallel"]["moe_layer_pattern"] == "x"


@NEEDS_DEEPSPEED
def test_with_lora_the_layers_are_found_below_pefts_prefix() -> None:
    config = experts_over(2)
    configure_experts(config, MOE, Wishes(2, lora=True, checkpoints=False))
    assert config["expert_parallel"]["moe_layer_pattern"] == LORA_LAYERS


@NEEDS_DEEPSPEED
def test_the_upstream_default_leaves_are_kept() -> None:
    from deepspeed.runtime.zero.leaf_module_config import DEFAULT_LEAF_MODULE_CLASSES

    assert set(DEFAULT_LEAF_MODULE_CLASSES) <= set(LEAF_BLOCKS)


def test_zero3_alone_gets_leaves_and_a_dense_model_none() -> None:
    config = {"zero_optimization": {"stage": 3, "leaf_module": {"classes": ["Mine"]}}}
    configure_experts(config, MOE, Wishes(2))
    assert config["zero_optimization"]["leaf_module"]["classes"] == ["Mine", *LEAF_BLOCKS]
    dense = {"zero_optimization": {"stage": 3}}
    configure_experts(dense, Qwen3Config(), Wishes(2))
    assert dense == {"zero_optimization": {"stage": 3}}
    whole = {"zero_optimization": {"stage": 2}}
    configure_experts(whole, MOE, Wishes(2))
    assert whole == {"zero_optimization": {"stage": 2}}


@pytest.mark.parametrize(("coefficient", "trained"), [(None, True), (0.0, False), (0.5, True)])
def test_whether_the_auxiliary_loss_is_trained(coefficient, trained) -> None:
    assert trains_aux_loss(Qwen3MoeConfig(router_aux_loss_coef=0.01), coefficient) is trained
    assert not trains_aux_loss(Qwen3Config(), coefficient)
