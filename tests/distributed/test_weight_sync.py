"""A training whose server fails in every way there is, over real HTTP; `test_server_training.py` has a real vLLM."""

import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
from served_training import AfterStep, build, differences, make_model_folder
from server_run import third_tokens
from transformers_server import TransformersServer

from medgrpo import MedGRPOConfig
from medgrpo.distributed.weight_sync import RolloutServerGone
from medgrpo.errors import MedgrpoError


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory) -> Path:
    return make_model_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
def server(model_folder, monkeypatch):
    monkeypatch.setattr("medgrpo.distributed.weight_sync.RETRY_S", 0.1)
    server = TransformersServer(model_folder)
    yield server
    server.close()


def for_a_moment(server: TransformersServer, path: str, answer, seconds: float = 0.5):
    """Have a path answered badly from now on, and well again after a moment."""

    def change() -> None:
        good = server.answers[path]
        server.answers[path] = answer
        threading.Timer(seconds, lambda: server.answers.__setitem__(path, good)).start()

    return change


FAULTS = {
    "500": ("/v1/completions", lambda body: (500, b'{"error": {"message": "EngineCore died"}}'), "EngineCore died"),
    "garbage": ("/v1/completions", lambda body: (200, b"<html>"), "not JSON"),
    "hang up": ("/collective_rpc", lambda body: None, "/collective_rpc"),
    "too few": ("/v1/completions", lambda body: {"choices": []}, "0 completions|without"),
    "hang": ("/v1/completions", lambda body: time.sleep(3), "within 2 s"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_passes_is_waited_for(name, server, model_folder, tmp_path, capfd) -> None:
    path, answer, said = FAULTS[name]
    trainer = build(server, model_folder, tmp_path)
    trainer.add_callback(AfterStep(2, for_a_moment(server, path, answer)))
    trainer.train()
    assert len(differences(tmp_path)) == 4 and max(differences(tmp_path)) < 1e-4
    told = capfd.readouterr().err
    assert re.search(rf"is away .*({said}).*stopping in \d+ s unless it comes back", told)
    assert "is back after" in told


def test_a_server_started_anew_gets_the_present_weights(server, model_folder, tmp_path) -> None:
    """Between two micro-batches of rollouts, where no sync is due: its start-up weights would go unnoticed."""
    trainer = build(server, model_folder, tmp_path, steps_per_generation=1, gradient_accumulation_steps=2, max_steps=3)
    score, seen = third_tokens, []

    def reward(completion_ids, **columns):
        seen.append(server.loaded)
        if len(seen) == 3:
            server.restart()
        return score(completion_ids)

    reward.__name__ = "third_tokens"
    trainer.reward_funcs = [reward]
    trainer.train()
    assert len(seen) == 6
    # Two generations a step; the one after the restart is made with the weights of the one before it.
    assert seen[3] == seen[2] and seen[2] != seen[1]
    assert server.loads == 4
    assert max(differences(tmp_path)) < 1e-4


def test_what_the_server_refuses_stops_the_run_at_once(server, model_folder, tmp_path) -> None:
    trainer = build(server, model_folder, tmp_path)
    bad = lambda body: (400, b'{"error": {"message": "top_k is too large"}}')  # noqa: E731
    trainer.add_callback(AfterStep(1, lambda: server.answers.__setitem__("/v1/completions", bad)))
    started = time.monotonic()
    with pytest.raises(MedgrpoError, match="400 .top_k is too large"):
        trainer.train()
    assert time.monotonic() - started < 60, "it waited for the server instead"


def test_a_sync_that_did_not_take_stops_the_run(server, model_folder, tmp_path) -> None:
    """A server that says it has loaded the weights, and computes with others."""
    trainer = build(server, model_folder, tmp_path)
    call = server.call

    def only_claims(method, kwargs):
        before = server.model
        answer = call(method, kwargs)
        if trainer.state.global_step == 2:
            server.model = before
        return answer

    server.call = only_claims
    with pytest.raises(
        MedgrpoError, match=r"weight sync 3 did not take: .* by 0\.\d+ .largest; at most 0.001 in float"
    ):
        trainer.train()
    assert max(differences(tmp_path)) < 1e-4


def test_not_a_number_is_no_agreement(server, model_folder, tmp_path) -> None:
    trainer = build(server, model_folder, tmp_path)
    score = server.score
    server.score = lambda prompt: [None, *[{next(iter(p)): {"logprob": float("nan")}} for p in score(prompt)[1:]]]
    with pytest.raises(MedgrpoError, match="weight sync 1 did not take.* by inf"):
        trainer.train()


def test_after_the_limit_the_run_is_saved_and_resumed(server, model_folder, tmp_path) -> None:
    trainer = build(server, model_folder, tmp_path, vllm_server_wait=1)
    good = dict(server.answers)
    trainer.add_callback(AfterStep(2, server.answers.clear))
    trainer.add_callback(AfterStep(2, lambda: server.answers.__setitem__("/collective_rpc", lambda body: (502, b""))))
    with pytest.raises(RolloutServerGone, match="away for more than 1 s .*502.*saved .*checkpoint-2; .*resume") as gone:
        trainer.train()
    assert str(gone.value).endswith("--resume_from_checkpoint last")
    server.answers.update(good)
    server.restart()
    again = build(server, model_folder, tmp_path)
    again.train(resume_from_checkpoint="last")
    assert again.state.global_step == 4
    assert len(differences(tmp_path)) == 4 and max(differences(tmp_path)) < 1e-4


def test_a_signal_ends_the_wait_with_a_checkpoint(server, model_folder, tmp_path, capsys) -> None:
    """Slurm sends SIGTERM, and kills half a minute later."""
    trainer = build(server, model_folder, tmp_path, vllm_server_wait=300)

    def lose_server() -> None:
        server.answers["/collective_rpc"] = lambda body: (502, b"")
        threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()

    trainer.add_callback(AfterStep(2, lose_server))
    with pytest.raises(SystemExit) as stopped:
        trainer.train()
    assert stopped.value.code == 0
    assert (tmp_path / "checkpoint-2").is_dir()
    said = capsys.readouterr().out.strip()
    assert said.endswith("--resume_from_checkpoint last")
    # By such a line launch/job.sh knows that the job has to be queued again.
    assert re.search("^stopped by SIGTERM while the rollout server at .* is away", said, re.MULTILINE)


def test_before_the_first_step_there_is_nothing_to_save(server, model_folder, tmp_path) -> None:
    trainer = build(server, model_folder, tmp_path, vllm_server_wait=0.5)
    server.answers["/collective_rpc"] = lambda body: (502, b"")
    with pytest.raises(RolloutServerGone, match="no step is done yet"):
        trainer.train()
    assert not list(tmp_path.glob("checkpoint-*"))


def test_one_folder_of_weights_at_a_time_and_none_of_a_killed_run(server, model_folder, tmp_path) -> None:
    place = tmp_path / "sync"
    for left in ("sync-000009", ".sync-000010.partial", "sync-notes"):
        (place / left).mkdir(parents=True)
    trainer = build(server, model_folder, tmp_path / "run", vllm_sync_dir=str(place))
    seen = []
    trainer.add_callback(AfterStep(3, lambda: seen.extend(sorted(path.name for path in place.iterdir()))))
    trainer.train()
    assert seen == ["sync-000003", "sync-notes"]  # a stranger's folder stays
    trainer.vllm_generation.carrier.close()
    assert [path.name for path in place.iterdir()] == ["sync-notes"]


def test_rollouts_are_what_the_server_says(server, model_folder, tmp_path) -> None:
    """The same sampling settings as everywhere, and completions in the prompts' order."""
    trainer = build(server, model_folder, tmp_path, max_steps=1, temperature=0.7, top_p=0.9)
    trainer.train()
    asked = [body for path, body, _ in server.asked if path == "/v1/completions" and "n" in body]
    assert [(body["temperature"], body["top_p"], body["n"], body["max_tokens"]) for body in asked] == [(0.7, 0.9, 4, 4)]


@pytest.mark.parametrize(
    ("path", "answer", "said"),
    [
        ("/server_info", lambda body: (404, b"{}"), "no vLLM server with development endpoints.*medgrpo serve"),
        ("/server_info", lambda body: {"vllm_config": {"parallel_config": {"worker_extension_cls": ""}}}, "no weights"),
        ("/v1/models", lambda body: (200, b"<html>"), "does not answer as vLLM does"),
        ("/server_info", lambda body: {"vllm_config": {}}, "no 'parallel_config'"),
        ("/health", lambda body: (401, b""), "refuses the API key"),
    ],
)
def test_a_server_that_will_not_do_is_refused_at_start(path, answer, said, server, model_folder, tmp_path) -> None:
    server.answers[path] = answer
    with pytest.raises(MedgrpoError, match=said) as error:
        build(server, model_folder, tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"vllm_sync": "scp"}, "vllm_sync has to be nccl or filesystem"),
        ({"vllm_server_wait": 0}, "vllm_server_wait has to be"),
        ({"vllm_request_timeout": float("nan")}, "vllm_request_timeout has to be"),
        ({"vllm_request_timeout": 5000}, "below ddp_timeout 1800"),
    ],
)
def test_bad_settings(setting, said, tmp_path) -> None:
    with pytest.raises(ValueError, match=said):
        MedGRPOConfig(output_dir=str(tmp_path), use_vllm=True, vllm_mode="server", **setting)


@pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
def test_nccl_without_a_gpu_is_refused(server, model_folder, tmp_path) -> None:
    info = server.answers["/server_info"](None)
    info["vllm_config"]["weight_transfer_config"] = {"backend": "nccl"}
    server.answers["/server_info"] = lambda body: json.loads(json.dumps(info))
    with pytest.raises(MedgrpoError, match="vllm_sync=nccl needs GPUs"):
        build(server, model_folder, tmp_path, vllm_sync="nccl")
