"""`recipes/sft_data.py` as a process: killed without warning, started again, and used wrongly."""

import json
import os
import random
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "sft_data"))

from sft_server import ChatServer  # noqa: E402


@pytest.fixture
def server():
    chat = ChatServer()
    yield chat
    chat.close()


def command(server, out, *more):
    return [
        sys.executable,
        str(ROOT / "recipes" / "sft_data.py"),
        *("--train_file", "mini_exam", "--train_years", "2019-2022", "--eval_years", "2023-2026"),
        *("--base_url", server.url, "--model", "m", "--out", str(out), "--limit", "20", "--concurrency", "4"),
        *more,
    ]


def finished(journal: Path) -> set[tuple[str, str]]:
    """What stands in the journal, whole lines only."""
    if not journal.exists():
        return set()
    lines = journal.read_bytes().split(b"\n")[:-1]
    return {(row["id"], row["stage"]) for row in map(json.loads, lines[1:])}


def test_three_kills_lose_and_repeat_nothing(server, tmp_path):
    out, journal = tmp_path / "sft.jsonl", tmp_path / "sft.journal.jsonl"
    server.delay_s = 0.15
    moment = random.Random(0)
    for kill in range(3):
        process = subprocess.Popen(command(server, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        enough = len(finished(journal)) + moment.randint(4, 9)
        while len(finished(journal)) < enough:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        before = finished(journal)
        assert not out.exists(), f"kill {kill}"
        assert len(before) >= enough
    server.delay_s = 0
    asked_before = len(server.requests)
    done = subprocess.run(command(server, out), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "20 of 20 questions became samples" in done.stdout
    # Only what was not in the journal at the last kill was asked for.
    assert len(server.requests) - asked_before == 40 - len(before)
    assert len(server.requests) <= 40 + 3 * 4
    lines = journal.read_text(encoding="utf-8").splitlines()[1:]
    assert len(lines) == 40 == len(finished(journal))
    assert len(out.read_text(encoding="utf-8").splitlines()) == 20
    assert "20/20" in done.stderr and "tokens" in done.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--eval_years", "2022-2026"), "2022"),
        (("--concurency", "4"), "did you mean 'concurrency'"),
        (("--limit", "-1"), "limit -1: has to be at least 1"),
        (("--limit", "0"), "limit 0: has to be at least 1"),
        (("--concurrency", "0"), "concurrency has to be at least 1"),
        (("--base_url", "http://127.0.0.1:9/v1"), "cannot be reached"),
        (("--prompts", "/nowhere"), "/nowhere/system.txt: cannot be read"),
    ],
)
def test_bad_use_is_one_line(server, tmp_path, monkeypatch, capsys, more, said):
    words = command(server, tmp_path / "x.jsonl", *more)[1:]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(words[0], run_name="__main__")
    assert stop.value.code == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("error: ")
    assert said in last


def test_without_the_package_openai_it_names_the_extra(server, tmp_path):
    (tmp_path / "openai.py").write_text("raise ModuleNotFoundError(\"No module named 'openai'\", name='openai')\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        command(server, tmp_path / "x.jsonl"),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "error: SFT data needs the package openai: pip install 'medgrpo[openai]'"
    assert "Traceback" not in done.stderr
