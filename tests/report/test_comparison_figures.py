import warnings
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from medgrpo.report.comparison_figures import Mark, Series, YearLine, draw_forest, draw_years
from medgrpo.report.figure_style import WIDTH_INCHES, stroke

LABELS = {"axis": "Base との差（ポイント）", "firm": "補正後 p < .05", "open_": "有意でない"}


@pytest.fixture(autouse=True)
def missing_glyphs_are_errors():
    """Matplotlib warns where it draws a box instead of a character."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(png)).convert("L"))


def make_series(groups: int, runs: int) -> list[Series]:
    draw = np.random.default_rng(0).normal(0, 4, (runs, groups))
    return [
        Series(f"手法 {run} $x_", run, [Mark(d, d - 5, d + 5, bool(abs(d) > 5)) for d in row])
        for run, row in enumerate(draw.tolist())
    ]


def test_a_forest_of_many_runs_takes_several_sheets_on_one_scale():
    groups = [(f"とても長い名前の診療科その{i}", 120) for i in range(13)]
    sheets = draw_forest(groups, make_series(13, 7), **LABELS)
    assert len(sheets) == 3
    sizes = [pixels(sheet.png).shape for sheet in sheets]
    assert {width for _, width in sizes} == {round(WIDTH_INCHES * 200)}
    assert sizes[0][0] > 13 * 60, "a department with three runs has more than 60 of 200 dots an inch"


def test_runs_stay_apart_without_colour():
    looks = {(stroke(i).marker, stroke(i).line) for i in range(32)}
    assert len(looks) == 32


def test_significance_is_seen_without_colour():
    def draw(firm: bool) -> np.ndarray:
        marks = [Mark(3.0, 1.0, 5.0, firm)] * 12
        groups = [(str(i), 9) for i in range(12)]
        return pixels(draw_forest(groups, [Series("a", 0, marks)], **LABELS)[0].png)

    assert (draw(True) < 128).sum() > (draw(False) < 128).sum() + 12 * 20


def test_an_interval_that_leaves_the_scale_does_not_crush_the_others():
    marks: list[Mark | None] = [Mark(1.0, -1.0, 3.0, False)] * 9 + [Mark(2.0, -60.0, 64.0, False), None]
    groups = [(str(i), 9) for i in range(11)]
    wide = pixels(draw_forest(groups, [Series("a", 0, marks)], **LABELS)[0].png)
    narrow = pixels(draw_forest(groups, [Series("a", 0, [*marks[:9], None, None])], **LABELS)[0].png)

    # The middle rows: how many columns the first interval darkens.
    def span(image: np.ndarray) -> int:
        return int((image[image.shape[0] // 2 - 200 : image.shape[0] // 2, 300:] < 150).any(axis=0).sum())

    assert span(wide) > span(narrow) / 2


@pytest.mark.parametrize("runs", [2, 5, 13])
def test_years_are_drawn_with_gaps(runs):
    years = [("2021", 400), ("年不明", 0), ("2023", 400)]
    lines = [YearLine(f"モデル {i}", [70.0 + i, None, 80.0], [(68.0, 73.0), None, (78.0, 82.0)]) for i in range(runs)]
    drawing = draw_years(years, lines, axis="正答率 (%)")
    assert pixels(drawing.png).std() > 0 and drawing.svg.startswith(b"<?xml")


def test_a_figure_without_a_single_mark_is_drawn():
    assert draw_forest([("内科", 0)], [Series("a", 0, [None])], **LABELS)[0].png


def test_the_same_figure_is_the_same_file():
    first, second = (draw_forest([("内科", 3)], make_series(1, 2), **LABELS)[0] for _ in range(2))
    assert first == second
