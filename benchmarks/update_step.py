"""One update step, ours against TRL's: time and peak memory of its passes, in one process, taking turns.

    python benchmarks/update_step.py --out update_step.jsonl              # the issue's cases; long on two cores
    python benchmarks/update_step.py --models qwen3 --shapes 512x64x16    # one case
    python benchmarks/update_step.py --growth                             # how it grows with P, C and G
    python benchmarks/update_step.py --quick                              # seconds: small shapes, two turns
    python benchmarks/update_step.py --report update_step.jsonl --figure update_step.svg

A step scores a batch with the old policy and with the reference, computes the loss, backpropagates and lets AdamW
step; rollouts are scripted, so nothing is generated. Both trainers start from the same weights and get the same
batch. In the step whose memory is counted, their losses and gradients are compared. Then the two take turns, so that
whatever else the machine does falls on both alike; on a CPU the processor time of the process counts. A shape is
P x C x G: tokens of the prompt, tokens of a completion, completions. A case is one JSON line.
"""

import argparse
import datetime
import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import transformers
import trl
from update_step_engines import PASSES, TRL, Case, Engine, Ours
from update_step_report import draw, table

MODELS = ("qwen3", "qwen3_next", "qwen3_moe")
SHAPES = ("512x64x16", "512x256x16", "256x32x8", "1024x128x16")
GROWTH = {
    "P": ("128x64x16", "256x64x16", "512x64x16", "1024x64x16"),
    "C": ("512x16x16", "512x32x16", "512x64x16", "512x128x16"),
    "G": ("512x64x2", "512x64x4", "512x64x8", "512x64x16"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the cases asked for and print a table, or print one of earlier measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="PxCxG")
    parser.add_argument("--checkpointing", choices=("off", "on", "both"), default="both")
    parser.add_argument("--growth", action="store_true", help="Qwen3 with one of P, C, G changed at a time")
    parser.add_argument("--turns", type=int, default=5, help="measured steps of each trainer (5)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (1)")
    parser.add_argument("--quick", action="store_true", help="two turns of small shapes of a small model")
    parser.add_argument("--out", type=Path, help="file that each case is added to as one JSON line")
    parser.add_argument("--report", type=Path, nargs="+", help="print the table of such files, and measure nothing")
    parser.add_argument("--figure", type=Path, help="draw the figure into this file (.svg or .png)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    if options.report:
        lines = [json.loads(line) for path in options.report for line in path.read_text("utf-8").splitlines()]
    else:
        lines = []
        for case in _cases(options):
            line = measure(case, 2 if options.quick else options.turns)
            lines.append(line)
            if options.out:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
    print(table(lines))
    if options.figure:
        draw(lines, options.figure)


def measure(case: Case, turns: int) -> dict[str, Any]:
    """One case: checks that both engines compute the same, then times them by turns and counts their memory."""
    with tempfile.TemporaryDirectory() as folder:
        engines = {
            "trl": Engine(case, TRL, Path(folder) / "trl"),
            "medgrpo": Engine(case, Ours, Path(folder) / "medgrpo"),
        }
        theirs, ours = engines["trl"], engines["medgrpo"]
        ours.step(lambda name: nullcontext())  # our trainer checks its first pass, which is no part of a step
        peaks = {name: engine.peaks() for name, engine in engines.items()}  # and a warm-up
        difference = ours.gradient - theirs.gradient
        line: dict[str, Any] = {
            **vars(case),
            "bound": case.bound,
            "loss": {name: engine.loss for name, engine in engines.items()},
            "gradient_difference": (difference.norm() / theirs.gradient.norm()).item(),
            "peak_mib": peaks,
            "packed": bool(ours.trainer.packed_passes),
            "device": "cuda" if torch.cuda.is_available() else "cpu",
            "threads": torch.get_num_threads(),
            "versions": {module.__name__: module.__version__ for module in (torch, transformers, trl)},
            "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
            "commit": _commit(),
        }
        taken: dict[str, list[dict[str, float]]] = {name: [] for name in engines}
        for turn in range(turns):
            for name in sorted(engines, reverse=turn % 2 == 0):
                taken[name].append(engines[name].seconds())
        line["seconds"] = {
            name: {part: [step[part] for step in steps] for part in PASSES} for name, steps in taken.items()
        }
    return line


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    small = {"hidden": 64, "layers": 4, "vocabulary": 256} if options.quick else {}
    shapes = ("32x8x4",) if options.quick and options.shapes is SHAPES else options.shapes
    if options.growth:
        for shape in dict.fromkeys(shape for series in GROWTH.values() for shape in series):
            yield Case("qwen3", *_numbers(shape), **small)
        return
    for checkpointing in {"off": (False,), "on": (True,), "both": (False, True)}[options.checkpointing]:
        for shape in shapes:
            for model in options.models:
                yield Case(model, *_numbers(shape), checkpointing, **small)


def _numbers(shape: str) -> tuple[int, int, int]:
    numbers = shape.split("x")
    if len(numbers) != 3 or not all(number.isdecimal() and int(number) for number in numbers) or int(numbers[2]) < 2:
        raise SystemExit(f"--shapes: {shape!r} is not PxCxG with a group of 2 or more, such as 512x64x16")
    prompt, completion, group = map(int, numbers)
    return prompt, completion, group


def _commit() -> str:
    here = Path(__file__).parent
    done = subprocess.run(["git", "-C", str(here), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
