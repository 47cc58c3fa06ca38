"""A user's own exam becomes questions: one row a question, as CSV or as JSON Lines with the same names.

The layout is described, with an example, in docs/data-formats.md:

- needed: `id`, `question`, `answer`;
- choices: `a`, `b`, ... (or `choice_a`, ...), without a gap; none of them in a question for a number. JSON Lines may
  have `choices` as a list or an object instead;
- `answer`: `b`; `ac` or `a,c` for two at once; `a or d` where either is right; a number where there are no choices;
- as in questions.jsonl, and blank for their defaults: `exam`, `year`, `department`, `text_only`, `points`,
  `required`, `scoring`, `contraindicated` (like `answer`), `counted_only_if_right`, `student_accuracy`;
- a column whose name starts with `#` is a remark and is passed over. Any other column is refused.
"""

import csv
import difflib
import io
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from string import ascii_lowercase as LETTERS
from typing import Any

from medgrpo.errors import MedgrpoError
from medgrpo.exams.jsonl import Complain, Problems, read_objects, read_text, read_utf8_bytes
from medgrpo.exams.keys import LONGEST_KEY, count_asked, plain
from medgrpo.exams.question import FIELDS, NUMBER, Question, find_faults, shorten

NEEDED = ("id", "question", "answer")
COLUMNS = tuple(name for name in FIELDS if name not in ("choices", "answer_type"))

_CHOICE = re.compile(r"(?:choice_)?([a-z])")
_SEPARATORS = re.compile(r"[\s,、・]+")
# Blanks are looked at from their first one only: from each of them, a long run would take for ever.
_OR = re.compile(r"(?<!\s)\s+or\s+|(?<!\s)\s*(?:または|又は)\s*|(?:または|又は)\s*")


def read_table(path: str | Path, exam: str | None = None, year: int | None = None) -> list[Question]:
    """Read a table, `.jsonl` as JSON Lines and anything else as CSV (UTF-8, with or without BOM), in its order.

    `exam` and `year` fill blank cells and missing columns. Raises `MedgrpoError` with file, line and column of the
    first ten problems and how many there are; a file in Shift_JIS is named as such.
    """
    path = Path(path)
    defaults = {key: value for key, value in (("exam", exam), ("year", year)) if value is not None}
    problems = Problems()
    noun, rows = ("field", _read_jsonl) if path.suffix.lower() == ".jsonl" else ("column", _read_csv)
    questions: list[Question] = []
    seen: dict[str, int] = {}
    for line, row in rows(path, problems):
        complain = problems.at(path, line, noun)
        question = _convert(row, defaults, complain)
        name = _cell(row, "id")
        if name in seen:
            complain("id", f"{name!r} stands already in line {seen[name]}: ids are unique")
        seen.setdefault(name, line)
        questions += [question] if question else []
    problems.raise_if_any()
    if not questions:
        raise MedgrpoError(f"{path}: holds no question: one row a question is expected under the heading")
    return questions


def _read_jsonl(path: Path, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, record in read_objects(path, problems):
        unknown = _find_unknown([name for name in record if name != "choices"])
        for name, message in [*unknown, *((name, "is missing") for name in NEEDED if name not in record)]:
            problems.add(path, message, line, name)
        if unknown or not set(NEEDED) <= set(record):
            continue
        nested = [name for name, value in record.items() if name != "choices" and not _is_flat(value)]
        for name in nested:
            problems.add(path, f"is {shorten(record[name])}, has to be a text, a number, true or false", line, name)
        if nested:
            continue
        choices = record.pop("choices", None)
        if isinstance(choices, list):
            choices = dict(zip(LETTERS, choices, strict=False))
        if choices is not None and not _is_choices(choices):
            problems.add(path, f"are {shorten(choices)}, have to be a list or an object of texts", line, "choices")
            continue
        yield line, {**record, **(choices or {})}


def _is_flat(value: Any) -> bool:
    values = value if isinstance(value, list) else [value]
    return all(item is None or isinstance(item, str | int | float) for item in values)


def _is_choices(value: Any) -> bool:
    return isinstance(value, dict) and all(
        re.fullmatch("[a-z]", letter) and isinstance(text, str) for letter, text in value.items()
    )


def _read_csv(path: Path, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    if read_utf8_bytes(path)[:2] == b"PK":
        raise MedgrpoError(f"{path}: is a workbook (.xlsx or .ods), not CSV: save it as CSV UTF-8")
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        heading = [name.strip() for name in next(reader, [])]
        _check_heading(path, heading)
        line = reader.line_num + 1
        for cells in reader:
            if any(cell.strip() for cell in cells):
                if len(cells) == len(heading):
                    yield line, {name: cell for name, cell in zip(heading, cells, strict=True) if name[:1] != "#"}
                else:
                    message = f"has {len(cells)} cells under {len(heading)} names: a text with a comma needs quotes"
                    problems.add(path, message, line)
            line = reader.line_num + 1
    except csv.Error as error:
        problems.add(path, f"not CSV ({error})", reader.line_num)


def _check_heading(path: Path, heading: list[str]) -> None:
    if len(heading) == 1 and re.search("[;\t]", heading[0]):
        raise MedgrpoError(f"{path}, line 1: is not separated by commas: save it as CSV with commas")
    problems = Problems()
    for name, message in _find_unknown(heading):
        problems.add(path, message, 1, name or "''", "column")
    for name in NEEDED:
        if name not in heading:
            problems.add(path, "is missing from the heading", 1, name, "column")
    letters = [match[1] for name in heading if (match := _CHOICE.fullmatch(name))]
    for name in {name for name in heading if heading.count(name) > 1} | {c for c in letters if letters.count(c) > 1}:
        problems.add(path, "stands twice in the heading: keep one", 1, name, "column")
    problems.raise_if_any()


def _find_unknown(names: list[str]) -> list[tuple[str, str]]:
    faults = []
    for name in names:
        if name not in COLUMNS and not _CHOICE.fullmatch(name) and name[:1] != "#":
            near = difflib.get_close_matches(name.lower(), COLUMNS, n=1)
            hint = f"did you mean {near[0]}?" if near else "remove it, or write # before its name for a remark"
            faults.append((name, f"is not known: {hint}"))
    return faults


def _convert(row: Mapping[str, Any], defaults: Mapping[str, Any], complain: Complain) -> Question | None:
    """Build one question, or complain of every cell at fault and return None."""
    complaints: list[str] = []

    def note(column: str, message: str) -> None:
        complaints.append(column)
        complain(column, message)

    text = _cell(row, "question")
    choices = _read_choices(row, note)
    converted: dict[str, Any] = {"id": _cell(row, "id"), "question": text, "choices": choices, **defaults}
    converted["answer_type"] = "choice" if choices else "number"
    converted["answer"] = (_read_letters if choices else _read_number)(_cell(row, "answer"), note)
    for column, read in _READERS.items():
        cell = _cell(row, column)
        if cell:
            converted[column] = read(cell, column, note)
    asked = count_asked(text)
    if choices and asked and any(len(letters) != asked for letters in converted["answer"]):
        note("answer", f"is {_cell(row, 'answer')!r}, but the question asks for {asked}: mend one of them")
    if complaints:
        return None
    faults = find_faults(converted)
    for column, message in faults:
        complain(column, message)
    return None if faults else Question(**converted)


def _cell(row: Mapping[str, Any], column: str) -> str:
    """A cell as text: a JSON value as its CSV cell would read (true, 2022, a,c)."""
    value = row.get(column)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "" if value is None else str(value).strip()


def _read_choices(row: Mapping[str, Any], note: Complain) -> dict[str, str]:
    """Read the choices in order; blank ones at the end are none."""
    cells = {match[1]: _cell(row, name) for name in row if (match := _CHOICE.fullmatch(name))}
    filled = [letter for letter in sorted(cells) if cells[letter]]
    wanted = LETTERS[: len(filled)]
    if filled != list(wanted):
        lost = next(letter for letter, wanted_letter in zip(wanted, filled, strict=True) if letter != wanted_letter)
        note(lost, f"is blank while {filled[-1]} is filled: write its text (or what it shows, where it is an image)")
    return {letter: cells[letter] for letter in filled}


def _read_letters(cell: str, note: Complain) -> list[list[str]]:
    if len(cell) > LONGEST_KEY:
        note("answer", f"is {shorten(cell)}: no answer has {len(cell)} characters")
        return []
    accepted = []
    for part in _OR.split(plain(cell).lower()):
        letters = [letter for word in _SEPARATORS.split(part) for letter in word]
        if not letters or not all(letter in LETTERS for letter in letters) or len(set(letters)) < len(letters):
            note("answer", f"is {cell!r}, has to be like b, ac or a,c (both), or a or d (either)")
            return []
        accepted.append(sorted(letters))
    return accepted


def _read_number(cell: str, note: Complain) -> list[list[str]]:
    parts = [part.replace("−", "-") for part in _OR.split(plain(cell))] if len(cell) <= LONGEST_KEY else [""]
    if not all(NUMBER.fullmatch(part) for part in parts):
        note("answer", f"is {shorten(cell)}: a question without choices has a number such as 2.1 as its answer")
        return []
    return [[part] for part in parts]


def _read_text_cell(cell: str, column: str, note: Complain) -> str:
    return cell


def _read_int(cell: str, column: str, note: Complain) -> int:
    if re.fullmatch("[0-9]{1,9}", plain(cell)):
        return int(plain(cell))
    note(column, f"is {cell!r}, has to be a whole number")
    return 0


def _read_bool(cell: str, column: str, note: Complain) -> bool:
    value = {"true": True, "1": True, "false": False, "0": False}.get(plain(cell).lower())
    if value is None:
        note(column, f"is {cell!r}, has to be true or false (or 1 or 0)")
    return bool(value)


def _read_marks(cell: str, column: str, note: Complain) -> list[str]:
    letters = _SEPARATORS.sub("", plain(cell).lower())
    if not re.fullmatch("[a-z]*", letters):
        note(column, f"is {cell!r}, has to be letters such as c or c,d")
    return sorted(set(letters))


def _read_share(cell: str, column: str, note: Complain) -> float:
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]+)?)\s*(%?)", plain(cell))
    share = round(float(match[1]) / (100 if match[2] else 1), 6) if match else 2.0
    if share > 1:
        note(column, f"is {cell!r}, has to be a share such as 0.874 or 87.4%")
    return share


_READERS: dict[str, Callable[[str, str, Complain], Any]] = {
    "exam": _read_text_cell,
    "year": _read_int,
    "department": _read_text_cell,
    "text_only": _read_bool,
    "points": _read_int,
    "required": _read_bool,
    "scoring": _read_text_cell,
    "contraindicated": _read_marks,
    "counted_only_if_right": _read_bool,
    "student_accuracy": _read_share,
}
