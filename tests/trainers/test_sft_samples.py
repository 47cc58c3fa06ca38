import json
import logging
from pathlib import Path

import pytest
from datasets import Dataset
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from medgrpo.errors import MedgrpoError
from medgrpo.tiny import TINY_MODEL
from medgrpo.trainers.sft_samples import IGNORED, SFTSample, load_sft_samples

USER = {"role": "user", "content": "咳が続く。"}
ANSWER = {"role": "assistant", "content": "受診してください。"}


@pytest.fixture(scope="module")
def chat() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(TINY_MODEL)


def load(source, tokenizer, **changes) -> list[SFTSample]:
    return load_sft_samples(
        source, tokenizer, **{"max_length": 4096, "eos_token_ids": [tokenizer.eos_token_id], **changes}
    )


def taught(sample: SFTSample, tokenizer) -> str:
    return tokenizer.decode([label for label in sample.labels if label != IGNORED])


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [USER, ANSWER]},
        {"prompt": [USER], "completion": [ANSWER]},
        {"prompt": USER["content"], "completion": ANSWER["content"]},
    ],
    ids=["messages", "prompt and completion messages", "texts"],
)
def test_the_answer_is_taught_to_its_end_and_nothing_else(row: dict, chat) -> None:
    (sample,) = load(Dataset.from_list([row]), chat)
    assert taught(sample, chat) == "受診してください。<|im_end|>"
    # The prompt is exactly what a rollout starts from.
    prompt = chat.apply_chat_template([USER], add_generation_prompt=True, return_dict=False)
    assert sample.input_ids[: len(prompt)] == prompt
    assert sample.labels[: len(prompt)] == [IGNORED] * len(prompt)
    assert sample.labels[len(prompt) :] == sample.input_ids[len(prompt) :]


def test_of_a_conversation_the_last_answer_is_taught(chat) -> None:
    turns = [{"role": "system", "content": "医師です。"}, USER, {"role": "assistant", "content": "いつから？"}]
    (sample,) = load(Dataset.from_list([{"messages": [*turns, {"role": "user", "content": "昨日。"}, ANSWER]}]), chat)
    assert taught(sample, chat) == "受診してください。<|im_end|>"
    assert "いつから？" in chat.decode(sample.input_ids)


def test_texts_without_a_chat_template_stand_as_they_are(tokenizer) -> None:
    (sample,) = load(Dataset.from_dict({"prompt": ["ab"], "completion": ["cd"]}), tokenizer)
    assert tokenizer.convert_ids_to_tokens(sample.input_ids) == ["a", "b", "c", "d", "<eos>"]
    assert sample.taught_tokens == 3


def test_ids_come_from_the_rows_or_count_them(chat, tmp_path: Path) -> None:
    path = tmp_path / "sft.jsonl"
    rows = [{"id": "116A1", "messages": [USER, ANSWER]}, {"messages": [USER, ANSWER]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [sample.id for sample in load(path, chat)] == ["116A1", "2"]


def test_too_long_samples_are_left_out_and_counted(chat, caplog) -> None:
    logger = logging.getLogger("medgrpo.trainers.sft_samples")
    logging.getLogger("transformers").propagate = logger.propagate = True
    long = {"role": "assistant", "content": "受診してください。" * 30}
    rows = Dataset.from_list([{"messages": [USER, ANSWER]}, {"messages": [USER, long]}])
    with caplog.at_level(logging.WARNING):
        assert len(load(rows, chat, max_length=100)) == 1
    assert "1 of 2 samples are longer than 100 tokens" in caplog.text
    with pytest.raises(MedgrpoError, match="all 2 samples are longer than 5 tokens"):
        load(rows, chat, max_length=5)


@pytest.mark.parametrize(
    ("row", "field", "reason"),
    [
        ({"question": "a", "answer": "b"}, None, "none of these fields"),
        ({"prompt": "a"}, None, "has prompt"),
        ({"prompt": "a", "completion": "b", "messages": [USER, ANSWER]}, None, "completion and messages and prompt"),
        ({"prompt": "a", "completion": " \n"}, "completion", "no trainable token"),
        ({"prompt": "a", "completion": [ANSWER]}, "completion", "write both alike"),
        ({"prompt": "a", "completion": 3}, "completion", "write both alike"),
        ({"prompt": [USER], "completion": [ANSWER, USER]}, "completion", "one assistant message"),
        ({"prompt": [USER, ANSWER], "completion": [ANSWER]}, "prompt", "ends with an assistant message"),
        ({"prompt": [], "completion": [ANSWER]}, "prompt", "list of messages"),
        ({"messages": [ANSWER, USER]}, "messages", "end with the assistant's"),
        ({"messages": [ANSWER]}, "messages", "the answer alone"),
        ({"messages": [USER, {"role": "assistant", "content": ""}]}, "messages", "no trainable token"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}, ANSWER]}, "messages", "`role` and `content`"),
        ({"messages": ["咳", "受診"]}, "messages", "no message"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_row_that_cannot_be_learnt_from_is_named(row: dict, field, reason: str, chat, tmp_path: Path) -> None:
    path = tmp_path / "sft.jsonl"
    path.write_text(json.dumps({"messages": [USER, ANSWER]}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(MedgrpoError) as raised:
        load(path, chat)
    message = str(raised.value)
    assert message.startswith(f"{path}, line 2" + (f", field {field}: " if field else ": "))
    assert reason in message


def test_every_bad_row_is_told_at_once(chat) -> None:
    rows = Dataset.from_dict({"prompt": ["a", "b", "c"], "completion": ["", "x", ""]})
    with pytest.raises(MedgrpoError, match=r"(?s)2 problems.*row 0.*row 2"):
        load(rows, chat)


@pytest.mark.parametrize("empty", [Dataset.from_dict({"prompt": [], "completion": []}), Dataset.from_list([])])
def test_an_empty_dataset_is_refused(empty: Dataset, chat) -> None:
    with pytest.raises(MedgrpoError, match="holds no sample"):
        load(empty, chat)


def test_files_that_cannot_be_read_are_refused(chat, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n\n")
    for name, reason in (("empty.jsonl", "holds no sample"), ("missing.jsonl", "cannot be read")):
        with pytest.raises(MedgrpoError, match=reason):
            load(str(tmp_path / name), chat)
    (tmp_path / "torn.jsonl").write_text(json.dumps({"messages": [USER, ANSWER]}) + '\n{"messages": [')
    with pytest.raises(MedgrpoError, match="line 2"):
        load(tmp_path / "torn.jsonl", chat)


def test_a_template_that_rewrites_the_prompt_is_refused(chat) -> None:
    rewriting = AutoTokenizer.from_pretrained(TINY_MODEL)
    rewriting.chat_template = "{{ messages | length }}" + chat.chat_template
    with pytest.raises(MedgrpoError, match="template writes the prompt otherwise"):
        load(Dataset.from_list([{"messages": [USER, ANSWER]}]), rewriting)


def test_a_template_that_drops_the_answer_is_refused(chat) -> None:
    forgetful = AutoTokenizer.from_pretrained(TINY_MODEL)
    forgetful.chat_template = "{% for message in messages if message.role == 'user' %}{{ message.content }}{% endfor %}"
    with pytest.raises(MedgrpoError, match="no trainable token"):
        load(Dataset.from_list([{"messages": [USER, ANSWER]}]), forgetful)


def test_messages_need_a_chat_template(tokenizer) -> None:
    with pytest.raises(MedgrpoError, match="no chat template"):
        load(Dataset.from_list([{"messages": [USER, ANSWER]}]), tokenizer)
