"""Which questions a run newly won and lost against another, and the first of them to read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from medgrpo.evaluation.samples import Run, Sample, pair_outcomes
from medgrpo.exams.question import Question


@dataclass(frozen=True)
class Example:
    """A question that one run got right and the other wrong, with both completions."""

    sample: Sample
    base: Sample
    question: Question | None


@dataclass(frozen=True)
class Examples:
    """Every question of one kind by id, and the first of them in full."""

    ids: list[str]
    shown: list[Example]


def find_changes(base: Run, run: Run, questions: Mapping[str, Question], limit: int) -> tuple[Examples, Examples]:
    """The questions that `run` newly won and newly lost, in the order of the exam, at most `limit` in full.

    `questions` maps id -> question and adds the texts. Raises `MedgrpoError` for runs over different questions.
    """
    ids, was, now = pair_outcomes(base, run)
    outcomes = list(zip(ids, was, now, strict=True))
    won = [name for name, before, after in outcomes if after and not before]
    lost = [name for name, before, after in outcomes if before and not after]
    base_by_id = {sample.id: sample for sample in base.samples}
    run_by_id = {sample.id: sample for sample in run.samples}

    def show(found: Sequence[str]) -> Examples:
        shown = [Example(run_by_id[name], base_by_id[name], questions.get(name)) for name in found[:limit]]
        return Examples(list(found), shown)

    return show(won), show(lost)
