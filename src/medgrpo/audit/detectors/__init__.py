"""The detectors: each reads a log and returns its findings, or None where the log does not let it judge."""

from collections.abc import Callable

from medgrpo.audit.detectors.answers import length_explosion, parse_failures, truncation
from medgrpo.audit.detectors.dead_groups import dead_groups
from medgrpo.audit.detectors.dominant_reward import dominant_reward
from medgrpo.audit.detectors.idle_reward import idle_reward
from medgrpo.audit.detectors.language_drift import language_drift
from medgrpo.audit.detectors.policy import broken_numbers, entropy_collapse, kl_explosion
from medgrpo.audit.detectors.ratios import everything_clipped, ratio_one, ratio_spikes
from medgrpo.audit.detectors.reward_hacking import reward_hacking
from medgrpo.audit.finding import Finding
from medgrpo.audit.training_log import TrainingLog

Detector = Callable[[TrainingLog], list[Finding] | None]

DETECTORS: tuple[Detector, ...] = (
    dominant_reward,
    idle_reward,
    dead_groups,
    ratio_one,
    everything_clipped,
    ratio_spikes,
    reward_hacking,
    language_drift,
    length_explosion,
    truncation,
    parse_failures,
    entropy_collapse,
    kl_explosion,
    broken_numbers,
)
