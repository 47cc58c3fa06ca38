"""Which models can run packed rows, and making them ready for it."""

import torch
from transformers import PreTrainedModel
from transformers.models.gemma3.modeling_gemma3 import Gemma3Attention, Gemma3ForCausalLM, Gemma3TextModel
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaForCausalLM, LlamaModel
from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention, Qwen3ForCausalLM, Qwen3Model
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeAttention, Qwen3MoeForCausalLM, Qwen3MoeModel
from transformers.models.qwen3_next.modeling_qwen3_next import (
    Qwen3NextAttention,
    Qwen3NextForCausalLM,
    Qwen3NextGatedDeltaNet,
    Qwen3NextModel,
)

from medgrpo.trainers.shared_prefix.mixers import (
    wrap_attention,
    wrap_backbone,
    wrap_delta_net,
)

BACKBONES: dict[type[torch.nn.Module], type[torch.nn.Module]] = {
    Gemma3ForCausalLM: Gemma3TextModel,
    LlamaForCausalLM: LlamaModel,
    Qwen3ForCausalLM: Qwen3Model,
    Qwen3MoeForCausalLM: Qwen3MoeModel,
    Qwen3NextForCausalLM: Qwen3NextModel,
}
ATTENTIONS = (Gemma3Attention, LlamaAttention, Qwen3Attention, Qwen3MoeAttention, Qwen3NextAttention)
EXACT_ATTENTION = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")


def reason_against(model: PreTrainedModel) -> str | None:
    """Why a causal language model can't run packed rows; None where it can.

    Only classes that were tried are trusted, by their exact type: a subclass may mix tokens otherwise.
    """
    name = type(model).__name__
    if type(model) not in BACKBONES:
        return f"{name} is none of {', '.join(sorted(known.__name__ for known in BACKBONES))}"
    backbone = model.base_model
    if type(backbone) is not BACKBONES[type(model)] or _replaced(backbone):
        return f"the backbone of {name} is not the stock one"
    config = backbone.config
    if config._attn_implementation not in EXACT_ATTENTION:
        return f"attention {config._attn_implementation!r} is none of {', '.join(EXACT_ATTENTION)}"
    if isinstance(backbone, Gemma3TextModel) and (
        config.use_bidirectional_attention or config.attn_logit_softcapping is not None
    ):
        return "Gemma 3 with bidirectional or softcapped attention"
    for layer in backbone.layers:
        mixer = mixer_of(layer)
        if mixer is None or _replaced(mixer):
            return f"a layer of {name} mixes tokens in another way than the stock model"
    return None


def mixer_of(layer: torch.nn.Module) -> torch.nn.Module | None:
    """The one module of a decoder layer that mixes tokens; None where it is of an unknown type."""
    known = [child for child in layer.children() if type(child) in (*ATTENTIONS, Qwen3NextGatedDeltaNet)]
    return known[0] if len(known) == 1 else None


def _replaced(module: torch.nn.Module) -> bool:
    """Whether somebody put another `forward` on this one module (device maps and patches do)."""
    return "forward" in vars(module)


def prepare(model: PreTrainedModel) -> None:
    """Let a model that `reason_against` has nothing against take `shared_prefix` in its call."""
    for layer in model.base_model.layers:
        mixer = mixer_of(layer)
        (wrap_delta_net if isinstance(mixer, Qwen3NextGatedDeltaNet) else wrap_attention)(mixer)
    wrap_backbone(model.base_model)


def dropouts(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The modules that drop something out in train mode: no two passes are then alike."""
    return [
        module
        for module in model.modules()
        if (isinstance(module, torch.nn.Dropout) and module.p > 0)
        or (isinstance(module, ATTENTIONS) and module.attention_dropout > 0)
    ]
