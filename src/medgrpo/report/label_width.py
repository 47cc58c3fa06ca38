"""How wide a label of a figure is, Japanese letters counting twice, and what is left of one that is too wide."""

import unicodedata
from collections.abc import Iterable

LEGEND_COLUMNS = 26
"""The widest label of which two stand beside each other in a legend."""


def count_columns(text: str) -> int:
    """How wide a text is, in half-width letters."""
    return sum(2 if unicodedata.east_asian_width(letter) in "FW" else 1 for letter in text)


def shorten(text: str, columns: int) -> str:
    """The text on one line, cut with … where it is wider than `columns` half-width letters."""
    text = " ".join(text.split())
    if count_columns(text) <= columns:
        return text
    while count_columns(text) > columns - 1:
        text = text[:-1]
    return text.rstrip() + "…"


def legend_columns(labels: Iterable[str]) -> int:
    """How many labels stand beside each other in a figure's legend."""
    return 2 if max(map(count_columns, labels), default=0) > 14 else 4
