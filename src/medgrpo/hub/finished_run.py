"""A finished run as it lies on the disk: everything that its model card is told from."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medgrpo.comparison.reload import read_comparison
from medgrpo.comparison.result import Comparison
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import SAMPLES_FILE, Run, read_run
from medgrpo.hub.record import EXPERIMENT_FILE, ExperimentRecord, read_record
from medgrpo.mapping_file import read_json
from medgrpo.trainers.metrics_file import METRICS, read_metrics
from medgrpo.trainers.metrics_file import RUN_FILE as TRAINING_FILE

BEFORE, AFTER, COMPARISON = "before", "after", "comparison"


@dataclass(frozen=True)
class FinishedRun:
    """One training run with its evaluation."""

    folder: Path
    record: ExperimentRecord
    training: dict[str, Any]
    """The training's `run.json`: arguments, rewards, seed, versions, commit."""
    metrics: list[dict[str, Any]]
    before: Run | None
    """None where the base was scored elsewhere (an experiment of several runs)."""
    after: Run
    comparison: Comparison
    name: str
    """What the comparison calls this run."""
    scored: str = AFTER
    """The folder of `after`."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The trainer's settings."""
        return self.training["arguments"]

    @property
    def steps(self) -> int:
        """Optimizer steps that were done."""
        return max((int(row["step"]) for row in self.metrics), default=0)

    @property
    def samples_file(self) -> Path:
        """The completions after training."""
        return self.folder / self.scored / SAMPLES_FILE


def read_finished_run(
    run_dir: str | Path,
    comparison_dir: str | Path | None = None,
    name: str | None = None,
    scored: str = AFTER,
) -> FinishedRun:
    """Read what a recipe left in `run_dir`.

    `comparison_dir` (default `<run_dir>/comparison`) may hold several runs; `name` then says which one this is,
    and `scored` which of its folders has the samples after training, where it was scored on several exams.
    Raises `MedgrpoError` where something is missing or damaged, where the comparison is not of these samples,
    and where it is not known which of its runs is meant.
    """
    folder = Path(run_dir)
    if not folder.is_dir():
        raise MedgrpoError(f"{folder}: no such folder: give the output_dir of a finished run")
    # Beside the samples where the run was scored on several exams.
    record = read_record(folder / scored if (folder / scored / EXPERIMENT_FILE).is_file() else folder)
    training = read_json(folder / TRAINING_FILE, "the run was not trained, or not by a recipe")
    missing = [key for key in ("arguments", "rewards", "versions") if not isinstance(training.get(key), dict)]
    if missing:
        raise MedgrpoError(f"{folder / TRAINING_FILE}: has no {', '.join(missing)}: run the recipe again")
    if not (folder / scored).is_dir():
        raise MedgrpoError(
            f"{folder}: has no folder {scored}, so it is not scored after the training: let the recipe finish"
        )
    before = read_run(folder / BEFORE) if (folder / BEFORE).is_dir() else None
    after = read_run(folder / scored)
    comparison = read_comparison(comparison_dir or folder / COMPARISON)
    name = _choose(comparison, name, record)
    found = FinishedRun(folder, record, training, read_metrics(folder), before, after, comparison, name, scored)
    _check(found)
    return found


def _choose(comparison: Comparison, name: str | None, record: ExperimentRecord) -> str:
    if name is None:
        name = comparison.runs[0] if len(comparison.runs) == 1 else record.method
    if name not in comparison.runs:
        raise MedgrpoError(f"the comparison has no run {name!r}: choose with --run from {', '.join(comparison.runs)}")
    return name


def _check(run: FinishedRun) -> None:
    """The comparison has to be one of the samples that lie beside the weights."""
    for name, scored in ((run.comparison.base, run.before), (run.name, run.after)):
        if scored is None:
            continue
        counted = [sample for sample in scored.samples if sample.counted]
        score = run.comparison.score(name)
        if (score.n, score.correct) != (len(counted), sum(sample.correct for sample in counted)):
            raise MedgrpoError(
                f"{run.folder}: the comparison's {name} ({score.correct} of {score.n} right) is not the one scored "
                f"here ({sum(sample.correct for sample in counted)} of {len(counted)}): compare the runs again"
            )
    if not run.metrics:
        raise MedgrpoError(f"{run.folder / METRICS}: missing or empty: the training left no log")
