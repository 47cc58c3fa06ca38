"""The reward rose, the held-out accuracy did not."""

from medgrpo.audit.finding import Finding
from medgrpo.audit.training_log import TrainingLog
from medgrpo.audit.trend import find_trend, mean
from medgrpo.evaluation.samples import pair_outcomes
from medgrpo.statistics import compare_paired

# Of the reward's own standard deviation: less than this is no rise worth the name.
WORTH_NAMING = 0.1
FEWEST_QUESTIONS = 50
FEWEST_EVALUATIONS = 3
SIGNIFICANCE = 0.05
# The reward that scores the answer itself, as the held-out accuracy does.
ACCURACY_REWARD = "ophtho"


def reward_hacking(log: TrainingLog) -> list[Finding] | None:
    """Judges by the answers before and after where the run has them, else by evaluations during training."""
    rewards, spread = log.series("reward"), log.series("reward_std")
    trend = find_trend(rewards.values)
    if trend is None or not len(spread):
        return None
    rising = trend.rises(WORTH_NAMING * mean(spread.values))
    numbers = {"early": trend.early, "late": trend.late, "risen": _most_risen(log)}
    if log.before is not None and log.after is not None:
        _, was, now = pair_outcomes(log.before, log.after)
        if len(was) < FEWEST_QUESTIONS:
            return None
        paired = compare_paired(was, now)
        if not rising or paired.delta > 0:
            return []
        numbers |= {"n": len(was), "before": sum(was) / len(was), "after": sum(now) / len(now), "p": paired.p}
        severity = "problem" if paired.p < SIGNIFICANCE else "warning"
        return [Finding("reward_hacking", severity, rewards.span, numbers)]
    evaluated = log.series(f"eval_rewards/{ACCURACY_REWARD}/mean")
    if len(evaluated) < FEWEST_EVALUATIONS:
        return None
    if not rising or evaluated.values[-1] > evaluated.values[0]:
        return []
    numbers |= {"n": len(evaluated), "before": evaluated.values[0], "after": evaluated.values[-1]}
    return [Finding("reward_hacking_evaluations", "warning", evaluated.span, numbers)]


def _most_risen(log: TrainingLog) -> str:
    """The reward that gained most for the weighted sum."""
    gains = {}
    for name in log.active_rewards:
        trend = find_trend(log.series(f"rewards/{name}/mean").values)
        gains[name] = log.weights[name] * trend.change if trend else 0.0
    return max(gains, key=lambda name: gains[name]) if gains else ""
