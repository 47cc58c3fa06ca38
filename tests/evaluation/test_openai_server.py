"""The backend against a real server on loopback: what it sends, and every way in which a server fails."""

import json
import os
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from medgrpo.cli import main
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.backend import Sampling
from medgrpo.evaluation.openai_server import VLLM_NEUTRAL, OpenAIBackend
from medgrpo.evaluation.samples import read_run

PROMPTS = {f"A{i}": [{"role": "user", "content": f"問{i}"}] for i in range(6)}
HANG = object()
DROP = object()


def completion(text, **message):
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text, **message}}
        ],
    }


class Server(ThreadingHTTPServer):
    """Answers `/chat/completions` with `answer(request body, number of the request)`: (status, body)."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer, models=({"id": "m", "object": "model", "owned_by": "me"},), version=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.models, self.version = answer, models, version
        self.requests, self.headers, self.running, self.most_running = [], [], 0, 0
        self.lock, self.released = threading.Lock(), threading.Event()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request, client_address):
        """A client that hung up is what some of the tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if self.path == "/v1/models" and isinstance(server.models, tuple):
            self.reply(200, {"object": "list", "data": list(server.models)})
        elif self.path == "/v1/models":
            self.reply(*server.models)
        elif self.path == "/version" and server.version:
            self.reply(200, {"version": server.version})
        else:
            self.reply(404, {"detail": "Not Found"})

    def do_POST(self):
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.requests.append(body)
            number = len(server.requests)
            server.running += 1
            server.most_running = max(server.most_running, server.running)
        try:
            answer = server.answer(body, number)
            if answer is HANG:
                server.released.wait(30)
            elif answer is DROP:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"choices": [')
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
            else:
                self.reply(*answer)
        finally:
            with server.lock:
                server.running -= 1

    def reply(self, status, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html" if isinstance(body, bytes) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@contextmanager
def serving(answer, **options):
    server = Server(answer, **options)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def echo(body, _):
    return 200, completion(body["messages"][-1]["content"] + " [ans]a[/ans]")


def open_backend(server, sampling=None, **options):
    options = {"batch_size": 3, "timeout": 20.0, "retries": 1, **options}
    return OpenAIBackend("m", server.url, sampling or Sampling(max_new_tokens=9), **options)


def collect(backend, prompts=PROMPTS):
    """What was yielded, and the error's text (None where all went well)."""
    found = {}
    try:
        for name, text in backend.complete(prompts):
            found[name] = text
    except MedgrpoError as error:
        return found, str(error)
    return found, None


def test_every_question_is_asked_once_and_at_most_batch_size_at_a_time():
    def slow(body, number):
        time.sleep(0.05)
        return echo(body, number)

    with serving(slow) as server:
        found, error = collect(open_backend(server))
        assert error is None
        assert found == {name: f"{prompt[0]['content']} [ans]a[/ans]" for name, prompt in PROMPTS.items()}
        assert len(server.requests) == 6
        assert 2 <= server.most_running <= 3


def test_greedy_and_sampled_requests_leave_nothing_to_the_servers_defaults():
    with serving(echo) as server:
        collect(open_backend(server))
        sampled = Sampling(0.7, 33, seed=5)
        collect(open_backend(server, sampled, chat_template_kwargs={"enable_thinking": False}))
        greedy, other = server.requests[:6], server.requests[6:]
        assert all(body["temperature"] == 0 and body["max_tokens"] == 9 and body["model"] == "m" for body in greedy)
        assert all(
            (body["top_p"], body["n"], body["presence_penalty"], body["frequency_penalty"]) == (1, 1, 0, 0)
            for body in greedy
        )
        assert not any("top_k" in body or "chat_template_kwargs" in body for body in greedy)
        assert all(body["chat_template_kwargs"] == {"enable_thinking": False} for body in other)
        by_text = {body["messages"][0]["content"]: body["seed"] for body in other}
        assert by_text == {prompt[0]["content"]: sampled.seed_of(name) for name, prompt in PROMPTS.items()}
        assert len(set(by_text.values())) == 6


def test_a_vllm_server_is_told_to_leave_the_generation_config_aside():
    model = {"id": "m", "object": "model", "owned_by": "vllm", "root": "/models/m", "max_model_len": 4096}
    with serving(echo, models=(model,), version="0.31.0") as server:
        backend = open_backend(server)
        collect(backend)
        assert all(VLLM_NEUTRAL.items() <= body.items() for body in server.requests)
        assert backend.settings["backend_version"] == "0.31.0"
        assert backend.settings["server"] == {"owned_by": "vllm", "root": "/models/m", "max_model_len": 4096}


def test_errors_of_the_moment_are_tried_again():
    failed = set()

    def stumbling(body, number):
        text = body["messages"][0]["content"]
        if text not in failed:
            failed.add(text)
            return 500, {"error": {"message": "no worker"}}
        return echo(body, number)

    with serving(stumbling) as server:
        found, error = collect(open_backend(server))
        assert (len(found), error, len(server.requests)) == (6, None, 12)


def only_a0_answers(answer):
    def choose(body, number):
        return echo(body, number) if body["messages"][0]["content"] == "問0" else answer

    return choose


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((500, {"error": {"message": "no worker"}}), ["no worker", "tried 2 times"]),
        ((400, {"error": {"message": "maximum context length is 5"}}), ["maximum context length", "too long"]),
        ((401, {"error": {"message": "bad key sk-test-123"}}), ["--api-key-env", "***"]),
        ((404, {"error": {"message": "no model m"}}), ["no model m", "--model"]),
        ((200, b"<html>welcome</html>"), ["no chat completion", "welcome"]),
        ((200, {"choices": []}), ["no chat completion", "/v1"]),
        ((200, {"choices": None}), ["no chat completion"]),
        ((200, {"hello": 1}), ["no chat completion"]),
        ((200, {"choices": [{"message": "text"}]}), ["no chat completion"]),
        ((200, [1, 2]), ["no chat completion"]),
        (HANG, ["no answer within 0.5 s", "--timeout"]),
        (DROP, ["check the address"]),
    ],
    ids=[
        "500",
        "400",
        "401",
        "404",
        "html",
        "no choices",
        "null",
        "other object",
        "odd message",
        "list",
        "hang",
        "drop",
    ],
)
def test_a_server_that_fails_for_good_is_one_line_and_loses_nothing(answer, told, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sk-test-123")
    with serving(only_a0_answers(answer)) as server:
        backend = open_backend(server, timeout=0.5, api_key_env="MY_KEY")
        start = time.monotonic()
        found, error = collect(backend)
        assert time.monotonic() - start < 15
        assert found == {"A0": "問0 [ans]a[/ans]"}
        for part in [*told, server.url]:
            assert part in error
        assert "sk-test-123" not in error
        assert "\n" not in error


def test_nobody_is_there():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        with pytest.raises(MedgrpoError, match="asked for its models.*tried 1 times: check the address"):
            OpenAIBackend("m", url, Sampling(), retries=0)


@pytest.mark.parametrize(
    ("models", "told"),
    [
        (({"id": "other"},), "has no model 'm': its models are other"),
        ((200, b"<html></html>"), "no list of models"),
        ((200, {"data": [1]}), "no list of models"),
        ((200, {"detail": "hello"}), None),
        ((404, {"detail": "Not Found"}), None),
        ((401, {"error": {"message": "who are you?"}}), "who are you.*--api-key-env"),
    ],
)
def test_the_model_is_looked_for_before_anything_is_asked(models, told):
    if models[0] == 200 or isinstance(models[0], int):
        models = list(models)
    with serving(echo, models=models) as server:
        if told is None:
            assert len(collect(open_backend(server))[0]) == 6
        else:
            with pytest.raises(MedgrpoError, match=told):
                open_backend(server)


def test_thoughts_that_the_server_parts_off_are_put_back_and_never_count_as_the_answer():
    answers = {
        "問0": completion("[ans]a[/ans]", reasoning="[ans]b[/ans]"),
        "問1": completion(None, reasoning_content="[ans]b[/ans] and then"),
        "問2": completion(None),
    }
    with serving(lambda body, _: (200, answers[body["messages"][0]["content"]])) as server:
        found, error = collect(open_backend(server), dict(list(PROMPTS.items())[:3]))
        assert error is None
        assert found == {
            "A0": "<think>[ans]b[/ans]</think>[ans]a[/ans]",
            "A1": "<think>[ans]b[/ans] and then",
            "A2": "",
        }


def test_a_key_is_sent_only_where_one_is_named(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-mine")
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    with serving(echo) as server:
        collect(open_backend(server))
        assert {headers["authorization"] for headers in server.headers} == {"Bearer none"}
        assert "mine" not in str(server.headers)
        server.headers.clear()
        collect(open_backend(server, api_key_env="OTHER_KEY"))
        assert {headers["authorization"] for headers in server.headers} == {"Bearer sk-other"}


def test_a_server_that_dies_in_mid_run_and_comes_back(tmp_path, monkeypatch, capsys):
    """Through the command line: what was answered is kept, the rest is asked of the new server, each once."""
    monkeypatch.setenv("MY_KEY", "sk-secret-1")
    out = tmp_path / "run"
    command = ["evaluate", "--backend", "openai", "--model", "m", "--questions", "mini_exam", "--years", "2023",
               "--limit", "30", "--batch-size", "2", "--api-key-env", "MY_KEY", "--out", str(out)]  # fmt: skip

    def dies(body, number):
        return echo(body, number) if number <= 11 else DROP

    with serving(dies) as server:
        assert main([*command, "--base-url", server.url]) == 2
        kept = [json.loads(line)["id"] for line in (out / "completions.partial.jsonl").read_text().splitlines()[1:]]
        assert len(kept) == 11
        error = capsys.readouterr().err.splitlines()[-1]
        assert "11 of 30 completions are kept" in error
    with serving(echo) as server:  # another port: where it is does not matter
        assert main([*command, "--base-url", server.url]) == 0
        assert len(server.requests) == 19
    run = read_run(out)
    assert len(run.samples) == 30
    assert all(sample.completion.endswith("[ans]a[/ans]") for sample in run.samples)
    assert run.run_info["sampling"]["backend"] == "openai"
    assert run.run_info["placement"]["base_url"] == server.url
    for folder, _, files in os.walk(out):
        for file in files:
            with open(os.path.join(folder, file), encoding="utf-8") as text:
                assert "sk-secret-1" not in text.read()
