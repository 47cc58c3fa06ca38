"""Runs a script as processes of its own without their imports, which take longer than most of what is tested.

The processes are forks of one that has imported everything (`forked_process.py`), started once for each process of
pytest. What a user starts (`accelerate launch recipes/gspo.py`, `medgrpo ...`) is started as such elsewhere.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    # DeepSpeed builds a small extension, and looks on the path for the ninja that is installed beside Python.
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
}
SERVER = Path(__file__).with_name("forked_process.py")


def run_forked(
    script: Path,
    *arguments: str,
    processes: int | None = None,
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
    timeout: float = 800,
) -> subprocess.CompletedProcess[str]:
    """Run the script to its end: as one process, or as the ranks of `processes`.

    `env` is added to this process's environment. The status is 0, or the first that isn't.
    """
    server = _server()
    with tempfile.TemporaryDirectory() as folder:
        files = {name: str(Path(folder) / name) for name in ("stdout", "stderr")}
        order = {
            "argv": [str(script), *arguments],
            "processes": processes,
            "cwd": str(cwd or Path.cwd()),
            "environment": {**os.environ, **ENVIRONMENT, **(env or {})},
            **files,
        }
        try:
            server.stdin.write(json.dumps(order).encode() + b"\n")
            if not select.select([server.stdout], [], [], timeout)[0]:
                raise AssertionError(f"{script.name} hangs: {_text(files['stderr'])[-3000:]}")
            statuses = json.loads(server.stdout.readline())
        except BaseException:
            # With all that it has forked: what it would say of this order must not be taken for the next one's.
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
            _server.cache_clear()
            raise
        status = next((status for status in statuses if status != 0), 0)
        return subprocess.CompletedProcess(order["argv"], status, _text(files["stdout"]), _text(files["stderr"]))


@cache
def _server() -> "subprocess.Popen[bytes]":
    server = subprocess.Popen(
        [sys.executable, str(SERVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,  # a line that lies in a buffer is none that `select` sees
        env={**os.environ, **ENVIRONMENT, "TOKENIZERS_PARALLELISM": "false"},
        start_new_session=True,
    )
    atexit.register(server.stdin.close)
    while (line := server.stdout.readline()) != b"ready\n":
        assert line, "the process that forks has ended"  # what its imports print comes before
    return server


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace")
