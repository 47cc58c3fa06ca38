"""MO-GRPO beside GRPO: what each reward gained under each, from the logs of two runs."""

from pathlib import Path

from medgrpo.report.reward_gains import describe_reward_gains, draw_reward_gains
from medgrpo.trainers.mo_grpo import MOGRPOTrainer
from medgrpo.trainers.run_log import read_metrics

METHOD_NAMES = {"mo_grpo": "MO-GRPO", "gdpo": "GDPO", "grpo": "GRPO"}
FIGURE = "reward_gains.png"


def show_reward_gains(trainer: MOGRPOTrainer, grpo_folder: str | Path) -> None:
    """Print the table and write the figure into the run's folder, on the first process."""
    if not trainer.accelerator.is_main_process:
        return
    folder = Path(trainer.args.output_dir)
    method = METHOD_NAMES[trainer.args.advantage]
    if trainer.args.adapt_reward_weights:
        method = f"AW-{method}"
    runs = {"GRPO": read_metrics(grpo_folder), method: read_metrics(folder)}
    (folder / FIGURE).write_bytes(draw_reward_gains(runs).png)
    print(f"\n{describe_reward_gains(runs)}\n")
    print(f"figure     {folder / FIGURE}")
    print(f"GRPO       {grpo_folder}")
