"""A request's folders become runs with names, each read once."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medgrpo.comparison.request import ComparisonRequest
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import Run, check_writable, list_ids, read_run
from medgrpo.exams.question import Question, read_questions


@dataclass(frozen=True)
class ComparedRuns:
    """The runs of a request, by name, and the questions' texts where they were given."""

    runs: dict[str, Run]
    base: str
    groups: dict[str, list[str]]
    """Method -> names of the runs that are its seeds."""
    folders: dict[str, str]
    questions: list[Question]


def read_runs(request: ComparisonRequest) -> ComparedRuns:
    """Read every run once and give each a name; raises `MedgrpoError` for what cannot be compared."""
    if request.base is None:
        raise MedgrpoError(
            "no base is given: name its folder first (`medgrpo compare BASE RUN ...`), or as `base` in the recipe's "
            "options or the YAML file"
        )
    if request.out is None:
        raise MedgrpoError("no folder for the report is given: name it with --out")
    groups = _parse_groups(request.group)
    entries = [_parse_run(text) for text in (request.base, *request.runs)]
    given = {folder.resolve() for _, folder in entries}
    if len(given) < len(entries):
        doubled = next(f for i, (_, f) in enumerate(entries) if f.resolve() in [g.resolve() for _, g in entries[:i]])
        raise MedgrpoError(f"{doubled} is given twice: name every run once, and the base not among the runs")
    # A group's folders are runs as well; they need not be named a second time.
    for folder in dict.fromkeys(folder for folders in groups.values() for folder in folders):
        if folder.resolve() not in given:
            given.add(folder.resolve())
            entries.append((None, folder))
    if len(entries) < 2:
        raise MedgrpoError(f"only the base {request.base} is given: name at least one run to compare with it")
    check_writable(request.out)
    questions = [] if request.questions is None else read_questions(request.questions)
    names = _name_runs(entries)
    by_folder = {folder.resolve(): name for (_, folder), name in zip(entries, names, strict=True)}
    with _no_garbage():
        runs = {name: read_run(folder) for (_, folder), name in zip(entries, names, strict=True)}
    if request.questions is not None:
        _check_questions(request.questions, questions, runs)
    return ComparedRuns(
        runs=runs,
        base=names[0],
        groups={name: [by_folder[folder.resolve()] for folder in folders] for name, folders in groups.items()},
        folders={name: str(folder) for (_, folder), name in zip(entries, names, strict=True)},
        questions=questions,
    )


def _check_questions(path: str, questions: Sequence[Question], runs: Mapping[str, Run]) -> None:
    """Questions of another exam would leave the report's examples without a text, or with a wrong one."""
    known = {question.id for question in questions}
    for name, run in runs.items():
        missing = [sample.id for sample in run.samples if sample.id not in known]
        if missing:
            raise MedgrpoError(
                f"{path}: lacks {list_ids(missing)}, which {name} answered: give the questions that were scored"
            )


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Keep the collector from walking the samples over and over while they are made: none of them is garbage."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _parse_run(text: str) -> tuple[str | None, Path]:
    """`NAME=DIR` or `DIR`; a folder that has a = in its own name is taken as it is."""
    if "=" not in text or Path(text).is_dir():
        return None, Path(text)
    name, folder = text.split("=", 1)
    if not name.strip() or not folder:
        raise MedgrpoError(f"{text!r}: has to be a folder, or NAME=DIR")
    return name.strip(), Path(folder)


def _parse_groups(texts: Sequence[str]) -> dict[str, list[Path]]:
    groups: dict[str, list[Path]] = {}
    for text in texts:
        name, equals, listed = text.partition("=")
        folders = [Path(folder.strip()) for folder in listed.split(",") if folder.strip()]
        if not equals or not name.strip() or not folders:
            raise MedgrpoError(f"group {text!r}: has to be NAME=DIR,DIR, the folders of a method's seeds")
        if name.strip() in groups:
            raise MedgrpoError(f"group {name.strip()!r} is given twice: name all its folders in one --group")
        groups[name.strip()] = folders
    return groups


def _name_runs(entries: Sequence[tuple[str | None, Path]]) -> list[str]:
    """The given name, or as much of the folder's end as tells it from the others (`after`, `grpo/after`)."""
    given = [name for name, _ in entries if name is not None]
    doubled = next((name for name in given if given.count(name) > 1), None)
    if doubled is not None:
        raise MedgrpoError(f"two runs are called {doubled!r}: give each a name of its own")
    parts = [folder.resolve().parts for _, folder in entries]
    lengths = [1] * len(entries)
    while True:
        names = [given_name or "/".join(parts[i][-lengths[i] :]) for i, (given_name, _) in enumerate(entries)]
        clashing = [i for i, name in enumerate(names) if names.count(name) > 1 and entries[i][0] is None]
        longer = [i for i in clashing if lengths[i] < len(parts[i])]
        if not longer:
            return names
        for i in longer:
            lengths[i] += 1
