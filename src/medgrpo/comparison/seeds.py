"""Runs that are seeds of one method, taken together."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from medgrpo.comparison.outcomes import Outcomes
from medgrpo.comparison.result import SeedGroup, SeedPair
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import Run
from medgrpo.statistics import compare_seeds, holm


def check_groups(groups: Mapping[str, Sequence[str]], runs: Mapping[str, Run], base: str) -> None:
    """Raise `MedgrpoError` for a group that cannot be one."""
    taken: dict[str, str] = {}
    for group, members in groups.items():
        if group in runs:
            raise MedgrpoError(f"group {group!r}: a run has this name already: call the group something else")
        if len(members) < 2:
            raise MedgrpoError(f"group {group!r}: has {len(members)} run: seeds of one method are two or more")
        for name in members:
            if name not in runs:
                raise MedgrpoError(f"group {group!r}: no run is called {name!r}: choose from {', '.join(runs)}")
            if name == base:
                raise MedgrpoError(f"group {group!r}: {name!r} is the base: leave it out of the group")
            if name in taken:
                raise MedgrpoError(f"group {group!r}: {name!r} stands in group {taken[name]!r} already")
            taken[name] = group


def compare_groups(
    outcomes: Outcomes, groups: Mapping[str, Sequence[str]], confidence: float
) -> tuple[list[SeedGroup], list[SeedPair]]:
    """Each group against the base, and every two groups, on all questions.

    Raises `MedgrpoError` where there is one question only: nothing can be said of its variation.
    """
    if groups and len(outcomes.ids) < 2:
        raise MedgrpoError("seeds of one method are compared over two questions or more; there is one")
    rows = {
        name: outcomes.correct[[outcomes.names.index(member) for member in members]] for name, members in groups.items()
    }
    against_base = {name: compare_seeds(outcomes.correct[:1], correct, confidence) for name, correct in rows.items()}
    found = [
        SeedGroup(
            name=name,
            runs=tuple(groups[name]),
            n=result.n,
            accuracy=float(np.mean(result.run_accuracies)),
            seed_accuracies=result.run_accuracies,
            seed_sd=result.seed_sd,
            delta=result.delta,
            delta_ci=result.delta_ci,
            p=result.p,
            p_holm=corrected,
        )
        for (name, result), corrected in zip(
            against_base.items(), _holm([result.p for result in against_base.values()]), strict=True
        )
    ]
    among = {
        (first, second): compare_seeds(rows[first], rows[second], confidence) for first, second in combinations(rows, 2)
    }
    pairs = [
        SeedPair(first, second, result.n, result.delta, result.delta_ci, result.p, corrected)
        for ((first, second), result), corrected in zip(
            among.items(), _holm([result.p for result in among.values()]), strict=True
        )
    ]
    return found, pairs


def _holm(p: Sequence[float]) -> list[float]:
    return holm(p).tolist()
