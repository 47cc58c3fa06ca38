"""Runs side by side: what each reward gained under each method, and how much of the advantage it had."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medgrpo.report.figure_style import Drawing, new_figure, render, stroke

Metrics = Sequence[Mapping[str, Any]]
# The log's first value of a reward is its start; the mean over its last fifth is its end.
END_SHARE = 5


@dataclass(frozen=True)
class RewardGain:
    """One reward under one method, read from a run's `metrics.jsonl`."""

    start: float
    end: float
    share: float | None
    """Mean share in the advantage; None where the run did not log it."""
    share_varying: float | None
    """The same over the groups in which every reward varies."""


def read_reward_gains(metrics: Metrics) -> dict[str, RewardGain]:
    """Each reward's gain by its name, from the rows of a run that logged at least one step."""
    names = [key.split("/")[1] for key in _first_row(metrics) if key.startswith("rewards/") and key.endswith("/mean")]
    gains = {}
    for name in names:
        values = [value for _, value in _series(metrics, f"rewards/{name}/mean")]
        last = values[-max(1, len(values) // END_SHARE) :]
        gains[name] = RewardGain(
            start=values[0],
            end=sum(last) / len(last),
            share=_average(metrics, f"advantage_share/{name}"),
            share_varying=_average(metrics, f"advantage_share_varying/{name}"),
        )
    return gains


def describe_reward_gains(runs: Mapping[str, Metrics]) -> str:
    """The table for a terminal: a line a reward, its share in the advantage and its mean under each method."""
    gains = {method: read_reward_gains(metrics) for method, metrics in runs.items()}
    names = list(dict.fromkeys(name for rewards in gains.values() for name in rewards))
    width = max(len(name) for name in [*names, "reward"])
    columns = [f"{method:>9}" for method in runs]
    block = 10 * len(columns)
    lines = [
        f"{'':{width}}  {'share of the advantage':^{max(block, 22)}}  {'mean reward at the end':^{block + 10}}",
        f"{'reward':{width}}  {' '.join(columns):>{max(block, 22)}}  {'start':>9} {' '.join(columns)}",
    ]
    for name in names:
        rows = [rewards[name] for rewards in gains.values()]
        shares = " ".join(f"{'-' if row.share is None else f'{100 * row.share:.0f} %':>9}" for row in rows)
        ends = " ".join(f"{row.end:9.3g}" for row in rows)
        lines.append(f"{name:{width}}  {shares:>{max(block, 22)}}  {rows[0].start:9.3g} {ends}")
    return "\n".join(lines)


def draw_reward_gains(runs: Mapping[str, Metrics]) -> Drawing:
    """One panel a reward over the training step, one line a method; moving averages over a tenth of the values."""
    names = list(dict.fromkeys(name for metrics in runs.values() for name in read_reward_gains(metrics)))
    with new_figure(1.0 + 1.7 * len(names)) as figure:
        panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
        for axes, name in zip(panels, names, strict=True):
            for number, (method, metrics) in enumerate(runs.items()):
                steps, values = zip(*_series(metrics, f"rewards/{name}/mean"), strict=True)
                reach = len(values) // 20 + 1
                # Narrower towards both ends, so that a line starts and ends where the run does.
                reaches = [min(reach, i, len(values) - 1 - i) for i in range(len(values))]
                near = [values[i - r : i + r + 1] for i, r in enumerate(reaches)]
                look = stroke(number)
                axes.plot(steps, values, look.line, color=look.colour, alpha=0.25, linewidth=0.8)
                axes.plot(
                    steps,
                    [sum(window) / len(window) for window in near],
                    look.line,
                    marker=look.marker,
                    markevery=max(1, len(values) // 10),
                    markersize=4,
                    color=look.colour,
                    label=method if axes is panels[0] else None,
                )
            axes.set_ylabel(f"{name}\n平均 mean")
            axes.margins(y=0.12)
        panels[-1].set_xlabel("学習ステップ training step")
        panels[-1].xaxis.get_major_locator().set_params(integer=True)
        figure.legend(loc="outside upper left", ncols=len(runs), frameon=False)
        return render(figure)


def _first_row(metrics: Metrics) -> Mapping[str, Any]:
    return next((row for row in metrics if "reward" in row), {})


def _series(metrics: Metrics, key: str) -> list[tuple[int, float]]:
    """(step, value) where a value was logged; NaN (no completion had the reward) and None are no values."""
    return [(row["step"], row[key]) for row in metrics if row.get(key) is not None and row[key] == row[key]]


def _average(metrics: Metrics, key: str) -> float | None:
    values = [value for _, value in _series(metrics, key)]
    return sum(values) / len(values) if values else None
