"""Whether two runs are the same, bit for bit or within a tolerance, but for the time they took."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas
import torch
from safetensors.torch import load_file

TIMES = ("step_time", "runtime", "per_second", "_time_", "sampling/sync_seconds")


def check_same_runs(first: Path, second: Path, tolerance: float = 0.0) -> None:
    """Parameters, every metric of every line, completions, and the last checkpoints."""
    check_same(read_weights(first), read_weights(second), tolerance, "model")
    lines = [[json.loads(line) for line in (f / "metrics.jsonl").read_text().splitlines()] for f in (first, second)]
    assert [line["step"] for line in lines[0]] == [line["step"] for line in lines[1]]
    check_same(*lines, tolerance, "metrics")
    tables = [sorted(path.name for path in (folder / "completions").iterdir()) for folder in (first, second)]
    assert tables[0] == tables[1]
    for name in tables[0]:
        a, b = (pandas.read_parquet(folder / "completions" / name).to_dict("list") for folder in (first, second))
        check_same(a, b, tolerance, name)


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """Of one file, or of several shards."""
    return {name: value for path in folder.glob("model*.safetensors") for name, value in load_file(path).items()}


def check_same_checkpoints(first: Path, second: Path, tolerance: float = 0.0) -> None:
    """Everything that a run goes on from."""
    names = [{str(path.relative_to(folder)) for path in folder.rglob("*")} for folder in (first, second)]
    assert names[0] == names[1]
    for name in sorted(names[0] - {"training_args.bin", "manifest.json", "README.md"}):
        if name.endswith(".json"):
            a, b = (json.loads((folder / name).read_text()) for folder in (first, second))
        elif name.endswith(".safetensors"):
            a, b = (load_file(folder / name) for folder in (first, second))
        elif name.endswith((".pt", ".pth")):
            a, b = (torch.load(folder / name, weights_only=False) for folder in (first, second))
        else:
            continue
        check_same(a, b, tolerance, name)


def check_same(a: Any, b: Any, tolerance: float, where: str) -> None:
    """Any nesting of mappings, lists, tensors and numbers; raises `AssertionError` naming the place."""
    if isinstance(a, Mapping):
        kept = [[key for key in value if not any(part in str(key) for part in TIMES)] for value in (a, b)]
        assert set(kept[0]) == set(kept[1]), f"{where}: {set(kept[0]) ^ set(kept[1])}"
        for key in kept[0]:
            check_same(a[key], b[key], tolerance, f"{where}/{key}")
    elif isinstance(a, torch.Tensor):
        assert a.shape == b.shape and a.dtype == b.dtype, where
        same = (
            torch.allclose(a, b, rtol=0, atol=tolerance) if tolerance and a.is_floating_point() else torch.equal(a, b)
        )
        assert same, f"{where} differs by {(a.double() - b.double()).abs().max()}"
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), f"{where}: {len(a)} and {len(b)}"
        for index, pair in enumerate(zip(a, b, strict=True)):
            check_same(*pair, tolerance, f"{where}[{index}]")
    elif isinstance(a, float):
        assert (math.isnan(a) and math.isnan(b)) or abs(a - b) <= tolerance, f"{where}: {a} and {b}"
    else:
        assert str(a) == str(b), f"{where}: {a} and {b}"
