"""Training with rollouts from a real vLLM server on a CPU, which is stopped, killed and started again meanwhile."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest
from transformers import AutoConfig, AutoTokenizer
from vllm_process import KEY, NEEDED, PYTHON, VLLMProcess

from medgrpo.distributed.rollout_server import RolloutServer
from medgrpo.distributed.server_checks import check_server
from medgrpo.errors import MedgrpoError
from medgrpo.tiny import TINY_MODEL
from medgrpo.trainers.run_log import read_metrics

HERE = Path(__file__).parent
pytestmark = [pytest.mark.skipif(PYTHON is None, reason=NEEDED), pytest.mark.timeout(2400)]

EP = {
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "expert_parallel": {"enabled": True, "autoep_size": 2},
}


@pytest.fixture(scope="module")
def vllm(tmp_path_factory) -> Iterator[VLLMProcess]:
    process = VLLMProcess(tmp_path_factory.mktemp("vllm"))
    process.start()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def story(vllm: VLLMProcess, tmp_path_factory) -> dict:
    """Two ranks, ZeRO-3 and sharded experts: the server dies for good, then in the resumed run hangs, dies, returns."""
    folder = tmp_path_factory.mktemp("run")
    settings = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 8,
        "max_steps": 24,
        "vllm_server_base_url": vllm.url,
        "vllm_server_timeout": 300,
        "deepspeed": EP,
    }
    vllm.wait_until_up()
    first = launch(settings | {"vllm_server_wait": 3, "vllm_request_timeout": 60})
    wait_for(lambda: steps_of(folder) >= 4, first)
    vllm.kill()
    stopped = finish(first)

    vllm.start()
    vllm.wait_until_up()
    # The printed command, but with patience.
    settings |= {"vllm_server_wait": 800, "vllm_request_timeout": 15}
    second = launch(settings, "--resume_from_checkpoint", "last")
    wait_for(lambda: steps_of(folder) >= 9, second)
    vllm.signal(signal.SIGSTOP)
    time.sleep(20)
    vllm.signal(signal.SIGCONT)
    wait_for(lambda: steps_of(folder) >= 15, second)
    vllm.kill()
    vllm.start()
    resumed = finish(second)
    return {"stopped": stopped, "resumed": resumed, "folder": folder, "rows": read_metrics(folder)}


class Training:
    """Two ranks in the background, their output in a file: a pipe that nobody reads would fill and hold them up."""

    def __init__(self, process: subprocess.Popen, output: IO[str]) -> None:
        self.process, self._output = process, output

    def read(self) -> str:
        self._output.seek(0)
        return self._output.read()


def launch(settings: dict, *options: str) -> Training:
    output = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115  it outlives this function
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    process = subprocess.Popen(
        [*command, str(HERE / "server_run.py"), json.dumps(settings), *options],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "TRL_EXPERIMENTAL_SILENCE": "1",
            "MEDGRPO_VLLM_API_KEY": KEY,
            "PYTHONUNBUFFERED": "1",
        },
        stdout=output,
        stderr=subprocess.STDOUT,
    )
    return Training(process, output)


def finish(training: Training) -> tuple[int, str]:
    try:
        status = training.process.wait(timeout=1200)
    except subprocess.TimeoutExpired:
        training.process.terminate()
        raise AssertionError(training.read()[-4000:]) from None
    return status, training.read()


def wait_for(condition: Callable[[], bool], training: Training) -> None:
    end = time.monotonic() + 1200
    while not condition():
        if training.process.poll() is not None or time.monotonic() > end:
            training.process.terminate()
            raise AssertionError(training.read()[-4000:])
        time.sleep(0.1)


def steps_of(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.is_file() else 0


def test_a_server_of_another_model_or_vocabulary_is_refused(vllm: VLLMProcess) -> None:
    server = vllm.wait_until_up()
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL)
    config = AutoConfig.from_pretrained(TINY_MODEL)
    assert check_server(server, config, tokenizer, 12) == "float32"
    other = AutoConfig.from_pretrained(TINY_MODEL, hidden_size=64)
    with pytest.raises(MedgrpoError, match="another model .hidden_size is 128, 64 in"):
        check_server(server, other, tokenizer, 12)
    with pytest.raises(MedgrpoError, match="vocab_size is 2236, 151936"):
        check_server(server, AutoConfig.from_pretrained(TINY_MODEL, vocab_size=151936), tokenizer, 12)
    words = AutoTokenizer.from_pretrained(TINY_MODEL)
    words.add_tokens(["緑内障 glaucoma"])
    with pytest.raises(MedgrpoError, match="vocabulary is another one"):
        check_server(server, config, words, 12)
    with pytest.raises(MedgrpoError, match="max_model_len 512 leaves no prompt"):
        check_server(server, config, tokenizer, 512)
    with pytest.raises(MedgrpoError, match="medgrpo serve --sync nccl"):
        check_server(server, config, tokenizer, 12, nccl=True)


def test_every_path_wants_the_key(vllm: VLLMProcess) -> None:
    vllm.wait_until_up()
    paths = (
        "/health",
        "/v1/models",
        "/collective_rpc",
        "/server_info",
        "/reset_prefix_cache",
        "/docs",
        "/metrics",
        "/",
    )
    for path in paths:
        for key in (None, "Bearer wrong", f"Bearer {KEY}x", KEY):
            request = urllib.request.Request(vllm.url + path, headers={} if key is None else {"Authorization": key})
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=20)
            assert refused.value.code == 401, path
    with pytest.raises(MedgrpoError, match="refuses the API key"):
        RolloutServer(vllm.url, None).is_up()
    assert KEY not in vllm.log.read_text()


def test_bad_folders_leave_the_server_alive(vllm: VLLMProcess, tmp_path) -> None:
    """Loading them as vLLM does ends its engine."""
    server = vllm.wait_until_up()
    (tmp_path / "sync.json").write_text('{"id": "x-1"}')
    with pytest.raises(MedgrpoError, match="holds no safetensors"):
        server.load(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes((TINY_MODEL / "model.safetensors").read_bytes()[:100_000])
    with pytest.raises(MedgrpoError, match=str(tmp_path)):
        server.load(str(tmp_path))
    assert server.loaded() is None
    server.is_up()


def test_the_run_that_lost_its_server_is_saved_and_says_how_to_go_on(story: dict) -> None:
    status, output = story["stopped"]
    assert status != 0
    assert "stopping in 3 s unless it comes back" in output
    last = next(line for line in output.splitlines() if "the rollout server is away for more than 3 s" in line)
    step = int(re.search(r"checkpoint-(\d+)", last)[1])
    assert step >= 4
    command = shlex.split(output.splitlines()[output.splitlines().index(last) + 1])
    assert command[-2:] == ["--resume_from_checkpoint", "last"]
    assert any(word.endswith("server_run.py") for word in command)


def test_the_resumed_run_survives_a_hang_and_a_death(story: dict) -> None:
    status, output = story["resumed"]
    assert status == 0, output[-4000:]
    assert "no answer to" in output and "within 15 s" in output
    assert output.count("is back after") >= 2, output[-4000:]
    assert "stopping in 800 s unless it comes back" in output


def test_server_and_trainer_agree_after_every_sync(story: dict) -> None:
    rows = [row for row in story["rows"] if "sampling/sync_logp_difference" in row]
    assert [row["step"] for row in rows] == list(range(1, 25))
    assert max(row["sampling/sync_logp_difference"] for row in rows) < 1e-4
    assert max(row["sampling/sampling_logp_difference/max"] for row in rows) < 1e-4
    rewards = [row["reward"] for row in rows]
    # It is near its largest value, 0.5, after few steps.
    assert sum(rewards[-4:]) / 4 > sum(rewards[:4]) / 4 + 0.03, rewards


def test_no_weights_are_left_behind(story: dict) -> None:
    assert not (story["folder"] / "weight_sync").exists()
