from medgrpo.report.chord_curves import describe_chord_curves, draw_chord_curves

CHORD = [
    {"step": 1, "loss": 1.0, "chord/mu": 0.0, "chord/policy_loss": 0.0, "rewards/ophtho/mean": 0.0},
    {"step": 2, "loss": 1.0, "chord/mu": 0.9, "chord/policy_loss": -0.125, "chord/sft_loss": 2.5},
    {"step": 3, "loss": 1.0, "chord/mu": 0.05, "chord/policy_loss": 0.25, "chord/sft_loss": 0.5,
     "rewards/ophtho/mean": 0.625},
    {"step": 3, "train_runtime": 1.0, "chord/mu": 0.05},
]  # fmt: skip
GRPO = [{"step": 1, "loss": 0.0, "rewards/ophtho/mean": 0.0}]


def test_table_of_the_steps() -> None:
    lines = describe_chord_curves(CHORD, GRPO).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["1", "0.000", "0.000", "-", "0.0", "%", "0.0", "%"],  # mu = 0: no SFT pass was made
        ["2", "0.900", "-0.125", "2.500", "0.0", "%", "0.0", "%"],  # no rollouts at this step: the last accuracy
        ["3", "0.050", "0.250", "0.500", "62.5", "%", "0.0", "%"],
    ]
    assert {len(line) for line in lines[1:]} == {len(lines[0])}
    assert "GRPO's" not in describe_chord_curves(CHORD)


def test_a_log_without_rewards_or_without_steps_is_shown_as_far_as_it_goes() -> None:
    rows = [{key: value for key, value in row.items() if "ophtho" not in key} for row in CHORD]
    assert describe_chord_curves(rows).splitlines()[-1].split() == ["3", "0.050", "0.250", "0.500", "-"]
    assert len(describe_chord_curves([]).splitlines()) == 1


def test_drawing_is_an_image_and_grpo_changes_it() -> None:
    alone, both = draw_chord_curves(CHORD), draw_chord_curves(CHORD, GRPO)
    assert alone.png.startswith(b"\x89PNG")
    assert alone.png != both.png
    assert draw_chord_curves([]).png.startswith(b"\x89PNG")
