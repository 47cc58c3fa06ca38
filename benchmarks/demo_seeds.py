"""Does the demo's gain hold over seeds? Trains GRPO and GSPO on the mini exam and prints a table.

    python benchmarks/demo_seeds.py --seeds 0 1 2 --out runs/seeds

`--validate` trains on 2019-2021 and scores 2022, the years on which the demo's hyperparameters were chosen; what
follows `--` goes to the recipes.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from medgrpo.evaluation.samples import pair_outcomes, read_run
from medgrpo.evaluation.score import summarise
from medgrpo.statistics import compare_paired
from medgrpo.trainers.run_log import read_metrics

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
VALIDATION = ["--train_years", "2019-2021", "--eval_years", "2022"]


def main() -> None:
    """Run every method and seed, and print a row each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["grpo", "gspo"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("runs/seeds"))
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("more", nargs="*", help="after --: options for the recipes")
    arguments = parser.parse_args()
    print("| method | seed | n | before | after | b | c | exact p | readable | training | whole run |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for method in arguments.methods:
        for seed in arguments.seeds:
            folder = arguments.out / f"{method}_{seed}"
            folder.mkdir(parents=True, exist_ok=True)
            command = [sys.executable, str(RECIPES / f"{method}.py"), "--seed", str(seed), "--output_dir", str(folder)]
            command += (VALIDATION if arguments.validate else []) + arguments.more
            started = time.monotonic()
            with (folder / "log.txt").open("w") as log:
                subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=True)
            print(row(method, seed, folder, time.monotonic() - started), flush=True)


def row(method: str, seed: int, folder: Path, seconds: float) -> str:
    """One line of the table, read from the run's folder; its numbers go to result.json as well."""
    before, after = read_run(folder / "before"), read_run(folder / "after")
    _, was, now = pair_outcomes(before, after)
    paired, first, last = compare_paired(was, now), summarise(before.samples), summarise(after.samples)
    training = next(line["train_runtime"] for line in read_metrics(folder) if "train_runtime" in line)
    result = {"n": first.n, "before": first.correct, "after": last.correct, "p": paired.p, "train_s": training}
    (folder / "result.json").write_text(json.dumps(result))
    cells = [method.upper(), seed, first.n, f"{100 * first.accuracy:.1f} %", f"{100 * last.accuracy:.1f} %"]
    cells += [paired.b, paired.c, f"{paired.p:.1g}", f"{100 * last.format_compliance:.1f} %"]
    return "| " + " | ".join(map(str, [*cells, f"{training:.0f} s", f"{seconds:.0f} s"])) + " |"


if __name__ == "__main__":
    main()
