"""Scoring that runs a prompt once for all completions that share it."""

from medgrpo.trainers.shared_prefix.trainer import SharedPrefixGRPOTrainer

__all__ = ["SharedPrefixGRPOTrainer"]
