"""Post-training of language models on medical exam questions, with a verdict on whether it helped."""

from importlib import import_module
from typing import Any

_HOMES = {
    "MedGRPOConfig": "medgrpo.trainers.config",
    "MedGRPOTrainer": "medgrpo.trainers.base",
    "GSPOConfig": "medgrpo.trainers.gspo_config",
    "GSPOTrainer": "medgrpo.trainers.gspo",
}

__all__ = ["GSPOConfig", "GSPOTrainer", "MedGRPOConfig", "MedGRPOTrainer"]


def __getattr__(name: str) -> Any:
    """Import a trainer when it is first asked for, so that `medgrpo --help` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'medgrpo' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
