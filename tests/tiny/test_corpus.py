import random

from medgrpo.answers import is_correct, parse_answer
from medgrpo.japanese import is_japanese
from medgrpo.tiny.corpus import BASE_STYLES, CAREFUL, CAREFUL_ACCURACY, Corpus, answer_in_style
from medgrpo.tiny.exam import held_out_facts, make_question
from medgrpo.tiny.facts import load_facts

FACTS = load_facts()
NUMBERS = sorted({fact.values[0] for fact in FACTS if fact.relation.numeric})


def test_no_question_of_a_held_out_fact_is_ever_read() -> None:
    hidden = {fact.question for fact in held_out_facts()}
    assert len(hidden) >= 200
    corpus = Corpus(0)
    for _ in range(3000):
        question = corpus.exam_answer(BASE_STYLES).prompt[-1]["content"].splitlines()[0]
        assert question not in hidden
    for _ in range(500):
        for text in (corpus.find_choices(), corpus.look_up(), corpus.explanation(), corpus.sentences()):
            written = "".join(m["content"] for m in text.prompt) + "".join(part for part, _ in text.segments)
            assert not any(question in written for question in hidden)


def shares(style: str, count: int = 1500) -> tuple[float, float, float]:
    """Shares of right, of readable and of Japanese answers in a style."""
    rng = random.Random(1)
    right = readable = japanese = 0
    for _ in range(count):
        fact = rng.choice(FACTS)
        question = make_question(fact, rng, "x", 0)
        text = answer_in_style(style, fact, question, rng, NUMBERS)
        answer = parse_answer(text)
        right += is_correct(answer, question.answer)
        readable += answer is not None
        japanese += is_japanese(text)
    return right / count, readable / count, japanese / count


def test_the_styles_are_what_the_rewards_tell_apart() -> None:
    right, readable, japanese = shares("careful")
    assert abs(right - CAREFUL_ACCURACY) < 0.03 and readable == japanese == 1
    right, readable, japanese = shares("careless")
    assert 0.1 < right < 0.25 and readable == japanese == 1
    right, readable, japanese = shares("untagged")
    assert right == readable == 0 and japanese == 1
    right, readable, japanese = shares("drift")
    assert 0.1 < right < 0.25 and readable == 1 and japanese == 0


def test_shares_of_the_styles() -> None:
    assert abs(sum(BASE_STYLES.values()) - 1) < 1e-9
    corpus = Corpus(0)
    assert all("[/ans]" in corpus.exam_answer(CAREFUL).segments[0][0] for _ in range(200))


def test_seeded() -> None:
    first, second = Corpus(5), Corpus(5)
    batch = {
        "find_choices": 2,
        "look_ups": 2,
        "sentences": 2,
        "explanations": 2,
        "exam_answers": 2,
        "styles": BASE_STYLES,
    }
    assert [first.batch(**batch) for _ in range(3)] == [second.batch(**batch) for _ in range(3)]
