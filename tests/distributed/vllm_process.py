"""A real vLLM server, started as a user starts it, that tests may stop, kill and start again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from ranks import free_port

from medgrpo.distributed.rollout_server import RolloutServer, ServerFault

PYTHON = os.environ.get("MEDGRPO_VLLM_PYTHON")
NEEDED = "MEDGRPO_VLLM_PYTHON is not set: it names a Python with vLLM (`make test` makes one)"
KEY = "0123456789abcdef-of-the-tests"
START_S = 800


class VLLMProcess:
    """`medgrpo serve` on a port of its own, with a key; its output is in `log`."""

    def __init__(self, folder: Path, model: str = "tiny", engine_args: str = '{"max_model_len": 512}') -> None:
        self.log = folder / "server.log"
        self.port = free_port()
        self.model, self.engine_args = model, engine_args
        self.process: subprocess.Popen | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "medgrpo.cli", "serve", "--model", self.model, "--cpu"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port), "--engine-args", self.engine_args],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "HF_HUB_OFFLINE": "1", "MEDGRPO_VLLM_API_KEY": KEY},
                start_new_session=True,
            )

    def wait_until_up(self) -> RolloutServer:
        server = RolloutServer(self.url, KEY, timeout=120)
        end = time.monotonic() + START_S
        while True:
            assert self.process is not None and self.process.poll() is None, self.log.read_text()[-3000:]
            try:
                server.is_up()
                server.read_model()
                return server
            except ServerFault:
                assert time.monotonic() < end, self.log.read_text()[-3000:]
                time.sleep(0.5)

    def signal(self, number: int) -> None:
        """To the server and its workers."""
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """As the kernel does when memory runs out, or an administrator."""
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait(timeout=30)
