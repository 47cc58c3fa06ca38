"""Where completions come from: the one interface behind which transformers, vLLM and a server stand."""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from medgrpo.errors import MedgrpoError

Prompt = list[dict[str, str]]
"""Chat messages, as `medgrpo.exams.prompts.build_prompt` makes them."""


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn: `temperature` 0 is greedy; otherwise from the whole distribution, no top-k, no top-p.

    Raises `MedgrpoError` for a value out of range.
    """

    temperature: float = 0.0
    max_new_tokens: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1:
            raise MedgrpoError(f"max_new_tokens has to be at least 1, got {self.max_new_tokens}")
        if not 0 <= self.temperature < math.inf:
            raise MedgrpoError(f"temperature has to be 0 (greedy) or a positive number, got {self.temperature}")

    def seed_of(self, question_id: str) -> int:
        """Return the seed of one question, below 2^31: of `seed` and the id alone, whatever was asked before it."""
        digest = hashlib.sha256(f"{self.seed}:{question_id}".encode()).digest()
        return int.from_bytes(digest[:4]) >> 1


class Backend(Protocol):
    """A source of completions.

    `settings` is JSON and holds what decides a completion (name, version, dtype, ...), `placement` what should
    not (batch size, address): an interrupted evaluation goes on under another placement, never under other
    settings.
    """

    sampling: Sampling
    settings: Mapping[str, Any]
    placement: Mapping[str, Any]

    def complete(self, prompts: Mapping[str, Prompt]) -> Iterator[tuple[str, str]]:
        """Yield (question id, completion) for each of `prompts`, in any order, each as soon as it is there.

        Raises `MedgrpoError` for what the user can mend; what was yielded before stays good.
        """
        ...

    def render(self, prompt: Prompt) -> str | None:
        """Return the prompt as the model sees it, by its chat template; None where only a server knows that."""
        ...


def check_batch_size(batch_size: int) -> int:
    """Return `batch_size`; raises `MedgrpoError` where it is below 1."""
    if batch_size < 1:
        raise MedgrpoError(f"batch_size has to be at least 1, got {batch_size}")
    return batch_size
