"""What CHORD's show is made of: a base that never answers in the tag, and worked answers that hold no held-out fact."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from medgrpo.answers import is_correct, parse_answer
from medgrpo.errors import MedgrpoError
from medgrpo.exams.prompts import build_prompt
from medgrpo.exams.question import Question, read_questions
from medgrpo.tiny import TINY_MODEL, untagged
from medgrpo.tiny.untagged import make_untagged_model
from medgrpo.tiny.worked_answers import worked_answers

QUESTIONS = read_questions("mini_exam")
TRAIN = [question for question in QUESTIONS if question.year < 2023]
HELD_OUT = [question for question in QUESTIONS if question.year >= 2023]


def test_every_training_question_is_answered_right_and_asked_as_in_the_exam() -> None:
    rows = worked_answers(TRAIN)
    assert [row["id"] for row in rows] == [question.id for question in TRAIN]
    for row, question in zip(rows, TRAIN, strict=True):
        assert row["prompt"] == build_prompt(question)
        answer = parse_answer(row["completion"][0]["content"])
        assert is_correct(answer, question.answer)


def test_held_out_and_foreign_questions_have_no_worked_answer() -> None:
    for question in (HELD_OUT[0], Question("x-1", "別の問題はどれか。", {"a": "い", "b": "ろ"}, [["a"]])):
        with pytest.raises(MedgrpoError, match=question.id):
            worked_answers([question])
    taught = "".join(str(row) for row in worked_answers(TRAIN))
    assert not [question.id for question in HELD_OUT if question.question in taught]


def test_base_has_another_style_only(tmp_path: Path, monkeypatch) -> None:
    # A tenth of the real length is enough to see the direction; the recipe's test sees the whole.
    monkeypatch.setattr(untagged, "STEPS", 12)
    folder = tmp_path / "base"
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    make_untagged_model(folder)
    assert torch.equal(torch.random.get_rng_state(), before)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    prompts = [
        tokenizer.apply_chat_template(build_prompt(question), add_generation_prompt=True, return_dict=False)
        for question in TRAIN[:8]
    ]
    first = tokenizer.convert_tokens_to_ids("答えは")

    def untagged_share(path) -> float:
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
        rows = [model(torch.tensor([ids])).logits[0, -1].softmax(-1)[first].item() for ids in prompts]
        return sum(rows) / len(rows)

    assert untagged_share(TINY_MODEL) < 0.4
    assert untagged_share(folder) > 0.6
    # What stands there is left alone.
    weights = load_file(folder / "model.safetensors")
    make_untagged_model(folder)
    assert all(torch.equal(weights[name], value) for name, value in load_file(folder / "model.safetensors").items())
