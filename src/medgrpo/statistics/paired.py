"""One run against its base on the same questions."""

from collections.abc import Sequence
from dataclasses import dataclass

from medgrpo.statistics.intervals import tango_interval
from medgrpo.statistics.mcnemar import McNemarMethod, discordant, mcnemar
from medgrpo.statistics.outcomes import read_pair


@dataclass(frozen=True)
class PairedComparison:
    """What one run gained or lost against the base on the same `n` questions.

    `delta` is `run_accuracy - base_accuracy` and `delta_ci` its paired interval (Tango's score interval) at
    `confidence`, all as shares of 1. `b` counts questions that only the base got right, `c` those that only the
    run got right, and `p` is McNemar's two-sided p by `method`.
    """

    n: int
    base_accuracy: float
    run_accuracy: float
    delta: float
    delta_ci: tuple[float, float]
    b: int
    c: int
    p: float
    method: str
    confidence: float


def compare_paired(
    base_correct: Sequence[bool],
    run_correct: Sequence[bool],
    method: McNemarMethod = "exact",
    confidence: float = 0.95,
) -> PairedComparison:
    """Compares a run with its base on the same questions, given in the same order.

    Raises `ValueError` for sequences of unequal length, for anything but true/false, or for no pairs at all.
    """
    base, run = read_pair(base_correct, run_correct)
    n = len(base)
    if n == 0:
        raise ValueError("nothing to compare: no question was answered by both runs")
    b, c = discordant(base, run)
    low, high = tango_interval(b, c, n, confidence)
    return PairedComparison(
        n=n,
        base_accuracy=int(base.sum()) / n,
        run_accuracy=int(run.sum()) / n,
        delta=(c - b) / n,
        delta_ci=(float(low), float(high)),
        b=b,
        c=c,
        p=mcnemar(b, c, method),
        method=method,
        confidence=confidence,
    )
