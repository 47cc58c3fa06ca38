"""What exam papers and answer keys write, in one plain form, and how many choices a question asks for."""

import re
import unicodedata

_ASKS_FOR = re.compile(r"([1-9])つ選べ")


def plain(text: str) -> str:
    """Return the text in half-width forms (NFKC), without blanks around it."""
    return unicodedata.normalize("NFKC", text).strip()


def count_asked(question: str) -> int | None:
    """How many choices the question itself asks for (2つ選べ, ２つ選べ); None where it names no number."""
    asked = _ASKS_FOR.findall(plain(question))
    return int(asked[-1]) if asked else None
