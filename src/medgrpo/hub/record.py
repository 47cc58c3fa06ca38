"""`experiment.json`: which base and which questions a run is about, as the model card tells it."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from medgrpo.errors import MedgrpoError
from medgrpo.mapping_file import read_json
from medgrpo.owner import without_owner

EXPERIMENT_FILE = "experiment.json"

# Raised when a field changes its meaning.
SCHEMA = 1


@dataclass(frozen=True)
class DataFile:
    """One file of the experiment, and what of it was used; never a question's text."""

    name: str
    """The file's own name, without its folder."""
    sha256: str
    """Of the whole file, as `sha256sum` gives it."""
    examples: int
    """Questions (or SFT samples) that were used."""
    years: list[int]
    exams: list[str]
    left_out: int = 0
    """Questions of the chosen years that were not used: withdrawn by the board, or nearly held-out ones."""


@dataclass(frozen=True)
class ExperimentRecord:
    """What `run.json` of a training run does not say."""

    method: str
    """GRPO, GSPO, ..."""
    base: str
    """As it was given: a folder or a name on the Hub."""
    base_revision: str | None
    """The commit on the Hub; None for a folder."""
    train: DataFile
    held_out: DataFile
    sft: DataFile | None = None
    """What CHORD was taught from."""


def write_record(folder: str | Path, record: ExperimentRecord) -> Path:
    """Write `experiment.json` into the run's folder (made where missing); returns its path."""
    path = Path(folder) / EXPERIMENT_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(without_owner({"schema": SCHEMA, **asdict(record)}), ensure_ascii=False, indent=1) + "\n"
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def read_record(folder: str | Path) -> ExperimentRecord:
    """Read it again; raises `MedgrpoError` for a folder without one, and for a damaged one."""
    path = Path(folder) / EXPERIMENT_FILE
    content = read_json(path, "not a run of a recipe: give the output_dir of a finished one")
    if content.pop("schema", None) != SCHEMA:
        raise MedgrpoError(f"{path}: not of schema {SCHEMA}: run the recipe again")
    try:
        files = {name: content.pop(name) for name in ("train", "held_out", "sft")}
        record = ExperimentRecord(
            **content, **{name: None if file is None else DataFile(**file) for name, file in files.items()}
        )
    except (KeyError, TypeError) as error:
        names = ", ".join(field.name for field in fields(ExperimentRecord))
        raise MedgrpoError(f"{path}: has to hold {names} ({error}): run the recipe again") from error
    return record
