"""Paired comparison of runs over the same questions: tests, intervals, corrections, power, seeds. No I/O.

Runs answer the same questions, so their scores are not independent and a test for separate samples would waste
what the pairing tells. Only the discordant pairs speak: `b` questions that the base got right and the run got
wrong, `c` the reverse.
"""

from medgrpo.statistics.bootstrap import probability_best
from medgrpo.statistics.intervals import tango_interval, wilson_interval
from medgrpo.statistics.mcnemar import MCNEMAR_METHODS, McNemarMethod, discordant, mcnemar
from medgrpo.statistics.multiplicity import benjamini_hochberg, holm
from medgrpo.statistics.paired import PairedComparison, compare_paired
from medgrpo.statistics.power import mcnemar_power, smallest_detectable_difference, smallest_significant_imbalance
from medgrpo.statistics.seeds import SeedComparison, compare_seeds

__all__ = [
    "MCNEMAR_METHODS",
    "McNemarMethod",
    "PairedComparison",
    "SeedComparison",
    "benjamini_hochberg",
    "compare_paired",
    "compare_seeds",
    "discordant",
    "holm",
    "mcnemar",
    "mcnemar_power",
    "probability_best",
    "smallest_detectable_difference",
    "smallest_significant_imbalance",
    "tango_interval",
    "wilson_interval",
]
