"""Prompts become completions with transformers' own generation: batched, greedy or sampled."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.backend import Prompt, Sampling, check_batch_size


class TransformersBackend:
    """A model in memory.

    Of the model's generation_config only the end-of-sequence ids are used: its penalties, top-k or top-p would
    make the score a property of that file too. A completion ends before its first end-of-sequence token (any of
    the generation_config's or the tokenizer's) and is decoded without special tokens, otherwise untouched.

    The caller's state is left as it was: torch's random state, the tokenizer's padding, the model's
    generation_config and the train/eval mode of each of its modules.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        sampling: Sampling,
        batch_size: int = 8,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        """Raise `MedgrpoError` for a tokenizer without a chat template or any end-of-sequence token."""
        if tokenizer.chat_template is None:
            raise MedgrpoError("the tokenizer has no chat template: evaluate a model that was trained on chats")
        self.model, self.tokenizer, self.sampling = model, tokenizer, sampling
        self.template_kwargs = dict(chat_template_kwargs or {})
        self.eos_ids = _end_of_sequence_ids(model, tokenizer)
        self.pad_id = self.eos_ids[0] if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        self.settings = {
            "backend": "transformers",
            "backend_version": transformers.__version__,
            "temperature": float(sampling.temperature),
            "max_new_tokens": sampling.max_new_tokens,
            "chat_template_kwargs": self.template_kwargs,
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": model.device.type,
        }
        self.placement = {"batch_size": check_batch_size(batch_size)}

    def complete(self, prompts: Mapping[str, Prompt]) -> Iterator[tuple[str, str]]:
        """Yield (id, completion), a batch at a time; raises `MedgrpoError` where a GPU has too little memory.

        A sampled completion depends on the seed and the question's id, not on its batch: each has a random
        generator of its own. (Padding moves logits by float noise, so a tie may turn with the batch.)
        """
        prompt_ids = {name: self._encode(prompt) for name, prompt in prompts.items()}
        # Neighbours in length share a batch, so little is computed on padding; the longest come first, so that
        # memory runs out at the start or not at all.
        order = sorted(prompts, key=lambda name: len(prompt_ids[name]), reverse=True)
        size = self.placement["batch_size"]
        for start in range(0, len(order), size):
            batch = order[start : start + size]
            input_ids, attention_mask = _pad_left([prompt_ids[name] for name in batch], self.pad_id)
            # Inside the loop: between two batches the caller may do with the model whatever it likes.
            with _generation_state(self.model, self._config()):
                output = self._generate(batch, input_ids.to(self.model.device), attention_mask.to(self.model.device))
            for name, row in zip(batch, output[:, input_ids.shape[1] :].tolist(), strict=True):
                yield (
                    name,
                    self.tokenizer.decode(
                        _until_first(row, self.eos_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
                    ),
                )

    def render(self, prompt: Prompt) -> str:
        """Return the prompt as the model sees it."""
        return self.tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True, tokenize=False, **self.template_kwargs
        )

    def _encode(self, prompt: Prompt) -> list[int]:
        encoding = self.tokenizer.apply_chat_template(
            prompt, add_generation_prompt=True, return_dict=True, **self.template_kwargs
        )
        return list(encoding["input_ids"])

    def _config(self) -> GenerationConfig:
        return GenerationConfig(
            max_new_tokens=self.sampling.max_new_tokens,
            do_sample=False,
            eos_token_id=self.eos_ids,
            pad_token_id=self.pad_id,
            bos_token_id=self.model.generation_config.bos_token_id,
            use_cache=True,
        )

    def _generate(self, names: Sequence[str], input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Prompts and completions together, (rows, longest prompt + new tokens)."""
        processors = LogitsProcessorList()
        if self.sampling.temperature > 0:
            seeds = [self.sampling.seed_of(name) for name in names]
            processors.append(_RowSampling(seeds, self.sampling.temperature, input_ids.device))
        try:
            return self.model.generate(input_ids=input_ids, attention_mask=attention_mask, logits_processor=processors)
        except torch.OutOfMemoryError as error:
            raise MedgrpoError(
                f"the GPU has no memory for {len(input_ids)} completions at once: lower batch_size"
            ) from error


class _RowSampling(LogitsProcessor):
    """Turns greedy decoding into sampling with a random generator a row (the Gumbel-max trick).

    The largest of `logits / temperature + Gumbel noise` is a draw from the softmax (Gumbel 1954); -log of an
    exponential variable is that noise.
    """

    def __init__(self, seeds: Sequence[int], temperature: float, device: torch.device) -> None:
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.temperature = temperature

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return `scores` (rows, vocabulary) with the noise of this step."""
        noise = torch.empty_like(scores, dtype=torch.float32)
        for row, generator in zip(noise, self.generators, strict=True):
            row.exponential_(generator=generator)
        return scores.float() / self.temperature - noise.log()


def _end_of_sequence_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    ids = model.generation_config.eos_token_id
    ids = list(ids) if isinstance(ids, list | tuple) else [ids]
    ids = [i for i in dict.fromkeys([*ids, tokenizer.eos_token_id]) if i is not None]
    if not ids:
        raise MedgrpoError("neither the model nor its tokenizer names an end-of-sequence token: set eos_token")
    return ids


def _pad_left(rows: list[list[int]], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and attention mask, both (rows, longest row): every prompt ends where its completion begins."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[pad_id] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def _until_first(row: list[int], stops: Sequence[int]) -> list[int]:
    return next((row[:i] for i, token in enumerate(row) if token in stops), row)


@contextmanager
def _generation_state(model: PreTrainedModel, config: GenerationConfig) -> Iterator[None]:
    """The model in eval mode under `config`, and everything put back afterwards.

    `generate` fills what its config leaves open from the model's own, so the model's is exchanged.
    """
    modes = [(module, module.training) for module in model.modules()]
    own_config = model.generation_config
    model.eval()
    model.generation_config = config
    try:
        yield
    finally:
        model.generation_config = own_config
        for module, training in modes:
            module.training = training
