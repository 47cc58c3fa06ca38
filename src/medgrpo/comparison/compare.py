"""Runs over the same questions against a base: `compare_runs`, the way in."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np

from medgrpo.comparison.cautions import find_cautions
from medgrpo.comparison.cells import Levels, build_cells
from medgrpo.comparison.outcomes import Outcomes, lay_side_by_side
from medgrpo.comparison.result import (
    BestMethod,
    Comparison,
    Correction,
    FamilyChoice,
    RunFacts,
    SliceScore,
)
from medgrpo.comparison.seeds import check_groups, compare_groups
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import Run
from medgrpo.owner import last_name
from medgrpo.statistics import MCNEMAR_METHODS, McNemarMethod, probability_best, wilson_interval


def compare_runs(
    runs: Mapping[str, Run],
    base: str,
    *,
    method: McNemarMethod = "exact",
    family: FamilyChoice = "base",
    groups: Mapping[str, Sequence[str]] | None = None,
    correction: Correction = "holm",
    confidence: float = 0.95,
    alpha: float = 0.05,
    power: float = 0.8,
    draws: int = 2000,
    seed: int = 0,
    folders: Mapping[str, str] | None = None,
) -> Comparison:
    """Compare the scored runs, by name, with `runs[base]` and with each other.

    `family` says which tests on all questions are corrected together: each run against the base, or these and
    every pair. Departments are a family of their own, to be read by `correction`. `groups` names the runs that
    are seeds of one method. `draws` and `seed` are the bootstrap's. `folders` says where a run was read.

    Raises `MedgrpoError` for runs over different questions or with none that counts, fewer than two runs, a
    group of unknown, doubled or single runs, and for options outside their range.
    """
    groups = {name: tuple(members) for name, members in (groups or {}).items()}
    _check(
        runs, base, method, family, correction, {"confidence": confidence, "alpha": alpha, "power": power}, draws, seed
    )
    check_groups(groups, runs, base)
    outcomes = lay_side_by_side(runs, base)
    levels = Levels(confidence, alpha, power)
    cells, pairs, families = build_cells(outcomes, method, family, levels)
    seeds, seed_pairs = compare_groups(outcomes, groups, confidence)
    facts = tuple(
        _describe(name, row, runs[name], outcomes, confidence, (folders or {}).get(name, ""))
        for row, name in enumerate(outcomes.names)
    )
    return Comparison(
        base=base,
        runs=outcomes.names[1:],
        facts=facts,
        slices=tuple(outcomes.slices),
        cells=tuple(cells),
        pairs=tuple(pairs),
        families=tuple(families),
        best=tuple(_find_best(outcomes, groups, draws, seed)),
        method=method,
        family=family,
        correction=correction,
        confidence=confidence,
        alpha=alpha,
        power=power,
        draws=draws,
        seed=seed,
        seeds=tuple(seeds),
        seed_pairs=tuple(seed_pairs),
        cautions=tuple(find_cautions(runs, facts, outcomes, groups)),
    )


def _check(
    runs: Mapping[str, Run],
    base: str,
    method: str,
    family: str,
    correction: str,
    shares: Mapping[str, float],
    draws: int,
    seed: int,
) -> None:
    if base not in runs:
        raise MedgrpoError(f"no run is called {base!r}: the base has to be one of {', '.join(runs) or 'the runs'}")
    if len(runs) < 2:
        raise MedgrpoError(f"only the base {base!r} was given: name at least one run to compare with it")
    for name, value, choices in (
        ("method", method, MCNEMAR_METHODS),
        ("family", family, get_args(FamilyChoice)),
        ("correction", correction, get_args(Correction)),
    ):
        if value not in choices:
            raise MedgrpoError(f"unknown {name} {value!r}: choose from {', '.join(choices)}")
    for name, share in shares.items():
        if not 0 < share < 1:
            raise MedgrpoError(f"{name} has to lie between 0 and 1, not {share}")
    if draws < 1:
        raise MedgrpoError(f"draws has to be 1 or more, not {draws}")
    if seed < 0:
        raise MedgrpoError(f"seed has to be 0 or more, not {seed}")


def _describe(name: str, row: int, run: Run, outcomes: Outcomes, confidence: float, folder: str) -> RunFacts:
    scores = []
    for (kind, slice_name), members in outcomes.slices.items():
        n, correct = len(members), int(outcomes.correct[row, members].sum())
        failures = int(outcomes.parse_failure[row, members].sum())
        scores.append(
            SliceScore(
                slice_kind=kind,
                slice=slice_name,
                n=n,
                correct=correct,
                accuracy=correct / n,
                ci=wilson_interval(correct, n, confidence),
                parse_failures=failures,
                format_compliance=(n - failures) / n,
            )
        )
    return RunFacts(
        name=name,
        # comparison.json is shared: a machine's own tree does not belong there.
        folder=last_name(folder),
        n=len(outcomes.ids),
        excluded=len(run.samples) - len(outcomes.ids),
        credited=sum(sample.scoring == "credited" for sample in run.samples),
        parse_failures=scores[0].parse_failures,
        model=_shown_model(run),
        revision=_known(run, "revision", str),
        seed=_known(run, "seed", int),
        sampling=_known(run, "sampling", dict),
        scores=tuple(scores),
    )


def _shown_model(run: Run) -> str | None:
    model = _known(run, "model", str)
    return None if model is None else last_name(model)


def _known(run: Run, field: str, kind: type) -> Any:
    """What `run.json` says, None where it does not say it (scored completions from elsewhere)."""
    value = run.run_info.get(field)
    return value if isinstance(value, kind) else None


def _find_best(outcomes: Outcomes, groups: Mapping[str, Sequence[str]], draws: int, seed: int) -> list[BestMethod]:
    names, outcome_means = _methods(outcomes, groups)
    found = []
    for (kind, slice_name), members in outcomes.slices.items():
        if kind not in ("all", "department"):
            continue
        means = outcome_means[:, members]
        accuracies = means.mean(axis=1)
        probabilities = probability_best(means, draws, seed)
        winners = np.flatnonzero(np.isclose(accuracies, accuracies.max(), rtol=0, atol=1e-9))
        found.append(
            BestMethod(
                slice_kind=kind,
                slice=slice_name,
                n=len(members),
                winners=tuple(names[i] for i in winners),
                delta=float(accuracies.max() - accuracies[0]),
                probability_best=dict(zip(names, probabilities.tolist(), strict=True)),
            )
        )
    return found


def _methods(outcomes: Outcomes, groups: Mapping[str, Sequence[str]]) -> tuple[list[str], np.ndarray]:
    """The base, every run that is in no group, and each group as the mean of its seeds: names and (K, n)."""
    grouped = {name for members in groups.values() for name in members}
    alone = [i for i, name in enumerate(outcomes.names) if name not in grouped]
    rows = [outcomes.correct[i].astype(float) for i in alone]
    rows += [
        outcomes.correct[[outcomes.names.index(name) for name in members]].mean(axis=0) for members in groups.values()
    ]
    return [*(outcomes.names[i] for i in alone), *groups], np.array(rows)
