"""The YAML of a side-by-side experiment: one base, one set of data and rewards, several methods and seeds."""

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medgrpo.errors import MedgrpoError
from medgrpo.experiment.arguments import recipe_fields
from medgrpo.mapping_file import read_yaml

BASE = "base"
KEYS = ("output_dir", "placement", "lang", "seeds", "exams", "settings", "methods")
# Each run gets these from the design, so that a method can't change what is compared.
FIXED = (
    *("output_dir", "seed", "model_name_or_path", "model_revision", "train_file", "train_years"),
    *("eval_file", "eval_years", "near_duplicates", "eval_max_new_tokens"),
)


@dataclass(frozen=True)
class HeldOut:
    """One exam that every run is scored on; `years` None takes all of the file."""

    file: str
    years: str | None


@dataclass(frozen=True)
class PlannedRun:
    """One training: a method under its label, with one seed; or the base, which is only scored."""

    label: str
    seed: int
    parts: tuple[str, ...]
    settings: Mapping[str, Any]
    folder: Path
    exams: Mapping[str, HeldOut]

    @property
    def name(self) -> str:
        """What stands in tables and in the option `--run`: `GSPO/seed0`, or `base`."""
        return self.label if self.label == BASE else f"{self.label}/seed{self.seed}"

    @property
    def fingerprint(self) -> str:
        """Two runs with the same one are the same run."""
        # The exams belong to it: the run is scored on them, and what they would reveal is not trained on.
        told = json.dumps([self.parts, self.seed, dict(self.settings), dict(self.exams)], sort_keys=True, default=str)
        return hashlib.sha256(told.encode()).hexdigest()


@dataclass(frozen=True)
class Design:
    """What the file says, checked: every key known, every method known, no label twice."""

    path: Path
    output_dir: Path
    placement: str | None
    lang: str
    seeds: tuple[int, ...]
    exams: Mapping[str, HeldOut]
    runs: tuple[PlannedRun, ...]
    """The base first, then each method with each seed."""

    def find(self, name: str) -> PlannedRun:
        """The run of that name; raises `MedgrpoError` naming those there are."""
        for run in self.runs:
            if run.name == name:
                return run
        raise MedgrpoError(f"--run {name}: no such run: choose from {', '.join(run.name for run in self.runs)}")

    @property
    def labels(self) -> list[str]:
        """The methods' labels, in the file's order."""
        return list(dict.fromkeys(run.label for run in self.runs if run.label != BASE))

    def of(self, label: str) -> list[PlannedRun]:
        """The runs of one method, a seed each."""
        return [run for run in self.runs if run.label == label]


def read_design(path: str | Path) -> Design:
    """Read and check a design.

    Raises `MedgrpoError`, naming file and field, for what can't be read, a key or setting that does not exist (with
    the closest that does), an unknown method, and a setting that a method may not change.
    """
    path = Path(path)
    given = read_yaml(path)
    _known(path, "", given, KEYS)
    missing = [key for key in ("output_dir", "exams", "settings", "methods") if not given.get(key)]
    if missing:
        raise MedgrpoError(f"{path}: {', '.join(missing)} missing")
    settings = _mapping(path, "settings", given["settings"])
    output_dir = Path(str(given["output_dir"]))
    seeds = given.get("seeds", [0])
    if not isinstance(seeds, list) or not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise MedgrpoError(f"{path}: seeds: has to be a list of whole numbers from 0, e.g. [0, 1, 2]")
    if len(set(seeds)) < len(seeds):
        raise MedgrpoError(f"{path}: seeds: {seeds} has one twice")
    if given.get("lang", "ja") not in ("ja", "en"):
        raise MedgrpoError(f"{path}: lang: has to be ja or en, not {given['lang']!r}")
    exams = _read_exams(path, _mapping(path, "exams", given["exams"]))
    shared = _shared_settings(path, settings)
    base_fields = recipe_fields(["grpo"])
    # What only some methods have stands with them: the base is scored with the settings that all share.
    _known(path, "settings.", settings, base_fields)
    runs = [PlannedRun(BASE, seeds[0], ("grpo",), shared, output_dir / BASE, exams)]
    for label, chosen in _mapping(path, "methods", given["methods"]).items():
        label = str(label)
        parts, own = _read_method(path, label, _mapping(path, f"methods.{label}", chosen))
        runs += [
            PlannedRun(label, seed, parts, shared | own, output_dir / label / f"seed{seed}", exams) for seed in seeds
        ]
    return Design(
        path=path,
        output_dir=output_dir,
        placement=None if given.get("placement") is None else str(given["placement"]),
        lang=given.get("lang", "ja"),
        seeds=tuple(seeds),
        exams=exams,
        runs=tuple(runs),
    )


def _read_method(path: Path, label: str, chosen: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """What the method is made of, and its own settings."""
    if label == BASE or "/" in label or label.startswith("."):
        raise MedgrpoError(f"{path}: methods.{label}: a label names a folder and can't be `{label}`")
    named = chosen.pop("method", None) or []
    parts = (named,) if isinstance(named, str) else tuple(map(str, named if isinstance(named, list) else [named]))
    try:
        known = recipe_fields(parts)
    except MedgrpoError as error:
        raise MedgrpoError(f"{path}: methods.{label}: {error}") from error
    _known(path, f"methods.{label}.", chosen, known)
    fixed = [key for key in chosen if key in FIXED]
    if fixed:
        raise MedgrpoError(f"{path}: methods.{label}.{fixed[0]}: is the same for all: set it above, under `settings`")
    _refuse_name(path, f"methods.{label}", chosen)
    return parts, chosen


def _shared_settings(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    for key in ("output_dir", "seed", "eval_file", "eval_years"):
        if key in settings:
            instead = {"seed": "seeds", "output_dir": "output_dir"}.get(key, "exams")
            raise MedgrpoError(f"{path}: settings.{key}: say it with `{instead}` at the top of the file")
    _refuse_name(path, "settings", settings)
    for key in ("model_name_or_path", "train_file"):
        if not settings.get(key):
            raise MedgrpoError(f"{path}: settings.{key} is missing")
    return settings


def _refuse_name(path: Path, where: str, settings: Mapping[str, Any]) -> None:
    if "run_name" in settings:
        raise MedgrpoError(f"{path}: {where}.run_name: is made of output_dir, label and seed: leave it out")


def _read_exams(path: Path, given: Mapping[str, Any]) -> dict[str, HeldOut]:
    exams = {}
    for name, told in given.items():
        told = _mapping(path, f"exams.{name}", told)
        _known(path, f"exams.{name}.", told, ("file", "years"))
        if not told.get("file"):
            raise MedgrpoError(f"{path}: exams.{name}.file is missing: name a questions.jsonl")
        if "/" in str(name) or str(name).startswith(".") or name == "audit":
            raise MedgrpoError(f"{path}: exams.{name}: a name of an exam names a folder and can't be `{name}`")
        years = told.get("years")
        exams[str(name)] = HeldOut(str(told["file"]), None if years is None else str(years))
    return exams


def _known(path: Path, where: str, given: Iterable[str], known: Iterable[str]) -> None:
    known = sorted(known)
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known[:8])}, ..."
            raise MedgrpoError(f"{path}: {where}{key}: unknown: {hint}")


def _mapping(path: Path, where: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise MedgrpoError(f"{path}: {where}: has to hold `name: value` lines")
    return dict(given)
