import unicodedata
from collections import Counter

from medgrpo.exams.leakage import find_leaks
from medgrpo.exams.question import read_questions
from medgrpo.tiny.exam import HELD_OUT_YEARS, TRAIN_YEARS, build_exam, facts_by_year, held_out_facts
from medgrpo.tiny.facts import load_facts


def test_shipped_exam_is_what_the_script_makes() -> None:
    assert read_questions("mini_exam") == build_exam()


def test_size_and_kinds() -> None:
    questions = read_questions("mini_exam")
    held_out = [q for q in questions if q.year in HELD_OUT_YEARS]
    assert len(questions) >= 300
    assert len(held_out) >= 200
    kinds = Counter(q.answer_type if len(q.answer[0]) == 1 else "multi" for q in questions)
    assert kinds["multi"] >= 60 and kinds["number"] >= 30
    for question in questions:
        assert ("2つ選べ" in question.question) == (question.answer_type == "choice" and len(question.answer[0]) == 2)


def test_held_out_years_share_nothing_with_the_training_years() -> None:
    questions = read_questions("mini_exam")
    train = [q for q in questions if q.year in TRAIN_YEARS]
    held_out = [q for q in questions if q.year in HELD_OUT_YEARS]
    assert len(train) + len(held_out) == len(questions)
    assert find_leaks(train, held_out) == []
    years = facts_by_year()
    asked = [fact for year in years for fact in years[year]]
    assert len(set(asked)) == len(asked), "a fact is asked twice"
    assert not held_out_facts() & {fact for year in TRAIN_YEARS for fact in years[year]}


def test_every_fact_is_sound() -> None:
    facts = load_facts()
    entities = [fact.entity for fact in facts]
    assert len(set(entities)) == len(entities)
    values = {value for fact in facts for value in fact.values}
    assert not values & set(entities)
    for fact in facts:
        for text in (fact.entity, *fact.values, fact.question, fact.statement()):
            assert unicodedata.normalize("NFKC", text) == text
        assert fact.statement().startswith(fact.entity)
        assert all(value in fact.statement() for value in fact.values)
        assert not set(fact.wrong) & set(fact.values)
        if not fact.relation.numeric:
            assert len(fact.wrong) >= 5 - len(fact.values)


def test_right_letters_are_spread_evenly() -> None:
    letters = Counter(letter for q in read_questions("mini_exam") for letter in q.answer[0] if q.choices)
    share = {letter: count / sum(letters.values()) for letter, count in letters.items()}
    assert set(share) == set("abcde")
    assert all(0.15 < value < 0.25 for value in share.values())
