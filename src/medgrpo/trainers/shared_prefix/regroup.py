"""Completions of a prompt meet in a micro-batch again, after TRL shuffled the rows of a generation batch."""

from typing import Any

import torch

from medgrpo.trainers.shared_prefix.layout import number_prompts


def regroup(micro_batches: list[dict[str, Any]], generator: torch.Generator) -> list[dict[str, Any]]:
    """The same rows in as many micro-batches, rows of a prompt side by side.

    TRL permutes rows; this permutes prompts, cuts where TRL cuts, and permutes the micro-batches. So a row is in each
    micro-batch with the same chance, and in exactly one: the expected gradient of each is TRL's, wherever a row's
    weight in the loss does not depend on its neighbours. A group that is larger than a micro-batch, or that a cut goes
    through, is spread over as few as that needs.

    Both permutations come from `generator`, a CPU one: drawn from the global one, they would change the rollouts.
    """
    size = len(micro_batches[0]["prompt_ids"])
    joined = {key: _join([batch[key] for batch in micro_batches]) for key in micro_batches[0]}
    numbers = number_prompts(joined["prompt_ids"], joined["prompt_mask"]).cpu()
    turns = torch.randperm(int(numbers.max()) + 1, generator=generator)
    parts = torch.argsort(turns[numbers], stable=True).split(size)
    return [
        {key: _take(value, parts[place]) for key, value in joined.items()}
        for place in torch.randperm(len(parts), generator=generator).tolist()
    ]


def _join(values: list[Any]) -> Any:
    """One column of all micro-batches; what belongs to no row (a scalar, None) is the same in all of them."""
    first = values[0]
    if first is None or (isinstance(first, torch.Tensor) and first.dim() == 0):
        return first
    if isinstance(first, torch.Tensor):
        return torch.cat(values)
    return [value for part in values for value in part]


def _take(value: Any, rows: torch.Tensor) -> Any:
    if value is None or (isinstance(value, torch.Tensor) and value.dim() == 0):
        return value
    if isinstance(value, torch.Tensor):
        return value[rows.to(value.device)]
    return [value[row] for row in rows.tolist()]
