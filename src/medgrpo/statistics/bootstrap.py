"""How often a run would come out best if the exam were drawn anew."""

import numpy as np
from numpy.typing import ArrayLike

# Counts held at a time: 32 MB.
CHUNK = 4_000_000

# Questions right that count as a tie.
SAME = 1e-6


def probability_best(correct: ArrayLike, draws: int = 2000, seed: int = 0) -> np.ndarray:
    """The share of bootstrap draws in which each method has the highest accuracy: (M, n) outcomes -> (M,).

    An outcome is true/false, or a share of 1: the mean over a method's seeds. A draw takes n questions with
    replacement, the same ones for every method; a tie is shared among those that tie, so the results sum to 1.
    Raises `ValueError` for outcomes outside [0, 1], no method, no question or no draw.
    """
    correct = np.asarray(correct, dtype=np.float64)
    if correct.ndim != 2 or not ((correct >= 0) & (correct <= 1)).all():
        raise ValueError("correct must be an array of 2 dimensions, of true/false or shares of 1")
    methods, n = correct.shape
    if methods == 0 or n == 0 or draws < 1:
        raise ValueError(f"nothing to draw from: {methods} methods, {n} questions, {draws} draws")
    # Questions on which the methods did alike are interchangeable: draw how often each pattern comes up.
    patterns, counts = _patterns(correct)
    generator = np.random.default_rng(seed)
    shares = np.zeros(methods)
    left = draws
    while left:
        size = min(left, max(CHUNK // len(counts), 1))
        drawn = generator.multinomial(n, counts / n, size=size)
        scores = drawn.astype(float) @ patterns
        # Means over seeds add up exactly only to rounding; half a question among 1000 seeds is far above it.
        best = scores > scores.max(axis=1, keepdims=True) - SAME
        shares += (best / best.sum(axis=1, keepdims=True)).sum(axis=0)
        left -= size
    return shares / draws


def _patterns(correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct columns of (M, n) as (P, M), and how often each stands there (P,)."""
    keys = np.ascontiguousarray(correct.T)  # (n, M)
    whole = keys.view(f"V{keys.shape[1] * keys.itemsize}").ravel()  # a column as one value, which sorts fast
    _, first, counts = np.unique(whole, return_index=True, return_counts=True)
    return keys[first], counts
