"""Completions that grew without bound, were cut off, or hold no readable answer."""

from medgrpo.audit.finding import Finding
from medgrpo.audit.training_log import TrainingLog, is_finite
from medgrpo.audit.trend import find_trend

GROWTH = 2.0
# Of max_completion_length: a doubled answer that is still short is no explosion.
NEAR_THE_LIMIT = 0.5
MANY_CUT, HALF_CUT = 0.2, 0.5
MANY_UNREADABLE, HALF_UNREADABLE = 0.2, 0.5


def length_explosion(log: TrainingLog) -> list[Finding] | None:
    """The mean length at least doubled and reached half of the limit."""
    lengths = log.series("completions/mean_length")
    trend = find_trend(lengths.values)
    limit = log.arguments.get("max_completion_length")
    if trend is None:
        return None
    if not trend.rises((GROWTH - 1) * trend.early) or (is_finite(limit) and trend.late < NEAR_THE_LIMIT * limit):
        return []
    numbers = {"early": trend.early, "late": trend.late, "limit": limit if is_finite(limit) else "?"}
    return [Finding("length_explosion", "warning", lengths.span, numbers)]


def truncation(log: TrainingLog) -> list[Finding] | None:
    """Many completions of the last third ended at the limit."""
    cut = log.series("completions/clipped_ratio")
    trend = find_trend(cut.values)
    if trend is None:
        return None
    if trend.late < MANY_CUT:
        return []
    numbers = {"early": trend.early, "late": trend.late, "limit": log.arguments.get("max_completion_length", "?")}
    return [Finding("truncation", "problem" if trend.late >= HALF_CUT else "warning", cut.span, numbers)]


def parse_failures(log: TrainingLog) -> list[Finding] | None:
    """Many completions of the last third hold no answer that can be read."""
    failures = log.series("answers/parse_failure_rate")
    trend = find_trend(failures.values)
    if trend is None:
        return None
    if trend.late < MANY_UNREADABLE:
        return []
    numbers = {"early": trend.early, "late": trend.late}
    severity = "problem" if trend.late >= HALF_UNREADABLE else "warning"
    return [Finding("parse_failures", severity, failures.span, numbers)]
