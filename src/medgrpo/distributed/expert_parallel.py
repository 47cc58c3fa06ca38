"""DeepSpeed's expert parallelism (AutoEP) and ZeRO-3 for the mixtures of experts Qwen3-MoE and Qwen3-Next."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import PretrainedConfig

from medgrpo.distributed.sharding import autoep_layers
from medgrpo.errors import MedgrpoError

PRESET = "qwen3_moe"  # AutoEP's preset that fits both: the blocks of Qwen3-Next have the same parts
MODEL_TYPES = ("qwen3_moe", "qwen3_next")
# PEFT puts the model below `base_model.model`.
LORA_LAYERS = r"(base_model\.model\.)?model\.layers\.\d+\.mlp"
# A leaf is fetched whole: which experts a process uses must not decide what it gathers.
LEAF_BLOCKS = (
    "transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock",
    "transformers.models.qwen2_moe.modeling_qwen2_moe.Qwen2MoeSparseMoeBlock",
    "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock",
    "transformers.models.qwen3_next.modeling_qwen3_next.Qwen3NextSparseMoeBlock",
)


@dataclass(frozen=True)
class Wishes:
    """What of a run's settings decides whether its experts can be placed as asked."""

    num_processes: int
    lora: bool = False
    checkpoints: bool = True
    aux_loss: bool = False
    """Whether the router's load-balancing loss is trained."""
    reentrant: bool = False
    """Whether gradient checkpointing is on, and of the reentrant kind."""


def configure_experts(deepspeed_config: dict[str, Any] | None, model: PretrainedConfig, wishes: Wishes) -> None:
    """Complete the `expert_parallel` and `leaf_module` parts of a DeepSpeed config for the model, in place.

    Of `expert_parallel` only `enabled` and `autoep_size` have to be given. Call it before DeepSpeed reads the
    config. Raises `MedgrpoError`, in one line, for what can't be trained that way.
    """
    config = model.get_text_config()
    if count_experts(config) and wishes.reentrant and wishes.aux_loss:
        how = (
            ", and TRL makes it reentrant for LoRA under ZeRO-3: set gradient_checkpointing: false"
            if wishes.lora
            else ": set gradient_checkpointing_kwargs: {use_reentrant: false}"
        )
        raise MedgrpoError(
            f"reentrant gradient checkpointing drops the gradient of the router's auxiliary loss{how}, or "
            "router_aux_loss_coef: 0"
        )
    if deepspeed_config is None:
        return
    zero = deepspeed_config.get("zero_optimization", {})
    experts = deepspeed_config.get("expert_parallel", {})
    if not experts.get("enabled"):
        if count_experts(config) and zero.get("stage") == 3:
            leaves = zero.setdefault("leaf_module", {})
            leaves["classes"] = list(dict.fromkeys([*leaves.get("classes", ()), *LEAF_BLOCKS]))
        return
    _refuse(experts.get("autoep_size", 1), zero.get("stage", 0), config, wishes)
    _register_adapter()
    experts.setdefault("preset_model", PRESET)
    if not torch.cuda.is_available():
        experts["use_grouped_mm"] = False  # a kernel of the GPU
    if wishes.lora:
        experts.setdefault("moe_layer_pattern", LORA_LAYERS)


def count_experts(config: PretrainedConfig) -> int:
    """Experts of a layer; 0 for a dense model."""
    for name in ("num_experts", "num_local_experts", "n_routed_experts"):
        count = getattr(config, name, None)
        if count:
            return count
    return 0


def trains_aux_loss(model: PretrainedConfig, coefficient: float | None) -> bool:
    """Whether TRL adds the router's auxiliary loss: `router_aux_loss_coef`, or where None the model's own, is not 0."""
    config = model.get_text_config()
    own = getattr(config, "router_aux_loss_coef", 0.0)
    # A dense model's config has no such field, which is how transformers says that it has no router.
    return hasattr(config, "output_router_logits") and (own if coefficient is None else coefficient) != 0.0


def _refuse(size: int, stage: int, config: PretrainedConfig, wishes: Wishes) -> None:
    where = "expert_parallel in the DeepSpeed config"
    count = count_experts(config)
    if not count:
        raise MedgrpoError(f"{where}: {config.model_type} is a dense model, without experts to spread: take it out")
    if config.model_type not in MODEL_TYPES:
        raise MedgrpoError(f"{where}: for {' and '.join(MODEL_TYPES)}, not for {config.model_type}: use ZeRO-3 alone")
    if not isinstance(size, int) or size < 1:
        raise MedgrpoError(f"{where}: autoep_size has to be a whole number from 1 on, got {size!r}")
    if stage != 3:
        raise MedgrpoError(f"{where}: only with ZeRO stage 3 here, got stage {stage}")
    if wishes.num_processes % size:
        raise MedgrpoError(f"{where}: autoep_size {size} does not divide the {wishes.num_processes} processes")
    if count % size:
        raise MedgrpoError(f"{where}: autoep_size {size} does not divide the {count} experts of a layer")
    if wishes.lora and wishes.checkpoints:
        raise MedgrpoError(
            f"{where}: DeepSpeed can't checkpoint experts that LoRA leaves frozen: set save_strategy: 'no' (the "
            "adapter is still written at the end), or use ZeRO-3 alone"
        )


def _register_adapter() -> None:
    """Have AutoEP's preset take Qwen3-Next, too, and record router logits, which the auxiliary loss needs.

    DeepSpeed 0.19.8 moves transformers' recorder by way of transformers' registry, which fails from transformers
    5.18 on, and for Qwen3-Next leaves it with the routers that AutoEP replaced. Here the recording hook is put on
    each new router itself.
    """
    from deepspeed.module_inject.auto_ep_presets import registry
    from deepspeed.module_inject.auto_ep_presets.base import TransformersTopLevelRouterLogitsAdapter
    from transformers.utils.output_capturing import install_output_capuring_hook

    class RouterLogitsAdapter(TransformersTopLevelRouterLogitsAdapter):
        def retarget_transformers_output_recorders(
            self, model, spec, replacement, retargeted_keys, remove_output_capture_hooks
        ) -> None:
            for layer in autoep_layers(model).values():  # it is called once, with one of them
                install_output_capuring_hook(layer.router.gate, "router_logits", 0)

    preset = registry.PRESET_MODELS[PRESET]
    if "qwen3_next" in preset.hf_model_types:
        return
    registry.PRESET_MODELS[PRESET] = replace(preset, hf_model_types=(*preset.hf_model_types, "qwen3_next"))
    known = registry.get_preset_adapter(PRESET)
    registry._PRESET_ADAPTERS[PRESET] = RouterLogitsAdapter(
        display_name="Qwen3-MoE/Qwen3-Next",
        hf_model_types=(*known.hf_model_types, "qwen3_next"),
        class_name_fragments=(*known.class_name_fragments, "Qwen3Next"),
    )
