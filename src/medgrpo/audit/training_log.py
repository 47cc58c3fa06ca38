"""A run's folder as the audit reads it: the logged series, the settings, the held-out answers."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import SAMPLES_FILE, Run, read_run
from medgrpo.owner import last_name
from medgrpo.trainers.metrics_file import METRICS, RUN_FILE, read_metrics


@dataclass(frozen=True)
class Series:
    """The finite values of one metric, in the order of their steps."""

    steps: list[int]
    values: list[float]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def span(self) -> tuple[int, int]:
        """First and last step; of an empty series 0 and 0."""
        return (self.steps[0], self.steps[-1]) if self.steps else (0, 0)


@dataclass(frozen=True)
class TrainingLog:
    """Rows of `metrics.jsonl`, what `run.json` says, and the scored answers before and after where there are any."""

    rows: Sequence[Mapping[str, Any]]
    weights: Mapping[str, float]
    """Reward name -> its weight; 1 where run.json does not say."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The trainer's settings; empty where there is no run.json."""
    model: str = ""
    """As run.json names it, of a local folder the last component only; empty where it does not say."""
    before: Run | None = None
    after: Run | None = None

    def series(self, key: str) -> Series:
        """The finite values of a metric; empty where it was not logged."""
        found = [(row["step"], row[key]) for row in self.rows if is_finite(row.get(key))]
        return Series([step for step, _ in found], [float(value) for _, value in found])

    @property
    def last_step(self) -> int:
        """The last logged optimizer step."""
        return max(row["step"] for row in self.rows)

    @property
    def active_rewards(self) -> list[str]:
        """Rewards whose weight is not 0: those that are meant to move the policy."""
        return [name for name, weight in self.weights.items() if weight != 0]

    def expected_share(self, name: str) -> float:
        """The share that the weights alone ask for, of rewards that spread alike and independently."""
        squares = {reward: self.weights[reward] ** 2 for reward in self.active_rewards}
        return squares[name] / sum(squares.values())

    @property
    def sequence_ratios(self) -> bool:
        """Whether the run's ratios were those of sequences, as GSPO's."""
        return self.arguments.get("importance_sampling_level") == "sequence"


def read_training_log(run_dir: str | Path) -> TrainingLog:
    """Read the folder of a training run.

    Raises `MedgrpoError` for a folder without logged steps (of a run that is not over, what there is counts),
    for a `run.json` that is none, and for damaged answers under `before` or `after`.
    """
    folder = Path(run_dir)
    rows = [row for row in read_metrics(folder) if isinstance(row, dict) and _is_step(row.get("step"))]
    if not rows:
        raise MedgrpoError(f"{folder}: no logged steps in {METRICS}: name the output_dir of a training run")
    info = _read_info(folder / RUN_FILE)
    names = dict.fromkeys(key.split("/")[1] for row in rows for key in row if _is_reward_mean(key))
    weights = info.get("rewards") or dict.fromkeys(names, 1.0)
    return TrainingLog(
        rows=rows,
        weights={str(name): float(weight) for name, weight in weights.items()},
        arguments=info.get("arguments") or {},
        model=_name_model(str(info.get("model") or "")),
        before=_read_answers(folder / "before"),
        after=_read_answers(folder / "after"),
    )


def is_finite(value: Any) -> bool:
    """Whether a logged value is a number that can be drawn."""
    # A whole number that no float holds can't be drawn either; JSON knows such numbers.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _is_step(value: Any) -> bool:
    return isinstance(value, int) and is_finite(value)


def _name_model(model: str) -> str:
    """The pages are shown to others: where a model lies on this machine is none of their business."""
    return last_name(model)


def _read_info(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise MedgrpoError(f"{path}: not JSON ({error}): remove it to audit the log alone") from error
    if not isinstance(info, dict) or not isinstance(info.get("rewards", {}), dict):
        raise MedgrpoError(f"{path}: not the record of a training run: remove it to audit the log alone")
    for name, weight in info.get("rewards", {}).items():
        if not is_finite(weight):
            raise MedgrpoError(
                f"{path}: the weight of the reward {name!r} is {weight!r:.60}, has to be a number: "
                "mend it, or remove the file to audit the log alone"
            )
    if not isinstance(info.get("arguments") or {}, dict):
        raise MedgrpoError(f"{path}: arguments are no JSON object: remove the file to audit the log alone")
    return info


def _read_answers(folder: Path) -> Run | None:
    return read_run(folder) if (folder / SAMPLES_FILE).is_file() else None


def _is_reward_mean(key: str) -> bool:
    return key.startswith("rewards/") and key.endswith("/mean") and key.count("/") == 2
