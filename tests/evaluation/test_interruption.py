"""An evaluation killed with SIGKILL and started again, as a person would do it."""

import json
import os
import signal
import subprocess
import sys
import time

from medgrpo.evaluation.choose_backend import open_backend
from medgrpo.evaluation.evaluate import evaluate
from medgrpo.evaluation.journal import PARTIAL_FILE
from medgrpo.evaluation.request import EvaluationRequest
from medgrpo.evaluation.samples import read_run

OPTIONS = {"model": "tiny", "questions": "mini_exam", "years": "2023", "max_new_tokens": 24, "temperature": 0.8}


class Counting:
    """Notes what is asked of the backend behind it."""

    def __init__(self, backend):
        self.backend, self.asked = backend, []

    def __getattr__(self, name):
        return getattr(self.backend, name)

    def complete(self, prompts):
        self.asked += prompts
        return self.backend.complete(prompts)


def finish(out, batch_size):
    request = EvaluationRequest(**OPTIONS, batch_size=batch_size, out=str(out))
    backend, model = open_backend(request)
    counting = Counting(backend)
    evaluate(counting, request.load_questions(), out, model=model, progress=False)
    return counting.asked


def test_killed_in_mid_run_it_goes_on_and_ends_as_if_it_had_not_been(tmp_path):
    out = tmp_path / "killed"
    words = [word for name, value in OPTIONS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    command = [sys.executable, "-m", "medgrpo.cli", "evaluate", *words, "--batch-size", "1", "--out", str(out)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    try:
        deadline = time.monotonic() + 240
        while len(lines(out / PARTIAL_FILE)) < 6:
            assert process.poll() is None, "finished or failed before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.002)
    finally:
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not (out / "run.json").exists()
    kept = completions(out / PARTIAL_FILE)
    assert 0 < len(kept) < 65

    asked = finish(out, batch_size=8)  # the other batch size moves none of the sampled answers
    assert len(asked) == len(set(asked)) == 65 - len(kept)
    assert not set(asked) & set(kept)
    assert not (out / PARTIAL_FILE).exists()
    assert len(finish(tmp_path / "unbroken", batch_size=65)) == 65
    broken, unbroken = ({s.id: s.completion for s in read_run(d).samples} for d in (out, tmp_path / "unbroken"))
    assert kept.items() <= broken.items()
    assert broken == unbroken
    assert finish(out, batch_size=8) == []  # started once more, nothing is asked at all


def lines(path):
    """The whole lines of the file; the last one may be cut off by the kill."""
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def completions(path):
    return {record["id"]: record["completion"] for record in map(json.loads, lines(path)[1:])}
