"""From a JSONL file or a dataset to token ids of which only the answer's are taught."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging

from medgrpo.errors import MedgrpoError
from medgrpo.exams.jsonl import Problems, read_objects

logger = logging.get_logger(__name__)

IGNORED = -100
NEEDED = "give `prompt` and `completion`, or `messages`"


@dataclass(frozen=True)
class SFTSample:
    """One prompt with its answer. `labels` repeat the answer's tokens and are -100 on the prompt's."""

    id: str
    input_ids: list[int]
    labels: list[int]

    @cached_property
    def taught_tokens(self) -> int:
        """Tokens that the model is taught to predict."""
        return sum(label != IGNORED for label in self.labels[1:])


def load_sft_samples(
    source: Dataset | str | Path,
    tokenizer: PreTrainedTokenizerBase,
    *,
    max_length: int,
    eos_token_ids: Collection[int],
    template_options: Mapping[str, Any] | None = None,
) -> list[SFTSample]:
    """Read and tokenise everything that the model is to be taught.

    A row holds `prompt` and `completion`, both texts or both lists of messages (the completion one assistant
    message), or `messages` that end with the assistant's: of these only the last turn is taught, what the
    assistant said earlier is context. Messages are written by the chat template, with `template_options`; a text
    is a user's turn and the assistant's answer to it where the tokenizer has a chat template, and taken as it
    stands, closed by the end-of-sequence token, where it has none. What a template writes behind the answer's
    end-of-sequence token is left out, because no rollout gets that far. An `id`, where there is one, names the
    sample; otherwise its number does.

    Samples of more than `max_length` tokens are left out with a warning that counts them: cut short, they would
    teach answers that never end. Raises `MedgrpoError`, naming rows and fields, for a row of another form, a
    completion with nothing in it to teach, and where no sample is left.
    """
    problems = Problems()
    samples: list[SFTSample] = []
    too_long: list[int] = []
    encode = _Encoder(tokenizer, eos_token_ids, dict(template_options or {}))
    for number, place, row in _rows(source, problems):
        try:
            prompt, answer = _split(row)
            prompt_ids, answer_ids = encode(prompt, answer)
        except _RowError as error:
            problems.add(place, error.message, number if isinstance(source, str | Path) else None, error.field)
            continue
        length = len(prompt_ids) + len(answer_ids)
        if length > max_length:
            too_long.append(length)
            continue
        name = row.get("id")
        labels = [IGNORED] * len(prompt_ids) + answer_ids
        samples.append(SFTSample(str(number if name is None else name), prompt_ids + answer_ids, labels))
    problems.raise_if_any()
    where = "the SFT dataset" if isinstance(source, Dataset) else str(source)
    if not samples and too_long:
        raise MedgrpoError(f"{where}: all {len(too_long)} samples are longer than {max_length} tokens: raise the limit")
    if not samples:
        raise MedgrpoError(f"{where}: holds no sample: {NEEDED} in each row")
    if too_long:
        logger.warning(
            f"{where}: {len(too_long)} of {len(too_long) + len(samples)} samples are longer than {max_length} tokens "
            f"(the longest {max(too_long)}) and are left out"
        )
    return samples


def read_sft_rows(path: str | Path) -> list[tuple[str, str]]:
    """The samples of a JSONL file as (id or line number, everything they say); raises as `load_sft_samples` does."""
    problems = Problems()
    rows = []
    for number, place, row in _rows(path, problems):
        try:
            prompt, answer = _split(row)
        except _RowError as error:
            problems.add(place, error.message, number, error.field)
            continue
        texts = [prompt] if isinstance(prompt, str) else [turn["content"] for turn in prompt]
        name = row.get("id")
        rows.append((str(number if name is None else name), "\n".join([*texts, answer])))
    problems.raise_if_any()
    return rows


class _RowError(Exception):
    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.message, self.field = message, field


Turns = list[dict[str, str]]


def _rows(source: Dataset | str | Path, problems: Problems) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """(number, where to find it, row): lines of a file count from 1, rows of a dataset from 0."""
    if isinstance(source, Dataset):
        for number, row in enumerate(source):
            yield number, f"SFT dataset, row {number}", row
    else:
        for number, row in read_objects(source, problems):
            yield number, str(source), row


def _split(row: Mapping[str, Any]) -> tuple[str | Turns, str]:
    """The prompt, and the answer's text."""
    given = {name for name in ("prompt", "completion", "messages") if row.get(name) is not None}
    if given == {"messages"}:
        turns = _turns(row["messages"], "messages")
        if turns[-1]["role"] != "assistant":
            raise _RowError("has to end with the assistant's message, which is what is taught", "messages")
        if len(turns) == 1:
            raise _RowError("holds the answer alone: put the question before it", "messages")
        return turns[:-1], _answer(turns[-1]["content"], "messages")
    if given != {"prompt", "completion"}:
        named = " and ".join(sorted(given)) or "none of these fields"
        raise _RowError(f"has {named}: {NEEDED}")
    prompt, completion = row["prompt"], row["completion"]
    if isinstance(prompt, str) and isinstance(completion, str):
        return prompt, _answer(completion, "completion")
    if isinstance(prompt, str) or isinstance(completion, str):
        raise _RowError("is text and the prompt messages, or the reverse: write both alike", "completion")
    answer = _turns(completion, "completion")
    if len(answer) != 1 or answer[0]["role"] != "assistant":
        raise _RowError("has to be one assistant message: earlier turns belong to the prompt", "completion")
    turns = _turns(prompt, "prompt")
    if turns[-1]["role"] == "assistant":
        raise _RowError("ends with an assistant message: the completion has to answer something", "prompt")
    return turns, _answer(answer[0]["content"], "completion")


def _turns(value: Any, field: str) -> Turns:
    if not isinstance(value, list) or not value:
        raise _RowError('has to be a list of messages: [{"role": "user", "content": "..."}, ...]', field)
    turns = []
    for message in value:
        if not isinstance(message, Mapping):
            raise _RowError('holds something that is no message: {"role": "user", "content": "..."}', field)
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or not isinstance(content, str):
            raise _RowError("holds a message without `role` and `content` as texts", field)
        turns.append({"role": role, "content": content})
    return turns


def _answer(text: str, field: str) -> str:
    if not text.strip():
        raise _RowError("has no trainable token: the answer is empty", field)
    return text


class _Encoder:
    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, eos_token_ids: Collection[int], template_options: dict[str, Any]
    ) -> None:
        self.tokenizer = tokenizer
        self.eos_token_ids = eos_token_ids
        self.template_options = template_options

    def __call__(self, prompt: str | Turns, answer: str) -> tuple[list[int], list[int]]:
        """Token ids of the prompt and of the answer up to its end."""
        if self.tokenizer.chat_template is None:
            if not isinstance(prompt, str):
                raise _RowError("holds messages, and the tokenizer has no chat template: give texts")
            answer_ids = self.tokenizer(answer, add_special_tokens=False)["input_ids"]
            return list(self.tokenizer(prompt)["input_ids"]), [*answer_ids, self.tokenizer.eos_token_id]
        turns = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
        prompt_ids = self._write(turns, add_generation_prompt=True)
        whole = self._write([*turns, {"role": "assistant", "content": answer}])
        if whole[: len(prompt_ids)] != prompt_ids:
            raise _RowError(
                "the chat template writes the prompt otherwise once an answer follows, so that what is the answer "
                "can't be told: use a template that only appends"
            )
        answer_ids = whole[len(prompt_ids) :]
        if not answer_ids:
            raise _RowError("has no trainable token: the chat template leaves the answer out")
        ends = [place for place, token in enumerate(answer_ids) if token in self.eos_token_ids]
        return prompt_ids, answer_ids[: ends[-1] + 1] if ends else answer_ids

    def _write(self, turns: Turns, **options: Any) -> list[int]:
        return list(self.tokenizer.apply_chat_template(turns, return_dict=False, **options, **self.template_options))
