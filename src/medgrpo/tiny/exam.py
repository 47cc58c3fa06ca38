"""The mini exam: questions made from the facts, in years, each fact asked once.

`python -m medgrpo.tiny.exam` rewrites `exams/mini_exam.jsonl`, byte for byte the same every time.
"""

import random

from medgrpo.exams.question import EMBEDDED, MINI_EXAM, Question, write_questions
from medgrpo.tiny.facts import Fact, load_facts

TRAIN_YEARS = (2019, 2020, 2021, 2022)
HELD_OUT_YEARS = (2023, 2024, 2025, 2026)
QUESTIONS_A_YEAR = 65
LETTERS = "abcde"
SEED = 20261130


def make_choices(fact: Fact, rng: random.Random) -> tuple[dict[str, str], list[str]]:
    """Five choices in random order and the right letters, sorted; none for a number."""
    if fact.relation.numeric:
        return {}, []
    wrong = rng.sample(fact.wrong, len(LETTERS) - len(fact.values))
    texts = [*fact.values, *wrong]
    rng.shuffle(texts)
    choices = dict(zip(LETTERS, texts, strict=True))
    return choices, [letter for letter, text in choices.items() if text in fact.values]


def make_question(fact: Fact, rng: random.Random, question_id: str, year: int) -> Question:
    """The exam question that asks for `fact`."""
    choices, letters = make_choices(fact, rng)
    return Question(
        id=question_id,
        question=fact.question,
        choices=choices,
        answer=[list(fact.values)] if fact.relation.numeric else [letters],
        answer_type="number" if fact.relation.numeric else "choice",
        exam=MINI_EXAM,
        year=year,
        department=fact.department,
    )


def facts_by_year() -> dict[int, list[Fact]]:
    """Which facts each year asks for. Every year has the same share of multiple answers and numbers."""
    rng = random.Random(SEED)
    kinds: dict[str, list[Fact]] = {"single": [], "multi": [], "number": []}
    for fact in load_facts():
        kinds["number" if fact.relation.numeric else "multi" if len(fact.values) > 1 else "single"].append(fact)
    for facts in kinds.values():
        rng.shuffle(facts)
    years: dict[int, list[Fact]] = {}
    for year in TRAIN_YEARS + HELD_OUT_YEARS:
        chosen = [kinds["multi"].pop() for _ in range(9)] + [kinds["number"].pop() for _ in range(4)]
        chosen += [kinds["single"].pop() for _ in range(QUESTIONS_A_YEAR - len(chosen))]
        rng.shuffle(chosen)
        years[year] = chosen
    return years


def held_out_facts() -> frozenset[Fact]:
    """The facts that only held-out years ask for: no question about them may be trained on."""
    return frozenset(fact for year in HELD_OUT_YEARS for fact in facts_by_year()[year])


def build_exam() -> list[Question]:
    """All questions of all years; ids such as `2023-07`."""
    rng = random.Random(SEED + 1)
    return [
        make_question(fact, rng, f"{year}-{number:02d}", year)
        for year, facts in facts_by_year().items()
        for number, fact in enumerate(facts, start=1)
    ]


if __name__ == "__main__":
    write_questions(EMBEDDED, build_exam())
