"""What the model is asked: one system prompt, and the question with its choices and the form of the answer.

The texts are part of the trained model: change a character and earlier checkpoints answer another prompt.
"""

from medgrpo.exams.question import Question

SYSTEM_PROMPT = "あなたは日本の医学試験に解答する医師です。根拠を日本語で簡潔に述べてから、最後に答えを書いてください。"
CHOICE_INSTRUCTION = "答えの記号を[ans]…[/ans]の中に書いてください。複数あるときはカンマで区切ってください。"
NUMBER_INSTRUCTION = "答えの数値を[ans]…[/ans]の中に書いてください。"


def build_prompt(question: Question) -> list[dict[str, str]]:
    """Build the messages [system, user] for one question.

    How many answers are right is told only where the question itself tells it (「2つ選べ」): the instruction
    is the same for every question with choices, whatever its key.
    """
    lines = [question.question]
    lines += [f"{letter}. {text}" for letter, text in question.choices.items()]
    lines.append(NUMBER_INSTRUCTION if question.answer_type == "number" else CHOICE_INSTRUCTION)
    return [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": "\n".join(lines)},
    ]
