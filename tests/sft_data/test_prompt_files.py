"""Prompts that a user edited: taken as they are, or refused with file and line."""

import shutil

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.exams.question import Question
from medgrpo.sft_data.prompt_files import PROMPTS, describe_answer, read_prompts

QUESTION = Question(id="1", question="どれか。", choices={"a": "一", "b": "二", "c": "三"}, answer=[["a", "c"]])


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(PROMPTS, tmp_path / "prompts")
    return tmp_path / "prompts"


def test_an_edited_prompt_is_used_and_changes_the_digest(folder):
    (folder / "text.txt").write_text("{{ person_question }}に答えて。踏まえる内容は{{ answer }}。", encoding="utf-8")
    prompts = read_prompts(folder)
    assert prompts.messages("text", QUESTION, "熱とは")[1]["content"] == "熱とはに答えて。踏まえる内容は一、三。"
    assert prompts.digest != read_prompts().digest


@pytest.mark.parametrize(
    ("text", "said"),
    [("{{ qestion }}", "qestion"), ("{% for x %}", "line 1"), ("", "is empty"), ("{{ question.__class__ }}", "unsafe")],
)
def test_a_broken_prompt_is_named(folder, text, said):
    (folder / "question.txt").write_text(text, encoding="utf-8")
    with pytest.raises(MedgrpoError, match=rf"question\.txt.*{said}"):
        read_prompts(folder)


def test_a_missing_file_is_named(folder):
    (folder / "system.txt").unlink()
    with pytest.raises(MedgrpoError, match=r"system\.txt: cannot be read"):
        read_prompts(folder)


def test_the_answer_is_told_in_words():
    assert describe_answer(QUESTION) == "一、三"
    number = Question(id="2", question="何 mL か。", choices={}, answer=[["600"]], answer_type="number")
    assert describe_answer(number) == "600"
