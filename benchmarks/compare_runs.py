"""How long does `medgrpo compare` take, and how much memory? Synthetic runs, read from disk; no figures.

    python benchmarks/compare_runs.py                       # 6 runs x 5,000 questions, 40 runs x 10,000
    python benchmarks/compare_runs.py --sizes 6x5000

Each size is measured in a process of its own: reading the runs, comparing them (2,000 bootstrap draws, every pair,
13 departments, 3 years) and writing comparison.json. Wall and processor time; peak is the process's resident memory.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from medgrpo.comparison.compare import compare_runs
from medgrpo.comparison.read import read_runs
from medgrpo.comparison.request import ComparisonRequest
from medgrpo.comparison.write import write_comparison
from medgrpo.evaluation.samples import Sample, write_run

SIZES = ["6x5000", "40x10000"]


def main() -> None:
    """Make the runs, measure each size, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="RUNSxQUESTIONS")
    parser.add_argument("--characters", type=int, default=600, help="length of a completion (600)")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure is not None:
        print(json.dumps(measure(arguments.measure)))
        return
    print("| runs x questions | cells | reading | comparing | writing | in all | processor | peak memory |")
    print("|---|---|---|---|---|---|---|---|")
    for size in arguments.sizes:
        runs, questions = (int(number) for number in size.split("x"))
        with tempfile.TemporaryDirectory() as folder:
            make_runs(Path(folder), runs, questions, arguments.characters)
            command = [sys.executable, __file__, "--measure", folder]
            found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        seconds = [f"{found[name]:.1f} s" for name in ("reading", "comparing", "writing", "wall", "processor")]
        print("| " + " | ".join([size, str(found["cells"]), *seconds, f"{found['peak_mb']:.0f} MB"]) + " |", flush=True)


def make_runs(folder: Path, runs: int, questions: int, characters: int) -> None:
    """Runs that agree on about 85 % of the questions, as models tuned from one base do."""
    generator = np.random.default_rng(0)
    difficulty = generator.beta(3, 1.2, questions)
    shared = generator.random(questions) < difficulty
    filler = "所見から考えられる疾患を順に除外する。" * (characters // 19 + 1)
    for number in range(runs):
        own = generator.random(questions) < np.minimum(difficulty + 0.02 * number / runs, 1)
        correct = np.where(generator.random(questions) < 0.7, shared, own)
        samples = [
            Sample(
                id=f"Q{i}",
                completion=f"{i}: {filler[:characters]}[ans]a[/ans]",
                parsed=["a"],
                parse_failure=False,
                correct=bool(correct[i]),
                contraindicated_chosen=[],
                exam="synthetic",
                year=2023 + i % 3,
                department=f"診療科{i % 13}",
                text_only=i % 4 > 0,
                points=1,
                required=False,
                scoring="normal",
            )
            for i in range(questions)
        ]
        write_run(folder / f"run{number}", samples, {"model": f"model {number}", "sampling": {"temperature": 0.0}})


def measure(folder: Path) -> dict[str, float]:
    """Read, compare and write what `make_runs` made; seconds and megabytes."""
    folders = sorted(str(path) for path in folder.iterdir())
    started, processor = time.perf_counter(), time.process_time()
    request = ComparisonRequest(base=folders[0], runs=folders[1:], out=str(folder / "out"))
    read = read_runs(request)
    after_reading = time.perf_counter()
    comparison = compare_runs(read.runs, read.base, **request.options())
    after_comparing = time.perf_counter()
    write_comparison(request.out, comparison)
    ended = time.perf_counter()
    return {
        "cells": len(comparison.cells) + len(comparison.pairs),
        "reading": after_reading - started,
        "comparing": after_comparing - after_reading,
        "writing": ended - after_comparing,
        "wall": ended - started,
        "processor": time.process_time() - processor,
        # Linux counts kilobytes, macOS bytes.
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2),
    }


if __name__ == "__main__":
    main()
