"""The figures of a training report: the learning curve, and accuracy before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes

from medgrpo.evaluation.score import Summary, Tally
from medgrpo.report.figure_style import ACCENT, BAR, GREY, INK, PALE, RUST, Drawing, new_figure, render
from medgrpo.statistics import wilson_interval

LINES = [("-", "o"), ("--", "s"), (":", "^"), ("-.", "D")]
# A log longer than this is drawn as a moving average over a pale line of the single steps.
SMOOTH_FROM_STEPS = 60


@dataclass(frozen=True)
class LearningCurve:
    """The training log as series over `steps`; None = not logged at that step."""

    steps: list[int]
    reward: list[float | None]
    rewards: dict[str, list[float | None]]
    """Reward name -> its mean over the step's completions, unweighted."""


def read_learning_curve(metrics: Sequence[Mapping[str, Any]]) -> LearningCurve | None:
    """The reward series of `metrics.jsonl` rows; None where no row holds a reward.

    Rows without `step` and `reward` (evaluation, the closing summary) are passed over; of two rows for one
    step, as a resumed run writes them, the later counts. NaN (every completion abstained) is a gap.
    """
    rows = {int(row["step"]): row for row in metrics if "step" in row and "reward" in row}
    if not rows:
        return None
    steps = sorted(rows)
    keys = list(dict.fromkeys(key for row in rows.values() for key in row if _is_reward_mean(key)))
    return LearningCurve(
        steps=steps,
        reward=[_number(rows[step]["reward"]) for step in steps],
        rewards={key.split("/")[1]: [_number(rows[step].get(key)) for step in steps] for key in keys},
    )


def draw_learning_curve(curve: LearningCurve) -> Drawing:
    """Two panels over the training step: the weighted reward, and the mean of each single reward."""
    with new_figure(4.0) as figure:
        total, single = figure.subplots(2, 1, sharex=True)
        window = _window(curve.steps)
        _draw_series(total, curve.steps, curve.reward, window, "", INK, *LINES[0])
        total.set_ylabel("報酬の重み付き和\nreward (weighted)")
        shades = [ACCENT, INK, GREY, RUST]
        for number, (name, values) in enumerate(curve.rewards.items()):
            colour, style = shades[number % len(shades)], LINES[number % len(LINES)]
            _draw_series(single, curve.steps, values, window, name, colour, *style)
        single.set_ylabel("各報酬の平均\nmean of each")
        averaged = f"\n（太線は前後 {window} ステップの移動平均  thick: moving average）" if window else ""
        single.set_xlabel("学習ステップ  training step" + averaged)
        single.xaxis.get_major_locator().set_params(integer=True)
        if curve.rewards:
            figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=9)
        for axes in (total, single):
            axes.margins(y=0.15)
        return render(figure)


def draw_accuracy(base: Summary, tuned: Summary) -> Drawing:
    """Bars before and after, overall, text only and by year, each with its Wilson 95 % interval."""
    groups = [("全体\nall", base, tuned)]
    if base.text_only.n not in (0, base.n):
        groups.append(("テキストのみ\ntext only", base.text_only, tuned.text_only))
    groups += [
        (str(year) if year else "年不明\nno year", tally, tuned.by_year[year])
        for year, tally in base.by_year.items()
        if tally.n
    ]
    with new_figure(3.2) as figure:
        axes = figure.subplots()
        for offset, label, colour, hatch, side in (
            (-0.2, "学習前 before", PALE, "", 1),
            (0.2, "学習後 after", BAR, "//", 2),
        ):
            tallies: list[Tally] = [group[side] for group in groups]
            _draw_bars(axes, [x + offset for x in range(len(groups))], tallies, label, colour, hatch)
        axes.set_xticks(range(len(groups)), [f"{label}\nn={tally.n}" for label, tally, _ in groups])
        axes.set_ylabel("正答率 accuracy (%)")
        axes.set_ylim(0, 100)
        axes.tick_params(axis="x", length=0, labelsize=9 if len(groups) < 8 else 7)
        axes.legend(loc="upper left", bbox_to_anchor=(0, 1.16), ncols=2, frameon=False)
        return render(figure)


def _draw_series(
    axes: Axes,
    steps: Sequence[int],
    values: Sequence[float | None],
    window: int,
    label: str,
    colour: str,
    line: str,
    marker: str,
) -> None:
    drawn = [float("nan") if value is None else value for value in values]
    if not window:
        axes.plot(steps, drawn, line, marker=marker, markersize=3.5, color=colour, label=label, linewidth=1.4)
        return
    axes.plot(steps, drawn, "-", color=colour, alpha=0.22, linewidth=0.8)
    smooth = [_mean(drawn[max(0, i - window) : i + window + 1]) for i in range(len(drawn))]
    every = max(1, len(steps) // 12)
    axes.plot(steps, smooth, line, marker=marker, markevery=every, markersize=4, color=colour, label=label)


def _draw_bars(axes: Axes, xs: Sequence[float], tallies: Sequence[Tally], label: str, colour: str, hatch: str) -> None:
    shares = [100 * tally.correct / tally.n for tally in tallies]
    intervals = [wilson_interval(tally.correct, tally.n) for tally in tallies]
    below = [share - 100 * low for share, (low, _) in zip(shares, intervals, strict=True)]
    above = [100 * high - share for share, (_, high) in zip(shares, intervals, strict=True)]
    axes.bar(xs, shares, 0.38, color=colour, edgecolor=ACCENT if hatch else GREY, hatch=hatch, label=label)
    axes.errorbar(xs, shares, [below, above], fmt="none", ecolor=INK, elinewidth=1, capsize=3)


def _window(steps: Sequence[int]) -> int:
    """How many steps on either side a moving average takes in; 0 = every step is drawn as it is."""
    return 0 if len(steps) < SMOOTH_FROM_STEPS else len(steps) // 20


def _is_reward_mean(key: str) -> bool:
    parts = key.split("/")
    return len(parts) == 3 and parts[0] == "rewards" and parts[2] == "mean"


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value == value else None


def _mean(values: Sequence[float]) -> float:
    present = [value for value in values if value == value]
    return sum(present) / len(present) if present else float("nan")
