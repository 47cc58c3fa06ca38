"""Post-training of language models on medical exam questions, with a verdict on whether it helped."""

from importlib import import_module
from typing import Any

_HOMES = {
    "CHORDConfig": "medgrpo.trainers.chord_config",
    "CHORDTrainer": "medgrpo.trainers.chord",
    "MedGRPOConfig": "medgrpo.trainers.config",
    "MedGRPOTrainer": "medgrpo.trainers.base",
    "GSPOConfig": "medgrpo.trainers.gspo_config",
    "GSPOTrainer": "medgrpo.trainers.gspo",
    "MOGRPOConfig": "medgrpo.trainers.mo_grpo_config",
    "MOGRPOTrainer": "medgrpo.trainers.mo_grpo",
}

__all__ = [
    "CHORDConfig",
    "CHORDTrainer",
    "GSPOConfig",
    "GSPOTrainer",
    "MOGRPOConfig",
    "MOGRPOTrainer",
    "MedGRPOConfig",
    "MedGRPOTrainer",
]


def __getattr__(name: str) -> Any:
    """Import a trainer when it is first asked for, so that `medgrpo --help` does not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'medgrpo' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
