"""Attention over a packed row: prompts attend to themselves, completions to their prompt and themselves."""

from typing import Any

import torch
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right

from medgrpo.trainers.shared_prefix.layout import Group, PackedRows

NAME = "medgrpo_shared_prefix"


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    shared_prefix: PackedRows,
    scaling: float,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """An attention function as transformers has them, for one packed row.

    `query` is `(1, heads, N, d)`, `key` and `value` `(1, key-value heads, N, d)`; returns `(1, N, heads, d)`. Each
    query sees all tokens before it in its own row, as deep as `sliding_window`. `attention_mask` is not looked at.
    """
    query, key, value = (_as_autocast(states)[0].transpose(0, 1) for states in (query, key, value))  # (N, heads, d)
    prompts, completions = [], []
    for group in shared_prefix.groups:
        prompts.append(_prompt(query, key, value, group, scaling, sliding_window))
        if group.grid is not None:
            completions.append(_completions(query, key, value, group, scaling, sliding_window))
    return torch.cat([*prompts, *completions]).unsqueeze(0), None


def _prompt(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, group: Group, scaling: float, window: int | None
) -> torch.Tensor:
    query, key, value = (states[group.prompt].unsqueeze(0) for states in (query, key, value))
    return _attend(query, key, value, scaling, window)[0]


def _completions(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, group: Group, scaling: float, window: int | None
) -> torch.Tensor:
    own = group.grid.spread(query[group.completions])  # (rows, C, heads, d)
    # No completion looks back further than its window.
    seen = (
        group.prompt
        if window is None
        else slice(max(group.prompt.start, group.prompt.stop - window + 1), group.prompt.stop)
    )
    keys, values = (
        torch.cat(
            [
                states[seen].expand(len(own), -1, -1, -1),
                group.grid.spread(states[group.completions]),
            ],
            dim=1,
        )
        for states in (key, value)
    )
    # Padding stands behind the tokens, where causal attention does not look.
    return group.grid.collect(_attend(own, keys, values, scaling, window))


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float, window: int | None
) -> torch.Tensor:
    """Causal attention `(rows, tokens, heads, d)`, where the last query sees the last key."""
    heads = query.shape[2] // key.shape[2]
    # Only in float32 on a GPU is there no kernel that shares key-value heads.
    shares_heads = query.device.type == "cpu" or query.dtype != torch.float32
    query, key, value = (states.transpose(1, 2) for states in (query, key, value))
    if heads > 1 and not shares_heads:
        key, value = (states.repeat_interleave(heads, dim=1) for states in (key, value))
    asked, seen = query.shape[2], key.shape[2]
    if window is None or seen <= window:
        mask = causal_lower_right(asked, seen)
    else:
        columns = torch.arange(seen, device=query.device)
        distance = columns[seen - asked :].unsqueeze(1) - columns
        mask = (distance >= 0) & (distance < window)
    return functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=scaling, enable_gqa=heads > 1 and shares_heads
    ).transpose(1, 2)


def _as_autocast(states: torch.Tensor) -> torch.Tensor:
    """What autocast would make of the states: norms and rotation leave queries and keys in float32, but no values."""
    device = states.device.type
    return states.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else states
