"""`medgrpo push` with the Hub's real client, against a server on this machine that speaks its endpoints."""

import hashlib
import json
import os
import subprocess
import sys

import pytest
from finished_runs import make_finished_run
from huggingface_hub import constants
from loopback_hub import READ_TOKEN, TOKEN, Repository, hub_environment, loopback_hub

from medgrpo.cli import main

# Several commands in one process, because importing costs more than all of them. The waits between the client's
# own tries are left out, its tries are not.
DRIVER = """
import contextlib, io, json, os, sys, time
time.sleep = lambda seconds: None
from huggingface_hub import constants
from medgrpo.cli import main
results = []
for command in json.load(sys.stdin):
    for name, value in command["environment"].items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(command["argv"])
        except SystemExit as stop:
            status = stop.code
    results.append([status, out.getvalue(), err.getvalue()])
print(json.dumps(results), file=sys.__stdout__)
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("push")
    return {
        "large": make_finished_run(place / "large run", weights=15_000_000),
        "small": make_finished_run(place / "small"),
        "dry": place / "dry",
        "home": place / "home",
    }


@pytest.fixture(scope="module")
def session(folders):
    """The server after all commands, and each command's exit status, standard output and error by its name."""
    large, small = folders["large"], folders["small"]
    push, push_small = ["push", large, "--repo-id", "lab/model"], ["push", small, "--repo-id"]
    commands = {
        "dry": ([*push, "--dry-run", "--out", folders["dry"]], {}),
        "failed": (push, {}),
        "pushed": (push, {}),
        "again": (push, {}),
        "stale": ([*push_small, "lab/stale", "--private"], {}),
        "mine": ([*push_small, "mine", "--public", "--lang", "en"], {}),
        **{name: command for name, (command, _) in refusals(small).items()},
    }
    with loopback_hub() as hub:
        # The first push dies on the way: all six tries of the client are cut in the middle of the weights.
        hub.drops = 6
        hub.repositories["lab/stale"] = Repository(private=True, files={**STALE, **OWN})
        hub.repositories["open/x"] = Repository(private=False)
        given = [{"argv": [str(word) for word in argv], "environment": changes} for argv, changes in commands.values()]
        done = subprocess.run(
            [sys.executable, "-c", DRIVER],
            input=json.dumps(given),
            env={**os.environ, **hub_environment(hub, folders["home"])},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        yield hub, dict(zip(commands, json.loads(done.stdout.splitlines()[-1]), strict=True))


STALE = {"model-00001-of-00002.safetensors": b"x", "evaluation/samples.jsonl": b"x", "figures/old.png": b"x"}
OWN = {"gguf/model.gguf": b"y", "NOTES.md": b"y"}


def refusals(folder):
    """Name -> ((argv, environment), what is said). A token that is changed stays so for those after it."""
    push = ["push", folder, "--repo-id"]
    return {
        "public": (([*push, "open/x"], {}), "open/x exists and is public: say --public to push there"),
        "name": (([*push, "a/b/c"], {}), "--repo-id 'a/b/c': has to be OWNER/NAME"),
        "folder": ((["push", "/no/such", "--repo-id", "lab/x"], {}), "/no/such: no such folder"),
        "no name": ((["push", folder], {}), "--repo-id"),
        "both": (([*push, "lab/x", "--public", "--private"], {}), "not allowed with"),
        "others": (([*push, "others/x"], {}), "others/x: the access token may not write there (403"),
        "wrong": (([*push, "lab/x"], {"HF_TOKEN": "hf_wrong"}), "the Hub refuses the access token (401"),
        "read": (([*push, "lab/x"], {"HF_TOKEN": READ_TOKEN}), "lab/x: the access token may not write there (403"),
        "none": (([*push, "lab/x"], {"HF_TOKEN": None}), "no access token: log in with `hf auth login`"),
    }


def content_of(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_arrives_is_the_dry_run_byte_by_byte(session, folders):
    hub, results = session
    status, out, _ = results["dry"]
    weights = (folders["large"] / "model.safetensors").stat().st_size
    assert (status, weights > 15_000_000) == (0, True)
    assert f"{weights:,}  model.safetensors" in out
    assert "nothing was pushed" in out
    status, out, _ = results["pushed"]
    assert status == 0
    assert f"pushed to {hub.endpoint}/lab/model/commit/" in out
    assert hub.repositories["lab/model"].private
    assert hub.repositories["lab/model"].files == content_of(folders["dry"])


def test_a_broken_line_costs_nothing(session, folders):
    hub, results = session
    status, out, error = results["failed"]
    assert (status, out) == (1, "")
    (line,) = [line for line in error.splitlines() if "medgrpo push:" in line]
    assert "the connection to the Hub" in line
    assert f"Nothing is lost; again: medgrpo push '{folders['large']}' --repo-id lab/model" in line
    # Six cut uploads, one whole; the push after that found the weights there already, by their hash.
    oid = hashlib.sha256((folders["large"] / "model.safetensors").read_bytes()).hexdigest()
    assert hub.requests.count(f"PUT /lfs/{oid}") == 7
    assert results["again"][0] == 0


def test_stale_files_go_and_the_users_own_stay(session, folders):
    hub, results = session
    assert results["stale"][0] == 0, results["stale"]
    pushed = content_of(folders["small"] / "hub")
    assert set(hub.repositories["lab/stale"].files) == set(pushed) | set(OWN)
    assert hub.repositories["lab/stale"].files["NOTES.md"] == b"y"


def test_public_when_said_and_owner_found_by_the_token(session):
    hub, results = session
    assert results["mine"][0] == 0
    repository = hub.repositories["somebody/mine"]
    assert not repository.private
    assert 'name = "somebody/mine"' in repository.files["README.md"].decode()


@pytest.mark.parametrize("name", refusals(None))
def test_a_refusal_is_one_line(session, folders, name):
    hub, results = session
    said = refusals(folders["small"])[name][1]
    status, out, error = results[name]
    assert (status, out) == (2, "")
    assert said in error
    assert len(error.splitlines()) == 1
    assert TOKEN not in error
    assert set(hub.repositories) == {"lab/model", "lab/stale", "somebody/mine", "open/x"}
    assert hub.repositories["open/x"].files == {}


@pytest.mark.parametrize(
    ("offline", "status", "said"),
    [
        (False, 1, "the connection to the Hub at http://127.0.0.1:9 failed"),
        (True, 2, "HF_HUB_OFFLINE is set"),
    ],
)
def test_no_network(folders, monkeypatch, capsys, offline, status, said):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    push = ["push", str(folders["small"]), "--repo-id", "lab/x"]
    assert main(push) == status
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert main([*push, "--dry-run"]) == 0
