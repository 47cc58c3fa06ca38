"""A LoRA adapter merged into a copy of the weights that it adapts, a layer at a time."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from medgrpo.errors import MedgrpoError

if TYPE_CHECKING:
    from peft import PeftModel
    from peft.tuners.lora import LoraLayer


@dataclass(frozen=True)
class Adapted:
    """One weight of the base model under an adapter."""

    name: str
    """The base model's own name for it."""
    parameter: torch.nn.Parameter
    lora: "LoraLayer | None" = None
    """The layer whose adapters change it; None where none does."""

    @property
    def parts(self) -> list[torch.nn.Parameter]:
        """What has to be whole for `merged`."""
        return [self.parameter] if self.lora is None else list(self.lora.parameters())

    def merged(self) -> torch.Tensor:
        """The weight as PEFT would merge it, of the weight's own dtype; the live weights stay as they are."""
        weight = self.parameter.detach()
        if self.lora is None or self.lora.merged or self.lora.disable_adapters:
            return weight
        for adapter in self.lora.active_adapters:
            if adapter in self.lora.lora_A or adapter in self.lora.lora_embedding_A:
                weight = weight + self.lora.get_delta_weight(adapter).detach().to(weight.dtype)
        return weight


def as_peft_model(model: torch.nn.Module) -> "PeftModel | None":
    """The model if it is PEFT's."""
    if "peft" not in sys.modules:
        return None
    from peft import PeftModel

    return model if isinstance(model, PeftModel) else None


def adapted_parameters(model: "PeftModel") -> Iterator[Adapted]:
    """The base model's parameters, in its order, each with the LoRA layer that changes it.

    Raises `MedgrpoError` for an adapter that is not plain LoRA on linear layers and embeddings (and
    `modules_to_save`), because its merge is another one.
    """
    from peft.tuners.lora import LoraLayer
    from peft.utils.other import ModulesToSaveWrapper

    refuse_unmergeable(model)
    base = model.get_base_model()
    layers = {name: module for name, module in base.named_modules() if isinstance(module, LoraLayer)}
    saved = {name: module for name, module in base.named_modules() if isinstance(module, ModulesToSaveWrapper)}
    for name, parameter in base.named_parameters():
        owner = next((other for other in saved if name.startswith(f"{other}.")), None)
        if owner is not None:
            active = saved[owner].active_adapters
            kept = f"{owner}.modules_to_save.{active[0]}." if active else f"{owner}.original_module."
            if name.startswith(kept):
                yield Adapted(f"{owner}.{name.removeprefix(kept)}", parameter)
            continue
        head, _, rest = name.partition(".base_layer.")
        if head in layers:
            if rest:
                yield Adapted(f"{head}.{rest}", parameter, layers[head] if rest == "weight" else None)
            continue
        if not any(name.startswith(f"{other}.lora_") for other in layers if name.startswith(other)):
            yield Adapted(name, parameter)


def refuse_unmergeable(model: "PeftModel") -> None:
    """Raise `MedgrpoError` for adapters that can't be merged layer by layer."""
    from peft.tuners.lora import Embedding, Linear
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper, ModulesToSaveWrapper

    for name, module in model.named_modules():
        kind = type(module)
        if isinstance(module, AuxiliaryTrainingWrapper) and not isinstance(module, ModulesToSaveWrapper):
            raise MedgrpoError(f"adapter at {name}: {kind.__name__} can't be merged into exported weights: use LoRA")
        if not isinstance(module, BaseTunerLayer):
            continue
        if kind not in (Linear, Embedding):
            raise MedgrpoError(
                f"adapter at {name}: {kind.__name__} can't be merged into exported weights: put LoRA on linear layers "
                "(target_modules), not on fused experts (target_parameters)"
            )
        if any(module.use_dora.values()) or any(module.lora_bias.values()):
            raise MedgrpoError(f"adapter at {name}: DoRA and lora_bias can't be merged into exported weights: use LoRA")
