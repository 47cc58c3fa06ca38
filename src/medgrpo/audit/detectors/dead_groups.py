"""Groups that taught nothing: all of their completions earned the same."""

from medgrpo.audit.finding import Finding
from medgrpo.audit.training_log import TrainingLog
from medgrpo.audit.trend import mean

FEWEST_BATCHES = 5
# The share of groups without a difference, over the whole run: a run that ends well has many at its end.
MANY, NEARLY_ALL = 2 / 3, 0.9


def dead_groups(log: TrainingLog) -> list[Finding] | None:
    """Most groups over the run had no difference to learn from."""
    dead = log.series("frac_reward_zero_std")
    if len(dead) < FEWEST_BATCHES:
        return None
    share = mean(dead.values)
    if share < MANY:
        return []
    reward = log.series("reward")
    numbers = {
        "share": share,
        "batches": len(dead),
        "group": log.arguments.get("num_generations", "?"),
        "early": reward.values[0] if len(reward) else 0.0,
        "late": reward.values[-1] if len(reward) else 0.0,
    }
    return [Finding("dead_groups", "problem" if share >= NEARLY_ALL else "warning", dead.span, numbers)]
