"""Intervals: Wilson's for one share, Tango's for the difference of two shares of the same questions."""

import math
import operator

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

# Each step halves the bracket: 2 / 2^52 is below what a float can tell apart here.
BISECTIONS = 52


def wilson_interval(k: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval (1927) for a share of `k` in `n`, inside [0, 1]; (0, 1) where `n` is 0."""
    k, n = operator.index(k), operator.index(n)
    if not 0 <= k <= n:
        raise ValueError(f"a share needs 0 <= k <= n, got k = {k}, n = {n}")
    z = two_sided_z(confidence)
    if n == 0:
        return 0.0, 1.0
    centre = (k + z * z / 2) / (n + z * z)
    half = z * math.sqrt(k * (n - k) / n + z * z / 4) / (n + z * z)
    # The ends are exactly 0 and 1 there; the formula reaches them only up to rounding.
    low = 0.0 if k == 0 else max(centre - half, 0.0)
    high = 1.0 if k == n else min(centre + half, 1.0)
    return low, high


def tango_interval(b: ArrayLike, c: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Tango's score interval (1998) for the paired difference (c - b) / n; arrays of one shape in and out.

    The interval holds every difference that a score test does not reject; it leaves out 0 exactly where the
    uncorrected chi-square test has p < 1 - confidence, so beside an exact p near .05 the two may disagree.

    Why not the Wald interval, delta ± z sqrt(b + c - (b - c)^2 / n) / n: its true coverage falls to 93 % where
    few pairs are discordant (n = 50, 5 + 5 expected), it has no width at b = c = 0, and it leaves [-1, 1]. This
    one covers in 94.1 to 95.9 % from n = 30 to 3757 with 4 expected discordant pairs or more
    (tests/statistics/test_coverage.py); the adjusted Wald of Bonett & Price (2012) covers 97 to 99 % there.
    Raises `ValueError` for counts that aren't 0 <= b, c and b + c <= n, or n = 0.
    """
    b, c, n = (np.asarray(counts, dtype=float) for counts in np.broadcast_arrays(b, c, n))
    if not ((b >= 0) & (c >= 0) & (b + c <= n) & (n > 0)).all():
        raise ValueError("discordant counts need 0 <= b, 0 <= c, b + c <= n and 0 < n")
    z = two_sided_z(confidence)
    delta = (c - b) / n
    # The score falls as the difference rises: it's z at the lower end and -z at the upper one; both at once.
    below, above = np.stack([np.full_like(delta, -1.0), delta]), np.stack([delta, np.full_like(delta, 1.0)])
    bound = np.stack([np.full_like(delta, z), np.full_like(delta, -z)])
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(BISECTIONS):
            middle = (below + above) / 2
            short = _score(b, c, n, middle) > bound
            below, above = np.where(short, middle, below), np.where(short, above, middle)
    low, high = (below + above) / 2
    # Where nothing but wins (losses) was seen, the bound itself is not rejected: 1 (-1) up to the bisection.
    return np.where(b == n, -1.0, low), np.where(c == n, 1.0, high)


def two_sided_z(confidence: float) -> float:
    """Return the normal quantile that leaves (1 - confidence) / 2 above it."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    return float(special.ndtri(0.5 + confidence / 2))


def _score(b: np.ndarray, c: np.ndarray, n: np.ndarray, difference: np.ndarray) -> np.ndarray:
    # q: the likeliest share of "only the base right" if the true difference were `difference`, the positive
    # root of 2n q^2 + first q - b d (1 - d) = 0.
    first = (2 * n - c + b) * difference - b - c
    last = b * difference * (1 - difference)
    q = (np.sqrt(np.maximum(first**2 + 8 * n * last, 0)) - first) / (4 * n)
    variance = n * (2 * q + difference * (1 - difference))
    distance = c - b - n * difference
    return np.where(distance == 0, 0.0, distance / np.sqrt(np.maximum(variance, 0)))
