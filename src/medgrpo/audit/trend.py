"""Whether a series went up or down: its first third against its last."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

# Fewer values than this say nothing about a trend.
FEWEST = 6
# In standard errors: the values of neighbouring steps are not independent, so more than the usual two.
SURE = 3.0


@dataclass(frozen=True)
class Trend:
    """Means of the first and the last third, and the standard error of their difference."""

    early: float
    late: float
    error: float

    @property
    def change(self) -> float:
        """Late minus early."""
        return self.late - self.early

    def rises(self, by: float = 0.0) -> bool:
        """Whether it rose by at least `by`, and by more than chance explains."""
        return self.change >= by and self.change > SURE * self.error

    def falls(self, by: float = 0.0) -> bool:
        """Whether it fell by at least `by`, and by more than chance explains."""
        return -self.change >= by and -self.change > SURE * self.error


def find_trend(values: Sequence[float]) -> Trend | None:
    """The trend of a series in the order of its steps; None for fewer than 6 values."""
    if len(values) < FEWEST:
        return None
    third = len(values) // 3
    early, late = values[:third], values[-third:]
    error = math.sqrt((variance(early) + variance(late)) / third)
    return Trend(mean(early), mean(late), error)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean."""
    return sum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    """The sample variance."""
    centre = mean(values)
    return sum((value - centre) ** 2 for value in values) / (len(values) - 1)
