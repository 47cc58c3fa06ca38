"""The audit's figures: what the advantage was made of, the rewards, the ratios, the answers' lengths."""

from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter

from medgrpo.audit.training_log import Series, TrainingLog
from medgrpo.report.figure_style import GREY, Drawing, new_figure, render, stroke
from medgrpo.report.wording import Wording

MOST_MARKERS = 12
# So that a share of 1 and one of 0 are seen; a negative share (outvoted by the others) is drawn, too.
SHARE_MARGIN = 0.05


def draw_figures(log: TrainingLog, words: Wording) -> dict[str, Drawing]:
    """Name -> figure, of those for which the log has values."""
    shares = {name: log.series(f"advantage_share/{name}") for name in log.weights}
    rewards = {name: log.series(f"rewards/{name}/mean") for name in log.weights}
    figures = {
        "shares": _draw_lines(shares, words, "axis.share", edges=(0.0, 1.0)),
        "rewards": _draw_lines(rewards, words, "axis.reward"),
        "ratios": _draw_ratios(log, words),
        "answers": _draw_answers(log, words),
    }
    return {name: drawing for name, drawing in figures.items() if drawing is not None}


def _draw_lines(lines: dict[str, Series], words: Wording, axis: str, edges: tuple[float, ...] = ()) -> Drawing | None:
    if not any(len(series) for series in lines.values()):
        return None
    with new_figure(2.6) as figure:
        axes = figure.subplots()
        for edge in edges:
            axes.axhline(edge, color=GREY, linewidth=0.8)
        for number, (name, series) in enumerate(lines.items()):
            _draw(axes, series, number, name)
        _finish(axes, words, axis)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
        return render(figure)


def _draw_ratios(log: TrainingLog, words: Wording) -> Drawing | None:
    lines = {
        f"{words('line.' + level)} {side}": log.series(f"ratio/{key}_{side}")
        for level, key in (("token", "token"), ("sequence", "seq"))
        for side in ("max", "min")
    }
    if not any(len(series) for series in lines.values()):
        return None
    with new_figure(2.8) as figure:
        axes = figure.subplots()
        axes.axhline(1.0, color=GREY, linewidth=0.8)
        for number, (name, series) in enumerate(lines.items()):
            _draw(axes, series, number, name)
        axes.set_yscale("log")
        # Plain numbers: the house style takes no dollar for a formula.
        axes.yaxis.set_major_formatter(LogFormatter())
        axes.yaxis.set_minor_formatter(LogFormatter())
        _finish(axes, words, "axis.ratio")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
        return render(figure)


def _draw_answers(log: TrainingLog, words: Wording) -> Drawing | None:
    lengths = log.series("completions/mean_length")
    if not len(lengths):
        return None
    with new_figure(3.4) as figure:
        above, below = figure.subplots(2, 1, sharex=True)
        _draw(above, lengths, 0, "")
        above.set_ylabel(words("axis.tokens"))
        above.set_ylim(bottom=0)
        for number, (key, line) in enumerate(
            (("completions/clipped_ratio", "line.cut"), ("answers/parse_failure_rate", "line.unreadable"))
        ):
            _draw(below, log.series(key), number + 1, words(line))
        below.set_ylim(-SHARE_MARGIN, 1 + SHARE_MARGIN)
        _finish(below, words, "axis.rates")
        below.legend(loc="upper left", ncols=2, frameon=False)
        return render(figure)


def _draw(axes: Axes, series: Series, number: int, label: str) -> None:
    look = stroke(number)
    every = max(1, len(series) // MOST_MARKERS)
    options = {"color": look.colour, "linestyle": look.line, "marker": look.marker, "markevery": every}
    axes.plot(series.steps, series.values, label=label, linewidth=1.3, markersize=3.5, **options)


def _finish(axes: Axes, words: Wording, label: str) -> None:
    axes.set_ylabel(words(label))
    axes.set_xlabel(words("axis.step"))
    axes.xaxis.get_major_locator().set_params(integer=True)
