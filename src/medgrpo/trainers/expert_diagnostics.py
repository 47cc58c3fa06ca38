"""Which experts a mixture-of-experts model routed to, at the rollout and at the update."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import PreTrainedModel

from medgrpo.distributed.sharding import autoep_layers
from medgrpo.trainers.shared_prefix.layout import PackedRows

EXPERTS = "routed_experts"


class ExpertRecorder:
    """Reads the experts that a model's routers choose, by forward hooks that listen only inside `listening`.

    Routers are those that transformers itself names for the model (`can_record_outputs["router_logits"]`); each
    has to return the chosen experts as its one integer tensor `(tokens, k)`, as the routers of Qwen3-MoE,
    Qwen3-Next, Mixtral, DeepSeek-V3 and most others do. A model without any leaves `self.routers` empty.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.routers = find_routers(model)
        self._choices: list[list[torch.Tensor]] | None = None
        for layer, router in enumerate(self.routers):
            router.register_forward_hook(lambda module, args, output, layer=layer: self._hear(layer, output))

    @contextmanager
    def listening(self) -> Iterator[list[list[torch.Tensor]]]:
        """A list for each router, to which every forward pass inside adds the experts `(tokens, k)`."""
        self._choices = [[] for _ in self.routers]
        try:
            yield self._choices
        finally:
            self._choices = None

    def _hear(self, layer: int, output: Any) -> None:
        if self._choices is None:
            return
        for part in output if isinstance(output, tuple) else (output,):
            if isinstance(part, torch.Tensor) and part.dim() == 2 and part.dtype in (torch.int64, torch.int32):
                self._choices[layer].append(part.detach().to(torch.int16))


def find_routers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The router modules of a model, in its order; empty for a dense model."""
    classes: set[type] = set()
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            recorded = module.can_record_outputs.get("router_logits")
            for entry in recorded if isinstance(recorded, list) else [recorded]:
                target = getattr(entry, "target_class", entry)
                if isinstance(target, type):
                    classes.add(target)
    # DeepSpeed's expert parallelism puts routers of its own in their place; those, too, return the chosen experts.
    spread = {id(layer.router) for layer in autoep_layers(model).values()}
    return [module for module in model.modules() if type(module) in classes or id(module) in spread]


def experts_of_completions(
    choices: list[list[torch.Tensor]],
    rows: int,
    length: int,
    completion_length: int,
    packed: Sequence[PackedRows | None] = (),
) -> torch.Tensor | None:
    """Experts at the positions whose outputs predict the completion's tokens: `(rows, T, layers, k)`.

    `choices` holds for each router its passes over `rows` sequences of `length` tokens in all. `packed` says how each
    of the last passes packed its sequences (None: not at all); there, columns without a token have expert 0. `None`
    where a router spoke otherwise: not for each token once, or not in integers.
    """
    layers = []
    for passes in choices:
        passes = passes[-len(packed) :]  # before them a model's first packed pass was checked
        parts = []
        for experts, row in zip(passes, packed or [None] * len(passes), strict=False):
            if row is None:
                if len(experts) % length:
                    return None
                # The token at place p is predicted at place p - 1.
                parts.append(experts.view(-1, length, experts.shape[1])[:, length - completion_length - 1 : length - 1])
            elif len(experts) != row.input_ids.shape[1]:
                return None
            else:
                parts.append(row.unpack(experts[row.predicting]))
        if sum(len(part) for part in parts) != rows:
            return None
        layers.append(torch.cat(parts))
    if not layers or any(experts.shape != layers[0].shape for experts in layers):
        return None
    return torch.stack(layers, dim=2)


def count_flips(experts: torch.Tensor, old_experts: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """`(2,)`: experts of the rollout that the update no longer routes to, and all experts of the rollout.

    `experts` and `old_experts` are `(B, T, layers, k)`, `mask` `(B, T)`; the order of a token's experts is none.
    """
    live = mask.bool()
    flips = torch.zeros((), dtype=torch.int64, device=experts.device)
    for layer in range(experts.shape[2]):  # a layer at a time: the comparison is k times as large as its input
        now, then = experts[:, :, layer], old_experts[:, :, layer]  # (B, T, k)
        gone = (then.unsqueeze(3) != now.unsqueeze(2)).all(dim=3)
        flips += (gone & live.unsqueeze(2)).sum()
    routed = live.sum() * experts.shape[2] * experts.shape[3]
    return torch.stack([flips, routed.to(flips)])
