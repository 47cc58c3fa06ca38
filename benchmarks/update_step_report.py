"""What `update_step.py` measured, as a Markdown table and as a figure."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

NAMES = {"qwen3": "Qwen3", "qwen3_moe": "Qwen3-MoE", "qwen3_next": "Qwen3-Next"}
HEADER = (
    "| model | P, C, G | checkpointing | old | reference | update | whole step [range] | token bound | "
    "bound / step | peak MiB, TRL | ours | ratio |"
)


def speedups(line: dict[str, Any], part: str) -> list[float]:
    """How many times faster ours was in each turn: TRL's seconds over ours."""
    seconds = line["seconds"]
    return [theirs / ours for theirs, ours in zip(seconds["trl"][part], seconds["medgrpo"][part], strict=True)]


def table(lines: Sequence[dict[str, Any]]) -> str:
    """A row for each case: median speed-ups, the smallest and largest of the whole step, memory."""
    rows = [HEADER, "|" + "|".join([" --- "] * HEADER.count(" | ") + [" --- "]) + "|"]
    for line in lines:
        old, reference, update, step = (
            statistics.median(speedups(line, part)) for part in ("old", "reference", "update", "step")
        )
        turns = speedups(line, "step")
        theirs, ours = (line["peak_mib"][name]["step"] for name in ("trl", "medgrpo"))
        rows.append(
            f"| {NAMES[line['model']]} | {line['prompt']}, {line['completion']}, {line['group']} "
            f"| {'on' if line['checkpointing'] else 'off'} | {old:.1f}x | {reference:.1f}x | {update:.1f}x "
            f"| **{step:.1f}x** [{min(turns):.1f}, {max(turns):.1f}] | {line['bound']:.1f}x "
            f"| {line['bound'] / step:.2f} | {theirs:.0f} | {ours:.0f} | {ours / theirs:.2f} |"
        )
    return "\n".join(rows)


def draw(lines: Sequence[dict[str, Any]], path: Path) -> None:
    """Bars: how many times faster each case's whole step is, with its range, and the token bound as a mark."""
    figure = Figure(figsize=(6.4, 0.9 + 0.34 * len(lines)), layout="constrained")
    axes = figure.subplots()
    places = range(len(lines))
    medians = [statistics.median(speedups(line, "step")) for line in lines]
    below, above = (
        [abs(bound(speedups(line, "step")) - median) for line, median in zip(lines, medians, strict=True)]
        for bound in (min, max)
    )
    axes.barh(places, medians, xerr=(below, above), color="#7fb2d1", ecolor="#1f2933", label="measured, with its range")
    axes.scatter([line["bound"] for line in lines], places, marker="|", s=160, color="#b45309", label="token bound")
    labels = [
        f"{NAMES[line['model']]} ({line['prompt']}, {line['completion']}, {line['group']})"
        + (", checkpointing" if line["checkpointing"] else "")
        for line in lines
    ]
    axes.set_yticks(places, labels)
    axes.invert_yaxis()
    axes.axvline(1, color="#7b8794", linewidth=0.8)
    axes.set_xlabel("update step: times as fast as TRL")
    axes.legend(loc="upper center", bbox_to_anchor=(0.4, -0.14 if len(lines) < 12 else -0.05), ncols=2, frameon=False)
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
