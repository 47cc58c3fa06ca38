"""Near-duplicates: training questions that were set again in the evaluation file with a number or word changed.

Two questions are alike by the Jaccard index of their character 5-grams, taken from the normalised question and
each normalised choice, so that the order of the choices, spaces and punctuation do not matter. From `THRESHOLD` on
they are near-duplicates. On IgakuQA's 2,000 questions this finds one pair between two years (113E2 and 116B10,
0.84: one choice asks for other years); the next most alike pair has 0.53 and asks something else. Questions of one
case (連問) whose file repeats the case in each of them are found where the case is most of the text: who trained on
one has read the other's case. Short questions from a template may be found though they ask different things.

MinHash with banding (Broder 1997; the package datasketch) proposes pairs, and the exact index decides: a pair that
is not alike is never named. With 32 bands of 4 a pair at the threshold is missed with probability 5e-8, and the
same pairs are found every time.
"""

import zlib
from collections.abc import Iterator, Sequence

from datasketch import MinHash, MinHashLSH

from medgrpo.errors import MedgrpoError
from medgrpo.exams.leakage import Leak, describe_leaks, normalise_text, text_key
from medgrpo.exams.question import Question

THRESHOLD = 0.8
SHINGLE = 5
BANDS, ROWS = 32, 4
CHOICES = ("leave_out", "refuse", "keep")


def find_near_duplicates(
    train: Sequence[Question], evaluation: Sequence[Question], threshold: float = THRESHOLD
) -> list[Leak]:
    """Find the training questions that are nearly in the evaluation file, each with the one most like it.

    In the order of `train`. A pair with the same text is no near-duplicate: `find_leaks` finds it. `threshold`
    is at least 0.8: below it the bands would miss pairs.
    """
    if threshold < THRESHOLD:
        raise ValueError(f"threshold has to be at least {THRESHOLD}, got {threshold}")
    if not train or not evaluation:
        return []
    eval_shingles = [shingles(question) for question in evaluation]
    index = MinHashLSH(params=(BANDS, ROWS), num_perm=BANDS * ROWS)
    for i, signature in enumerate(_min_hashes(eval_shingles)):
        index.insert(i, signature)
    train_shingles = [shingles(question) for question in train]
    leaks = []
    for question, shingled, signature in zip(train, train_shingles, _min_hashes(train_shingles), strict=True):
        alike = {i: jaccard(shingled, eval_shingles[i]) for i in sorted(index.query(signature))}
        near = [i for i in alike if alike[i] >= threshold and text_key(evaluation[i]) != text_key(question)]
        if near:
            most = max(near, key=lambda i: alike[i])
            leaks.append(Leak("near", question.id, evaluation[most].id, alike[most]))
    return leaks


def settle_near_duplicates(
    train: Sequence[Question],
    evaluation: Sequence[Question],
    train_name: str,
    eval_name: str,
    choice: str = "leave_out",
) -> tuple[list[Question], list[Leak]]:
    """Do with the near-duplicates of a training run what its user chose: (questions to train on, what was found).

    `leave_out` takes them out of training, so that real exams, which set questions again, can be used as they are
    and the score stays clean; `refuse` raises `MedgrpoError` with the first ids; `keep` trains on them all the same.
    """
    if choice not in CHOICES:
        raise MedgrpoError(f"near_duplicates {choice!r}: is not known: choose one of {', '.join(CHOICES)}")
    leaks = find_near_duplicates(train, evaluation)
    if leaks and choice == "refuse":
        raise MedgrpoError(f"{describe_leaks(leaks, train_name, eval_name)} (or near_duplicates: leave_out)")
    left_out = {leak.train_id for leak in leaks} if choice == "leave_out" else set()
    return [question for question in train if question.id not in left_out], leaks


def shingles(question: Question) -> frozenset[str]:
    """Every 5 characters in a row of the normalised question and of each normalised choice; shorter texts whole."""
    found = set()
    for text in map(normalise_text, (question.question, *question.choices.values())):
        found.update(text[i : i + SHINGLE] for i in range(max(len(text) - SHINGLE + 1, 1)))
    return frozenset(found - {""})


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """Share of what two sets have in common among all that they have; 0 for two empty ones."""
    return len(one & other) / len(one | other) if one or other else 0.0


def _min_hashes(sets: Sequence[frozenset[str]]) -> Iterator[MinHash]:
    # CRC-32 is a quick hash that is the same everywhere; a collision may propose a pair, never decide on one.
    encoded = ([shingle.encode() for shingle in shingled] for shingled in sets)
    return MinHash.generator(encoded, num_perm=BANDS * ROWS, seed=1, hashfunc=zlib.crc32)
