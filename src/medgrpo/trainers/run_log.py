"""What a training run leaves beside its checkpoints: `metrics.jsonl` and `run.json`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from medgrpo.owner import without_owner
from medgrpo.trainers.metrics_file import METRICS, RUN_FILE, read_metrics
from medgrpo.versions import collect_versions, find_commit

COMPLETIONS = "completions"


class RunLog(TrainerCallback):
    """Writes the run's settings once and its metrics as they are logged, on the first process only.

    A resumed run keeps the lines, and the files of completions, up to the step that it resumes from, so that no
    step stands twice and none is of a future that was lost. `find_run_id` names the run in `run.json`.
    """

    def __init__(self, reward_names: list[str], reward_weights: list[float], find_run_id: Callable[[], str]) -> None:
        self.rewards = dict(zip(reward_names, reward_weights, strict=True))
        self.find_run_id = find_run_id

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Write `run.json` and open the metrics where the run starts from."""
        if not state.is_world_process_zero:
            return
        folder = Path(args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        # A run from the start keeps nothing: what lies there is another run's. One that was over is summed up again.
        kept = [
            row
            for row in (read_metrics(folder) if state.global_step else [])
            if row["step"] <= state.global_step and "train_runtime" not in row
        ]
        for path in (folder / COMPLETIONS).glob("completions_*.parquet"):
            if state.global_step == 0 or int(path.stem.removeprefix("completions_")) > state.global_step:
                path.unlink()
        _replace(folder / METRICS, "".join(json.dumps(row) + "\n" for row in kept))
        settings = {
            "run_id": self.find_run_id(),
            "model": kwargs["model"].config.name_or_path,
            "rewards": self.rewards,
            "seed": args.seed,
            "world_size": args.world_size,
            "resumed_from_step": state.global_step,
            "versions": collect_versions(),
            "commit": find_commit(),
            "arguments": json.loads(args.to_json_string()),
        }
        _replace(folder / RUN_FILE, json.dumps(without_owner(settings), indent=1, ensure_ascii=False) + "\n")

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append one line: the step and what was logged at it."""
        if not state.is_world_process_zero or not logs:
            return
        with (Path(args.output_dir) / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": state.global_step, **logs}) + "\n")


def _replace(path: Path, text: str) -> None:
    """Write whole or not at all."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
