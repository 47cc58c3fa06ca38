"""The files of a training run that other rooms read, and how to read its metrics; imports nothing heavy."""

import json
from pathlib import Path
from typing import Any

METRICS = "metrics.jsonl"
RUN_FILE = "run.json"


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The logged steps of a run's folder, in order; empty where there are none."""
    path = Path(folder) / METRICS
    if not path.is_file():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            # A kill in mid-write leaves a torn last line; the step is logged again after resuming.
            break
    return rows
