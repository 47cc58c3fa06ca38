"""Where a model's parameters lie: whole, in ZeRO-3's partitions, or as a process's own experts."""

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from deepspeed.module_inject.auto_ep_layer import AutoEPMoELayer


def rank_and_world() -> tuple[int, int]:
    """This process's number and how many there are."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def is_partitioned(parameter: torch.Tensor) -> bool:
    """Whether ZeRO-3 spread the parameter over processes; its `ds_id` is how DeepSpeed itself tells."""
    return getattr(parameter, "ds_id", None) is not None


def is_zero3(model: torch.nn.Module) -> bool:
    """Whether any parameter of the model is in ZeRO-3's partitions."""
    return any(is_partitioned(parameter) for parameter in model.parameters())


def whole(parameters: Iterable[torch.Tensor]) -> AbstractContextManager:
    """Parameters whole on every process of their group, inside; collective, and for reading only."""
    partitioned = [parameter for parameter in parameters if is_partitioned(parameter)]
    if not partitioned:
        return nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters(partitioned)


def autoep_layers(model: torch.nn.Module) -> dict[str, "AutoEPMoELayer"]:
    """DeepSpeed's expert-parallel layers by their module names; empty without expert parallelism."""
    if "deepspeed.module_inject.auto_ep_layer" not in sys.modules:
        return {}  # no such layer can exist before its class does, and DeepSpeed takes seconds to import
    from deepspeed.module_inject.auto_ep_layer import AutoEPMoELayer

    return {name: module for name, module in model.named_modules() if isinstance(module, AutoEPMoELayer)}


def is_first_replica(layer: "AutoEPMoELayer") -> bool:
    """Whether this process is the first of those that hold the same experts of `layer`."""
    if not dist.is_initialized() or layer.ep_group is None:
        return True
    from deepspeed.utils import groups

    return groups._get_expert_data_parallel_rank(layer.ep_group_name) == 0
