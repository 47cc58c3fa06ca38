"""The prompt's exact text: a trained model depends on every character."""

from dataclasses import replace

from medgrpo.exams.prompts import SYSTEM_PROMPT, build_prompt
from medgrpo.exams.question import Question

CHOICE = Question(
    id="1",
    question="正しいのはどれか。2つ選べ。",
    choices={"a": "安静", "b": "輸液", "c": ""},
    answer=[["a", "b"]],
)
NUMBER = Question(id="2", question="解答：①.②", choices={}, answer=[["2.1"]], answer_type="number")


def test_a_question_with_choices():
    assert build_prompt(CHOICE) == [
        {
            "role": "system",
            "content": "あなたは日本の医学試験に解答する医師です。根拠を日本語で簡潔に述べてから、"
            "最後に答えを書いてください。",
        },
        {
            "role": "user",
            "content": "正しいのはどれか。2つ選べ。\na. 安静\nb. 輸液\nc. \n"
            "答えの記号を[ans]…[/ans]の中に書いてください。複数あるときはカンマで区切ってください。",
        },
    ]
    assert build_prompt(CHOICE)[0]["content"] == SYSTEM_PROMPT


def test_a_question_for_a_number():
    assert build_prompt(NUMBER)[1]["content"] == ("解答：①.②\n答えの数値を[ans]…[/ans]の中に書いてください。")


def test_nothing_but_question_and_choices_reaches_the_prompt():
    for answer in ([["a"]], [["a", "b", "c"]], [["a"], ["b"]]):
        other = replace(CHOICE, answer=answer, points=3, contraindicated=["c"], scoring="credited")
        assert build_prompt(other) == build_prompt(CHOICE)
