"""The files of a training run that other rooms read, and how to read its metrics; imports nothing heavy."""

import json
from pathlib import Path
from typing import Any

from medgrpo.errors import MedgrpoError

METRICS = "metrics.jsonl"
RUN_FILE = "run.json"


def read_current_run(folder: str | Path) -> str | None:
    """The run that a folder holds, by its `run.json`; None where it has none."""
    path = Path(folder) / RUN_FILE
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8")).get("run_id")
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise MedgrpoError(f"{path}: can't be read: the file is damaged; move it away") from error


def read_metrics(folder: str | Path) -> list[dict[str, Any]]:
    """The logged steps of a run's folder, in order; empty where there are none.

    Reading ends at a torn line. Raises `MedgrpoError` for a file that cannot be read or is not UTF-8.
    """
    path = Path(folder) / METRICS
    if not path.is_file():
        return []
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise MedgrpoError(f"{path}: cannot be read ({error.strerror}): check the file") from error
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(json.loads(line.decode("utf-8")))
        except UnicodeDecodeError as error:
            if number == len(lines):
                break
            raise MedgrpoError(
                f"{path}, line {number}: byte {error.start + 1} is not UTF-8: the log is damaged; remove that line"
            ) from error
        except json.JSONDecodeError:
            # A kill in mid-write leaves a torn last line; the step is logged again after resuming.
            break
    return rows
