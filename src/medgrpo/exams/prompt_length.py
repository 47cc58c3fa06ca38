"""Prompts longer than the model: found with the tokenizer alone, before a model is loaded."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medgrpo.exams.jsonl import Problems, read_objects
from medgrpo.exams.prompts import build_prompt
from medgrpo.exams.question import EMBEDDED, MINI_EXAM, Question

CountTokens = Callable[[list[dict[str, str]]], int]
"""Takes a prompt's messages and returns the tokens that the model sees."""


def find_long_prompts(
    questions: Sequence[Question], count_tokens: CountTokens, context: int, answer_tokens: int
) -> Mapping[str, int]:
    """Id -> tokens of the prompts that leave less than `answer_tokens` of the model's `context`."""
    counted = {question.id: count_tokens(build_prompt(question)) for question in questions}
    return {name: tokens for name, tokens in counted.items() if tokens + answer_tokens > context}


def refuse_long_prompts(
    path: str | Path,
    questions: Sequence[Question],
    count_tokens: CountTokens,
    context: int | None,
    answer_tokens: int,
    option: str,
) -> None:
    """Raise `MedgrpoError` naming the line of each question of `path` whose prompt is longer than the model.

    `context` is the model's longest sequence (None: unknown, and nothing is checked), of which an answer takes up to
    `answer_tokens`, as the option called `option` says.
    """
    if context is None:
        return
    found = find_long_prompts(questions, count_tokens, context, answer_tokens)
    if not found:
        return
    path = EMBEDDED if str(path) == MINI_EXAM else path
    lines: dict[Any, int] = {record.get("id"): line for line, record in read_objects(path, Problems())}
    problems = Problems()
    for name, tokens in found.items():
        problems.add(
            path,
            f"{name} makes a prompt of {tokens} tokens, which with {option} {answer_tokens} is more than the "
            f"{context} of the model: shorten it, leave it out, or lower {option}",
            lines.get(name),
            "question",
        )
    problems.raise_if_any()
