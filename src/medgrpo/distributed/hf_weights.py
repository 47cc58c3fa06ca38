"""Hugging Face's names and shapes for the weights of a model that lies on many processes.

The map is the one of `save_pretrained`: transformers' own conversion (`revert_weight_conversion`) for the names in
memory, after DeepSpeed's expert-parallel (AutoEP) names have become transformers' again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from accelerate.utils import extract_model_from_parallel
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion
from transformers.modeling_utils import remove_tied_weights_from_state_dict

from medgrpo.distributed.adapters import Adapted, adapted_parameters, as_peft_model
from medgrpo.distributed.sharding import autoep_layers, is_first_replica, rank_and_world, whole

if TYPE_CHECKING:
    from deepspeed.module_inject.auto_ep_layer import AutoEPMoELayer

# AutoEP's names inside a mixture-of-experts block, and those of Qwen3-MoE and Qwen3-Next.
BLOCK_NAMES = {"router.gate": "gate", "shared_experts": "shared_expert", "shared_experts_gate": "shared_expert_gate"}
EXPERT_NAMES = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}


@dataclass(frozen=True)
class HFTensor:
    """One weight by the name and shape that `save_pretrained` would give it."""

    name: str
    tensor: torch.Tensor
    """Only good until the next one is asked for: copy what is to be kept."""
    mine: bool
    """Whether this process is the one that writes it."""


def hf_tensors(model: torch.nn.Module, whole_experts: bool = False) -> Iterator[HFTensor]:
    """Weights of a plain, DDP, ZeRO-3, ZeRO-3 + AutoEP or LoRA model, one parameter whole at a time.

    Collective: every process has to go through all of it, in step, and each weight is `mine` on exactly one. LoRA
    comes merged into a copy. Tied weights come once, as `save_pretrained` writes them. With AutoEP each process
    sees its own experts only; `whole_experts=True` gathers a layer's experts, and gives all weights to process 0.

    Raises `MedgrpoError` for an adapter that can't be merged.
    """
    rank, world = rank_and_world()
    model = unwrapped(model)
    peft_model = as_peft_model(model)
    base = model if peft_model is None else peft_model.get_base_model()
    layers = autoep_layers(base)
    adapted = (
        adapted_parameters(peft_model)
        if peft_model is not None
        else (Adapted(name, parameter) for name, parameter in base.named_parameters())
    )
    turn = 0
    for weight in adapted:
        block = next((name for name in layers if weight.name.startswith(f"{name}.")), None)
        inside = weight.name.removeprefix(f"{block}.") if block else ""
        with whole(weight.parts):
            if inside.startswith("experts."):
                yield from _experts(block, inside.removeprefix("experts."), layers[block], weight, whole_experts)
                continue
            if block:
                part, _, leaf = inside.rpartition(".")
                head = next(known for known in BLOCK_NAMES if part == known or part.startswith(f"{known}."))
                name = f"{block}.{BLOCK_NAMES[head]}{part.removeprefix(head)}.{leaf}"
            else:
                name = weight.name
            mine = rank == (0 if whole_experts else turn % world)
            turn += 1
            for key, tensor in revert_weight_conversion(base, {name: weight.merged()}).items():
                yield HFTensor(key, tensor, mine)


def full_state_dict(model: torch.nn.Module) -> dict[str, torch.Tensor] | None:
    """All weights on the CPU of process 0, None on the others; collective. For models that fit there."""
    kept = {
        weight.name: weight.tensor.to("cpu", copy=True)
        for weight in hf_tensors(model, whole_experts=True)
        if weight.mine
    }
    return kept if rank_and_world()[0] == 0 else None


def expected_weights(model: torch.nn.Module) -> dict[str, torch.Size]:
    """Names and shapes of all weights that `save_pretrained` would write, from the model's config alone."""
    base = hf_model(model)
    with torch.device("meta"):
        skeleton = type(base)(base.config)
    conversions = getattr(base, "_weight_conversions", None)  # set by from_pretrained only
    if conversions is not None:
        skeleton._weight_conversions = conversions
    weights = skeleton.state_dict()
    for ignored in skeleton._keys_to_ignore_on_save or ():
        weights.pop(ignored, None)
    weights = remove_tied_weights_from_state_dict(weights, skeleton)
    return {name: tensor.shape for name, tensor in revert_weight_conversion(skeleton, weights).items()}


def hf_model(model: torch.nn.Module) -> PreTrainedModel:
    """The Hugging Face model inside DDP, DeepSpeed's engine, `torch.compile` and PEFT."""
    model = unwrapped(model)
    peft_model = as_peft_model(model)
    return model if peft_model is None else peft_model.get_base_model()


def unwrapped(model: torch.nn.Module) -> torch.nn.Module:
    """The model, or PEFT's, without DDP's, DeepSpeed's or `torch.compile`'s wrapper."""
    return extract_model_from_parallel(model, keep_fp32_wrapper=True, keep_torch_compile=False)


def _experts(block: str, leaf: str, layer: "AutoEPMoELayer", weight: Adapted, gather: bool) -> Iterator[HFTensor]:
    """The experts (local experts, ..., ...) of one fused parameter, each by its place among all of the layer's."""
    tensor, first, mine = weight.merged(), layer.ep_rank * layer.num_local_experts, is_first_replica(layer)
    if gather:
        mine = rank_and_world()[0] == 0
        if layer.ep_size > 1:
            parts = [torch.empty_like(tensor) for _ in range(layer.ep_size)]
            dist.all_gather(parts, tensor.contiguous(), group=layer.ep_group)
            tensor = torch.cat(parts)
        first = 0
    for expert, matrix in enumerate(tensor, first):
        yield HFTensor(f"{block}.experts.{expert}.{EXPERT_NAMES[leaf]}.weight", matrix, mine)
