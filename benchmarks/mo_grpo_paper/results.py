"""A run's curve, and what is made of many: results.json, a Markdown table (mean +- std over seeds) and a figure."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

STYLES = {"GRPO": ("0.55", "--"), "Dr. GRPO": ("0.35", ":"), "MO-GRPO": ("0.0", "-")}


@dataclass(frozen=True)
class Run:
    """One training: `curve` is a list of {"step": n, reward name: value}; `best` is what the best policy reaches."""

    method: str
    seed: int
    curve: list[dict[str, float]]
    best: dict[str, float] = field(default_factory=dict)

    def final(self, names: Sequence[str]) -> list[float]:
        """The last point's rewards, and their total."""
        values = [self.curve[-1][name] for name in names]
        return [*values, sum(values)]


def spread(values: Sequence[float]) -> str:
    """`mean +- std` (ddof 1) to two decimals; a lone value has no std."""
    mean = f"{np.mean(values):.2f}"
    return f"{mean} ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else mean


def table(runs: Sequence[Run], names: Sequence[str]) -> str:
    """A Markdown table: a row a method, a column a reward, the rewards' total last."""
    lines = ["| method | seeds | " + " | ".join([*names, "total"]) + " |", "|---" * (len(names) + 3) + "|"]
    methods = list(dict.fromkeys(run.method for run in runs))
    for method in methods:
        finals = [run.final(names) for run in runs if run.method == method]
        cells = [spread(column) for column in zip(*finals, strict=True)]
        lines.append(f"| {method} | {len(finals)} | " + " | ".join(cells) + " |")
    first = [run for run in runs if run.method == methods[0]]
    if all(run.best for run in first):
        bests = [[*(run.best[name] for name in names), sum(run.best[name] for name in names)] for run in first]
        cells = [spread(column) for column in zip(*bests, strict=True)]
        lines.append(f"| (best possible total) | {len(first)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def figure(runs: Sequence[Run], names: Sequence[str], title: str, path: Path) -> None:
    """One panel a reward and one for the total: the seeds' mean, with one std around it."""
    panels = [*names, "total"]
    canvas = Figure(figsize=(2.6 * len(panels), 2.6), layout="constrained")
    axes = canvas.subplots(1, len(panels))
    for axis, panel in zip(axes, panels, strict=True):
        for method in dict.fromkeys(run.method for run in runs):
            curves = [run.curve for run in runs if run.method == method]
            steps = [point["step"] for point in curves[0]]
            wanted = names if panel == "total" else [panel]
            values = np.array([[sum(point[name] for name in wanted) for point in curve] for curve in curves])
            mean, std = values.mean(0), values.std(0, ddof=1) if len(values) > 1 else 0 * values[0]
            colour, line = STYLES[method]
            axis.plot(steps, mean, line, color=colour, label=method)
            axis.fill_between(steps, mean - std, mean + std, color=colour, alpha=0.12, linewidth=0)
        axis.set(title=panel, xlabel="update")
    axes[0].set_ylabel(title)
    axes[-1].legend(fontsize="x-small")
    canvas.savefig(path, dpi=110)


def save(runs: Sequence[Run], options: argparse.Namespace) -> None:
    """results.json in `options.out`: the options and every curve. Called after each method, so that a cut run keeps."""
    options.out.mkdir(parents=True, exist_ok=True)
    record = {"options": vars(options), "runs": [asdict(run) for run in runs]}
    (options.out / "results.json").write_text(json.dumps(record, default=str), encoding="utf-8")


def report(runs: Sequence[Run], names: Sequence[str], options: argparse.Namespace, title: str) -> str:
    """Write table.md and curves.png beside results.json; the table is also returned."""
    text = table(runs, names)
    (options.out / "table.md").write_text(text + "\n", encoding="utf-8")
    figure(runs, names, title, options.out / "curves.png")
    return text
