"""How a run lies on its processes, and which checkpoints fit it."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from medgrpo.errors import MedgrpoError

PLACEMENT_FILE = "placement.json"


@dataclass(frozen=True)
class Placement:
    """Processes, DeepSpeed's ZeRO stage (None without DeepSpeed), and over how many processes experts are spread."""

    num_processes: int
    zero_stage: int | None = None
    expert_parallel_size: int = 1

    def __str__(self) -> str:
        """In words, for a person."""
        processes = f"{self.num_processes} process{'es' if self.num_processes > 1 else ''}"
        if self.zero_stage is None:
            return f"{processes} without DeepSpeed"
        experts = f" and expert parallelism of {self.expert_parallel_size}" if self.expert_parallel_size > 1 else ""
        return f"{processes} with ZeRO-{self.zero_stage}{experts}"


def placement_of(num_processes: int, deepspeed_config: dict[str, Any] | None) -> Placement:
    """The placement that a DeepSpeed config (None: no DeepSpeed) means on so many processes."""
    if deepspeed_config is None:
        return Placement(num_processes)
    stage = deepspeed_config.get("zero_optimization", {}).get("stage", 0)
    experts = deepspeed_config.get("expert_parallel", {})
    return Placement(num_processes, stage, experts.get("autoep_size", 1) if experts.get("enabled") else 1)


def write_placement(folder: str | Path, placement: Placement) -> None:
    """Leave the placement in a checkpoint."""
    (Path(folder) / PLACEMENT_FILE).write_text(json.dumps(asdict(placement)) + "\n", encoding="utf-8")


def refuse_other_placement(checkpoint: str | Path, placement: Placement) -> None:
    """Raise `MedgrpoError` where DeepSpeed's part of a checkpoint can't be read by a run placed otherwise.

    DeepSpeed's optimizer states lie in the checkpoint as they lay on the processes. Without DeepSpeed on either
    side the number of processes may change.
    """
    folder = Path(checkpoint)
    path = folder / PLACEMENT_FILE
    if path.is_file():
        then = Placement(**json.loads(path.read_text(encoding="utf-8")))
    elif any(folder.glob("global_step*")):
        return  # DeepSpeed's own, of unknown placement: it says itself what does not fit
    else:
        then = Placement(placement.num_processes)
    if then == placement or then.zero_stage is None and placement.zero_stage is None:
        return
    raise MedgrpoError(
        f"{checkpoint}: taken on {then}, and can't be resumed on {placement}: resume as it was taken, or start anew "
        f"from its weights with --model_name_or_path {checkpoint}"
    )
