"""Prompts become completions with transformers' own generation: batched, greedy or sampled."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from tqdm import tqdm
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from medgrpo.errors import MedgrpoError


def generate_completions(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Sequence[Mapping[str, str]]],
    *,
    max_new_tokens: int,
    batch_size: int,
    temperature: float = 0.0,
    seed: int = 0,
    progress: bool = True,
) -> list[str]:
    """One completion a prompt (a list of chat messages), in the order of `prompts`.

    `temperature` 0 is greedy decoding. Otherwise tokens are drawn from the whole distribution at that
    temperature, the same ones again for the same seed, prompts and batch size. Of the model's
    generation_config only the end-of-sequence ids are used: its penalties, top-k or top-p would make the
    score a property of that file too. A completion ends before its first end-of-sequence token (any of the
    generation_config's or the tokenizer's) and is decoded without special tokens, otherwise untouched.

    The caller's state is left as it was: torch's random state, the tokenizer's padding, the model's
    generation_config and the train/eval mode of each of its modules. Raises `MedgrpoError` for an option out
    of range, a tokenizer without a chat template or any end-of-sequence token, or too little GPU memory.
    """
    _check_options(max_new_tokens, batch_size, temperature)
    if tokenizer.chat_template is None:
        raise MedgrpoError("the tokenizer has no chat template: evaluate a model that was trained on chats")
    eos_ids = _end_of_sequence_ids(model, tokenizer)
    pad_id = eos_ids[0] if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    config = GenerationConfig(
        max_new_tokens=max_new_tokens,
        do_sample=temperature > 0,
        eos_token_id=eos_ids,
        pad_token_id=pad_id,
        bos_token_id=model.generation_config.bos_token_id,
        use_cache=True,
    )
    if temperature > 0:
        config.temperature, config.top_k, config.top_p = float(temperature), 0, 1.0

    prompt_ids = [_encode(tokenizer, prompt) for prompt in prompts]
    # Neighbours in length share a batch, so little is computed on padding; the longest come first, so that
    # memory runs out at the start or not at all.
    order = sorted(range(len(prompts)), key=lambda i: len(prompt_ids[i]), reverse=True)
    completions = [""] * len(prompts)
    with (
        _generation_state(model, config, seed),
        tqdm(total=len(prompts), unit="question", desc="generating", disable=not progress) as bar,
    ):
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            input_ids, attention_mask = _pad_left([prompt_ids[i] for i in batch], pad_id)
            output = _generate(model, input_ids, attention_mask)
            for i, row in zip(batch, output[:, input_ids.shape[1] :].tolist(), strict=True):
                completions[i] = tokenizer.decode(
                    _until_first(row, eos_ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
                )
            bar.update(len(batch))
    return completions


def _check_options(max_new_tokens: int, batch_size: int, temperature: float) -> None:
    if max_new_tokens < 1:
        raise MedgrpoError(f"max_new_tokens has to be at least 1, got {max_new_tokens}")
    if batch_size < 1:
        raise MedgrpoError(f"batch_size has to be at least 1, got {batch_size}")
    if not 0 <= temperature < math.inf:
        raise MedgrpoError(f"temperature has to be 0 (greedy) or a positive number, got {temperature}")


def _end_of_sequence_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    ids = model.generation_config.eos_token_id
    ids = list(ids) if isinstance(ids, list | tuple) else [ids]
    ids = [i for i in dict.fromkeys([*ids, tokenizer.eos_token_id]) if i is not None]
    if not ids:
        raise MedgrpoError("neither the model nor its tokenizer names an end-of-sequence token: set eos_token")
    return ids


def _encode(tokenizer: PreTrainedTokenizerBase, prompt: Sequence[Mapping[str, str]]) -> list[int]:
    messages = [dict(message) for message in prompt]
    encoding = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    return list(encoding["input_ids"])


def _pad_left(rows: list[list[int]], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and attention mask, both (rows, longest row): every prompt ends where its completion begins."""
    width = max(len(row) for row in rows)
    ids = torch.tensor([[pad_id] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def _generate(model: PreTrainedModel, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """Prompts and completions together, (rows, longest prompt + new tokens)."""
    try:
        return model.generate(input_ids=input_ids.to(model.device), attention_mask=attention_mask.to(model.device))
    except torch.OutOfMemoryError as error:
        raise MedgrpoError(
            f"the GPU has no memory for {len(input_ids)} completions at once: lower batch_size"
        ) from error


def _until_first(row: list[int], stops: Sequence[int]) -> list[int]:
    return next((row[:i] for i, token in enumerate(row) if token in stops), row)


@contextmanager
def _generation_state(model: PreTrainedModel, config: GenerationConfig, seed: int) -> Iterator[None]:
    """The model in eval mode under `config` with torch seeded, and everything put back afterwards.

    `generate` fills what its config leaves open from the model's own, so the model's is exchanged.
    """
    modes = [(module, module.training) for module in model.modules()]
    own_config = model.generation_config
    devices = range(torch.cuda.device_count()) if model.device.type == "cuda" else ()
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        model.eval()
        model.generation_config = config
        try:
            yield
        finally:
            model.generation_config = own_config
            for module, training in modes:
                module.training = training
