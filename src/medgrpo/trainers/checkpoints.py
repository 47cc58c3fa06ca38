"""Checkpoint folders that are whole or absent: a manifest of all files, written last, tells which are whole."""

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.utils import logging

from medgrpo.errors import MedgrpoError

logger = logging.get_logger(__name__)

MANIFEST = "manifest.json"
UNFINISHED = "_unfinished_checkpoint"
"""Where a checkpoint is written until it is whole; no name of a checkpoint."""
NAME = re.compile(r"checkpoint-(\d+)")
BLOCK = 1 << 20
BLOCKS = 64


@dataclass(frozen=True)
class Checkpoint:
    """A folder `checkpoint-<step>`, and what is wrong with it (None where it is whole)."""

    path: Path
    step: int
    problem: str | None
    run_id: str | None


def finish(written: Path, final: Path, run_id: str) -> None:
    """Move the folder `written` to `final` once all of it is on the disk, with its manifest.

    What lay at `final` (the remains of another attempt) is replaced. Raises `OSError`.
    """
    files = [path for path in sorted(written.rglob("*")) if path.is_file()]
    entries = {str(path.relative_to(written)): _describe(path) for path in files}
    manifest = written / MANIFEST
    manifest.write_text(json.dumps({"run": run_id, "files": entries}, indent=1) + "\n", encoding="utf-8")
    for path in [*files, manifest, *(p for p in written.rglob("*") if p.is_dir()), written]:
        _flush(path)
    replaced = written.with_name("replaced")
    if final.exists():
        final.rename(replaced)
    written.rename(final)
    _flush(final.parent)
    if replaced.exists():
        shutil.rmtree(replaced)


def inspect(folder: Path) -> Checkpoint:
    """Compare a checkpoint's files with its manifest."""
    match = NAME.fullmatch(folder.name)
    step = int(match[1]) if match else -1
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files, run_id = dict(manifest["files"]), str(manifest["run"])
    except FileNotFoundError:
        return Checkpoint(folder, step, f"has no {MANIFEST}, so it was cut off or not written by medgrpo", None)
    except (OSError, ValueError, KeyError, TypeError):
        return Checkpoint(folder, step, f"{MANIFEST} can't be read", None)
    return Checkpoint(folder, step, _find_damage(folder, files), run_id)


def find_last(output_dir: Path, run_id: str | None) -> Path | None:
    """The whole checkpoint of the highest step, passing over damaged ones and other runs' with a message.

    `run_id` is the run that `output_dir` holds now (None: any).
    """
    folders = [(int(match[1]), path) for path in _folders(output_dir) if (match := NAME.fullmatch(path.name))]
    for _, folder in sorted(folders, reverse=True):
        found = inspect(folder)
        if found.problem is not None:
            logger.warning(f"{folder}: {found.problem}; looking for an older one")
        elif run_id is not None and found.run_id != run_id:
            logger.warning(f"{folder}: is of another run than run.json beside it; passed over")
        else:
            return folder
    return None


def resolve(asked: str | bool | None, output_dir: str | Path, run_id: str | None) -> str | None:
    """The folder to resume from; None = from the start.

    `asked`: None or False (from the start), True or `last` (the last whole checkpoint of `output_dir`), `auto`
    (the same, from the start where there is none), or a folder, which is taken where it is whole or has no
    manifest (another program's). Raises `MedgrpoError` where there is nothing to resume from, or the named
    folder is damaged.
    """
    # A YAML file says true, a command line "true".
    word = str(asked).lower()
    if word in ("none", "false", ""):
        return None
    if word in ("last", "true", "auto"):
        last = find_last(Path(output_dir), run_id)
        if last is None and word != "auto":
            raise MedgrpoError(
                f"resume_from_checkpoint: no whole checkpoint in {output_dir}: start anew by leaving the option out, "
                "or with `auto`, which resumes only where there is one"
            )
        logger.warning(f"resuming from {last}" if last else f"no checkpoint in {output_dir}: starting anew")
        return None if last is None else str(last)
    folder = Path(str(asked))
    if not folder.is_dir():
        raise MedgrpoError(f"resume_from_checkpoint: {folder} is no folder: name a checkpoint-<step>, or say `last`")
    found = inspect(folder)
    if found.problem is not None and (folder / MANIFEST).exists():
        raise MedgrpoError(
            f"resume_from_checkpoint: {folder} is damaged ({found.problem}): name an older one, or say `last` for the "
            "last that is whole"
        )
    return str(folder)


def read_run_id(checkpoint: str | Path) -> str | None:
    """The run that wrote a checkpoint; None where it has no manifest."""
    path = Path(checkpoint) / MANIFEST
    return str(json.loads(path.read_text(encoding="utf-8"))["run"]) if path.is_file() else None


def _folders(output_dir: Path) -> list[Path]:
    return [path for path in output_dir.iterdir() if path.is_dir()] if output_dir.is_dir() else []


def _find_damage(folder: Path, files: dict[str, Any]) -> str | None:
    for name, described in files.items():
        path = folder / name
        try:
            size = path.stat().st_size
            if size != described["bytes"]:
                return f"{name} has {size} bytes, not {described['bytes']}"
            if _digest(path) != described["sha256"]:
                return f"{name} is not what was written"
        except FileNotFoundError:
            return f"{name} is missing"
        except OSError as error:
            return f"{name} can't be read ({error.strerror})"
    return None


def _describe(path: Path) -> dict[str, Any]:
    return {"bytes": path.stat().st_size, "sha256": _digest(path)}


def _digest(path: Path) -> str:
    """SHA-256 of a file up to 64 MiB, of a larger one of 64 blocks of 1 MiB spread from its start to its end."""
    size = path.stat().st_size
    digest = hashlib.sha256()
    if size <= BLOCK * BLOCKS:
        starts = list(range(0, size, BLOCK))
    else:
        starts = [index * (size - BLOCK) // (BLOCKS - 1) for index in range(BLOCKS)]
    with path.open("rb") as file:
        for start in starts:
            file.seek(start)
            digest.update(file.read(BLOCK))
    return digest.hexdigest()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
