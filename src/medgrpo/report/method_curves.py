"""Training curves of several methods side by side: a panel a quantity, a line a method, a paler one a further seed."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes

from medgrpo.report.figure_style import LEGEND, Drawing, new_figure, render, stroke
from medgrpo.report.label_width import LEGEND_COLUMNS, legend_columns, shorten
from medgrpo.report.wording import Wording

Metrics = Sequence[Mapping[str, Any]]
# Beside the rewards: what the first look at a strange run asks for.
QUANTITIES = ("reward", "kl", "completions/mean_length", "entropy")
PANEL_INCHES = 1.7
# A longer log is drawn as a moving average.
SMOOTH_FROM = 60


def draw_method_curves(runs: Mapping[str, Sequence[Metrics]], say: Wording) -> Drawing | None:
    """Panels over the training step, from each method's `metrics.jsonl` rows, one list a seed.

    A quantity that no run logged has no panel; None where nothing was logged at all.
    """
    rewards = dict.fromkeys(key for rows in _each(runs) for row in rows for key in row if _is_reward_mean(key))
    wanted = [QUANTITIES[0], *rewards, *QUANTITIES[1:]]
    shown = [key for key in wanted if any(_series(rows, key)[0] for rows in _each(runs))]
    if not shown:
        return None
    with new_figure(PANEL_INCHES * len(shown) + 0.6) as figure:
        panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        for key, panel in zip(shown, panels, strict=True):
            for number, (label, seeds) in enumerate(runs.items()):
                _draw_method(panel, seeds, key, label, number)
            panel.set_title(_name(key, say), loc="left", fontsize=9)
            panel.margins(y=0.12)
        panels[-1].set_xlabel(say("figure.step"))
        panels[-1].xaxis.get_major_locator().set_params(integer=True)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(
            handles,
            [shorten(label, LEGEND_COLUMNS) for label in labels],
            ncols=min(legend_columns(labels), len(labels)),
            **LEGEND,
        )
        return render(figure)


def _draw_method(panel: Axes, seeds: Sequence[Metrics], key: str, label: str, number: int) -> None:
    look = stroke(number)
    for index, rows in enumerate(seeds):
        steps, values = _series(rows, key)
        if not steps:
            continue
        panel.plot(
            steps,
            _smooth(values),
            look.line,
            color=look.colour,
            alpha=1.0 if index == 0 else 0.35,
            linewidth=1.4,
            marker=look.marker,
            markersize=3.5,
            markevery=max(1, len(steps) // 8),
            label=label if index == 0 else None,
        )


def _each(runs: Mapping[str, Sequence[Metrics]]) -> list[Metrics]:
    return [rows for seeds in runs.values() for rows in seeds]


def _series(rows: Metrics, key: str) -> tuple[list[int], list[float]]:
    found = {
        int(row["step"]): float(row[key])
        for row in rows
        if isinstance(row.get(key), int | float) and row[key] == row[key]
    }
    return sorted(found), [found[step] for step in sorted(found)]


def _smooth(values: Sequence[float]) -> list[float]:
    """The moving average over a twentieth of the log on either side; a short log as it is."""
    if len(values) < SMOOTH_FROM:
        return list(values)
    reach = len(values) // 20
    near = [values[max(0, i - reach) : i + reach + 1] for i in range(len(values))]
    return [sum(window) / len(window) for window in near]


def _name(key: str, say: Wording) -> str:
    if _is_reward_mean(key):
        return say("curve.single_reward", name=key.split("/")[1])
    return say(f"curve.{key.split('/')[-1]}")


def _is_reward_mean(key: str) -> bool:
    parts = key.split("/")
    return len(parts) == 3 and parts[0] == "rewards" and parts[2] == "mean"
