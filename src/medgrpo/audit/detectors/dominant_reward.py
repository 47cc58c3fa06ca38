"""A reward that alone decided the advantage, beyond what its weight asks for."""

from medgrpo.audit.finding import Finding
from medgrpo.audit.training_log import TrainingLog
from medgrpo.audit.trend import mean

FEWEST_BATCHES = 5
# The share, over groups in which every reward varies, from which the others hardly count.
DOMINANT = 0.9
BEYOND_WEIGHTS = 0.05


def dominant_reward(log: TrainingLog) -> list[Finding] | None:
    """Judges groups in which all rewards vary only: where the others are constant, one reward has to decide."""
    names = log.active_rewards
    if len(names) < 2:
        return []
    series = {name: log.series(f"advantage_share_varying/{name}") for name in names}
    if min(len(found) for found in series.values()) < FEWEST_BATCHES:
        return None
    shares = {name: mean(found.values) for name, found in series.items()}
    top = max(shares, key=lambda name: shares[name])
    if shares[top] < DOMINANT or shares[top] < log.expected_share(top) + BEYOND_WEIGHTS:
        return []
    drowned = min(shares, key=lambda name: shares[name])
    return [
        Finding(
            "dominant_reward",
            "problem",
            series[top].span,
            {
                "share": shares[top],
                "expected": log.expected_share(top),
                "batches": len(series[top]),
                "spread": _spread(log, top),
                "drowned": drowned,
                "drowned_share": shares[drowned],
                "drowned_spread": _spread(log, drowned),
            },
            top,
        )
    ]


def _spread(log: TrainingLog, name: str) -> float:
    """Weight times the mean standard deviation within a group; 0 where it was not logged."""
    found = log.series(f"rewards/{name}/group_std")
    return abs(log.weights[name]) * mean(found.values) if len(found) else 0.0
