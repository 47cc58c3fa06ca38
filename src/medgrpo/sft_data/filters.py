"""Which synthesised items are fit to learn from, and why the others are not: every reason is counted."""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from medgrpo.exams.leakage import normalise_text
from medgrpo.exams.question import Question
from medgrpo.japanese import is_japanese
from medgrpo.sft_data.parts import FEWEST_QUESTION_CHARACTERS, PARTS

SHINGLE = 12
"""Characters in a row that two texts have to share to count: longer than any common medical phrase."""
OVERLAP = 0.3
"""Share of an evaluation question's own shingles with which an item counts as that question."""
FEWEST_SHARED = 4
"""And at least so many of them, which is 15 characters in a row, where the question has as many."""

_LETTER = r"[a-eA-E1-5①-⑤](?![0-9A-Za-z])"
_SHOWS_ANSWER = re.compile(
    r"\[/?ans\]|選択肢"
    rf"|(?:正解|正答|解答|答え)(?:は|:|=)?[「『(\[]?{_LETTER}"
    rf"|(?:^|\n)\s*[(\[]?[a-e][).\]]\s"
)


@dataclass(frozen=True)
class Item:
    """One synthesised item: the id of its exam question, a person's question, and the five parts."""

    id: str
    question: str
    parts: Mapping[str, str]

    @property
    def whole(self) -> str:
        """Everything that the model will learn from."""
        return "\n".join([self.question, *self.parts.values()])


def filter_items(items: Iterable[Item], evaluation: Sequence[Question]) -> tuple[list[Item], dict[str, list[str]]]:
    """Split items into those kept, and the ids of the others by reason; an item has its first reason only.

    Reasons: `question too short`, `part missing: ...`, `part too short: ...`, `not Japanese` (drift into
    Chinese, see `medgrpo.japanese`), `answer letter shows`, `duplicate` (of an item kept before it) and
    `overlaps evaluation` (30 % or more of the runs of 12 characters that only one evaluation question has).
    """
    overlap = _Overlap(evaluation)
    kept: list[Item] = []
    dropped: dict[str, list[str]] = defaultdict(list)
    seen: set[str] = set()
    for item in items:
        reason = _find_reason(item)
        key = normalise_text(item.question)
        if reason is None and key in seen:
            reason = "duplicate"
        if reason is None and overlap.find(item.whole) is not None:
            reason = "overlaps evaluation"
        if reason is None:
            seen.add(key)
            kept.append(item)
        else:
            dropped[reason].append(item.id)
    return kept, dict(dropped)


def _find_reason(item: Item) -> str | None:
    if len(item.question.strip()) < FEWEST_QUESTION_CHARACTERS:
        return "question too short"
    for part in PARTS:
        text = item.parts.get(part.field, "").strip()
        if not text:
            return f"part missing: {part.field}"
        if len(text) < part.fewest_characters:
            return f"part too short: {part.field}"
    if not all(is_japanese(text) for text in (item.question, *item.parts.values())):
        return "not Japanese"
    if _SHOWS_ANSWER.search(unicodedata.normalize("NFKC", item.whole)):
        return "answer letter shows"
    return None


class _Overlap:
    """Finds the evaluation question that a text repeats.

    A run of characters that several evaluation questions share (「について正しいのはどれか。2つ選べ」) tells
    none of them, so it does not count.
    """

    def __init__(self, questions: Sequence[Question]) -> None:
        holders: dict[str, list[str]] = defaultdict(list)
        for question in questions:
            for shingle in _shingles(question.question):
                holders[shingle].append(question.id)
        self.question_of = {shingle: names[0] for shingle, names in holders.items() if len(names) == 1}
        self.sizes = Counter(self.question_of.values())

    def find(self, text: str) -> str | None:
        shared = Counter(self.question_of[shingle] for shingle in _shingles(text) if shingle in self.question_of)
        return next((name for name, count in shared.items() if count >= self._enough(self.sizes[name])), None)

    @staticmethod
    def _enough(size: int) -> int:
        return min(size, max(FEWEST_SHARED, math.ceil(OVERLAP * size)))


def _shingles(text: str) -> set[str]:
    """All runs of 12 characters of the normalised text; a shorter text is one run."""
    text = normalise_text(text)
    return {text[i : i + SHINGLE] for i in range(max(1, len(text) - SHINGLE + 1))}
