"""Does the small reward end higher under MO-GRPO than under GRPO? Both from the same start, over seeds.

    python benchmarks/mo_grpo_tiny.py --seeds 0 1 2 3 4 --out runs/mo_grpo_seeds

Trains what `recipes/mo_grpo.py` trains by default (rewards `ophtho`, right or wrong, and `length`, in characters) and
prints a row a run: shares in the advantage, over all groups and over those in which both rewards vary, and each
reward's mean over the last fifth of training. A run that is there already is read, not trained again.
"""

import argparse
from pathlib import Path

from medgrpo import MOGRPOConfig, MOGRPOTrainer
from medgrpo.experiment.arguments import AgainstGRPOArguments, parse_arguments
from medgrpo.experiment.exam import load_exam, to_dataset
from medgrpo.experiment.model import find_model
from medgrpo.report.reward_gains import read_reward_gains
from medgrpo.rewards import get_reward_funcs
from medgrpo.trainers.run_log import read_metrics

CONFIG = Path(__file__).resolve().parents[1] / "recipes" / "configs" / "tiny_mo_grpo_cpu.yaml"


def main() -> None:
    """Train every seed under both methods, and print a row each and how often MO-GRPO ended higher."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, default=Path("runs/mo_grpo_seeds"))
    parser.add_argument("more", nargs="*", help="after --: options for the trainer")
    arguments = parser.parse_args()
    print(
        "| seed | advantage | share of ophtho | of length | both vary: ophtho | length | ophtho | length | training |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    ends: dict[tuple[int, str], float] = {}
    for seed in arguments.seeds:
        for advantage in ("grpo", "mo_grpo"):
            folder = arguments.out / f"{advantage}_{seed}"
            metrics = read_metrics(folder)
            if not any("train_runtime" in row for row in metrics):
                train(seed, advantage, folder, arguments.more)
                metrics = read_metrics(folder)
            gains = read_reward_gains(metrics)
            ends[seed, advantage] = gains["ophtho"].end
            both = [gains["ophtho"], gains["length"]]
            cells = [f"{gain.share:.3f}" for gain in both] + [f"{gain.share_varying:.3f}" for gain in both]
            cells += [f"{gain.start:.3g} -> {gain.end:.3g}" for gain in both]
            seconds = next(row["train_runtime"] for row in metrics if "train_runtime" in row)
            print(f"| {seed} | {advantage} | {' | '.join(cells)} | {seconds:.0f} s |", flush=True)
    higher = sum(ends[seed, "mo_grpo"] > ends[seed, "grpo"] for seed in arguments.seeds)
    print(f"\nophtho ends higher under MO-GRPO in {higher} of {len(arguments.seeds)} seeds")


def train(seed: int, advantage: str, folder: Path, more: list[str]) -> None:
    """One run without scoring: what it leaves is its `metrics.jsonl`."""
    options = ["--config", str(CONFIG), "--seed", str(seed), "--advantage", advantage, "--output_dir", str(folder)]
    options += ["--log_completions", "false", *more]
    exam_arguments, config, model_arguments = parse_arguments(
        MOGRPOConfig, CONFIG, options, exam_class=AgainstGRPOArguments
    )
    model, tokenizer, _ = find_model(model_arguments, config)
    MOGRPOTrainer(
        model=model,
        processing_class=tokenizer,
        args=config,
        reward_funcs=get_reward_funcs(exam_arguments.reward_funcs),
        train_dataset=to_dataset(load_exam(exam_arguments).train),
    ).train()


if __name__ == "__main__":
    main()
