"""The two files of a scored run, `samples.jsonl` and `run.json`: written whole, read with checks."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, get_args

from medgrpo.errors import MedgrpoError
from medgrpo.exams.jsonl import Problems, read_objects, write_objects
from medgrpo.exams.question import Scoring
from medgrpo.owner import without_owner

SAMPLES_FILE = "samples.jsonl"
RUN_FILE = "run.json"

# Raised when a field of either file changes its meaning, so that an old run is refused and not misread.
SCHEMA = 1

# What a sample repeats of its question.
QUESTION_FIELDS = ("exam", "year", "department", "text_only", "points", "required", "scoring")


@dataclass(frozen=True)
class Sample:
    """One scored question, one line of `samples.jsonl`."""

    id: str
    completion: str
    parsed: list[str] | str | None
    """The letters, the number string, or None where the completion gives no readable answer."""
    parse_failure: bool
    correct: bool
    """Whether the answer is right; true for everybody where `scoring` is "credited"."""
    contraindicated_chosen: list[str]
    """禁忌肢 among the chosen letters, sorted."""
    exam: str
    year: int
    department: str | None
    text_only: bool
    points: int
    required: bool
    scoring: Scoring
    # Later fields: a run written before them is read with these values.
    contraindicated: list[str] | None = None
    """禁忌肢 that the question marks, sorted; None = not recorded."""
    counted_only_if_right: bool = False
    """Whether the question leaves the denominator of the pass line where the answer is wrong."""
    student_accuracy: float | None = None
    """The share of examinees who got the question right, 0 to 1; None = unknown."""

    @property
    def counted(self) -> bool:
        """Whether the question stands in the denominator of an accuracy (the board excluded the others)."""
        return self.scoring != "excluded"


@dataclass(frozen=True)
class Run:
    """A scored run: its samples in the order of the questions, and what `run.json` says about it."""

    samples: list[Sample]
    run_info: dict[str, Any]


def write_run(out_dir: str | Path, samples: Sequence[Sample], run_info: Mapping[str, Any]) -> Run:
    """Write `samples.jsonl` and `run.json` into `out_dir` (made where missing); returns what was written.

    `run.json` is removed first and written last, so a folder that has it is complete, whenever the process
    was stopped. Raises `MedgrpoError` for a folder that cannot be written, for no samples, a doubled id or a
    `run_info` that is not JSON.
    """
    folder = Path(out_dir)
    run_info = without_owner({"schema": SCHEMA, **run_info})
    try:
        text = json.dumps(run_info, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise MedgrpoError(f"{folder / RUN_FILE}: run_info is not JSON ({error})") from error
    if not samples:
        raise MedgrpoError(f"{folder}: no samples to write")
    ids = [sample.id for sample in samples]
    if len(set(ids)) < len(ids):
        doubled = sorted({name for name in ids if ids.count(name) > 1})
        raise MedgrpoError(f"{folder}: more than one sample for {list_ids(doubled)}")
    temporary = folder / f".{RUN_FILE}.{os.getpid()}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(text, encoding="utf-8", newline="\n")
            (folder / RUN_FILE).unlink(missing_ok=True)
            write_objects(folder / SAMPLES_FILE, (asdict(sample) for sample in samples))
            temporary.replace(folder / RUN_FILE)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise MedgrpoError(f"{folder}: cannot be written ({error.strerror}): use another folder") from error
    return Run(list(samples), json.loads(text))


def check_writable(out_dir: str | Path) -> None:
    """Make `out_dir` and write a passing file there: so that hours of generation are not lost.

    Raises `MedgrpoError` where the folder cannot be made or written.
    """
    try:
        Path(out_dir).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out_dir) as file:
            file.write(b"x")
    except OSError as error:
        raise MedgrpoError(f"{out_dir}: cannot be written ({error.strerror}): choose another --out") from error


def read_run(run_dir: str | Path) -> Run:
    """Read a scored run; raises `MedgrpoError` for a folder that is none, or of another schema.

    Fields are checked one by one: every problem is named with its line and what to do.
    """
    folder = Path(run_dir)
    if not folder.is_dir():
        raise MedgrpoError(f"{folder}: no such folder: give the --out folder of a scored run")
    run_info = _read_run_info(folder / RUN_FILE)
    problems = Problems()
    path = folder / SAMPLES_FILE
    samples: list[Sample] = []
    seen: set[str] = set()
    for line, record in read_objects(path, problems):
        faults = _find_faults(record)
        for name, message in faults:
            problems.add(path, message, line, name)
        if faults:
            continue
        if record["id"] in seen:
            problems.add(path, f"{record['id']!r} stands twice: score the run again", line, "id")
        seen.add(record["id"])
        samples.append(Sample(**record))
    problems.raise_if_any()
    if not samples:
        raise MedgrpoError(f"{path}: holds no sample: score the run again")
    return Run(samples, run_info)


def pair_outcomes(base: Run, run: Run) -> tuple[list[str], list[bool], list[bool]]:
    """Ids, the base's outcomes and the run's on the questions that both count, in the base's order.

    Raises `MedgrpoError` naming the ids where the runs hold different questions, or say different things of
    one (its scoring, year, ...): their accuracies would not be about the same exam.
    """
    base_by_id = {sample.id: sample for sample in base.samples}
    run_by_id = {sample.id: sample for sample in run.samples}
    only_base = [name for name in base_by_id if name not in run_by_id]
    only_run = [name for name in run_by_id if name not in base_by_id]
    if only_base or only_run:
        found = [
            f"only the {side} has {list_ids(ids)}" for side, ids in (("base", only_base), ("run", only_run)) if ids
        ]
        raise MedgrpoError(f"the runs hold different questions: {'; '.join(found)}. Score both on the same file")
    for field in QUESTION_FIELDS:
        differing = [name for name in base_by_id if getattr(base_by_id[name], field) != getattr(run_by_id[name], field)]
        if differing:
            raise MedgrpoError(
                f"the runs differ in the {field} of {list_ids(differing)}: score both on one question file"
            )
    ids = [name for name, sample in base_by_id.items() if sample.counted]
    return ids, [base_by_id[name].correct for name in ids], [run_by_id[name].correct for name in ids]


def list_ids(ids: Sequence[str], shown: int = 5) -> str:
    """The first ids and how many there are in all: `116A1, 116A2 (2)`, `116A1, ... (400)`."""
    names = ", ".join(ids[:shown]) + (", ..." if len(ids) > shown else "")
    return f"{names} ({len(ids)})"


def _read_run_info(path: Path) -> dict[str, Any]:
    try:
        run_info = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise MedgrpoError(
            f"{path.parent}: no {RUN_FILE}: not a scored run, or one that was interrupted; score it again"
        ) from error
    except OSError as error:
        raise MedgrpoError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise MedgrpoError(f"{path}: not JSON ({error}): score the run again") from error
    schema = run_info.get("schema") if isinstance(run_info, dict) else None
    if schema is None:
        raise MedgrpoError(
            f"{path}: says no schema, so medgrpo did not write it: score the completions with `medgrpo score`"
        )
    if schema != SCHEMA:
        raise MedgrpoError(
            f"{path}: has schema {schema!r}, this medgrpo reads {SCHEMA}: score the completions again with "
            "`medgrpo score`, or read them with the version that wrote them"
        )
    return run_info


# In a tuple of its own: thousands of lines are checked against it.
_NEEDED = tuple(field.name for field in fields(Sample) if field.default is MISSING)


def _find_faults(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    faults = [(name, "is missing: score the run again") for name in _NEEDED if name not in record]
    faults += [(name, "unknown field: score the run again") for name in record if name not in _SHAPES]
    faults += [
        (name, f"is {record[name]!r:.60}, has to be {wanted}")
        for name, (holds, wanted) in _SHAPES.items()
        if name in record and not holds(record[name])
    ]
    if not faults and record["parse_failure"] != (record["parsed"] is None):
        faults.append(("parse_failure", "has to be true where parsed is null, and only there"))
    return faults


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_letters(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(letter, str) for letter in value)


_SHAPES = {
    "id": (_is_text, "a text"),
    "completion": (_is_text, "a text"),
    "parsed": (lambda v: v is None or _is_text(v) or _is_letters(v), "letters, a number string or null"),
    "parse_failure": (_is_bool, "true or false"),
    "correct": (_is_bool, "true or false"),
    "contraindicated_chosen": (_is_letters, "a list of letters"),
    "exam": (_is_text, "a text"),
    "year": (_is_int, "a whole number"),
    "department": (lambda v: v is None or _is_text(v), "a text or null"),
    "text_only": (_is_bool, "true or false"),
    "points": (_is_int, "a whole number"),
    "required": (_is_bool, "true or false"),
    "scoring": (lambda v: v in get_args(Scoring), " or ".join(get_args(Scoring))),
    "contraindicated": (lambda v: v is None or _is_letters(v), "a list of letters or null"),
    "counted_only_if_right": (_is_bool, "true or false"),
    "student_accuracy": (lambda v: v is None or _is_share(v), "a share from 0 to 1 or null"),
}
