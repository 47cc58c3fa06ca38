"""How every run was made: what all share, what differs, and the long texts (prompts), from each `run.json`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from medgrpo.evaluation.samples import Run
from medgrpo.report.tables import Records, Table, entries

# A longer text (a prompt, a chat template) stands by itself below the tables, which name its number.
LONG_TEXT = 120

# Pages are shared: of these only the last part of the path is shown. run.json has it whole.
PATHS = ("completions", "questions", "folder")


@dataclass(frozen=True)
class LongText:
    """A prompt or the like, shown once for all runs that share it."""

    number: int
    key: str
    text: str
    runs: str


def describe_conditions(records: Records, runs: Mapping[str, Run]) -> tuple[list[Table], list[LongText]]:
    """What differs between the runs (one column a run), what they have in common, and the long texts."""
    say = records.say
    # The files' schema is checked on reading and tells nothing of how a run was made.
    flat = {name: _flatten({k: v for k, v in run.run_info.items() if k != "schema"}) for name, run in runs.items()}
    found: dict[tuple[str, str], list[str]] = {}
    for name, settings in flat.items():
        for key, value in settings.items():
            if _is_long(value):
                found.setdefault((key, value), []).append(name)
    numbers = {place: number for number, place in enumerate(found, start=1)}

    def show(settings: Mapping[str, Any], key: str) -> str:
        if key not in settings:
            return "–"
        value = settings[key]
        if _is_long(value):
            return say("word.below", n=numbers[key, value])
        if value is None:
            return say("word.unknown")
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    differing, common = [], []
    for key in dict.fromkeys(key for settings in flat.values() for key in settings):
        values = [show(settings, key) for settings in flat.values()]
        if len(set(values)) > 1:
            differing.append(entries(key, *values))
        else:
            common.append(entries(key, values[0]))
    tables = []
    if differing:
        tables.append(Table([say("word.item"), *flat], differing, title=say("note.runs_differ")))
    if common:
        tables.append(Table([say("word.item"), say("word.all_models")], common, title=say("note.runs_same")))
    texts = []
    for (key, text), names in found.items():
        who = say("word.all_models") if len(names) == len(runs) else say.join(names)
        texts.append(LongText(numbers[key, text], key, text, who))
    return tables, texts


def _flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted name: `sampling.temperature`."""
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            flat.update(_flatten(inner, f"{prefix}{key}."))
        elif isinstance(inner, str) and _is_path(key, inner):
            flat[f"{prefix}{key}"] = PureWindowsPath(inner).name or inner
        else:
            flat[f"{prefix}{key}"] = inner
    return flat


def _is_path(key: str, text: str) -> bool:
    """A file or a folder; a model or a tokenizer only where it is a path of one machine."""
    if key in PATHS:
        return True
    absolute = PurePosixPath(text).is_absolute() or PureWindowsPath(text).is_absolute()
    return absolute and key in ("model", "tokenizer", "adapter")


def _is_long(value: Any) -> bool:
    return isinstance(value, str) and (len(value) > LONG_TEXT or "\n" in value)
