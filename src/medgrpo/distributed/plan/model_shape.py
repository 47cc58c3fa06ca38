"""A model's size, read off its config alone: no weights are loaded and nothing is downloaded."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from medgrpo.distributed.expert_parallel import count_experts
from medgrpo.errors import MedgrpoError
from medgrpo.tiny import TINY_MODEL

# Names under which Qwen3-Next-80B-A3B is known without its config.json: transformers' own defaults are its sizes.
BUILT_IN_80B = ("qwen3_next_80b", "Qwen/Qwen3-Next-80B-A3B-Instruct", "Qwen/Qwen3-Next-80B-A3B-Thinking")


@dataclass(frozen=True)
class Parameter:
    """One parameter: elements, dimensions, and what it is: `expert`, `embedding`, `head` or `dense`."""

    name: str
    numel: int
    dims: int
    kind: str


class ModelShape:
    """Parameters and layers of a causal language model, from a model on the meta device."""

    def __init__(self, name: str, config: PretrainedConfig, dtype: torch.dtype = torch.bfloat16) -> None:
        self.name = name
        self.dtype = dtype
        # In bfloat16 whatever `dtype` is: the fused experts can be traced in no other.
        self.model = build_on_meta(config)
        self.config = self.model.config.get_text_config()
        self.parameters = _list_parameters(self.model)
        self.layers: int = self.config.num_hidden_layers
        self.hidden: int = self.config.hidden_size
        self.vocab: int = self.config.vocab_size
        self.experts: int = count_experts(self.config)
        self.experts_per_token: int = getattr(self.config, "num_experts_per_tok", None) or 0

    @cached_property
    def total(self) -> int:
        """P: all parameters."""
        return sum(parameter.numel for parameter in self.parameters)

    @cached_property
    def expert_total(self) -> int:
        """Pe: parameters of all routed experts."""
        return sum(parameter.numel for parameter in self.parameters if parameter.kind == "expert")

    @property
    def dense_total(self) -> int:
        """Pd: everything but the routed experts."""
        return self.total - self.expert_total

    @property
    def active(self) -> int:
        """Parameters that one token uses: Pd + Pe k / E."""
        share = self.experts_per_token / self.experts if self.experts else 0
        return round(self.dense_total + self.expert_total * share)

    @property
    def moe_layers(self) -> int:
        """Layers with routed experts."""
        return len(
            {parameter.name.split(".experts.")[0] for parameter in self.parameters if parameter.kind == "expert"}
        )

    @property
    def layer_experts(self) -> int:
        """Parameters of one layer's routed experts."""
        return self.expert_total // max(self.moe_layers, 1)

    @property
    def layer_types(self) -> list[str]:
        """`full_attention`, `linear_attention` or `sliding_attention` for each layer."""
        return list(getattr(self.config, "layer_types", None) or ["full_attention"] * self.layers)

    @property
    def head_dim(self) -> int:
        """Size of one attention head."""
        return getattr(self.config, "head_dim", None) or self.hidden // self.config.num_attention_heads


def read_shape(model: str, dtype: torch.dtype = torch.bfloat16) -> ModelShape:
    """The shape of `model`: `qwen3_next_80b` (built in), `tiny`, a folder with config.json, or a cached Hub name.

    Raises `MedgrpoError` for a model that is none of these, and for one that is no causal language model.
    """
    if model in BUILT_IN_80B and not Path(model).is_dir():
        from transformers import Qwen3NextConfig

        return ModelShape("Qwen3-Next-80B-A3B (built in)", Qwen3NextConfig(), dtype)
    where = str(TINY_MODEL) if model in ("tiny", "tiny_untagged") else model
    try:
        config = AutoConfig.from_pretrained(where, local_files_only=True)
        return ModelShape(model, config, dtype)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise MedgrpoError(
            f"--model {model}: neither a folder with the config.json of a causal language model, nor in the local "
            f"Hugging Face cache, nor built in ({BUILT_IN_80B[0]}, tiny): {reason}"
        ) from error


def build_on_meta(config: PretrainedConfig) -> PreTrainedModel:
    """The model in bfloat16, without storage."""
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


def _list_parameters(model: PreTrainedModel) -> tuple[Parameter, ...]:
    embedding = model.get_input_embeddings().weight
    head = model.get_output_embeddings().weight
    found = []
    for name, tensor in model.named_parameters():
        if ".experts." in name:
            kind = "expert"
        elif tensor is head:
            kind = "head"  # tied embeddings count once, as the head that multiplies
        else:
            kind = "embedding" if tensor is embedding else "dense"
        found.append(Parameter(name, tensor.numel(), tensor.dim(), kind))
    return tuple(found)
