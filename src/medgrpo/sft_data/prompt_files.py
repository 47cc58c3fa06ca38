"""The prompts of the synthesis: three files that a user can edit, filled in for each question."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from medgrpo.errors import MedgrpoError
from medgrpo.exams.jsonl import read_text
from medgrpo.exams.question import Question

PROMPTS = Path(__file__).parent / "prompts"
FILES = ("system.txt", "question.txt", "text.txt")


@dataclass(frozen=True)
class Prompts:
    """What the model is asked in each stage; `digest` tells one set of files from another."""

    system: str
    templates: Mapping[str, Template]
    digest: str

    def messages(self, stage: str, question: Question, person_question: str = "") -> list[dict[str, str]]:
        """The chat [system, user] of a stage for one exam question."""
        filled = self.templates[stage].render(
            question=question.question,
            choices=question.choices,
            answer=describe_answer(question),
            person_question=person_question,
        )
        return [{"role": "system", "content": self.system}, {"role": "user", "content": filled.strip()}]


def read_prompts(folder: str | Path | None = None) -> Prompts:
    """Read `system.txt`, `question.txt` and `text.txt` of a folder; without one, the package's own.

    The files are Jinja templates of `question`, `choices` (letter -> text), `answer`, and in `text.txt` also
    `person_question`. Raises `MedgrpoError` for a file that is missing, empty or no template, and for a name
    that is not one of these.
    """
    folder = PROMPTS if folder is None else Path(folder)
    texts = {name: read_text(folder / name).strip() for name in FILES}
    empty = [name for name, text in texts.items() if not text]
    if empty:
        raise MedgrpoError(f"{folder / empty[0]}: is empty: write the prompt there")
    environment = SandboxedEnvironment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    templates = {}
    for name in FILES[1:]:
        try:
            template = environment.from_string(texts[name])
            template.render(_EXAMPLE)
        except TemplateError as error:
            line = getattr(error, "lineno", None)
            where = f"{folder / name}" + (f", line {line}" if line else "")
            raise MedgrpoError(f"{where}: {error.message or error}: the names are {', '.join(_EXAMPLE)}") from error
        templates[name.removesuffix(".txt")] = template
    digest = hashlib.sha256("\0".join(texts.values()).encode()).hexdigest()[:16]
    return Prompts(texts["system.txt"], templates, digest)


def describe_answer(question: Question) -> str:
    """What is right, in words: the texts of the right choices (without letters), or the number."""
    if question.answer_type == "number":
        return question.answer[0][0]
    return "、".join(question.choices[letter] for letter in question.answer[0])


_EXAMPLE: dict[str, Any] = {"question": "", "choices": {}, "answer": "", "person_question": ""}
