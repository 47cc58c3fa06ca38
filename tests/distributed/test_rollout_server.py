import os
import time

import pytest
from faulty_server import FaultyServer, completions, hang
from ranks import free_port

from medgrpo.distributed.rollout_server import RolloutServer, ServerFault, ServerRefusal
from medgrpo.errors import MedgrpoError

PROMPTS = [[1, 2, 3], [4, 5]]


@pytest.fixture
def faulty():
    server = FaultyServer()
    yield server
    server.close()


def client(faulty: FaultyServer, **options) -> RolloutServer:
    server = RolloutServer(faulty.url, timeout=1.0, **options)
    server.model, server.vocab_size = "m", 100
    return server


def test_completions_come_prompt_by_prompt(faulty) -> None:
    faulty.answers["/v1/completions"] = lambda body: completions(body["prompt"], body["n"])
    output = client(faulty, key="k").generate(
        PROMPTS, n=3, temperature=0.5, max_tokens=7, generation_kwargs={"seed": 4}
    )
    assert output["prompt_ids"] == PROMPTS
    assert output["completion_ids"] == [[5, 6]] * 6
    assert output["logprobs"] == [[[-1.0], [-1.0]]] * 6
    assert output["logprob_token_ids"] == [[[5], [6]]] * 6
    path, body, key = faulty.asked[0]
    assert (body["temperature"], body["max_tokens"], body["seed"], body["model"]) == (0.5, 7, 4, "m")
    assert key == "Bearer k"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda body: (500, b'{"error": {"message": "EngineCore died"}}'), "500 .EngineCore died"),
        (lambda body: (503, b"<html>busy</html>"), "503"),
        (lambda body: (429, b""), "429"),
        (lambda body: (200, b"<html>a proxy's page</html>"), "not JSON"),
        (lambda body: (200, b'{"choices": '), "not JSON"),
        (lambda body: (200, b"\xff\xfe\x00"), "not JSON"),
        (lambda body: {"object": "list"}, "without 'choices'"),
        (lambda body: ["choices"], "without 'choices'"),
        (lambda body: {"choices": []}, "without|0 completions"),
        (lambda body: {"choices": "x"}, "without"),
        (lambda body: completions(body["prompt"][:1]), "1 completions instead of 2"),
        (lambda body: completions(body["prompt"], tokens=(5, 100)), "no token ids"),
        (lambda body: completions(body["prompt"], tokens=()), "no token ids"),
        (lambda body: {"choices": [{"token_ids": [1], "logprobs": None}] * 2}, "without|log-probabilities"),
        (lambda body: {"choices": [{"token_ids": [1, 2]}] * 2}, "without 'logprobs'"),
        (hang, "no answer to /v1/completions within 1 s"),
        (lambda body: None, "/v1/completions"),
    ],
)
def test_faults_that_may_pass(faulty, answer, said) -> None:
    faulty.answers["/v1/completions"] = answer
    with pytest.raises(ServerFault, match=said):
        client(faulty).generate(PROMPTS, n=1)
    assert len(faulty.asked) == 1  # no blind repeat: a generation may cost minutes


def test_a_log_probability_that_is_none(faulty) -> None:
    bad = completions(PROMPTS)
    bad["choices"][1]["logprobs"]["token_logprobs"][0] = float("nan")
    faulty.answers["/v1/completions"] = lambda body: bad
    with pytest.raises(ServerFault, match="completion 1 holds what are no log-probabilities"):
        client(faulty).generate(PROMPTS)


def test_mistakes_of_the_user_are_told_at_once(faulty) -> None:
    faulty.answers["/v1/completions"] = lambda body: (400, b'{"error": {"message": "max_tokens is too large"}}')
    with pytest.raises(ServerRefusal, match="400 .max_tokens is too large"):
        client(faulty).generate(PROMPTS)
    faulty.answers["/health"] = lambda body: (401, b"")
    with pytest.raises(MedgrpoError, match="refuses the API key.*MEDGRPO_VLLM_API_KEY"):
        client(faulty, key="secret-secret").is_up()
    faulty.answers["/health"] = lambda body: (302, b"")
    with pytest.raises(MedgrpoError, match="302"):
        client(faulty).is_up()


def test_workers_that_answer_an_error_or_do_not_agree(faulty) -> None:
    for results, kind, said in (
        ([{"error": "/x: holds no safetensors"}], MedgrpoError, "/x: holds no safetensors"),
        ([{"id": "a"}, {"id": "b"}], ServerFault, "do not agree"),
        (["None"], ServerFault, "answered"),
        ([], ServerFault, "answered"),
    ):
        faulty.answers["/collective_rpc"] = lambda body, results=results: {"results": results}
        with pytest.raises(kind, match=said):
            client(faulty).loaded()


def test_scores_are_those_of_the_prompts_tokens(faulty) -> None:
    places = [None, {"2": {"logprob": -0.5}, "9": {"logprob": -0.1}}, {"3": {"logprob": -2}}]
    faulty.answers["/v1/completions"] = lambda body: {"choices": [{"prompt_logprobs": places}]}
    assert client(faulty).score([[1, 2, 3]]) == [[-0.5, -2.0]]
    with pytest.raises(ServerFault, match="prompt_logprobs"):
        client(faulty).score([[1, 2, 4]])
    with pytest.raises(ServerFault, match="prompt_logprobs"):
        client(faulty).score([[1, 2, 3, 4]])


def test_nobody_there(monkeypatch) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    told = []
    started = time.monotonic()
    with pytest.raises(MedgrpoError, match=f"{url}: no vLLM server there after 1 s .*refused.*medgrpo serve"):
        RolloutServer(url).wait_until_up(1, lambda left, why: told.append(left))
    assert time.monotonic() - started < 3
    assert told and 0 < told[0] <= 1
    with pytest.raises(ServerFault, match="unknown host|resolution|Name"):
        RolloutServer("http://no-such-host.invalid:8000").is_up()


def test_a_proxy_of_the_environment_is_not_asked(faulty, monkeypatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setitem(os.environ, name, "http://127.0.0.1:9")
    faulty.answers["/health"] = lambda body: (200, b"")
    client(faulty).is_up()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:8000", "no address"),
        ("ftp://x", "no address"),
        ("http://", "no address"),
        ("http://x:99999", "no address"),
        ("http://a..b:8000", "no address"),
        ("http://a host:8000", "no address"),
        ("http://user:secret@x:8000", "MEDGRPO_VLLM_API_KEY"),
    ],
)
def test_bad_addresses(url, said) -> None:
    with pytest.raises(MedgrpoError, match=said) as error:
        RolloutServer(url)
    assert "secret" not in str(error.value)
