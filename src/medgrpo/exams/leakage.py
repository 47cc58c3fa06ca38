"""Leakage: questions that stand in the training file and in the evaluation file too."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from medgrpo.errors import MedgrpoError
from medgrpo.exams.question import Question
from medgrpo.nfkc import nfkc

LeakKind = Literal["id", "year", "text", "near"]
KIND_NAMES: dict[LeakKind, str] = {"id": "id", "year": "exam and year", "text": "text", "near": "near-duplicate"}

# A point between digits and a minus before a digit are part of a number, not punctuation around words.
_IN_NUMBER = re.compile(r"(?<=[0-9])\.(?=[0-9])|(?<![0-9])-(?=[0-9])")
_MINUS_SIGNS = str.maketrans("−‐‑‒–", "-----")


@dataclass(frozen=True)
class Leak:
    """One question of the training file that has its like in the evaluation file, and by what."""

    kind: LeakKind
    train_id: str
    eval_id: str
    similarity: float | None = None
    """How alike a near-duplicate is, 0 to 1."""

    def __str__(self) -> str:
        if self.similarity is not None:
            return f"{self.train_id} (evaluation: {self.eval_id}, {self.similarity:.2f} alike)"
        if self.train_id == self.eval_id:
            return self.train_id
        return f"{self.train_id} (evaluation: {self.eval_id})"


def normalise_text(text: str) -> str:
    """Reduce a text to what it says: NFKC, lower case, no whitespace, no punctuation (numbers stay whole)."""
    text = nfkc(text).casefold().translate(_MINUS_SIGNS)
    inside = {match.start() for match in _IN_NUMBER.finditer(text)}
    dropped = {char for char in set(text) if unicodedata.category(char)[0] in "PZC"}
    return "".join([char for i, char in enumerate(text) if char not in dropped or i in inside])


def text_key(question: Question) -> tuple[str, frozenset[str]]:
    """Return what two copies of one question share: its text and its choices as a set, both normalised."""
    return normalise_text(question.question), frozenset(map(normalise_text, question.choices.values()))


def find_leaks(train: Sequence[Question], evaluation: Sequence[Question]) -> list[Leak]:
    """Find the leaks by id, then by (exam, year), then by text.

    By id and by text every training question counts once, with the first evaluation question that is its
    like. An equal id is no leak where exam and year are known on both sides and both differ: two exams may each
    number their questions from 1. An exam's year that stands on both sides counts once for each of its questions
    on the side that has fewer of them: these are the ones that slipped in. Questions of unknown exam or year
    (empty, 0) are passed over there. Reordered choices, full-width forms, spaces and punctuation do not hide a
    text.
    """
    ids: dict[str, list[Question]] = defaultdict(list)
    texts: dict[tuple[str, frozenset[str]], str] = {}
    for question in evaluation:
        ids[_plain_id(question)].append(question)
        texts.setdefault(text_key(question), question.id)
    leaks = []
    for question in train:
        like = next((q for q in ids.get(_plain_id(question), ()) if not _are_unrelated(question, q)), None)
        if like is not None:
            leaks.append(Leak("id", question.id, like.id))
    leaks += _find_shared_years(train, evaluation)
    for question in train:
        key = text_key(question)
        if key in texts:
            leaks.append(Leak("text", question.id, texts[key]))
    return leaks


def refuse_leaks(train: Sequence[Question], evaluation: Sequence[Question], train_name: str, eval_name: str) -> None:
    """Raise `MedgrpoError` in one line, with counts and first ids, where training questions are evaluated.

    By id, year or text, never for a near-duplicate: real exams set questions again, so a recipe chooses what to do
    with those (`near_duplicates.settle_near_duplicates`).
    """
    leaks = find_leaks(train, evaluation)
    if leaks:
        what = describe_leaks(leaks, train_name, eval_name)
        raise MedgrpoError(f"{what} (medgrpo data check names more)")


def describe_leaks(leaks: Sequence[Leak], train_name: str, eval_name: str) -> str:
    """Say in one line which questions leak, by what, and what to do."""
    parts = []
    for kind, name in KIND_NAMES.items():
        found = [leak for leak in leaks if leak.kind == kind]
        if found:
            parts.append(f"{len(found)} by {name} ({list_leaks(found, 3)})")
    return f"{train_name}: questions of {eval_name} are in it: {', '.join(parts)}: take them out of one"


def list_leaks(leaks: Sequence[Leak], limit: int) -> str:
    """Name the first `limit` leaks and say how many more there are."""
    names = [str(leak) for leak in leaks[:limit]]
    if len(leaks) > limit:
        names.append(f"and {len(leaks) - limit} more")
    return ", ".join(names)


def _plain_id(question: Question) -> str:
    return nfkc(question.id).casefold()


def _are_unrelated(one: Question, other: Question) -> bool:
    """Whether the questions are known to be of different exams in different years."""
    known = one.exam and other.exam and one.year and other.year
    return bool(known) and one.exam != other.exam and one.year != other.year


def _find_shared_years(train: Iterable[Question], evaluation: Iterable[Question]) -> list[Leak]:
    train_years, eval_years = _by_year(train), _by_year(evaluation)
    leaks = []
    for year, train_ids in train_years.items():
        eval_ids = eval_years.get(year, {})
        if not eval_ids:
            continue
        if len(train_ids) <= len(eval_ids):
            leaks += [Leak("year", i, i if i in eval_ids else next(iter(eval_ids))) for i in train_ids]
        else:
            leaks += [Leak("year", i if i in train_ids else next(iter(train_ids)), i) for i in eval_ids]
    return leaks


def _by_year(questions: Iterable[Question]) -> dict[tuple[str, int], dict[str, None]]:
    """Group the ids by (exam, year); the inner dict is an ordered set."""
    groups: dict[tuple[str, int], dict[str, None]] = defaultdict(dict)
    for question in questions:
        if question.exam and question.year:
            groups[question.exam, question.year][question.id] = None
    return groups
