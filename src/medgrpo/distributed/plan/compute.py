"""FLOPs by formula: matrix products only, a multiplication and an addition counted as two."""

from dataclasses import dataclass

from medgrpo.distributed.plan.batch import Batch
from medgrpo.distributed.plan.model_shape import ModelShape

DELTA_CHUNK = 64  # tokens that GatedDeltaNet takes at a time


@dataclass(frozen=True)
class Compute:
    """FLOPs of an optimizer step on one GPU."""

    scoring: float
    """Passes without gradients: old log-probabilities and reference."""
    training: float
    """Forward and backward of the loss."""
    recompute: float
    """Gradient checkpointing's second forward."""

    @property
    def total(self) -> float:
        """Their sum."""
        return self.scoring + self.training + self.recompute


def backbone_flops(shape: ModelShape, tokens: float, pairs: float) -> float:
    """A forward pass of all layers over `tokens` tokens between which attention forms `pairs` pairs.

    Counted: linear layers, routers, k experts a token, convolutions, attention's two products, GatedDeltaNet's chunks.
    Not counted: norms, activations, softmax, rotations, embeddings, GatedDeltaNet's triangular solve.
    """
    share = shape.experts_per_token / shape.experts if shape.experts else 0
    matrices = sum(p.numel for p in shape.parameters if p.kind == "dense" and p.dims >= 2)
    routed = shape.expert_total * share
    attention = sum("linear" not in kind for kind in shape.layer_types)
    heads = shape.config.num_attention_heads * shape.head_dim
    delta = sum("linear" in kind for kind in shape.layer_types) * (delta_flops(shape) if _has_delta(shape) else 0)
    return tokens * (2 * (matrices + routed) + delta) + attention * 4 * heads * pairs


def delta_flops(shape: ModelShape) -> float:
    """GatedDeltaNet's recurrence for a token of one layer, in chunks of 64 (arXiv 2412.06464).

    A value head and token: within the chunk two products of the keys' size and one of the values' (and the triangular
    solve, which is not counted), three with the state (dk x dv).
    """
    config = shape.config
    key, value = config.linear_key_head_dim, config.linear_value_head_dim
    inside = DELTA_CHUNK * (4 * key + 2 * value)
    return config.linear_num_value_heads * (inside + 6 * key * value)


def head_flops(shape: ModelShape, tokens: float) -> float:
    """The LM head's forward pass."""
    return 2 * tokens * shape.vocab * shape.hidden


def step_flops(shape: ModelShape, batch: Batch) -> Compute:
    """An optimizer step on one GPU. The fused LM head is run again in its backward pass, with or without checkpointing.

    CHORD's SFT samples go through the training passes, not through the scoring ones.
    """
    rl = batch.attended_pairs - batch.sft * batch.sft_length**2 / 2
    backbone = backbone_flops(shape, batch.tokens, rl)
    head = head_flops(shape, batch.completion_tokens)
    sft = backbone_flops(shape, batch.sft_tokens, batch.sft * batch.sft_length**2 / 2)
    sft_head = head_flops(shape, batch.sft_tokens)
    n = batch.accumulation
    return Compute(
        scoring=n * batch.forward_passes * (backbone + head),
        training=n * (3 * (backbone + sft) + 4 * head + 3 * sft_head),
        recompute=n * (backbone + sft) if batch.checkpointing else 0,
    )


def _has_delta(shape: ModelShape) -> bool:
    return getattr(shape.config, "linear_key_head_dim", None) is not None
