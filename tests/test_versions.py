import platform
import subprocess
from importlib import metadata

import torch

from medgrpo.versions import collect_versions, find_commit


def git(folder, *arguments):
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True)


def test_versions_are_those_of_this_process():
    versions = collect_versions()
    assert versions["python"] == platform.python_version()
    assert versions["torch"] == torch.__version__
    assert set(versions) >= {"python", "medgrpo", "torch", "trl", "transformers", "accelerate", "platform"}
    for package in set(versions) - {"python", "platform"}:
        assert versions[package] == metadata.version(package)


def test_commit_of_a_checkout(tmp_path):
    source = tmp_path / "module.py"
    source.write_text("x = 1\n")
    assert find_commit(source) is None  # no repository
    git(tmp_path, "init", "-q")
    assert find_commit(source) is None  # not tracked: an installed copy inside somebody's repository
    git(tmp_path, "add", "module.py")
    assert find_commit(source) is None  # no commit yet
    git(tmp_path, "commit", "-q", "-m", "first")
    git(tmp_path, "tag", "-a", "v1", "-m", "a tag does not stand in for the commit")
    commit = find_commit(source)
    assert len(commit) == 40
    source.write_text("x = 2\n")
    assert find_commit(source) == f"{commit}-dirty"


def test_a_machine_without_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_commit() is None
