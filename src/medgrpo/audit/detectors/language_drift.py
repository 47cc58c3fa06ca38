"""Answers that left Japanese: by the rewards that watch it, and by the held-out answers themselves."""

from medgrpo.audit.finding import Finding
from medgrpo.audit.training_log import TrainingLog
from medgrpo.audit.trend import find_trend
from medgrpo.evaluation.samples import Run
from medgrpo.japanese import is_japanese
from medgrpo.statistics import discordant, mcnemar

WATCHING = ("japanese", "chinese")
# A fall of the share of Japanese completions by this much; both are 0 to 1.
FALL = 0.05
HALF = 0.5
FEWEST_ANSWERS = 50
SURE = 0.01


def language_drift(log: TrainingLog) -> list[Finding] | None:
    """A reward that fell, or fewer Japanese answers after than before (McNemar's p below .01)."""
    findings, judged = [], False
    for name in WATCHING:
        series = log.series(f"rewards/{name}/mean")
        trend = find_trend(series.values)
        if trend is None:
            continue
        judged = True
        if trend.falls(FALL):
            severity = "problem" if trend.late < HALF else "warning"
            numbers = {"early": trend.early, "late": trend.late}
            findings.append(Finding("language_drift", severity, series.span, numbers, name))
    if log.before is not None and log.after is not None and len(log.before.samples) >= FEWEST_ANSWERS:
        judged = True
        was, now = _japanese(log.before), _japanese(log.after)
        ids = sorted(was.keys() & now.keys())
        lost, won = discordant([was[name] for name in ids], [now[name] for name in ids])
        early, late = sum(was[name] for name in ids) / len(ids), sum(now[name] for name in ids) / len(ids)
        if early - late >= FALL and mcnemar(lost, won) < SURE:
            severity = "problem" if late < HALF else "warning"
            numbers = {"early": early, "late": late, "n": len(ids)}
            findings.append(Finding("language_drift_answers", severity, (0, log.last_step), numbers))
    return findings if judged else None


def _japanese(run: Run) -> dict[str, bool]:
    return {sample.id: is_japanese(sample.completion) for sample in run.samples}
