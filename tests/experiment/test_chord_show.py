import json
from pathlib import Path

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.exams.prompts import build_prompt
from medgrpo.exams.question import read_questions
from medgrpo.experiment.chord_show import refuse_taught_questions

HELD_OUT = [question for question in read_questions("mini_exam") if question.year >= 2023]


def write(path: Path, *prompts: object) -> str:
    rows = [{"id": f"s{n}", "prompt": prompt, "completion": "本文"} for n, prompt in enumerate(prompts)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_a_held_out_question_in_the_sft_data_is_named_however_it_is_set(tmp_path: Path) -> None:
    text = build_prompt(HELD_OUT[3])[1]["content"]
    wide = text.replace("a. ", "ａ．　").replace("\n", "  \n\n")
    path = write(tmp_path / "sft.jsonl", "咳が続きます。", wide)
    with pytest.raises(MedgrpoError) as raised:
        refuse_taught_questions(path, HELD_OUT)
    assert "s1" in str(raised.value)
    assert HELD_OUT[3].id in str(raised.value)
    assert "s0" not in str(raised.value)


def test_training_questions_and_the_bare_stem_pass(tmp_path: Path) -> None:
    train = next(question for question in read_questions("mini_exam") if question.year < 2023)
    stem = next(question for question in HELD_OUT if question.choices).question
    refuse_taught_questions(write(tmp_path / "sft.jsonl", build_prompt(train)[1]["content"], stem), HELD_OUT)
