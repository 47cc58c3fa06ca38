"""The benchmark of the quick start's parts runs, takes turns, and its parts add up."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    threads = torch.get_num_threads()
    yield importlib.import_module("quick_start_parts")
    torch.set_num_threads(threads)
    del sys.modules["quick_start_parts"]


def test_parts_of_a_chord_training_add_up(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    script.main(["--method", "chord", "--steps", "24"])
    printed = capsys.readouterr().out
    rows = dict(re.findall(r"^\| (generation|scoring|update|rest|all) \| ([\d.]+ \| [\d.]+) ", printed, re.MULTILINE))
    parts = {name: [float(value) for value in values.split(" | ")] for name, values in rows.items()}
    assert set(parts) == {"generation", "scoring", "update", "rest", "all"}
    assert all(min(values) > 0 for values in parts.values())
    for column in range(2):
        # Of two generations each way the median is the mean, so the parts' sum is the whole, to rounding.
        total = sum(values[column] for name, values in parts.items() if name != "all")
        assert total == pytest.approx(parts["all"][column], abs=0.5)
    assert "medians of 2)" in printed
    watched = re.findall(r"^(diagnostics|chord|sync check): ([\d.]+) ms", printed, re.MULTILINE)
    assert [name for name, _ in watched] == ["diagnostics", "chord", "sync check"]
    assert all(float(value) > 0 for _, value in watched)


def test_too_few_steps_are_refused(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        script.main(["--steps", "8"])
    assert "24 updates at least" in capsys.readouterr().err
