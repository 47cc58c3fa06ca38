"""How every figure of a report looks: Japanese labels in a real font, series told apart without colour.

A figure is drawn narrow, so that its letters are as large as the text around it on a phone (about 360 px) and
on a desk alike, and is returned as PNG and as SVG whose letters are outlines: it needs no font where it is read.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import product

import matplotlib
from matplotlib.figure import Figure

# The import registers the font it carries (IPAexGothic) and would also make it everybody's default.
with matplotlib.rc_context():
    import matplotlib_fontja

# DejaVu draws what IPAexGothic lacks (an emoji-like arrow in a label, say).
FONTS = [matplotlib_fontja.matplotlib_fontja.FONT_NAME, "DejaVu Sans"]
INK, GREY, PALE, ACCENT, BAR, RUST = "#1f2933", "#7b8794", "#e4e7eb", "#0b5c8a", "#7fb2d1", "#b45309"
WIDTH_INCHES, DPI = 5.12, 200
# Of many series: lines long enough to tell their patterns apart.
LEGEND = {"loc": "outside upper left", "frameon": False, "fontsize": 8.5, "handlelength": 3}

_MARKERS = ["o", "s", "^", "D", "v", "P", "X", "p"]
_LINES = ["-", "--", "-.", ":"]
_COLOURS = [ACCENT, RUST, INK, "#4d7c0f", "#7e22ce", "#0f766e", GREY, "#9f1239"]


@dataclass(frozen=True)
class Drawing:
    """One figure in both forms."""

    png: bytes
    svg: bytes


@dataclass(frozen=True)
class Stroke:
    """What tells one series from another: marker and line first, colour last."""

    marker: str
    line: str
    colour: str


BASE_STROKE = Stroke("o", "-", INK)


def stroke(number: int) -> Stroke:
    """The look of series `number` (from 0): 32 pairs of line and marker before one comes again."""
    pairs = list(product(range(len(_LINES)), range(len(_MARKERS))))
    _, marker = pairs[number % len(pairs)]
    line = (number + number // len(_MARKERS)) % len(_LINES)
    return Stroke(_MARKERS[marker], _LINES[line], _COLOURS[marker])


@contextmanager
def new_figure(height_inches: float) -> Iterator[Figure]:
    """A figure under the house settings, which hold only inside the `with`: render it there."""
    settings = {
        "font.family": FONTS,
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": GREY,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "axes.labelcolor": INK,
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "grid.color": PALE,
        "hatch.linewidth": 0.6,
        "svg.fonttype": "path",
        "svg.hashsalt": "medgrpo",  # the same figure is the same file
        "text.parse_math": False,  # a reward named a_$b$ is no formula
    }
    with matplotlib.rc_context(settings):
        yield Figure(figsize=(WIDTH_INCHES, height_inches), dpi=DPI, layout="constrained")


def render(figure: Figure) -> Drawing:
    """The figure as PNG and SVG; the SVG names no address outside but its name spaces."""
    png, svg = BytesIO(), BytesIO()
    # The layout takes as long as drawing: once is enough for both forms.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    figure.savefig(png, format="png")
    figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    # matplotlib repeats every text in a comment beside its outlines.
    return Drawing(png.getvalue(), re.sub(rb"<!DOCTYPE[^>]*>\s*|<!--.*?-->", b"", svg.getvalue(), flags=re.S))
