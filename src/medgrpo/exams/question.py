"""The question: what every later step of the pipeline reads, and the checks that its file must pass."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

from medgrpo.errors import MedgrpoError
from medgrpo.exams.jsonl import Problems, read_objects, write_objects

AnswerType = Literal["choice", "number"]
Scoring = Literal["normal", "excluded", "credited"]

# The exam that the package carries, by its name and its file.
MINI_EXAM = "mini_exam"
EMBEDDED = Path(__file__).with_name("mini_exam.jsonl")

# Far beyond any exam's: what is longer is another file's content, and every later step would choke on it.
LONGEST_QUESTION = 100_000

LETTER = re.compile(r"[a-z]")
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True)
class Question:
    """One exam question, one line of `questions.jsonl`; the fields up to `answer` have to be in the file."""

    id: str
    """The exam's own number, e.g. `116A1`; unique in a file."""
    question: str
    choices: dict[str, str]
    """Letter -> text, in the order a, b, c; empty for a numeric question. A text may be blank (an image)."""
    answer: list[list[str]]
    """The accepted answers: each a sorted list of letters ([["a", "c"]]; [["a"], ["d"]] for "a or d"), or a
    list with one number string ([["2.1"]])."""
    answer_type: AnswerType = "choice"
    scoring: Scoring = "normal"
    """`excluded`: the board gave it 0 points; `credited`: everyone was marked right."""
    exam: str = ""
    """The exam's name; empty = unknown, and then the leakage check by exam and year passes it over."""
    year: int = 0
    """The year it was set; 0 = unknown."""
    department: str | None = None
    text_only: bool = True
    points: int = 1
    required: bool = False
    """必修: one of the questions for which the pass line is absolute."""
    contraindicated: list[str] = field(default_factory=list)
    """禁忌肢: letters of choices that would harm the patient, sorted."""
    counted_only_if_right: bool = False
    """A required question that the board found unsuitable as one (必修問題としては妥当でない): it counts for who
    got it right and leaves the denominator of who did not. Only the pass line knows it; accuracies count it."""
    student_accuracy: float | None = None
    """The share of examinees who got it right, 0 to 1; null = unknown."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that stands for it in `questions.jsonl`, fields in schema order."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Question":
        """Build a question from its JSON object; raises `MedgrpoError` that names every field at fault."""
        faults = find_faults(record)
        if faults:
            listed = "; ".join(f"field {name}: {message}" for name, message in faults)
            raise MedgrpoError(f"question {record.get('id')!r}: {listed}")
        return cls(**record)


FIELDS = tuple(f.name for f in fields(Question))
NEEDED = ("id", "question", "choices", "answer")


def find_faults(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Check one JSON object against the schema: (field, what is wrong and what to do) for every fault."""
    faults = []
    for name in record:
        if name not in FIELDS:
            near = difflib.get_close_matches(name, FIELDS, n=1)
            hint = f"did you mean {near[0]}?" if near else "remove it"
            faults.append((name, f"unknown field: {hint}"))
    faults += [(name, "is missing") for name in NEEDED if name not in record]
    for name, (holds, wanted) in _SHAPES.items():
        if name in record and not holds(record[name]):
            faults.append((name, f"is {shorten(record[name])}, has to be {wanted}"))
    if isinstance(record.get("question"), str) and len(record["question"]) > LONGEST_QUESTION:
        faults.append(("question", f"has {len(record['question'])} characters, {LONGEST_QUESTION} at most: shorten it"))
    # Fields that hang together are compared only once each has its shape.
    return faults or _compare_fields(record)


def read_questions(path: str | Path) -> list[Question]:
    """Read `questions.jsonl` (UTF-8, with or without BOM), in the order of the file.

    `mini_exam` names the embedded exam. Raises `MedgrpoError` naming line and field of every problem (the first
    ten and the count): a broken line, a missing, unknown or misshapen field, an answer that is none of the
    choices, a doubled id, an empty file.
    """
    path = EMBEDDED if str(path) == MINI_EXAM else path
    problems = Problems()
    questions = []
    seen: dict[str, int] = {}
    for line, record in read_objects(path, problems):
        faults = find_faults(record)
        for name, message in faults:
            problems.add(path, message, line, name)
        name = record.get("id")
        if isinstance(name, str):
            if name in seen:
                problems.add(path, f"{name!r} stands already in line {seen[name]}: ids are unique", line, "id")
            seen.setdefault(name, line)
        if not faults:
            questions.append(Question(**record))
    problems.raise_if_any()
    if not questions:
        raise MedgrpoError(f"{path}: holds no question: one JSON object a line is expected")
    return questions


def write_questions(path: str | Path, questions: Iterable[Question]) -> None:
    """Write `questions.jsonl`, whole or not at all; raises `MedgrpoError` for what could not be read back."""
    records = [question.to_json() for question in questions]
    problems = Problems()
    seen: set[str] = set()
    for line, record in enumerate(records, start=1):
        for name, message in find_faults(record):
            problems.add(path, message, line, name)
        if record["id"] in seen:
            problems.add(path, f"{record['id']!r} stands twice: ids are unique", line, "id")
        seen.add(record["id"])
    if not records:
        problems.add(path, "no questions to write")
    problems.raise_if_any()
    write_objects(path, records)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _is_ordered(values: list[Any]) -> bool:
    """Whether the strings rise, none twice."""
    return all(isinstance(v, str) for v in values) and values == sorted(set(values))


def _is_letters(values: Any) -> bool:
    return isinstance(values, list) and _is_ordered(values) and all(LETTER.fullmatch(v) for v in values)


def _is_choices(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and len(value) != 1
        and _is_letters(list(value))
        and all(isinstance(text, str) for text in value.values())
    )


def _is_answer(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 0
        and all(isinstance(accepted, list) and accepted and _is_ordered(accepted) for accepted in value)
        and len(set(map(tuple, value))) == len(value)
    )


_SHAPES = {
    "id": (lambda v: _is_text(v) and v == v.strip(), "a text without blanks around it"),
    "question": (_is_text, "a text that is not blank"),
    "choices": (_is_choices, 'two or more choices {"a": "...", "b": "..."} in that order, or {}'),
    "answer": (_is_answer, 'a list of accepted answers, each a sorted list such as ["a", "c"]'),
    "answer_type": (lambda v: v in get_args(AnswerType), '"choice" or "number"'),
    "scoring": (lambda v: v in get_args(Scoring), '"normal", "excluded" or "credited"'),
    "exam": (lambda v: isinstance(v, str), "a text"),
    "year": (lambda v: _is_int(v) and v >= 0, "a whole number such as 2022"),
    "department": (lambda v: v is None or _is_text(v), "a text that is not blank, or null"),
    "text_only": (lambda v: isinstance(v, bool), "true or false"),
    "points": (lambda v: _is_int(v) and v >= 0, "a whole number from 0 up"),
    "required": (lambda v: isinstance(v, bool), "true or false"),
    "contraindicated": (_is_letters, 'a sorted list of letters such as ["c", "d"]'),
    "counted_only_if_right": (lambda v: isinstance(v, bool), "true or false"),
    "student_accuracy": (lambda v: v is None or _is_share(v), "a share from 0 to 1 such as 0.874, or null"),
}


def _compare_fields(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    faults = []
    choices, answer = record["choices"], record["answer"]
    if record.get("answer_type", "choice") == "number":
        if choices:
            faults.append(("choices", 'a question with answer_type "number" has none: {}'))
        for accepted in answer:
            if len(accepted) != 1 or not NUMBER.fullmatch(accepted[0]):
                faults.append(("answer", f'{shorten(accepted)} is not one number such as ["2.1"]'))
    elif not choices:
        faults.append(("choices", 'are empty: a question for a number says "answer_type": "number"'))
    else:
        strangers = sorted({letter for accepted in answer for letter in accepted} - set(choices))
        if strangers:
            faults.append(("answer", f"{', '.join(strangers)} is not among the choices {', '.join(choices)}"))
    strangers = [letter for letter in record.get("contraindicated", []) if letter not in choices]
    if strangers:
        faults.append(("contraindicated", f"{', '.join(strangers)} is not among the choices {', '.join(choices)}"))
    if record.get("counted_only_if_right", False) and not record.get("required", False):
        faults.append(("counted_only_if_right", "is true of a question that is not required: only those have the rule"))
    return faults


def shorten(value: Any) -> str:
    """Show a value in an error message, cut where it would fill the screen."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
