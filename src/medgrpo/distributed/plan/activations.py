"""What autograd keeps of a layer, found by running one layer of each kind on the meta device, without storage."""

from functools import lru_cache
from typing import Any

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from medgrpo.distributed.plan.model_shape import ModelShape
from medgrpo.errors import MedgrpoError

# A multiple of the chunk (64 tokens) of GatedDeltaNet; what is kept grows with the tokens beyond it.
TRACED_TOKENS = 256
TRACED_ATTENTION = "medgrpo_traced"


class _FusedAttention(torch.autograd.Function):
    """Keeps what fused attention kernels keep: query, key, value, output and a float32 number a head and token."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        out = query.new_empty(*query.shape[:-1], value.shape[-1])
        ctx.save_for_backward(query, key, value, out, query.new_empty(query.shape[:-1], dtype=torch.float32))
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> None:
        raise NotImplementedError("only traced, never differentiated")


def _attend(module: torch.nn.Module, query: Any, key: Any, value: Any, mask: Any, **_: Any) -> tuple[Any, None]:
    return _FusedAttention.apply(query, key, value).transpose(1, 2), None


@lru_cache(maxsize=8)
def kept_per_token(shape: ModelShape) -> tuple[float, ...]:
    """Bytes that each layer, in order, keeps for the backward pass of a token, its parameters left out.

    GatedDeltaNet is traced as transformers writes it in torch; the fused kernels of flash-linear-attention keep less.
    """
    ALL_ATTENTION_FUNCTIONS.register(TRACED_ATTENTION, _attend)
    config, backbone = shape.model.config, shape.model.get_decoder()
    before = config._attn_implementation
    config._attn_implementation = TRACED_ATTENTION
    known: dict[Any, float] = {}
    try:
        kept = []
        for layer, kind in zip(backbone.layers, shape.layer_types, strict=True):
            key = (kind, type(layer), *(type(part) for part in layer.modules()))
            if key not in known:
                try:
                    known[key] = _trace(shape, backbone, layer)
                except (RuntimeError, TypeError, ValueError, AttributeError, KeyError) as error:
                    raise MedgrpoError(
                        f"--model {shape.name}: what a {type(layer).__name__} keeps can't be found by running it alone "
                        f"({' '.join(str(error).split())[:120]}): the plan knows decoders built as Qwen's and Llama's"
                    ) from error
            kept.append(known[key])
    finally:
        config._attn_implementation = before
    return tuple(kept)


def activation_bytes(shape: ModelShape, tokens: int, checkpointing: bool) -> float:
    """Bytes that the layers keep for the backward pass of a micro-batch of `tokens` tokens on one GPU.

    With gradient checkpointing each layer keeps its input, T H b, and one layer at a time all it needs.
    """
    kept = kept_per_token(shape)
    if not checkpointing:
        return tokens * sum(kept)
    return tokens * (shape.layers * shape.hidden * shape.dtype.itemsize + max(kept))


def _trace(shape: ModelShape, backbone: Any, layer: torch.nn.Module) -> float:
    kept: dict[int, float] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        # Traced in bfloat16; what a layer computes in float32 stays so.
        scale = shape.dtype.itemsize / 2 if tensor.dtype == torch.bfloat16 else 1
        kept[storage._cdata] = storage.nbytes() * scale
        held.append(storage)  # alive, so that no other gets its address
        return tensor

    held: list[Any] = []
    positions = torch.arange(TRACED_TOKENS, device="meta")[None]
    hidden = torch.empty(1, TRACED_TOKENS, shape.hidden, dtype=torch.bfloat16, device="meta", requires_grad=True)
    rotary = backbone.rotary_emb(hidden, positions)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        layer(hidden, position_embeddings=rotary, attention_mask=None, position_ids=positions)
    for tensor in (*layer.parameters(), *layer.buffers(), *rotary):
        kept.pop(tensor.untyped_storage()._cdata, None)
    return sum(kept.values()) / TRACED_TOKENS
