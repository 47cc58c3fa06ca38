"""The figures of a comparison: differences with their intervals as a forest plot, and accuracy over the years."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from medgrpo.report.figure_style import BASE_STROKE, GREY, INK, LEGEND, Drawing, Stroke, new_figure, render, stroke
from medgrpo.report.label_width import LEGEND_COLUMNS, count_columns, legend_columns, shorten

# More series in one group of a forest plot can no longer be told apart: the rest goes on the next sheet.
SERIES_A_SHEET = 3
ROW_INCHES, GAP_INCHES = 0.14, 0.12
# Up to this many lines carry their intervals; more would hide one another.
LINES_WITH_INTERVALS = 4
LABEL_COLUMNS = 18


@dataclass(frozen=True)
class Mark:
    """One difference with its interval, in points; `firm` = significant after correction."""

    delta: float
    low: float
    high: float
    firm: bool


@dataclass(frozen=True)
class Series:
    """What is drawn in one look through a forest plot: one mark a group, None where there is none."""

    name: str
    number: int
    """Its place among all series, from 0: the look of its marks."""
    marks: list[Mark | None]


@dataclass(frozen=True)
class YearLine:
    """A run's accuracy by year, in per cent; None where no question of that year counts."""

    name: str
    accuracies: list[float | None]
    intervals: list[tuple[float, float] | None]


def draw_forest(
    groups: Sequence[tuple[str, int | None]], series: Sequence[Series], *, axis: str, firm: str, open_: str
) -> list[Drawing]:
    """Differences by group (name and n, or None), as many sheets as the series need, all on one scale.

    `axis` names the x axis; `firm` and `open_` say what a filled and an empty mark mean. An interval that
    leaves the scale ends in an arrow.
    """
    limit = _limit([mark for one in series for mark in one.marks if mark])
    sheets = [series[i : i + SERIES_A_SHEET] for i in range(0, len(series), SERIES_A_SHEET)]
    return [_draw_sheet(groups, sheet, limit, axis, firm, open_) for sheet in sheets]


def draw_years(years: Sequence[tuple[str, int]], lines: Sequence[YearLine], *, axis: str) -> Drawing:
    """Accuracy over the years (label, n); the first line is the base and is drawn thickest."""
    with new_figure(3.1 + 0.2 * math.ceil(len(lines) / 3)) as figure:
        axes = figure.subplots()
        spread = 0.07 if len(lines) <= LINES_WITH_INTERVALS else 0.04
        for place, line in enumerate(lines):
            look = BASE_STROKE if place == 0 else stroke(place - 1)
            shift = spread * (place - (len(lines) - 1) / 2)
            _draw_line(axes, line, look, shift, first=place == 0, whiskers=len(lines) <= LINES_WITH_INTERVALS)
        axes.set_xticks(range(len(years)), [f"{label}\nn={n}" for label, n in years])
        axes.tick_params(axis="x", length=0, labelsize=9 if len(years) < 7 else 7)
        axes.set_xlim(-0.5, len(years) - 0.5)
        axes.set_ylabel(axis)
        axes.margins(y=0.08)
        figure.legend(ncols=legend_columns(line.name for line in lines), **LEGEND)
        return render(figure)


def _draw_sheet(
    groups: Sequence[tuple[str, int | None]], sheet: Sequence[Series], limit: float, axis: str, firm: str, open_: str
) -> Drawing:
    pitch = max(len(sheet) * ROW_INCHES + GAP_INCHES, 0.3)
    with new_figure(1.15 + 0.18 * len(sheet) + pitch * len(groups)) as figure:
        axes = figure.subplots()
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        for row in range(0, len(groups), 2):
            axes.axhspan(row - 0.5, row + 0.5, color="#f5f7fa", zorder=0)
        axes.axvline(0, color=INK, linewidth=1)
        for place, one in enumerate(sheet):
            shift = ROW_INCHES / pitch * (place - (len(sheet) - 1) / 2)
            _draw_marks(axes, [row + shift for row in range(len(groups))], one.marks, stroke(one.number), limit)
        axes.set_yticks(range(len(groups)), [_label(name, n) for name, n in groups])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.set_xlim(-limit, limit)
        axes.set_xlabel(axis)
        axes.spines["left"].set_visible(False)
        figure.legend(handles=_legend(sheet, firm, open_), ncols=1, **LEGEND)
        return render(figure)


def _draw_marks(axes: Axes, ys: Sequence[float], marks: Sequence[Mark | None], look: Stroke, limit: float) -> None:
    # One artist for all intervals, and one for each shape of end and mark: hundreds of them would take minutes.
    drawn = [(y, mark) for y, mark in zip(ys, marks, strict=True) if mark]
    lows = [max(mark.low, -limit) for _, mark in drawn]
    highs = [min(mark.high, limit) for _, mark in drawn]
    axes.hlines([y for y, _ in drawn], lows, highs, color=look.colour, linestyle=look.line, linewidth=1.3)
    shapes: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for (y, mark), low, high in zip(drawn, lows, highs, strict=True):
        shapes.setdefault(("<" if mark.low < low else "|", look.colour), []).append((low, y))
        shapes.setdefault((">" if mark.high > high else "|", look.colour), []).append((high, y))
        if abs(mark.delta) <= limit:
            face = look.colour if mark.firm else "white"
            shapes.setdefault((look.marker, face), []).append((mark.delta, y))
    for (shape, face), places in shapes.items():
        size = 5.5 if shape == look.marker else 4
        xs, heights = zip(*places, strict=True)
        axes.plot(
            xs,
            heights,
            shape,
            linestyle="none",
            color=look.colour,
            markerfacecolor=face,
            markersize=size,
            clip_on=False,
        )


def _legend(sheet: Sequence[Series], firm: str, open_: str) -> list[Line2D]:
    handles = []
    for one in sheet:
        look = stroke(one.number)
        handles.append(
            Line2D([], [], color=look.colour, linestyle=look.line, marker=look.marker, label=shorten(one.name, 44))
        )
    for label, face in ((firm, GREY), (open_, "white")):
        handles.append(
            Line2D([], [], color=GREY, linestyle="none", marker="o", markerfacecolor=face, label=label, markersize=5.5)
        )
    return handles


def _draw_line(axes: Axes, line: YearLine, look: Stroke, shift: float, *, first: bool, whiskers: bool) -> None:
    xs = [x + shift for x in range(len(line.accuracies))]
    ys = [math.nan if share is None else share for share in line.accuracies]
    axes.plot(
        xs,
        ys,
        look.line,
        marker=look.marker,
        color=look.colour,
        markersize=5,
        linewidth=2.2 if first else 1.4,
        markerfacecolor=look.colour if first else "white",
        label=shorten(line.name, LEGEND_COLUMNS),
    )
    for x, interval in zip(xs, line.intervals, strict=True):
        if whiskers and interval is not None:
            axes.plot([x, x], interval, "-", color=look.colour, linewidth=0.9, alpha=0.7)


def _limit(marks: Sequence[Mark]) -> float:
    """Half the width of the scale, in points: everything, unless a few tiny groups would crush the others."""
    ends = sorted(max(abs(mark.low), abs(mark.high)) for mark in marks) or [1.0]
    typical = ends[int(0.8 * (len(ends) - 1))]
    deltas = max((abs(mark.delta) for mark in marks), default=0.0)
    return 1.05 * max(min(ends[-1], 1.6 * typical), min(deltas, 2.5 * typical), 0.5)


def _label(name: str, n: int | None) -> str:
    """A group's name beside the axis, on two lines at most, with its number of questions."""
    name = " ".join(name.split())
    cut = len(name)
    while count_columns(name[:cut]) > LABEL_COLUMNS:
        cut -= 1
    space = name.rfind(" ", 1, cut + 1) if cut < len(name) else -1
    cut = space if space > 0 else cut
    rest = shorten(name[cut:], LABEL_COLUMNS - (0 if n is None else 7))
    lines = [name[:cut], rest] if rest else [name]
    return "\n".join(lines) + ("" if n is None else f" ({n})")
