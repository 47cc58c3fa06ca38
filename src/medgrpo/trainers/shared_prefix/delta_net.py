"""GatedDeltaNet over a packed row: its convolution and its recurrence go on from the prompt into each completion."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from medgrpo.trainers.shared_prefix.layout import PackedRows


def packed_convolution(stock: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`causal_conv1d_fn` of transformers, for `(1, channels, N)` with `shared_prefix` among the arguments."""

    def convolve(
        hidden_states: torch.Tensor, weight: torch.Tensor, *args: Any, shared_prefix: PackedRows, **kwargs: Any
    ) -> torch.Tensor:
        rows, reach = shared_prefix, weight.shape[-1] - 1
        tokens = hidden_states[0].transpose(0, 1)  # (N, channels)
        prompts, completions = tokens.split([rows.prompt_tokens, len(tokens) - rows.prompt_tokens])
        # What a completion's first tokens look back on: the end of their prompt, and zeros before a short one.
        ends = [
            functional.pad(prompt[-reach:], (0, 0, max(reach - len(prompt), 0), 0))
            for prompt in prompts.split(rows.prompts.lengths)
        ]
        history = torch.stack(ends).index_select(0, rows.prompt_of_completion)
        completions = torch.cat([history, rows.completions.spread(completions)], dim=1)

        def run(segments: torch.Tensor) -> torch.Tensor:
            return stock(segments.transpose(1, 2), weight, *args, **kwargs).transpose(1, 2)

        convolved = torch.cat(
            [
                rows.prompts.collect(run(rows.prompts.spread(prompts))),
                rows.completions.collect(run(completions)[:, reach:]),
            ]
        )
        return convolved.transpose(0, 1).unsqueeze(0)

    return convolve


def packed_delta_rule(stock: Callable[..., tuple]) -> Callable[..., tuple]:
    """`torch_chunk_gated_delta_rule` of transformers, for `(1, N, heads, d)` with `shared_prefix` among the arguments.

    Padding has no weight in the recurrence: its key, its beta and its log decay are 0, so it leaves the state alone.
    """

    def run(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        *,
        g: torch.Tensor,
        beta: torch.Tensor,
        shared_prefix: PackedRows,
        initial_state: None = None,
        output_final_state: bool = False,
        cu_seqlens: None = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        rows = shared_prefix
        states = query, key, value, g, beta
        prompts = [rows.prompts.spread(states_[0, : rows.prompt_tokens]) for states_ in states]
        completions = [rows.completions.spread(states_[0, rows.prompt_tokens :]) for states_ in states]
        before, end = _run(stock, prompts, None, True, kwargs)
        after, _ = _run(stock, completions, end.index_select(0, rows.prompt_of_completion), False, kwargs)
        return torch.cat([rows.prompts.collect(before), rows.completions.collect(after)]).unsqueeze(0), None

    return run


def _run(
    stock: Callable[..., tuple],
    states: list[torch.Tensor],
    initial_state: torch.Tensor | None,
    output_final_state: bool,
    kwargs: dict[str, Any],
) -> tuple[torch.Tensor, torch.Tensor | None]:
    query, key, value, g, beta = states
    return stock(
        query,
        key,
        value,
        g=g,
        beta=beta,
        initial_state=initial_state,
        output_final_state=output_final_state,
        **kwargs,
    )
