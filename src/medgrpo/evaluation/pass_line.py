"""Would it pass? The rules of the Japanese medical licensing exam, applied to a scored run.

Since 2018 an examinee has to meet three conditions (the ministry's announcement of each year's results):

1. Required questions (必修, blocks B and E): 80 % of their points (1 a general, 3 a clinical question). The
   denominator is the examinee's own: what the board withdrew is in nobody's, and a question that it found
   unsuitable as a required one stays for who got it right and leaves the denominator of who did not.
2. All other questions, a point each: the year's relative line.
3. Contraindicated choices (禁忌肢): chosen in at most 3 questions. Two in one question count once.

The lines are data, `pass_lines.csv`, each with its source. A line is for the whole exam: where questions are
missing, the verdict is given only if they could not change it, whatever their answers were.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Literal

from medgrpo.evaluation.samples import Sample
from medgrpo.exams.question import Question

LICENSING_EXAMS = ("igakuqa", "医師国家試験")
"""What `exam` is called in questions of the licensing exam; pass lines apply to these and to nothing else."""
QUESTIONS_A_YEAR = 400
PASS_LINES_FILE = Path(__file__).with_name("pass_lines.csv")

Verdict = Literal["passed", "failed", "cannot be said"]


@dataclass(frozen=True)
class PassLine:
    """One year's rule, one row of `pass_lines.csv`."""

    year: int
    number: int
    """The exam's number: the 116th was held in 2022."""
    required_points: int
    """What the required questions gave that the board did not withdraw."""
    required_share: Fraction
    relative_line: int
    """Least points of the other questions."""
    out_of: int
    """What these questions gave that the board did not withdraw."""
    max_contraindicated: int
    source: str


@dataclass(frozen=True)
class Part:
    """One of the three conditions: met, not met, or None = open."""

    met: bool | None
    text: str
    """Got, of, and the line, for people."""


@dataclass(frozen=True)
class PassResult:
    """A run's standing in one year of the licensing exam."""

    year: int
    line: PassLine | None
    """None: no line is known of that year."""
    questions: int
    """Questions in the run, those that the board withdrew with them; the exam has 400."""
    required_got: int
    required_of: int
    """Points of the required questions, without withdrawn ones and the examinee's own."""
    other_got: int
    other_of: int
    contraindicated: int
    """In how many questions a contraindicated choice was chosen."""
    marked: int
    """How many questions mark one; 0: the file does not tell."""
    parts: tuple[Part, ...]
    """Required, others, contraindicated; empty where no line is known."""

    @property
    def verdict(self) -> Verdict:
        """`failed` by one condition that is not met, `passed` by all three, else not to be said."""
        if any(part.met is False for part in self.parts):
            return "failed"
        return "passed" if self.parts and all(part.met for part in self.parts) else "cannot be said"

    @property
    def reasons(self) -> list[str]:
        """Why not passed: each condition that fails it or, where nothing does, that is open."""
        if not self.parts:
            return [f"no pass line of {self.year} is known"]
        wanted = False if self.verdict == "failed" else None
        return [part.text for part in self.parts if part.met is wanted]


def judge_pass(samples: Iterable[Sample], *, text_only: bool = False) -> list[PassResult]:
    """Judge every year of the licensing exam among the samples, years rising; other exams are passed over.

    With `text_only` the questions with images are taken as missing.
    """
    by_year: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.exam in LICENSING_EXAMS and sample.year and (sample.text_only or not text_only):
            by_year.setdefault(sample.year, []).append(sample)
    return [_judge_year(year, by_year[year]) for year in sorted(by_year)]


def describe_pass(samples: Sequence[Sample], questions: Iterable[Question] = ()) -> str:
    """The verdicts in a few lines a year, text only beneath, beside the students' accuracy where it is known.

    `questions` fill in what a run scored by an older medgrpo does not record. Empty where the samples hold no
    year of the licensing exam.
    """
    samples = _complete(samples, {question.id: question for question in questions})
    shares = {result.year: result for result in judge_pass(samples, text_only=True)}
    lines = []
    for result in judge_pass(samples):
        lines += _describe_year(result)
        part = shares.get(result.year)
        if part is not None and part.questions < result.questions:
            lines.append(f"  text only ({part.questions} questions): {_describe_shares(part)}")
        students = _describe_students([s for s in samples if s.exam in LICENSING_EXAMS and s.year == result.year])
        lines += [f"  {students}"] if students else []
    return "\n".join(lines)


@cache
def read_pass_lines() -> dict[int, PassLine]:
    """The shipped pass lines by year."""
    with PASS_LINES_FILE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        int(row["year"]): PassLine(
            year=int(row["year"]),
            number=int(row["number"]),
            required_points=int(row["required_points"]),
            required_share=Fraction(row["required_share"]),
            relative_line=int(row["relative_line"]),
            out_of=int(row["out_of"]),
            max_contraindicated=int(row["max_contraindicated"]),
            source=row["source"],
        )
        for row in rows
    }


def _judge_year(year: int, samples: Sequence[Sample]) -> PassResult:
    counted = [sample for sample in samples if sample.counted]
    required = [sample for sample in counted if sample.required]
    kept = [sample for sample in required if sample.correct or not sample.counted_only_if_right]
    others = [sample for sample in counted if not sample.required]
    line = read_pass_lines().get(year)
    result = PassResult(
        year=year,
        line=line,
        questions=len(samples),
        required_got=_points(sample for sample in kept if sample.correct),
        required_of=_points(kept),
        other_got=_points(sample for sample in others if sample.correct),
        other_of=_points(others),
        contraindicated=sum(bool(sample.contraindicated_chosen) for sample in counted),
        marked=sum(bool(sample.contraindicated) for sample in counted),
        parts=(),
    )
    if line is None:
        return result
    parts = (
        _judge_required(result, line, line.required_points - _points(required)),
        _judge_others(result, line),
        _judge_contraindicated(result, line),
    )
    return replace(result, parts=parts)


def _judge_required(result: PassResult, line: PassLine, missing: int) -> Part:
    """`missing`: points that the exam gave and the run has no question for; below 0, the run has too many."""
    got, of, share = result.required_got, result.required_of, line.required_share
    whole = of + missing
    least, most = got + min(missing, 0), got + max(missing, 0)
    met = True if least >= share * whole else False if most < share * whole else None
    return Part(met, f"required {got}/{of} points = {_percent(got, of)} (line {float(share):.0%}){_gap(missing)}")


def _judge_others(result: PassResult, line: PassLine) -> Part:
    got, of = result.other_got, result.other_of
    missing = line.out_of - of
    least, most = got + min(missing, 0), got + max(missing, 0)
    met = True if least >= line.relative_line else False if most < line.relative_line else None
    return Part(met, f"others {got}/{of} (line {line.relative_line}/{line.out_of}){_gap(missing)}")


def _judge_contraindicated(result: PassResult, line: PassLine) -> Part:
    chosen, most = result.contraindicated, line.max_contraindicated
    if chosen > most:
        return Part(False, f"contraindicated choices in {chosen} questions (at most {most})")
    if result.marked == 0:
        return Part(None, "contraindicated choices: the questions mark none, so not known")
    text = f"contraindicated choices in {chosen} questions (at most {most})"
    if result.questions < QUESTIONS_A_YEAR:
        return Part(None, f"{text}, other questions missing")
    return Part(True, text)


def _gap(missing: int) -> str:
    if missing == 0:
        return ""
    return f", {missing} points missing" if missing > 0 else f", {-missing} points that the board did not count"


def _describe_year(result: PassResult) -> list[str]:
    if result.line is None:
        got = f"required {_percent(result.required_got, result.required_of)}"
        return [f"{result.year}: cannot be said: {result.reasons[0]} ({got} of their points)"]
    heading = f"{result.year} (exam {result.line.number}): {result.verdict}"
    if result.verdict == "cannot be said" and result.questions < QUESTIONS_A_YEAR:
        heading += f" from {result.questions} of {QUESTIONS_A_YEAR} questions"
    marks = {True: "met", False: "not met", None: "open"}
    return [heading, *(f"  {marks[part.met]:<8}{part.text}" for part in result.parts)]


def _describe_shares(result: PassResult) -> str:
    """The shares of what is there: a line for the whole exam gives no verdict on a part of it."""
    text = f"required {_percent(result.required_got, result.required_of)}"
    text += f", others {_percent(result.other_got, result.other_of)}"
    if result.line is None:
        return text
    lines = f"{float(result.line.required_share):.0%} and {_percent(result.line.relative_line, result.line.out_of)}"
    return f"{text} (lines of the whole exam {lines}: no verdict)"


def _describe_students(samples: Sequence[Sample]) -> str:
    known = [sample for sample in samples if sample.counted and sample.student_accuracy is not None]
    if not known:
        return ""
    students = sum(sample.student_accuracy or 0.0 for sample in known) / len(known)
    run = sum(sample.correct for sample in known) / len(known)
    return f"students {students:.1%} right on average, this run {run:.1%}, on the same {len(known)} questions"


def _complete(samples: Sequence[Sample], questions: dict[str, Question]) -> list[Sample]:
    return [
        replace(
            sample,
            contraindicated=questions[sample.id].contraindicated,
            counted_only_if_right=questions[sample.id].counted_only_if_right,
            student_accuracy=questions[sample.id].student_accuracy,
        )
        if sample.id in questions
        else sample
        for sample in samples
    ]


def _points(samples: Iterable[Sample]) -> int:
    return sum(sample.points for sample in samples)


def _percent(got: int, of: int) -> str:
    return f"{got / of:.1%}" if of else "n/a"
