"""Bad data is told with all its lines, in one report, before a model is loaded."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer
from trl import ModelConfig

from medgrpo import MedGRPOConfig
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.choose_backend import open_backend
from medgrpo.evaluation.request import EvaluationRequest
from medgrpo.evaluation.score import read_completions
from medgrpo.exams.question import EMBEDDED, read_questions
from medgrpo.experiment.arguments import ExamArguments
from medgrpo.experiment.exam import load_exam
from medgrpo.experiment.model import find_model
from medgrpo.tiny import TINY_MODEL
from medgrpo.trainers.sft_samples import load_sft_samples

GOOD = [json.loads(line) for line in EMBEDDED.read_text(encoding="utf-8").splitlines()[:6]]


def lines(*records: object) -> bytes:
    return b"".join(
        (r if isinstance(r, bytes) else json.dumps(r, ensure_ascii=False).encode()) + b"\n" for r in records
    )


def test_every_problem_of_a_question_file_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "exam.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf"
        + lines(
            GOOD[0],  # 1: good, behind a byte-order mark
            b'{"id": "x"',  # 2: cut off
            {**GOOD[1], "year": "2022"},  # 3: a wrong type
            {key: value for key, value in GOOD[2].items() if key != "answer"},  # 4: a field is missing
            GOOD[0],  # 5: a doubled id
            b'{"id": "' + "急".encode("cp932") + b'"}',  # 6: another encoding within
            [1, 2],  # 7: no object
            {**GOOD[3], "question": "長" * 100_001},  # 8: no question
            b'{"id": "a", "id": "b"}',  # 9: a doubled key
            GOOD[4],
        )
    )
    with pytest.raises(MedgrpoError) as refused:
        read_questions(path)
    text = str(refused.value)
    assert text.startswith("8 problems")
    told = [line for line in range(1, 11) if f"exam.jsonl, line {line}," in text or f"exam.jsonl, line {line}:" in text]
    assert told == list(range(2, 10))


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf"], ids=["nothing", "blank lines", "a mark alone"])
def test_an_empty_file_is_told_by_every_reader(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL)
    for read in (
        read_questions,
        read_completions,
        lambda file: load_sft_samples(file, tokenizer, max_length=64, eos_token_ids=[0]),
        lambda file: load_exam(ExamArguments(train_file=str(file))),
    ):
        with pytest.raises(MedgrpoError, match="empty.jsonl: holds no"):
            read(path)


def test_every_problem_of_sft_data_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "sft.jsonl"
    path.write_bytes(
        lines(
            {"prompt": "q", "completion": "a"},
            {"prompt": "q"},
            {"prompt": "q", "completion": 1},
            {"prompt": "q", "completion": " "},
            {"messages": []},
            b"{",
            b"\xff\xfe",
        )
    )
    with pytest.raises(MedgrpoError) as refused:
        load_sft_samples(path, AutoTokenizer.from_pretrained(TINY_MODEL), max_length=512, eos_token_ids=[0])
    assert [line for line in range(1, 8) if f"line {line}" in str(refused.value)] == list(range(2, 8))


@pytest.fixture
def long_exam(tmp_path: Path) -> Path:
    """Six questions, the 2nd and the 5th longer than the tiny model's 4096 tokens."""
    path = tmp_path / "long.jsonl"
    long = [
        {**record, "question": record["question"] + "熱" * 5000 if i in (1, 4) else record["question"]}
        for i, record in enumerate(GOOD)
    ]
    path.write_bytes(lines(*long))
    return path


def test_prompts_longer_than_the_model_are_told_before_it_is_loaded_for_training(
    long_exam: Path, tmp_path: Path, monkeypatch
) -> None:
    arguments = ExamArguments(train_file=str(long_exam), eval_file="mini_exam", eval_years="2026")
    exam = load_exam(arguments)
    config = MedGRPOConfig(output_dir=str(tmp_path / "run"), max_completion_length=64)
    with pytest.raises(MedgrpoError) as refused:
        find_model(ModelConfig(model_name_or_path="tiny"), config, arguments, exam)
    text = str(refused.value)
    assert text.startswith("2 problems") and "line 2," in text and "line 5," in text
    assert "more than the 4096 of the model" in text and "max_completion_length 64" in text


def test_and_for_evaluation(long_exam: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("medgrpo.evaluation.choose_backend.load_model", lambda *_: pytest.fail("a model was loaded"))
    request = EvaluationRequest(model="tiny", questions=str(long_exam), out=str(tmp_path / "out"))
    with pytest.raises(MedgrpoError, match="^2 problems") as refused:
        open_backend(request, request.load_questions())
    assert "line 2," in str(refused.value) and "line 5," in str(refused.value)


def test_what_fits_exactly_is_let_through(tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL)
    arguments = ExamArguments(train_file="mini_exam", train_years="2019-2025", eval_years="2026")
    exam = load_exam(arguments)
    from medgrpo.evaluation.load import count_tokens_with
    from medgrpo.exams.prompts import build_prompt

    count = count_tokens_with(tokenizer)
    longest = max(count(build_prompt(q)) for q in exam.train + exam.held_out)
    for room, fits in ((4096 - longest, True), (4096 - longest + 1, False)):
        config = MedGRPOConfig(output_dir=str(tmp_path / "run"), max_completion_length=room)
        if fits:
            find_model(ModelConfig(model_name_or_path="tiny"), config, arguments, exam)
        else:
            with pytest.raises(MedgrpoError, match="lower max_completion_length"):
                find_model(ModelConfig(model_name_or_path="tiny"), config, arguments, exam)
