"""A reward that never moved the policy: the same for all completions of a group, or drowned by the others."""

from medgrpo.audit.finding import Finding
from medgrpo.audit.training_log import TrainingLog
from medgrpo.audit.trend import mean

FEWEST_BATCHES = 5
ALWAYS_CONSTANT = 0.98
DROWNED = 0.02
# A reward that its weight asks to be small is not drowned.
MEANT_TO_COUNT = 0.1


def idle_reward(log: TrainingLog) -> list[Finding] | None:
    """A constant reward is a note (a guard that nothing violates is as it should be), a drowned one a warning."""
    findings, judged = [], False
    for name in log.active_rewards:
        constant = log.series(f"rewards/{name}/frac_constant")
        if len(constant) < FEWEST_BATCHES:
            continue
        judged = True
        share = log.series(f"advantage_share_varying/{name}")
        value = log.series(f"rewards/{name}/mean")
        early = constant.values[: max(1, len(constant) // 3)]
        if min(mean(early), mean(constant.values)) >= ALWAYS_CONSTANT:
            numbers = {"constant": mean(constant.values), "value": mean(value.values) if len(value) else 0.0}
            findings.append(Finding("constant_reward", "note", constant.span, numbers, name))
        elif (
            len(share) >= FEWEST_BATCHES
            and abs(mean(share.values)) < DROWNED
            and log.expected_share(name) >= MEANT_TO_COUNT
        ):
            numbers = {"share": mean(share.values), "expected": log.expected_share(name), "batches": len(share)}
            findings.append(Finding("drowned_reward", "warning", share.span, numbers, name))
    return findings if judged else None
