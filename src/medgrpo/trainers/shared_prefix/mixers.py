"""The modules of a model that have to know of packed rows: its backbone and its token mixers."""

import copy
import inspect
from types import FunctionType, MethodType
from typing import Any

import torch
from transformers import AttentionInterface

from medgrpo.trainers.shared_prefix.attention import NAME, packed_attention
from medgrpo.trainers.shared_prefix.delta_net import packed_convolution, packed_delta_rule
from medgrpo.trainers.shared_prefix.layout import PackedRows

AttentionInterface.register(NAME, packed_attention)
CONVOLUTION, DELTA_RULE = "causal_conv1d_fn", "torch_chunk_gated_delta_rule"


def wrap_backbone(backbone: torch.nn.Module) -> None:
    """Let `backbone(..., shared_prefix=rows)` run packed rows; its output keeps only the hidden states that predict.

    Everything but the mixers treats each token alone, so the stock code runs as it is.
    """

    def forward(self: torch.nn.Module, *args: Any, shared_prefix: PackedRows | None = None, **kwargs: Any) -> Any:
        stock = type(self).forward
        if shared_prefix is None:
            return stock(self, *args, **kwargs)
        device = shared_prefix.input_ids.device
        # Transformers takes a mask of four dimensions as it is, and builds none of N x N.
        kwargs["attention_mask"] = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
        output = stock(self, *args, position_ids=shared_prefix.position_ids, shared_prefix=shared_prefix, **kwargs)
        output.last_hidden_state = output.last_hidden_state.index_select(1, shared_prefix.predicting)
        return output

    backbone.forward = MethodType(forward, backbone)


def wrap_attention(attention: torch.nn.Module) -> None:
    """Let an attention module run packed rows: its own projections, norms and rotation, `packed_attention` inside."""

    packed_config = copy.copy(attention.config)
    packed_config._attn_implementation = NAME

    def forward(self: torch.nn.Module, *args: Any, shared_prefix: PackedRows | None = None, **kwargs: Any) -> Any:
        stock = type(self).forward
        if shared_prefix is None:
            return stock(self, *args, **kwargs)
        config = self.config
        # For this call alone, and on this module alone: masks and all other modules read the model's own.
        self.config = packed_config
        try:
            return stock(self, *args, shared_prefix=shared_prefix, **kwargs)
        finally:
            self.config = config

    attention.forward = MethodType(forward, attention)


def wrap_delta_net(delta_net: torch.nn.Module) -> None:
    """Let a GatedDeltaNet run packed rows: the stock code, with the two functions replaced that mix tokens."""

    def forward(self: torch.nn.Module, *args: Any, shared_prefix: PackedRows | None = None, **kwargs: Any) -> Any:
        if shared_prefix is None:
            return type(self).forward(self, *args, **kwargs)
        stock = inspect.unwrap(type(self).forward)
        names = stock.__globals__
        mixing = {
            CONVOLUTION: packed_convolution(names[CONVOLUTION]),
            DELTA_RULE: packed_delta_rule(names[DELTA_RULE]),
        }
        packed = FunctionType(
            stock.__code__, {**names, **mixing}, stock.__name__, stock.__defaults__, stock.__closure__
        )
        return packed(self, *args, shared_prefix=shared_prefix, **kwargs)

    delta_net.forward = MethodType(forward, delta_net)
