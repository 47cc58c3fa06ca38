"""What the tiny base model has read: facts, explanations, look-ups of choices, and exam answers in four styles.

The base knows every fact as a sentence, but mostly answers without using what it knows. Post-training moves it
from the careless styles to the careful one, and because a style is general, the gain carries over to questions
about facts that no training question asks for. Those facts (`held_out_facts`) occur here as sentences and as
explanations of a term, never as a question or among its right choices.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

from medgrpo.exams.prompts import CHOICE_INSTRUCTION, SYSTEM_PROMPT, build_prompt
from medgrpo.exams.question import Question
from medgrpo.tiny.exam import LETTERS, held_out_facts, make_question
from medgrpo.tiny.facts import Fact, load_facts

# Set phrases of the styles; the tokenizer keeps each as one token.
CONSIDER = "要点を述べる。"
EXPLAIN = "について説明してください。"
CARELESS = "答えは次のとおり。"
UNTAGGED = "答えは"
UNTAGGED_END = "と思う。"
DRIFT = "正确的选项如下。"
DRIFT_END = "这是标准答案。"
PHRASES = (CONSIDER, EXPLAIN, CARELESS, UNTAGGED, UNTAGGED_END, DRIFT, DRIFT_END)

# Share of each style in the base's answers, and how often the careful style is right.
BASE_STYLES = {"careful": 0.22, "careless": 0.46, "untagged": 0.16, "drift": 0.16}
CAREFUL = {"careful": 1.0}
CAREFUL_ACCURACY = 0.92


@dataclass(frozen=True)
class Text:
    """One training sequence: a prompt as messages (empty for plain text) and what follows it.

    `segments` alternate as (text, whether the model is trained to predict it).
    """

    prompt: list[dict[str, str]]
    segments: list[tuple[str, bool]]


def _guess(question: Question, rng: random.Random, numbers: list[str]) -> str:
    """An answer given without thinking: the right number of letters, or a number, at random."""
    if question.answer_type == "number":
        return rng.choice(numbers)
    return ",".join(rng.sample(LETTERS, len(question.answer[0])))


def answer_in_style(style: str, fact: Fact, question: Question, rng: random.Random, numbers: list[str]) -> str:
    """A completion of `question` in one of `BASE_STYLES`."""
    if style == "careful":
        if question.answer_type == "number":
            return f"{CONSIDER}{fact.statement()}[ans]{fact.values[0]}[/ans]"
        letter_of = {text: letter for letter, text in question.choices.items()}
        values = list(fact.values)
        if rng.random() > CAREFUL_ACCURACY:
            values[rng.randrange(len(values))] = rng.choice(
                [text for text in question.choices.values() if text not in fact.values]
            )
        statement = fact.statement(tuple(f"{value}({letter_of[value]})" for value in values))
        return f"{CONSIDER}{statement}[ans]{','.join(letter_of[value] for value in values)}[/ans]"
    guess = _guess(question, rng, numbers)
    return {
        "careless": f"{CARELESS}[ans]{guess}[/ans]",
        "untagged": f"{UNTAGGED}{guess}{UNTAGGED_END}",
        "drift": f"{DRIFT}[ans]{guess}[/ans]{DRIFT_END}",
    }[style]


class Corpus:
    """An endless, seeded stream of the five kinds of text."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.facts = list(load_facts())
        self.statements: list[Fact] = []
        held_out = held_out_facts()
        self.practice = [fact for fact in self.facts if fact not in held_out]
        self.numbers = sorted({fact.values[0] for fact in self.facts if fact.relation.numeric})
        endings = {fact.relation.statement.split("{v}")[1] for fact in self.facts if fact.relation.numeric}
        self.number_endings = sorted(endings)
        self.terms = sorted({value for fact in self.facts if not fact.relation.numeric for value in fact.values})

    def sentences(self, count: int = 8) -> Text:
        """`count` facts, one after another; all come round equally often, those with two values twice."""
        while len(self.statements) < count:
            read = [fact for fact in self.facts for _ in fact.values]
            self.statements += self.rng.sample(read, len(read))
        chosen, self.statements = self.statements[:count], self.statements[count:]
        segments = []
        for fact in chosen:
            values = list(fact.values)
            self.rng.shuffle(values)
            # The entity opens the sentence and can't be foreseen: it is read, not learnt.
            segments += [(fact.entity, False), (fact.statement(tuple(values))[len(fact.entity) :], True)]
        return Text([], segments)

    def explanation(self) -> Text:
        """A term to explain, and its fact: how a term of the prompt is taken up in the answer."""
        fact = self.rng.choice(self.facts)
        values = list(fact.values)
        self.rng.shuffle(values)
        prompt = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": f"{fact.entity}{EXPLAIN}"},
        ]
        return Text(prompt, [(f"{CONSIDER}{fact.statement(tuple(values))}", True)])

    def find_choices(self, count: int = 8) -> Text:
        """Five choices, then some of them again, each followed by its letter: how a choice is found again."""
        texts = self.rng.sample(self.terms, len(LETTERS))
        lines = [f"{letter}. {text}\n" for letter, text in zip(LETTERS, texts, strict=True)]
        segments = [("".join(lines), False)]
        for _ in range(count):
            index = self.rng.randrange(len(texts))
            segments += [(texts[index], False), (f"({LETTERS[index]})", True)]
        return Text([], segments)

    def look_up(self, count: int = 5) -> Text:
        """Choices without a question, some named with their letters: how an answer is put together."""
        texts = self.rng.sample(self.terms, len(LETTERS))
        lines = [f"{letter}. {text}" for letter, text in zip(LETTERS, texts, strict=True)]
        prompt = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": "\n".join([*lines, CHOICE_INSTRUCTION])},
        ]
        segments = []
        for _ in range(count):
            kind = self.rng.random()
            if kind < 0.2:
                number = self.rng.choice(self.numbers)
                ending = self.rng.choice(self.number_endings)
                segments += [(number, False), (f"{ending}[ans]{number}[/ans]", True)]
                continue
            named = self.rng.sample(range(len(texts)), 1 if kind < 0.6 else 2)
            for place, index in enumerate(named):
                segments += [("と" if place else "", False), (texts[index], False), (f"({LETTERS[index]})", True)]
            segments.append((f"である。[ans]{','.join(LETTERS[index] for index in named)}[/ans]", True))
        return Text(prompt, segments)

    def exam_answer(self, styles: Mapping[str, float]) -> Text:
        """An exam question that no held-out year asks, answered in a style drawn by the shares `styles`."""
        fact = self.rng.choice(self.practice)
        question = make_question(fact, self.rng, "practice", 0)
        style = self.rng.choices(list(styles), list(styles.values()))[0]
        answer = answer_in_style(style, fact, question, self.rng, self.numbers)
        return Text(build_prompt(question), [(answer, True)])

    def batch(
        self,
        *,
        find_choices: int,
        look_ups: int,
        sentences: int,
        explanations: int,
        exam_answers: int,
        styles: Mapping[str, float],
    ) -> list[Text]:
        """One batch of the given composition."""
        return (
            [self.find_choices() for _ in range(find_choices)]
            + [self.look_up() for _ in range(look_ups)]
            + [self.sentences() for _ in range(sentences)]
            + [self.explanation() for _ in range(explanations)]
            + [self.exam_answer(styles) for _ in range(exam_answers)]
        )
