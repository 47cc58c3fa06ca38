"""Where a completion's `[ans]...[/ans]` tags stand after its thinking, found in the text as it was written.

A model may write a tag in full-width, circled or mathematical letters. The tags are looked for in all these spellings
at once, which finds what NFKC would show without the cost of normalising a text of any length.
"""

import re
import unicodedata
from collections.abc import Iterator

# The blocks with letters and brackets that NFKC makes ASCII or 【】〔〕; tests go through all of Unicode.
_BLOCKS = ((0xA0, 0x180), (0x2B0, 0x300), (0x1D00, 0x1DC0), (0x2000, 0x2190), (0x2460, 0x2500), (0x3000, 0x3001),
           (0xFE30, 0xFE70), (0xFF00, 0xFF60), (0x1CCD0, 0x1CD00), (0x1D400, 0x1D6C0), (0x1F110, 0x1F150))  # fmt: skip


def _spellings() -> dict[str, str]:
    """Character -> all that NFKC makes it of, upper and lower case, itself included."""
    spelt = {char: {char, char.upper()} for char in "[【〔]】〕<>/anstik h\t\n\r\f\v"}
    for start, end in _BLOCKS:
        for char in map(chr, range(start, end)):
            plain = unicodedata.normalize("NFKC", char)
            if plain.lower() in spelt and (plain.isascii() or plain in spelt):
                spelt[plain.lower()].add(char)
    return {char: "".join(sorted(found)) for char, found in spelt.items()}


_SPELT = _spellings()


def _any(*chars: str) -> str:
    return f"[{re.escape(''.join(_SPELT[char] for char in chars))}]"


_OPENING, _CLOSING = "[【〔", "]】〕"
_SPACE = _any(*" \t\n\r\f\v") + "*+"
_NS = f"(?:{_any('n')}{_any('s')}|\u33b1)"  # ㎱ is a single character
_IN = f"(?:{_any('i')}{_any('n')}|\u33cc)"
# Each begins with one character, for which a search is much faster than for a set of them: see `_open_alike`.
_TAG = re.compile(rf"\[{_SPACE}({_any('/')})?{_SPACE}{_any('a')}{_NS}{_SPACE}{_any(*_CLOSING)}")
_THINK = re.compile(f"<({_any('/')})?{_any('t')}{_any('h')}{_IN}{_any('k')}{_any('>')}")
_MOST_TAGS = 20_000  # beyond it is a loop, not an answer
_OVERLAY = 1  # the combining class of the stroke that makes > a ≯


def tag_bodies(text: str) -> set[str] | None:
    """What stands between the tags after the last `</think>`, each wording once, without blanks.

    None where a `<think>` or a tag stays open, and where there are more than 20,000 of either.
    """
    alike = _open_alike(text)
    thinks = _THINK.finditer(alike)
    last = None
    for number, think in enumerate(_without_strokes(thinks, text) if "\u0338" in text else thinks):
        if number >= _MOST_TAGS:
            return None
        last = think
    if last is not None and last.lastindex is None:
        return None
    bodies = set()
    start = None
    for number, tag in enumerate(_TAG.finditer(alike, 0 if last is None else last.end())):
        if number >= _MOST_TAGS:
            return None
        if tag.lastindex:  # there is a /
            if start is not None:
                bodies.add(text[start : tag.start()])
            start = None
        elif start is not None:
            return None
        else:
            start = tag.end()
    return None if start is not None else {body.strip() for body in bodies}


def _open_alike(text: str) -> str:
    """The text with every spelling of an opening bracket as [ or <, each character in its place."""
    if not text.isascii():
        for bracket, spellings in (("[", "".join(_SPELT[char] for char in _OPENING)), ("<", _SPELT["<"])):
            for spelling in spellings:
                text = text.replace(spelling, bracket)
    # A bracket right before another opens nothing, and a run of them would be tried one by one.
    return text.replace("<<", " <").replace("[[", " [")


def _without_strokes(thinks: Iterator[re.Match[str]], text: str) -> Iterator[re.Match[str]]:
    """Those whose > is not struck through by the first overlay among its combining marks."""
    parts = {char: unicodedata.normalize("NFKD", char) for char in set(text)}
    marks = [
        char
        for char, decomposed in parts.items()
        if all(unicodedata.combining(part) not in (0, _OVERLAY) for part in decomposed)
    ]
    stroke = re.compile((f"[{re.escape(''.join(marks))}]*+" if marks else "") + "\u0338")
    return (think for think in thinks if not stroke.match(text, think.end()))
