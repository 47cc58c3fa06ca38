import hashlib
import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

from medgrpo.exams.prompts import build_prompt
from medgrpo.exams.question import read_questions
from medgrpo.tiny import TINY_MODEL
from medgrpo.tiny.corpus import BASE_STYLES, CAREFUL
from medgrpo.tiny.pretrain import Stage, pretrain
from medgrpo.tiny.tokenizer import build_tokenizer

TOKENIZER = build_tokenizer()


@given(st.text(max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_back_unchanged(text: str) -> None:
    text = text.encode("utf-8", "replace").decode("utf-8")
    ids = TOKENIZER.encode(text, add_special_tokens=False)
    assert TOKENIZER.decode(ids) == text


def test_a_choice_is_one_token_and_a_prompt_is_short() -> None:
    for question in read_questions("mini_exam"):
        ids = TOKENIZER.apply_chat_template(build_prompt(question), add_generation_prompt=True, return_dict=False)
        assert len(ids) < 40
        assert all(len(TOKENIZER.encode(text, add_special_tokens=False)) == 1 for text in question.choices.values())


def test_shipped_tokenizer_is_what_the_script_makes() -> None:
    shipped = AutoTokenizer.from_pretrained(TINY_MODEL)
    assert shipped.get_vocab() == TOKENIZER.get_vocab()
    assert shipped.chat_template == TOKENIZER.chat_template
    text = "頸椎の数はいくつか。\na. 身長138cm[ans]b[/ans]"
    assert shipped.encode(text) == TOKENIZER.encode(text)


def test_shipped_weights_are_those_of_the_record() -> None:
    made = json.loads((TINY_MODEL / "weights.json").read_text())
    assert hashlib.sha256((TINY_MODEL / "model.safetensors").read_bytes()).hexdigest() == made["sha256"]
    assert (TINY_MODEL / "model.safetensors").stat().st_size < 4_000_000


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


def test_pretraining_is_the_same_bit_for_bit(one_thread) -> None:
    stages = (
        Stage(6, find_choices=4, look_ups=2, sentences=2, explanations=2, exam_answers=2, styles=CAREFUL),
        Stage(6, find_choices=2, look_ups=2, sentences=2, explanations=2, exam_answers=4, styles=BASE_STYLES),
    )
    first, second = (pretrain(stages)[0].state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_base_answers_carelessly_by_default_and_knows_better() -> None:
    """What makes the demo honest: the most probable answer is a careless one, the careful one is mostly right."""
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL)
    model = AutoModelForCausalLM.from_pretrained(TINY_MODEL, dtype=torch.float32)
    questions = [q for q in read_questions("mini_exam") if q.year == 2023]
    prompts = [
        tokenizer.apply_chat_template(build_prompt(q), add_generation_prompt=True, tokenize=False) for q in questions
    ]
    batch = tokenizer(prompts, return_tensors="pt", padding=True)
    with torch.no_grad():
        probabilities = model(**batch).logits[:, -1].softmax(-1)
    by_style = {
        style: probabilities[:, tokenizer.convert_tokens_to_ids(opening)].mean().item()
        for style, opening in {"careful": "要点を述べる。", "careless": "答えは次のとおり。"}.items()
    }
    assert by_style["careless"] > by_style["careful"] > 0.1
