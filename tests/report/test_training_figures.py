import warnings
from io import BytesIO

import matplotlib
import numpy as np
import pytest
from matplotlib import font_manager
from PIL import Image

from medgrpo.evaluation.score import Summary, Tally
from medgrpo.report.figure_style import FONTS, Drawing
from medgrpo.report.training_figures import draw_accuracy, draw_learning_curve, read_learning_curve


@pytest.fixture(autouse=True)
def missing_glyphs_are_errors():
    """Matplotlib warns where it draws a box instead of a character."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def row(step: int, reward: float, **rewards: float) -> dict:
    means = {f"rewards/{name}/mean": value for name, value in rewards.items()}
    return {"step": step, "reward": reward, "reward_std": 0.5, "loss": 0.1, **means, "rewards/a/std": 9.0}


def summary(correct: int, **more) -> Summary:
    years = {0: Tally(5, 1, 0), 2024: Tally(10, correct // 2, 0), 2025: Tally(0, 0, 0)}
    fields = {"text_only": Tally(8, 3, 0), "by_year": years, **more}
    return Summary(n=20, correct=correct, parse_failures=1, excluded=0, credited=0, **fields)


def pixels(drawing: Drawing) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(drawing.png)).convert("L"))


def test_the_curve_is_read_from_training_rows_alone():
    metrics = [
        {"step": 0, "eval_accuracy": 0.2},
        row(2, 1.5, ophtho=0.5, chinese=1.0),
        row(1, 1.0, ophtho=0.25),
        row(2, 1.75, ophtho=0.75, chinese=float("nan")),
        {"step": 2, "train_runtime": 12.0},
    ]
    curve = read_learning_curve(metrics)
    assert curve.steps == [1, 2]
    assert curve.reward == [1.0, 1.75]
    assert curve.rewards == {"ophtho": [0.25, 0.75], "chinese": [None, None]}
    assert read_learning_curve([]) is None
    assert read_learning_curve([{"step": 1, "loss": 2.0}]) is None


@pytest.mark.parametrize("steps", [1, 7, 300])
def test_a_curve_of_any_length_is_drawn_across_the_whole_width(steps):
    curve = read_learning_curve([row(i, i / steps, ophtho=i / steps, 日本語=0.5) for i in range(1, steps + 1)])
    drawn = pixels(draw_learning_curve(curve))
    assert drawn.shape[1] == 1024
    assert (drawn[:, -60:] < 200).any(), "nothing stands at the right edge"


def test_a_log_without_single_rewards_and_with_gaps_is_drawn():
    curve = read_learning_curve([row(i, float("nan") if i % 2 else 1.0) for i in range(1, 90)])
    assert pixels(draw_learning_curve(curve)).std() > 0


def test_accuracy_figure_shows_the_gain():
    low, high = pixels(draw_accuracy(summary(4), summary(4))), pixels(draw_accuracy(summary(4), summary(18)))
    assert low.shape == high.shape
    assert (high < 200).sum() > (low < 200).sum() + 1000


def test_no_bar_for_text_only_where_every_question_is(monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "medgrpo.report.training_figures._draw_bars", lambda axes, xs, tallies, *_: drawn.append(tallies)
    )
    monkeypatch.setattr("matplotlib.axes.Axes.legend", lambda *_, **__: None)
    draw_accuracy(summary(4), summary(5))
    assert [t.n for t in drawn[0]] == [20, 8, 5, 10], "all, text only, no year, 2024; 2025 has none"
    drawn.clear()
    draw_accuracy(summary(4, text_only=Tally(20, 4, 1)), summary(5, text_only=Tally(20, 5, 1)))
    assert [t.n for t in drawn[0]] == [20, 5, 10]


def test_japanese_font_is_carried_by_a_package_and_nobodys_default():
    path = font_manager.findfont(FONTS[0], fallback_to_default=False)
    assert path.endswith("ipaexg.ttf")
    glyphs = font_manager.get_font(path).get_charmap()
    assert all(ord(character) in glyphs for character in "報酬学習前後正答率文字年不明移動平均線太各重")
    assert matplotlib.rcParams["font.family"] == matplotlib.rcParamsDefault["font.family"]
