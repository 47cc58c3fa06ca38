import pytest

from medgrpo.report.reward_gains import describe_reward_gains, draw_reward_gains, read_reward_gains


def rows(values: list[float | None], share: float | None) -> list[dict]:
    """A run that logged rewards at every other step, as one whose rollouts serve two updates does."""
    logged = []
    for step, value in enumerate(values):
        row = {"step": 2 * step + 1, "reward": 1.0, "rewards/right/mean": value, "rewards/length/mean": 30.0 + step}
        if share is not None:
            row |= {"advantage_share/right": share, "advantage_share/length": 1 - share}
        logged += [row, {"step": 2 * step + 2, "loss": 0.1}]
    return [*logged, {"step": 99, "train_runtime": 3.0}]


LOW = rows([0.3, 0.3, 0.4, 0.3, 0.3, 0.4, 0.3, 0.4, 0.4, 0.2], 0.02)
HIGH = rows([0.3, 0.4, 0.5, 0.6, 0.6, 0.7, 0.7, 0.8, 0.8, 0.9], None)


def test_end_is_the_mean_of_the_last_fifth() -> None:
    gains = read_reward_gains(LOW)
    assert list(gains) == ["right", "length"]
    right = gains["right"]
    assert [right.start, right.end, right.share] == pytest.approx([0.3, 0.3, 0.02])
    assert right.share_varying is None
    assert gains["length"].end == 38.5
    assert read_reward_gains(HIGH)["right"].share is None


def test_gaps_are_passed_over() -> None:
    gains = read_reward_gains(rows([float("nan"), None, 0.5, 0.7], 0.5))
    assert (gains["right"].start, gains["right"].end) == (0.5, 0.7)


def test_table_has_a_line_a_reward_and_the_figure_draws_it() -> None:
    runs = {"GRPO": LOW, "MO-GRPO": HIGH}
    lines = describe_reward_gains(runs).splitlines()
    assert lines[1].split() == ["reward", "GRPO", "MO-GRPO", "start", "GRPO", "MO-GRPO"]
    assert lines[2].split() == ["right", "2", "%", "-", "0.3", "0.3", "0.85"]
    assert lines[3].split() == ["length", "98", "%", "-", "30", "38.5", "38.5"]
    assert len({len(line.rstrip()) for line in lines[1:]}) == 1
    drawing = draw_reward_gains(runs)
    assert drawing.png.startswith(b"\x89PNG")
    assert len(drawing.png) > 10_000


def test_a_run_of_one_logged_step() -> None:
    single = {"AW-GDPO": rows([0.25], 1.0)}
    assert describe_reward_gains(single).splitlines()[2].split() == ["right", "100", "%", "0.25", "0.25"]
    assert draw_reward_gains(single).png.startswith(b"\x89PNG")
