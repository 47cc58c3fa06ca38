"""The cells of a comparison: one run against another on one slice, and the families that correct their p."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from medgrpo.comparison.outcomes import Outcomes
from medgrpo.comparison.result import Cell, Family, FamilyChoice, SliceKind
from medgrpo.statistics import (
    McNemarMethod,
    benjamini_hochberg,
    holm,
    mcnemar,
    smallest_detectable_difference,
    smallest_significant_imbalance,
    tango_interval,
    wilson_interval,
)


@dataclass(frozen=True)
class Levels:
    """The levels at which a comparison speaks."""

    confidence: float
    alpha: float
    power: float


def build_cells(
    outcomes: Outcomes, method: McNemarMethod, family: FamilyChoice, levels: Levels
) -> tuple[list[Cell], list[Cell], list[Family]]:
    """Every run against the base, every run against each earlier one, and the families of their tests.

    Each kind of slice is a family of its own. With `family="pairs"` the pairs on all questions join the runs
    against the base there; otherwise, and on every other kind of slice, pairs are families of their own.
    """
    cells = _measure(outcomes, [(0, run) for run in range(1, len(outcomes.names))], method, levels)
    last = len(outcomes.names)
    pairs = _measure(outcomes, [(i, j) for i in range(1, last) for j in range(i + 1, last)], method, levels)
    families: list[Family] = []
    corrected: dict[int, Cell] = {}
    for kind in dict.fromkeys(kind for kind, _ in outcomes.slices):
        against_base = [cell for cell in cells if cell.slice_kind == kind]
        among = [cell for cell in pairs if cell.slice_kind == kind]
        joined = kind == "all" and family == "pairs"
        groups = [(kind, [*against_base, *among])] if joined else [(kind, against_base), (f"pairs: {kind}", among)]
        for name, members in groups:
            if members:
                families.append(_declare(name, kind, members, outcomes.names[0], joined))
                corrected.update(_correct(members, name))
    return [corrected[id(cell)] for cell in cells], [corrected[id(cell)] for cell in pairs], families


def _measure(outcomes: Outcomes, pairs: Sequence[tuple[int, int]], method: McNemarMethod, levels: Levels) -> list[Cell]:
    if not pairs:
        return []
    base, run = np.array(pairs).T
    found = []
    for (kind, name), members in outcomes.slices.items():
        n = len(members)
        right = outcomes.correct[:, members].astype(float)
        both = np.rint(right @ right.T).astype(int)  # (M, M): questions that two runs both got right
        total = both.diagonal()
        b, c = total[base] - both[base, run], total[run] - both[base, run]
        low, high = tango_interval(b, c, n, levels.confidence)
        for i, (first, second) in enumerate(pairs):
            lost, won, correct = int(b[i]), int(c[i]), int(total[second])
            detectable = smallest_detectable_difference(n, (lost + won) / n, levels.alpha, levels.power)
            cell = Cell(
                run=outcomes.names[second],
                base=outcomes.names[first],
                slice_kind=kind,
                slice=name,
                n=n,
                accuracy=correct / n,
                ci=wilson_interval(correct, n, levels.confidence),
                base_accuracy=int(total[first]) / n,
                delta=(won - lost) / n,
                delta_ci=(float(low[i]), float(high[i])),
                b=lost,
                c=won,
                p=_p(lost, won, method),
                p_holm=1.0,
                p_bh=1.0,
                method=method,
                family="",
                detectable_difference=detectable,
                significant_imbalance=smallest_significant_imbalance(lost + won, levels.alpha, method),
            )
            found.append(cell)
    return found


@cache
def _p(b: int, c: int, method: McNemarMethod) -> float:
    return mcnemar(b, c, method)


def _correct(members: Sequence[Cell], family: str) -> dict[int, Cell]:
    p = [cell.p for cell in members]
    corrected = zip(members, holm(p).tolist(), benjamini_hochberg(p).tolist(), strict=True)
    return {id(cell): replace(cell, p_holm=by_holm, p_bh=by_bh, family=family) for cell, by_holm, by_bh in corrected}


def _declare(name: str, kind: SliceKind, members: Sequence[Cell], base: str, joined: bool) -> Family:
    where = {
        "all": ("on all questions", "全問"),
        "text_only": ("on the text-only questions", "テキストのみの問題"),
        "year": ("in each year", "各年度"),
        "department": ("in each department", "各診療科"),
    }[kind]
    if joined:
        who = (f"each run against {base}, and every pair of runs,", f"各手法と {base} の比較、および手法どうしの比較")
    elif name == kind:
        who = (f"each run against {base}", f"各手法と {base} の比較")
    else:
        who = ("every pair of runs", "手法どうしの比較")
    tests = len(members)
    return Family(
        name=name,
        slice_kind=kind,
        tests=tests,
        declared=name in ("all", "department"),
        english=f"{who[0]} {where[0]}: {tests} test{'s' if tests > 1 else ''}",
        japanese=f"{where[1]}における{who[1]}：検定 {tests} 件",
    )
