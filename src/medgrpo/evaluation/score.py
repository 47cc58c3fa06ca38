"""Completions become scored samples, and samples a summary.

What counts, for every accuracy of this project, under the policy `board` (the default):
- a question that the exam board *excluded* stays among the samples and leaves the denominator;
- a question *credited* to everyone is right for everyone, whatever was answered;
- a parse failure is a wrong answer (but on a credited question), and is counted separately as well;
- every question weighs 1, and the denominator `n` stands beside every share.

Under the policy `key` the board's decisions are set aside: every question counts, by its key. Its samples say
`scoring` "normal", so everything later counts them so, and a comparison with a run under `board` is refused.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from medgrpo.answers import is_correct, parse_answer
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.journal import PARTIAL_FILE
from medgrpo.evaluation.run_info import build_run_info
from medgrpo.evaluation.samples import RUN_FILE, Run, Sample, list_ids, read_run, write_run
from medgrpo.exams.jsonl import Problems, read_objects
from medgrpo.exams.question import Question, read_questions

Policy = Literal["board", "key"]

__all__ = [
    "Policy",
    "Run",
    "Sample",
    "Summary",
    "Tally",
    "apply_policy",
    "read_completions",
    "read_run",
    "score_completions",
    "score_file",
    "summarise",
    "write_run",
]


@dataclass(frozen=True)
class Tally:
    """Right answers and parse failures among `n` counted questions."""

    n: int
    correct: int
    parse_failures: int

    @property
    def accuracy(self) -> float | None:
        """Share of right answers among `n`; None where nothing is counted."""
        return self.correct / self.n if self.n else None

    @property
    def format_compliance(self) -> float | None:
        """Share of completions that give a readable answer among `n`; None where nothing is counted."""
        return (self.n - self.parse_failures) / self.n if self.n else None


@dataclass(frozen=True)
class Summary(Tally):
    """A run in numbers; `excluded` questions are in no tally, `credited` ones are right in each."""

    excluded: int
    credited: int
    by_year: dict[int, Tally]
    """Year -> tally, years rising; 0 is "year unknown". A year with every question excluded has n = 0."""
    text_only: Tally
    by_department: dict[str, Tally] = field(default_factory=dict)
    """Department -> tally, by name; a question without one is in none of them."""

    def describe(self) -> str:
        """The run in a few lines, a denominator beside every share, and one short line a department."""
        rows = [("all", self), ("text only", self.text_only), *((str(year), t) for year, t in self.by_year.items())]
        spared = " unless credited" if self.credited else ""
        lines = [
            f"{name:<10} {_percent(tally.accuracy)} right ({tally.correct}/{tally.n}), "
            f"{_percent(tally.format_compliance)} readable "
            f"({tally.parse_failures} parse failures, counted as wrong{spared})"
            for name, tally in rows
        ]
        lines += [
            f"  {_percent(tally.accuracy)} ({tally.correct}/{tally.n})  {name}"
            for name, tally in self.by_department.items()
        ]
        if self.excluded or self.credited:
            lines.append(f"{self.excluded} excluded by the board (in no denominator), {self.credited} credited to all")
        return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "  n/a  " if share is None else f"{100 * share:5.1f} %"


def apply_policy(questions: Sequence[Question], policy: Policy) -> list[Question]:
    """The questions as `policy` counts them; raises `MedgrpoError` for a policy that does not exist."""
    if policy not in get_args(Policy):
        raise MedgrpoError(f"policy {policy!r}: is none: {' or '.join(get_args(Policy))}")
    return [q if policy == "board" else replace(q, scoring="normal") for q in questions]


def score_completions(questions: Sequence[Question], completions: Mapping[str, str]) -> list[Sample]:
    """Score one completion per question, in the order of `questions`; `completions` maps id -> text.

    Raises `MedgrpoError` naming the ids where a question has no completion, a completion no question, or two
    questions share an id.
    """
    ids = [question.id for question in questions]
    known = set(ids)
    if len(known) < len(ids):
        doubled = sorted({name for name in ids if ids.count(name) > 1})
        raise MedgrpoError(f"more than one question with the id {list_ids(doubled)}: ids are unique")
    missing = [name for name in ids if name not in completions]
    extra = [name for name in completions if name not in known]
    if missing or extra:
        found = [f"no completion for {list_ids(missing)}"] if missing else []
        found += [f"no question for {list_ids(extra)}"] if extra else []
        raise MedgrpoError(
            f"completions and questions do not match: {'; '.join(found)}. "
            "Give exactly one completion for each question of the file"
        )
    return [_score(question, completions[question.id]) for question in questions]


def summarise(samples: Iterable[Sample]) -> Summary:
    """Count a run: overall, by year and on the questions that need no image."""
    samples = list(samples)
    total = _tally(samples)
    years = sorted({sample.year for sample in samples})
    departments = sorted({sample.department for sample in samples if sample.department is not None})
    return Summary(
        n=total.n,
        correct=total.correct,
        parse_failures=total.parse_failures,
        excluded=len(samples) - total.n,
        credited=sum(sample.scoring == "credited" for sample in samples),
        by_year={year: _tally(sample for sample in samples if sample.year == year) for year in years},
        text_only=_tally(sample for sample in samples if sample.text_only),
        by_department={name: _tally(sample for sample in samples if sample.department == name) for name in departments},
    )


def read_completions(path: str | Path) -> dict[str, str]:
    """Read `{"id", "completion"}` lines as id -> completion, in file order; other keys are ignored.

    Raises `MedgrpoError` naming the line and field of every problem: broken JSON, a missing or empty id, a
    completion that is not text, a doubled id, an empty file.
    """
    problems = Problems()
    completions: dict[str, str] = {}
    for line, record in read_objects(path, problems):
        name, completion = record.get("id"), record.get("completion")
        if not isinstance(name, str) or not name:
            problems.add(path, "is missing or not a text", line, "id")
        elif name in completions:
            problems.add(path, f"{name!r} stands twice: keep one completion a question", line, "id")
        elif not isinstance(completion, str):
            problems.add(path, 'is missing or not a text (an empty answer is "")', line, "completion")
        else:
            completions[name] = completion
    problems.raise_if_any()
    if not completions:
        raise MedgrpoError(f'{path}: holds no completion: one {{"id", "completion"}} object a line')
    return completions


def score_file(
    completions: str | Path,
    questions: str | Path,
    out_dir: str | Path,
    policy: Policy = "board",
    *,
    overwrite: bool = False,
) -> Run:
    """`medgrpo score COMPLETIONS.jsonl --questions FILE.jsonl --out DIR`: score completions, without a model.

    Writes the two files of a run and returns it; model and sampling are unknown and recorded as null. Raises
    `MedgrpoError` where `out_dir` holds a model's run or a begun one, unless `overwrite`.
    """
    if not overwrite:
        _refuse_model_run(Path(out_dir))
    samples = score_completions(apply_policy(read_questions(questions), policy), read_completions(completions))
    run_info = build_run_info(
        model=None,
        revision=None,
        prompt_template=None,
        sampling=None,
        seed=None,
        completions=str(completions),
        questions=str(questions),
        policy=policy,
    )
    run = write_run(out_dir, samples, run_info)
    (Path(out_dir) / PARTIAL_FILE).unlink(missing_ok=True)
    return run


def _refuse_model_run(folder: Path) -> None:
    """Raise where scoring into `folder` would lose what a model has answered or how it was trained."""
    remedy = "choose another --out, or give --overwrite to replace it"
    if (folder / PARTIAL_FILE).exists():
        raise MedgrpoError(f"{folder}: holds a begun evaluation ({PARTIAL_FILE}): {remedy}")
    path = folder / RUN_FILE
    if not path.exists():
        return
    try:
        run_info = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise MedgrpoError(f"{path}: cannot be read, so it may be a model's run ({error}): {remedy}") from error
    if not isinstance(run_info, dict) or run_info.get("model") is not None:
        raise MedgrpoError(f"{folder}: holds the run of a model ({RUN_FILE}): {remedy}")


def _score(question: Question, completion: str) -> Sample:
    answer = parse_answer(completion)
    return Sample(
        id=question.id,
        completion=completion,
        parsed=None if answer is None else answer.parsed,
        parse_failure=answer is None,
        correct=question.scoring == "credited" or is_correct(answer, question.answer),
        contraindicated_chosen=sorted(set(question.contraindicated) & set(answer.letters if answer else ())),
        exam=question.exam,
        year=question.year,
        department=question.department,
        text_only=question.text_only,
        points=question.points,
        required=question.required,
        scoring=question.scoring,
        contraindicated=question.contraindicated,
        counted_only_if_right=question.counted_only_if_right,
        student_accuracy=question.student_accuracy,
    )


def _tally(samples: Iterable[Sample]) -> Tally:
    counted = [sample for sample in samples if sample.counted]
    return Tally(
        n=len(counted),
        correct=sum(sample.correct for sample in counted),
        parse_failures=sum(sample.parse_failure for sample in counted),
    )
