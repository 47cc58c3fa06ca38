"""A CHORD run over its steps: mu, the two losses it weighs, and the accuracy of the rollouts, GRPO's beside it."""

from collections.abc import Mapping, Sequence
from typing import Any

from medgrpo.report.figure_style import ACCENT, GREY, INK, RUST, Drawing, new_figure, render

Rows = Sequence[Mapping[str, Any]]

ACCURACY = "rewards/ophtho/mean"
ROWS_SHOWN = 6


def draw_chord_curves(chord: Rows, grpo: Rows | None = None) -> Drawing:
    """Three panels over the training step, from `metrics.jsonl` rows; series that were not logged stay out."""
    with new_figure(5.6) as figure:
        weight, losses, accuracy = figure.subplots(3, 1, sharex=True)
        weight.plot(*_series(chord, "chord/mu"), "-", color=INK)
        weight.set_ylabel("μ")
        weight.set_ylim(bottom=0)
        for name, label, line, colour in (
            ("chord/policy_loss", "L_GRPO", "--", GREY),
            ("chord/sft_loss", "L_SFT", "-", ACCENT),
        ):
            losses.plot(*_series(chord, name), line, color=colour, label=label)
        losses.set_ylabel("損失  loss")
        losses.legend(frameon=False, ncols=2)
        accuracy.plot(*_percent(chord), "-", marker="o", markersize=3, color=ACCENT, label="CHORD")
        if grpo is not None:
            accuracy.plot(*_percent(grpo), "--", marker="s", markersize=3, color=RUST, label="GRPO")
        accuracy.set_ylabel("学習問題の正答率\naccuracy in training (%)")
        accuracy.set_ylim(-4, 104)
        accuracy.legend(frameon=False, ncols=2)
        accuracy.set_xlabel("学習ステップ  training step")
        accuracy.xaxis.get_major_locator().set_params(integer=True)
        return render(figure)


def describe_chord_curves(chord: Rows, grpo: Rows | None = None) -> str:
    """A table of a few steps, the first and the last among them; accuracy is that of the sampled rollouts."""
    steps = _steps(chord)
    last = len(steps) - 1
    shown = sorted({round(i * last / (ROWS_SHOWN - 1)) for i in range(ROWS_SHOWN)}) if steps else []
    lines = ["  step     mu   L_GRPO    L_SFT   accuracy" + ("   GRPO's" if grpo is not None else "")]
    for index in shown:
        step = steps[index]
        cells = [f"{step:6d}", _cell(chord, "chord/mu", step, "6.3f"), _cell(chord, "chord/policy_loss", step, "8.3f")]
        cells += [_cell(chord, "chord/sft_loss", step, "8.3f"), _percent_cell(chord, step, 10)]
        if grpo is not None:
            cells.append(_percent_cell(grpo, step, 8))
        lines.append(" ".join(cells))
    return "\n".join(lines)


def _steps(rows: Rows) -> list[int]:
    return sorted({int(row["step"]) for row in rows if "chord/mu" in row and "loss" in row})


def _series(rows: Rows, name: str) -> tuple[list[int], list[float]]:
    found = {int(row["step"]): float(row[name]) for row in rows if row.get(name) is not None}
    return sorted(found), [found[step] for step in sorted(found)]


def _percent(rows: Rows) -> tuple[list[int], list[float]]:
    steps, values = _series(rows, ACCURACY)
    return steps, [100 * value for value in values]


def _latest(rows: Rows, name: str, step: int) -> float | None:
    """The value at the step, or the last one before it: rewards are logged where rollouts are made."""
    steps, values = _series(rows, name)
    before = [value for at, value in zip(steps, values, strict=True) if at <= step]
    return before[-1] if before else None


def _cell(rows: Rows, name: str, step: int, form: str) -> str:
    value = _latest(rows, name, step)
    width = int(form.split(".")[0])
    return "-".rjust(width) if value is None else format(value, form)


def _percent_cell(rows: Rows, step: int, width: int) -> str:
    value = _latest(rows, ACCURACY, step)
    return ("-" if value is None else f"{100 * value:.1f} %").rjust(width)
