"""The stream of SFT samples: seeded, endless, split over the processes, and at a position that can be saved."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from medgrpo.errors import MedgrpoError
from medgrpo.trainers.sft_samples import IGNORED, SFTSample


@dataclass(frozen=True)
class SFTBatch:
    """Samples of one forward pass on one process, a row each (never packed), padded on the right to (B, T)."""

    ids: list[str]
    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    labels: torch.Tensor
    """The token itself where it is taught, -100 on prompts and padding."""


@dataclass(frozen=True)
class SFTWindow:
    """What one accumulation window is taught: this process's batches, and the taught tokens of all processes."""

    batches: list[SFTBatch]
    total_tokens: int


class SFTStream:
    """Batches without end: each epoch is another permutation, drawn from (seed, epoch), and epochs join seamlessly.

    Every process holds all samples and follows the position of all, so that it knows the others' token counts
    without asking, takes as many batches as they do, and none of their samples. The position counts samples
    drawn by all processes together; it does not depend on how many they are.
    """

    def __init__(
        self,
        samples: Sequence[SFTSample],
        *,
        batch_size: int,
        pad_token_id: int,
        seed: int = 0,
        process_index: int = 0,
        num_processes: int = 1,
    ) -> None:
        self.samples = samples
        self.batch_size = batch_size
        self.pad_token_id = pad_token_id
        self.seed = seed
        self.process_index = process_index
        self.num_processes = num_processes
        self.position = 0
        self.tokens_seen = 0
        self._order: tuple[int, list[int]] | None = None

    def draw(self, micro_batches: int) -> SFTWindow:
        """The next window of `micro_batches` batches of `batch_size` samples on each process."""
        batches, total = [], 0
        for _ in range(micro_batches):
            drawn = [self._sample(self.position + i) for i in range(self.batch_size * self.num_processes)]
            self.position += len(drawn)
            total += sum(sample.taught_tokens for sample in drawn)
            start = self.process_index * self.batch_size
            batches.append(self._collate(drawn[start : start + self.batch_size]))
        self.tokens_seen += total
        return SFTWindow(batches, total)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all samples and the seed: streams that agree in it and in the position go on alike."""
        content = json.dumps([self.seed, *([s.id, s.input_ids, s.labels] for s in self.samples)])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on from here; JSON."""
        return {"position": self.position, "tokens_seen": self.tokens_seen, "fingerprint": self.fingerprint}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved position; raises `MedgrpoError` where the samples or the seed are others."""
        if state["fingerprint"] != self.fingerprint:
            raise MedgrpoError(
                "the checkpoint was trained with other SFT data, another tokenizer or another seed: resume with the "
                "same, or start a new run from its weights (model_name_or_path)"
            )
        self.position, self.tokens_seen = state["position"], state["tokens_seen"]

    def _sample(self, position: int) -> SFTSample:
        epoch, place = divmod(position, len(self.samples))
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, np.random.default_rng([self.seed, epoch]).permutation(len(self.samples)).tolist()
        return self.samples[self._order[1][place]]

    def _collate(self, samples: Sequence[SFTSample]) -> SFTBatch:
        shape = len(samples), max(len(sample.input_ids) for sample in samples)
        input_ids = torch.full(shape, self.pad_token_id)
        attention_mask = torch.zeros(shape, dtype=torch.long)
        labels = torch.full(shape, IGNORED)
        for row, sample in enumerate(samples):
            length = len(sample.input_ids)
            input_ids[row, :length] = torch.tensor(sample.input_ids)
            attention_mask[row, :length] = 1
            labels[row, :length] = torch.tensor(sample.labels)
        return SFTBatch([sample.id for sample in samples], input_ids, attention_mask, labels)
