"""Importance ratios that were 1 throughout, clipped throughout, or that jumped."""

from medgrpo.audit.finding import Finding
from medgrpo.audit.training_log import TrainingLog
from medgrpo.audit.trend import mean

FEWEST_STEPS = 5
# Rounding between two passes over the same tokens stays below this.
ROUNDING = 1e-6
MOSTLY_CLIPPED, NEARLY_ALL_CLIPPED = 0.4, 0.7
MANY_SPIKES = 0.05


def ratio_one(log: TrainingLog) -> list[Finding] | None:
    """For GSPO that is a problem (it then equals GRPO); for token ratios a note: nothing could be clipped."""
    high, low = log.series("ratio/token_max"), log.series("ratio/token_min")
    if min(len(high), len(low)) < FEWEST_STEPS:
        return None
    if max(high.values) > 1 + ROUNDING or min(low.values) < 1 - ROUNDING:
        return []
    kind, severity = ("gspo_is_grpo", "problem") if log.sequence_ratios else ("ratio_one", "note")
    numbers = {
        "n": len(high),
        "accumulation": log.arguments.get("gradient_accumulation_steps", "?"),
        "steps_per_generation": log.arguments.get("steps_per_generation", "?"),
        "iterations": log.arguments.get("num_iterations", "?"),
    }
    return [Finding(kind, severity, high.span, numbers)]


def everything_clipped(log: TrainingLog) -> list[Finding] | None:
    """Most of what the updates after the first of a batch of rollouts would have taught was clipped away."""
    high, low = log.series("ratio/token_max"), log.series("ratio/token_min")
    moved = {step for step, value in zip(high.steps, high.values, strict=True) if value > 1 + ROUNDING}
    moved |= {step for step, value in zip(low.steps, low.values, strict=True) if value < 1 - ROUNDING}
    clipped = log.series("clip_ratio/region_mean")
    shares = [share for step, share in zip(clipped.steps, clipped.values, strict=True) if step in moved]
    if len(shares) < FEWEST_STEPS:
        return None
    if mean(shares) < MOSTLY_CLIPPED:
        return []
    below, above = log.arguments.get("epsilon", "?"), log.arguments.get("epsilon_high")
    numbers = {
        "share": mean(shares),
        "n": len(shares),
        "epsilon": f"-{below} / +{below if above is None else above}",
        "level": "sequence" if log.sequence_ratios else "token",
    }
    severity = "problem" if mean(shares) >= NEARLY_ALL_CLIPPED else "warning"
    return [Finding("everything_clipped", severity, clipped.span, numbers)]


def ratio_spikes(log: TrainingLog) -> list[Finding] | None:
    """Many single tokens whose ratio left all proportion, in a run that weighs tokens by it."""
    spikes, highest = log.series("ratio/token_spike_share"), log.series("ratio/token_max")
    if min(len(spikes), len(highest)) < FEWEST_STEPS:
        return None
    if mean(spikes.values) < MANY_SPIKES or log.sequence_ratios:
        return []
    flips = log.series("moe/expert_flip_rate")
    numbers = {
        "share": mean(spikes.values),
        "threshold": log.arguments.get("ratio_spike_threshold", 2.0),
        "highest": max(highest.values),
        "highest_step": highest.steps[highest.values.index(max(highest.values))],
        "flips": f"{100 * mean(flips.values):.1f} %" if len(flips) else "–",
    }
    return [Finding("ratio_spikes", "warning", spikes.span, numbers)]
