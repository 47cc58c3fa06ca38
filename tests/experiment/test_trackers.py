"""`report_to`: every metric reaches the trackers, and what they lack is said before anything is scored."""

import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from medgrpo.errors import MedgrpoError
from medgrpo.experiment import trackers
from medgrpo.experiment.trackers import check_trackers

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["tensorboard", "trackio", "wandb"]
WATCHED = ["reward", "advantage_share/ophtho", "ratio/seq_max", "kl"]


# `make test` puts it there, out of the way of every other import of TRL.
WANDB = Path(sys.prefix) / "wandb"


def start(folder: Path, command: list[str], **places: str) -> subprocess.CompletedProcess[str]:
    """Run with W&B on the path, and none of its settings but `places`."""
    if not WANDB.is_dir() and importlib.util.find_spec("wandb") is None:
        pytest.skip(f"no W&B in {WANDB}: pip install --target {WANDB} wandb")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    paths = os.pathsep.join([str(WANDB), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        command,
        cwd=folder,
        env={**kept, "HF_HUB_OFFLINE": "1", "PYTHONPATH": paths, **places},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_metrics_reach_all_of_them(tmp_path: Path) -> None:
    places = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "TRACKIO_DIR": str(tmp_path / "trackio")}
    command = [sys.executable, str(ROOT / "recipes" / "gspo.py"), "--output_dir", "out", "--max_steps", "2"]
    command += ["--logging_steps", "1", "--eval_years", "2023", "--report_to", *NAMES, "--run_name", "one"]
    done = start(tmp_path, command, **places)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text("utf-8").splitlines()]
    expected = {name: [row[name] for row in rows if name in row] for name in WATCHED}
    assert len(expected["ratio/seq_max"]) == 2
    assert len(expected["reward"]) == 1  # a generation serves both steps

    events = EventAccumulator(str(next((tmp_path / "out" / "runs").iterdir())))
    events.Reload()
    for name in WATCHED:
        assert [event.value for event in events.Scalars(f"train/{name}")] == pytest.approx(expected[name])

    with sqlite3.connect(tmp_path / "trackio" / "medgrpo.db") as database:
        asked = "select metrics from metrics where run_name = 'one' order by id"
        logged = [json.loads(row[0]) for row in database.execute(asked)]
    for name in WATCHED:
        assert [row[f"train/{name}"] for row in logged if f"train/{name}" in row] == pytest.approx(expected[name])

    (written,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    text = written.read_bytes()
    for name in WATCHED:
        assert f"train/{name}".encode() in text


@pytest.mark.parametrize("name", NAMES)
def test_a_package_that_is_missing_is_said_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trackers.OF_THE_EXTRA, name, lambda: False)
    with pytest.raises(MedgrpoError, match=rf"report_to {name} needs .* 'medgrpo\[trackers\]'"):
        check_trackers([name], "medgrpo", log_in=True)


@pytest.mark.parametrize("name", [None, "none", 1])
def test_what_is_no_name_is_refused(name: object) -> None:
    with pytest.raises(MedgrpoError, match=f"report_to: unknown {name!r}: there are .*or none, or all, alone"):
        check_trackers([name], "medgrpo", log_in=True)  # as YAML's null and [none, wandb] come


def test_a_name_that_there_is_not_is_said_with_the_closest() -> None:
    with pytest.raises(MedgrpoError, match="report_to: unknown 'wand': did you mean 'wandb'"):
        check_trackers(["wand"], "medgrpo", log_in=True)


@pytest.mark.parametrize(
    ("key", "reason"), [({}, "No API key configured"), ({"WANDB_API_KEY": "too short"}, "WANDB_API_KEY invalid")]
)
def test_wandb_without_a_login_is_said(key: dict, reason: str, tmp_path: Path) -> None:
    asked = "from medgrpo.experiment.trackers import check_trackers; check_trackers(['wandb'], 'medgrpo', log_in=True)"
    home = {"HOME": str(tmp_path), "NETRC": str(tmp_path / "netrc")}
    done = start(tmp_path, [sys.executable, "-c", asked], **home, **key)
    said = done.stderr.splitlines()[-1]
    assert f"MedgrpoError: report_to wandb: {reason}" in said
    assert "Set WANDB_API_KEY, or WANDB_MODE=offline" in said


def test_wandb_is_told_the_project_unless_the_environment_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(trackers.OF_THE_EXTRA, "wandb", lambda: True)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_PROJECT", "theirs")
    check_trackers(["wandb"], "medgrpo", log_in=True)
    assert os.environ["WANDB_PROJECT"] == "theirs"
    monkeypatch.delenv("WANDB_PROJECT")
    check_trackers(["wandb"], "medgrpo", log_in=True)
    assert os.environ.pop("WANDB_PROJECT") == "medgrpo"
