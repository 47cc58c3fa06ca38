"""`comparison.json` back into the records that it was written from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medgrpo.comparison.result import (
    SCHEMA,
    BestMethod,
    Caution,
    Cell,
    Comparison,
    Family,
    RunFacts,
    SeedGroup,
    SeedPair,
    SliceScore,
)
from medgrpo.comparison.write import COMPARISON_FILE
from medgrpo.errors import MedgrpoError
from medgrpo.mapping_file import read_json

_RECORDS = {
    "facts": RunFacts,
    "cells": Cell,
    "pairs": Cell,
    "families": Family,
    "best": BestMethod,
    "seeds": SeedGroup,
    "seed_pairs": SeedPair,
    "cautions": Caution,
}


def read_comparison(folder: str | Path) -> Comparison:
    """Read the `comparison.json` in `folder`; raises `MedgrpoError` where there is none, or a damaged one."""
    path = Path(folder) / COMPARISON_FILE
    content = read_json(path, "write one with `medgrpo compare`")
    schema = content.pop("schema", None)
    if schema != SCHEMA:
        raise MedgrpoError(f"{path}: has schema {schema!r}, this medgrpo reads {SCHEMA}: compare the runs again")
    try:
        return Comparison(**{name: _restore(name, value) for name, value in content.items()})
    except (KeyError, TypeError) as error:
        raise MedgrpoError(f"{path}: is damaged ({error}): compare the runs again") from error


def _restore(name: str, value: Any) -> Any:
    if name not in _RECORDS:
        return _tuples(value) if isinstance(value, list) else value
    return tuple(_record(_RECORDS[name], row) for row in value)


def _record(record: type, row: Mapping[str, Any]) -> Any:
    found = {key: _tuples(value) if isinstance(value, list) else value for key, value in row.items()}
    if record is RunFacts:
        found["scores"] = tuple(_record(SliceScore, score) for score in row["scores"])
    return record(**found)


def _tuples(value: list[Any]) -> tuple[Any, ...]:
    return tuple(_tuples(item) if isinstance(item, list) else item for item in value)
