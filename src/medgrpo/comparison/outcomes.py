"""Runs laid side by side: one matrix of outcomes, one row a run, and the slices of its questions."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from medgrpo.comparison.result import SliceKind
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import Run, Sample, pair_outcomes


@dataclass(frozen=True)
class Outcomes:
    """What M runs did on the n questions that count, the base in row 0."""

    names: tuple[str, ...]
    ids: list[str]
    correct: np.ndarray
    """(M, n) bool."""
    parse_failure: np.ndarray
    """(M, n) bool."""
    slices: dict[tuple[SliceKind, str], np.ndarray]
    """(kind, name) -> indices of its questions, never empty; all, text only, years rising, departments."""


def lay_side_by_side(runs: Mapping[str, Run], base: str) -> Outcomes:
    """Align the runs by question id; excluded questions are left out.

    Raises `MedgrpoError` naming the run and the ids where it holds other questions than the base, or says other
    things of one (its year, its scoring, ...), and where no question counts.
    """
    names = (base, *(name for name in runs if name != base))
    ids: list[str] = []
    correct, failures = [], []
    for name in names:
        try:
            ids, _, right = pair_outcomes(runs[base], runs[name])
        except MedgrpoError as error:
            raise MedgrpoError(f"base {base!r} and run {name!r}: {error}") from error
        correct.append(right)
        failed = {sample.id: sample.parse_failure for sample in runs[name].samples}
        failures.append([failed[question] for question in ids])
    if not ids:
        raise MedgrpoError("nothing to compare: every question of the runs is excluded, so no accuracy exists")
    counted = [sample for sample in runs[base].samples if sample.counted]
    return Outcomes(names, ids, np.array(correct, dtype=bool), np.array(failures, dtype=bool), _slices(counted))


def _slices(samples: list[Sample]) -> dict[tuple[SliceKind, str], np.ndarray]:
    """A question without a year (0) or department stands in no slice of that kind."""
    slices: dict[tuple[SliceKind, str], np.ndarray] = {("all", "all"): np.arange(len(samples))}
    text_only = np.flatnonzero([sample.text_only for sample in samples])
    if len(text_only):
        slices["text_only", "text_only"] = text_only
    years = np.array([sample.year for sample in samples])
    for year in sorted(set(years.tolist()) - {0}):
        slices["year", str(year)] = np.flatnonzero(years == year)
    # Departments in the order of the exam, which is the one that its people know.
    departments = np.array([sample.department or "" for sample in samples], dtype=object)
    for department in dict.fromkeys(name for name in departments if name):
        slices["department", department] = np.flatnonzero(departments == department)
    return slices
