"""The synthesis against a real server on loopback that answers, fails, stalls and lies."""

import json

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.exams.question import read_questions
from medgrpo.exams.splits import select_years
from medgrpo.sft_data.build import build_sft_data
from medgrpo.sft_data.endpoint import Endpoint
from medgrpo.sft_data.prompt_files import read_prompts

MINI = read_questions("mini_exam")
TRAIN, HELD_OUT = select_years(MINI, {2019, 2020}), select_years(MINI, {2023})


def build(server, out, count=6, concurrency=3, **options):
    endpoint = Endpoint(server.url, "m", **{"timeout_s": 5.0, **options})
    return build_sft_data(
        TRAIN[:count], HELD_OUT, read_prompts(), endpoint, out, concurrency=concurrency, progress=False
    )


def test_every_question_becomes_a_sample(server, tmp_path):
    out = tmp_path / "sft.jsonl"
    account = build(server, out)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in rows] == [question.id for question in TRAIN[:6]]
    assert (account.kept, account.requests) == (6, 12)
    assert (account.prompt_tokens, account.completion_tokens) == (1200, 600)
    assert rows[0]["prompt"][0]["role"] == "user"
    assert rows[0]["completion"][0]["content"].count("【") == 5
    # Each text answers its own question.
    for row in rows:
        number = row["prompt"][0]["content"].removeprefix("相談番号").split("番")[0]
        assert f"相談番号は{number}です" in row["parts"]["caution"]
    request = server.requests[0]
    assert request["response_format"]["json_schema"]["strict"] is True
    assert request["seed"] == 0


def test_no_key_of_the_environment_is_sent_unasked(server, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-1")
    monkeypatch.setenv("MY_KEY", "sk-canary-2")
    build(server, tmp_path / "a.jsonl", 1)
    assert not any("canary" in str(headers) for headers in server.headers)
    build(server, tmp_path / "b.jsonl", 1, api_key_env="MY_KEY")
    assert server.headers[-1]["authorization"] == "Bearer sk-canary-2"
    assert not any("canary" in path.read_text(encoding="utf-8") for path in tmp_path.iterdir())
    with pytest.raises(MedgrpoError, match="no environment variable NO_KEY"):
        build(server, tmp_path / "c.jsonl", 1, api_key_env="NO_KEY")


def test_a_second_start_asks_nothing(server, tmp_path):
    out = tmp_path / "sft.jsonl"
    build(server, out)
    first = out.read_bytes()
    account = build(server, out)
    assert account.requests == 0
    assert account.prompt_tokens == 1200
    assert out.read_bytes() == first


def test_server_errors_are_tried_again(server, tmp_path):
    server.misbehave = lambda number, request: (503, {"error": {"message": "busy"}}) if number <= 2 else None
    assert build(server, tmp_path / "sft.jsonl", 2).kept == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda server, request: (200, b"<html>hello</html>"), "not a chat completion"),
        (lambda server, request: (200, {"choices": []}), "not a chat completion"),
        (lambda server, request: (200, server.answer(request, finish="length")), "cut off at max_tokens"),
        (lambda server, request: (400, {"error": {"message": "too long"}}), "status 400"),
    ],
)
def test_an_unusable_reply_costs_one_item_until_the_next_start(server, tmp_path, answer, reason):
    out = tmp_path / "sft.jsonl"
    stubborn = TRAIN[1].question
    server.misbehave = lambda number, request: (
        answer(server, request) if stubborn in request["messages"][1]["content"] else None
    )
    account = build(server, out, 4)
    assert account.kept == 3
    assert account.unfinished == {reason: 1}
    server.misbehave = lambda number, request: None
    account = build(server, out, 4)
    assert (account.kept, account.requests, account.unfinished) == (4, 2, {})
    assert [json.loads(line)["id"] for line in out.read_text(encoding="utf-8").splitlines()] == [
        question.id for question in TRAIN[:4]
    ]


def test_items_that_are_not_fit_are_counted_and_not_asked_for_again(server, tmp_path):
    out = tmp_path / "sft.jsonl"
    server.misbehave = lambda number, request: (
        (200, server.answer(request, {"action": "正解はcです。安静にして水分を取ってください。"}))
        if number == 2
        else None
    )
    account = build(server, out, 4, concurrency=1)
    assert {reason: len(ids) for reason, ids in account.dropped.items()} == {"answer letter shows": 1}
    assert account.kept == 3
    assert json.loads(out.with_suffix(".account.json").read_text(encoding="utf-8"))["dropped"] == account.dropped
    assert "left out: answer letter shows: 1" in account.describe()
    assert build(server, out, 4).requests == 0


def test_an_endpoint_that_never_answers_well_is_given_up(server, tmp_path):
    server.misbehave = lambda number, request: (200, server.answer(request, finish="length"))
    with pytest.raises(MedgrpoError, match="20 replies in a row"):
        build(server, tmp_path / "sft.jsonl", 60)
    assert len(server.requests) < 30


def test_a_wrong_model_stops_at_once(server, tmp_path):
    server.misbehave = lambda number, request: (404, {"error": {"message": "no model m"}})
    with pytest.raises(MedgrpoError, match="refuses model 'm'"):
        build(server, tmp_path / "sft.jsonl", 30)
    assert len(server.requests) <= 3


def test_a_dead_endpoint_is_named(server, tmp_path):
    out = tmp_path / "sft.jsonl"
    build(server, out, 2)
    server.close()
    with pytest.raises(MedgrpoError, match="cannot be reached"):
        build(server, out, 6)
    assert len(out.read_text(encoding="utf-8").splitlines()) == 2


def test_a_stalled_endpoint_times_out(server, tmp_path):
    server.delay_s = 1.5
    with pytest.raises(MedgrpoError, match="no item is fit"):
        build(server, tmp_path / "sft.jsonl", 2, timeout_s=0.5, retries=0)


def test_questions_of_the_evaluation_are_refused_with_their_ids(server, tmp_path):
    endpoint = Endpoint(server.url, "m")
    with pytest.raises(MedgrpoError, match=HELD_OUT[3].id):
        build_sft_data([*TRAIN[:5], HELD_OUT[3]], HELD_OUT, read_prompts(), endpoint, tmp_path / "x.jsonl")
    assert server.requests == []
