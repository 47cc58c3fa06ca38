"""What an evaluation is asked to do: the options of `medgrpo evaluate` and of recipes/evaluate.py."""

from dataclasses import dataclass, field, fields
from typing import Any

from medgrpo.errors import MedgrpoError
from medgrpo.exams.question import Question, read_questions
from medgrpo.exams.splits import parse_years, select_years


def _option(default: Any, help: str, metavar: str | None = None, choices: tuple[str, ...] | None = None) -> Any:
    return field(default=default, metadata={"help": help, "metavar": metavar, "choices": choices})


@dataclass
class EvaluationRequest:
    """Which model answers which questions, how, and where the run goes; one field an option."""

    model: str | None = _option(None, "a model's folder, its Hub name, `tiny`, or the server's name for it", "M")
    questions: str | None = _option(None, "questions, or `mini_exam`", "FILE.jsonl")
    out: str | None = _option(None, "where samples.jsonl and run.json go", "DIR")
    years: str | None = _option(None, "2023-2026 or 2023,2025 (default: all there are)", "YEARS")
    limit: int | None = _option(None, "only the first N questions", "N")
    backend: str = _option(
        "transformers",
        "what generates: transformers, vllm, openai (a server)",
        choices=("transformers", "vllm", "openai"),
    )
    revision: str | None = _option(None, "branch, tag or commit of a Hub model", "REV")
    max_new_tokens: int = _option(1024, "longest answer (1024)", "N")
    temperature: float = _option(0.0, "0 is greedy (0)", "T")
    seed: int = _option(0, "for sampled answers (0)", "N")
    batch_size: int | None = _option(None, "questions at a time (transformers 8, vllm 256, openai 32)", "N")
    chat_template_kwargs: str | None = _option(None, 'for the chat template, e.g. {"enable_thinking": false}', "JSON")
    engine_args: str | None = _option(None, 'for vllm, e.g. {"tensor_parallel_size": 8}', "JSON")
    base_url: str | None = _option(None, "for openai: http://127.0.0.1:8000/v1", "URL")
    api_key_env: str | None = _option(None, "for openai: the environment variable that holds the key", "NAME")
    timeout: float = _option(600.0, "for openai: seconds to wait for one answer (600)", "S")
    policy: str = _option(
        "board",
        "board: excluded questions are not counted, credited ones are right; key: all by their key",
        choices=("board", "key"),
    )
    overwrite: bool = _option(False, "begin anew where DIR holds other completions")

    def __post_init__(self) -> None:
        """Raise `MedgrpoError` for a choice that is none: a config file is not checked by the parser."""
        for option in fields(self):
            choices, value = option.metadata["choices"], getattr(self, option.name)
            if choices and value not in choices:
                raise MedgrpoError(f"{option.name} {value!r}: is none: {', '.join(choices)}")

    def load_questions(self) -> list[Question]:
        """Read the questions and keep the years and the number asked for; raises `MedgrpoError`."""
        for name in ("model", "questions", "out"):
            if getattr(self, name) is None:
                raise MedgrpoError(f"{name} is missing: give --{name}")
        if self.limit is not None and self.limit < 1:
            raise MedgrpoError(f"limit has to be at least 1, got {self.limit}")
        questions = read_questions(self.questions)
        if self.years is not None:
            questions = select_years(questions, parse_years(str(self.years)))
        return questions[: self.limit]
