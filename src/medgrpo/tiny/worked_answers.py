"""Worked answers to the mini exam's training questions: what CHORD's show is taught from.

Each states the fact that the question asks for, names its choices with their letters, and ends with the answer in
the tag, always right. No held-out question is among them.
"""

from collections.abc import Sequence

from medgrpo.errors import MedgrpoError
from medgrpo.exams.prompts import build_prompt
from medgrpo.exams.question import Question
from medgrpo.tiny.corpus import CONSIDER
from medgrpo.tiny.exam import held_out_facts
from medgrpo.tiny.facts import Fact, load_facts


def worked_answers(questions: Sequence[Question]) -> list[dict[str, object]]:
    """SFT rows (`id`, `prompt`, `completion`), one a question, in the questions' order.

    Raises `MedgrpoError` for a question that the mini exam's training years don't ask.
    """
    held_out = held_out_facts()
    facts = {fact.question: fact for fact in load_facts() if fact not in held_out}
    rows = []
    for question in questions:
        fact = facts.get(question.question)
        if fact is None:
            raise MedgrpoError(
                f"question {question.id}: no worked answer, because the mini exam's training years don't ask it: "
                "name an SFT file of your own (chord_sft_dataset)"
            )
        rows.append(
            {
                "id": question.id,
                "prompt": build_prompt(question),
                "completion": [{"role": "assistant", "content": _work_out(fact, question)}],
            }
        )
    return rows


def _work_out(fact: Fact, question: Question) -> str:
    if question.answer_type == "number":
        return f"{CONSIDER}{fact.statement()}[ans]{fact.values[0]}[/ans]"
    letter_of = {text: letter for letter, text in question.choices.items()}
    named = tuple(f"{value}({letter_of[value]})" for value in fact.values)
    return f"{CONSIDER}{fact.statement(named)}[ans]{','.join(letter_of[value] for value in fact.values)}[/ans]"
