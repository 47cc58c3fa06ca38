"""What exam papers and answer keys write, in one plain form, and how many choices a question asks for."""

import re
import unicodedata

from medgrpo.nfkc import nfkc

# べ may be written as へ with a mark, and the digit in any form of which NFKC makes one.
_ASKS_FOR = re.compile("([1-9１-９¹²³⁴-⁹₁-₉①-⑨𝟏-𝟗𝟙-𝟡𝟣-𝟫𝟭-𝟵𝟷-𝟿])つ選(?:べ|へ[\u3099\uff9e])")
LONGEST_KEY = 10_000  # characters


def plain(text: str) -> str:
    """Return a key, an id or another short text in half-width forms (NFKC), without blanks around it.

    A text of more than 10,000 characters comes back as it is: no key is that long, so that whoever reads it refuses it
    either way, and NFKC may make eighteen characters of one.
    """
    return nfkc(text).strip() if len(text) <= LONGEST_KEY else text


def count_asked(question: str) -> int | None:
    """How many choices the question itself asks for (2つ選べ, ２つ選べ); None where it names no number."""
    asked = _ASKS_FOR.findall(question)
    return int(unicodedata.normalize("NFKC", asked[-1])) if asked else None
