"""A policy that stopped exploring, ran away from its reference, or broke."""

from statistics import median

from medgrpo.audit.finding import Finding
from medgrpo.audit.training_log import TrainingLog, is_finite
from medgrpo.audit.trend import FEWEST, find_trend

COLLAPSED = 0.1
DEAD_GROUPS = 2 / 3
# In nats a token: half of the steps of the last third lie above.
FAR_AWAY, VERY_FAR_AWAY = 1.0, 5.0
WATCHED = ("loss", "grad_norm", "reward", "kl")


def entropy_collapse(log: TrainingLog) -> list[Finding] | None:
    """The entropy fell below a tenth and most groups stopped differing, while the reward had not risen.

    A run that has learned its task ends with little entropy as well, and that is no collapse.
    """
    entropies = log.series("entropy")
    entropy, dead = find_trend(entropies.values), find_trend(log.series("frac_reward_zero_std").values)
    reward = find_trend(log.series("reward").values)
    if entropy is None or dead is None or reward is None:
        return None
    if entropy.late > COLLAPSED * entropy.early or dead.late < DEAD_GROUPS or reward.rises():
        return []
    numbers = {"early": entropy.early, "late": entropy.late, "dead": dead.late, "reward_early": reward.early}
    numbers |= {"reward_late": reward.late}
    return [Finding("entropy_collapse", "problem", entropies.span, numbers)]


def kl_explosion(log: TrainingLog) -> list[Finding] | None:
    """The distance to the reference model stayed large at the end; single steps may be."""
    distance = log.series("kl")
    if len(distance) < FEWEST:
        return None
    late = median(distance.values[-(len(distance) // 3) :])
    if late < FAR_AWAY:
        return []
    numbers = {"late": late, "highest": max(distance.values), "beta": log.arguments.get("beta", "?")}
    return [Finding("kl_explosion", "problem" if late >= VERY_FAR_AWAY else "warning", distance.span, numbers)]


def broken_numbers(log: TrainingLog) -> list[Finding] | None:
    """Not a number, or infinite: in the loss, the gradient, the reward or the KL."""
    for row in log.rows:
        for key in WATCHED:
            if isinstance(row.get(key), float) and not is_finite(row[key]):
                numbers = {"metric": key, "value": str(row[key]), "step": row["step"]}
                return [Finding("broken_numbers", "problem", (row["step"], log.last_step), numbers, key)]
    return []
