"""Every detector fires where it must and stays silent where something only looks like it."""

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from healthy_log import ARGUMENTS, healthy_log

from medgrpo.audit.audit import audit_log
from medgrpo.audit.detectors import DETECTORS
from medgrpo.audit.training_log import TrainingLog, read_training_log
from medgrpo.evaluation.samples import Run, Sample

RUNS = Path(__file__).parent / "recorded"
GSPO = {**ARGUMENTS, "importance_sampling_level": "sequence", "epsilon": 3e-4, "epsilon_high": 4e-4}
JAPANESE, CHINESE = (
    "心電図でSTの上昇を認めるため、aが正しい。[ans]a[/ans]",
    "因为心电图显示上升。所以答案是。[ans]a[/ans]",
)


def kinds(log: TrainingLog) -> dict[str, str]:
    return {finding.kind: finding.severity for finding in audit_log(log).findings}


def answers(right: int, text: str = JAPANESE, n: int = 200, other: str = JAPANESE, others: int = 0) -> Run:
    """`right` of `n` questions answered correctly, the first `others` of them with another text."""
    shared = {"exam": "x", "year": 2022, "department": None, "text_only": True, "points": 1, "required": False}
    return Run(
        [
            Sample(
                id=f"q{i}",
                completion=other if i < others else text,
                parsed=["a"],
                parse_failure=False,
                correct=i < right,
                contraindicated_chosen=[],
                scoring="normal",
                **shared,
            )
            for i in range(n)
        ],
        {},
    )


def share_of(value: float):
    """Every batch: the reward ophtho has this share of the advantage where both vary."""
    return lambda row, done: {"advantage_share_varying/ophtho": value, "advantage_share_varying/japanese": 1 - value}


def rising(factor: float):
    return lambda row, done: {"completions/mean_length": 200 * (1 + (factor - 1) * done)}


FIRES = [
    ("dominant_reward", "problem", healthy_log(share_of(0.97))),
    # A weight of 0.2 asks for 0.02 of the share; the small reward has all of it.
    ("dominant_reward", "problem", healthy_log(share_of(0.03), weights={"ophtho": 1.0, "japanese": 0.2})),
    (
        "constant_reward",
        "note",
        healthy_log(lambda row, done: {"rewards/japanese/frac_constant": 1.0, "rewards/japanese/mean": 1.0}),
    ),
    ("drowned_reward", "warning", healthy_log(share_of(0.995))),
    ("dead_groups", "warning", healthy_log(lambda row, done: {"frac_reward_zero_std": 0.75})),
    ("dead_groups", "problem", healthy_log(lambda row, done: {"frac_reward_zero_std": 0.95})),
    (
        "gspo_is_grpo",
        "problem",
        healthy_log(lambda row, done: {"ratio/token_max": 1.0, "ratio/token_min": 1.0}, arguments=GSPO),
    ),
    ("ratio_one", "note", healthy_log(lambda row, done: {"ratio/token_max": 1.0000002, "ratio/token_min": 0.9999998})),
    ("everything_clipped", "warning", healthy_log(lambda row, done: {"clip_ratio/region_mean": 0.55})),
    ("everything_clipped", "problem", healthy_log(lambda row, done: {"clip_ratio/region_mean": 0.9}, arguments=GSPO)),
    ("ratio_spikes", "warning", healthy_log(lambda row, done: {"ratio/token_spike_share": 0.12})),
    ("reward_hacking", "warning", healthy_log(before=answers(100), after=answers(99))),
    ("reward_hacking", "problem", healthy_log(before=answers(120), after=answers(90))),
    (
        "language_drift",
        "warning",
        healthy_log(lambda row, done: {"rewards/japanese/mean": 0.98 - 0.3 * done}),
    ),
    ("language_drift", "problem", healthy_log(lambda row, done: {"rewards/japanese/mean": 0.98 - 0.9 * done})),
    (
        "language_drift_answers",
        "warning",
        healthy_log(before=answers(90), after=answers(120, other=CHINESE, others=40)),
    ),
    ("language_drift_answers", "problem", healthy_log(before=answers(90), after=answers(120, CHINESE))),
    ("length_explosion", "warning", healthy_log(rising(3))),
    ("truncation", "warning", healthy_log(lambda row, done: {"completions/clipped_ratio": 0.5 * done})),
    ("truncation", "problem", healthy_log(lambda row, done: {"completions/clipped_ratio": done})),
    ("parse_failures", "warning", healthy_log(lambda row, done: {"answers/parse_failure_rate": 0.3})),
    ("parse_failures", "problem", healthy_log(lambda row, done: {"answers/parse_failure_rate": done})),
    (
        "entropy_collapse",
        "problem",
        healthy_log(
            lambda row, done: {"entropy": 0.6 * math.exp(-6 * done), "frac_reward_zero_std": done, "reward": 1.0}
        ),
    ),
    ("kl_explosion", "warning", healthy_log(lambda row, done: {"kl": 4 * done})),
    ("kl_explosion", "problem", healthy_log(lambda row, done: {"kl": 20 * done})),
    ("broken_numbers", "problem", healthy_log(lambda row, done: {"grad_norm": math.nan} if row["step"] == 40 else {})),
    ("broken_numbers", "problem", healthy_log(lambda row, done: {"kl": math.inf} if row["step"] == 40 else {})),
]


@pytest.mark.parametrize(("kind", "severity", "log"), FIRES, ids=[f"{kind}-{severity}" for kind, severity, _ in FIRES])
def test_fires(kind: str, severity: str, log: TrainingLog) -> None:
    found = kinds(log)
    assert found.get(kind) == severity
    # It is the only thing that is wrong with this log.
    related = {"drowned_reward": {"dominant_reward"}, "dominant_reward": {"drowned_reward"}}
    assert found.keys() - {kind} <= related.get(kind, set())


LOOKS_LIKE_IT = {
    "the other reward is satisfied, so one decides": healthy_log(
        lambda row, done: {
            "rewards/japanese/frac_constant": 0.95,
            "advantage_share/ophtho": 0.99,
            "advantage_share/japanese": 0.01,
            "advantage_share_varying/ophtho": None,
            "advantage_share_varying/japanese": None,
        }
    ),
    "a weight of 10 asks for nearly everything": healthy_log(
        share_of(0.985), weights={"ophtho": 10.0, "japanese": 1.0}
    ),
    "a reward of weight 0 only watches": healthy_log(share_of(0.999), weights={"ophtho": 1.0, "japanese": 0.0}),
    "the guard was violated at first and is satisfied since": healthy_log(
        lambda row, done: {"rewards/japanese/frac_constant": 1.0 if done > 0.3 else 0.7}
    ),
    "many dead groups at the end of a run that went well": healthy_log(
        lambda row, done: {"frac_reward_zero_std": done}
    ),
    "ratios near 1 with GSPO's epsilons": healthy_log(
        lambda row, done: {"ratio/token_max": 1.0004, "ratio/token_min": 0.9997, "clip_ratio/region_mean": 0.15},
        arguments=GSPO,
    ),
    "spikes that GSPO averages away": healthy_log(lambda row, done: {"ratio/token_spike_share": 0.12}, arguments=GSPO),
    "accuracy rose with the reward": healthy_log(before=answers(100), after=answers(101)),
    "accuracy fell but the reward did not rise either": healthy_log(
        lambda row, done: {"reward": 2.0 + math.sin(row["step"]) / 10}, before=answers(100), after=answers(90)
    ),
    "too few held-out questions to say": healthy_log(before=answers(10, n=20), after=answers(9, n=20)),
    "two answers of 200 slipped": healthy_log(before=answers(90), after=answers(120, other=CHINESE, others=2)),
    "the answers were never Japanese": healthy_log(before=answers(90, CHINESE), after=answers(120, CHINESE)),
    "answers doubled and are still short": healthy_log(
        lambda row, done: {"completions/mean_length": 20 * (1 + 2 * done)}
    ),
    "answers grew by a half": healthy_log(rising(1.5)),
    "cut off at first, learned to be concise": healthy_log(
        lambda row, done: {"completions/clipped_ratio": 0.6 * (1 - done) ** 4}
    ),
    "unreadable at first, learned the format": healthy_log(
        lambda row, done: {"answers/parse_failure_rate": 0.9 * (1 - done) ** 4}
    ),
    "little entropy because the task is learned": healthy_log(
        lambda row, done: {"entropy": 0.6 * math.exp(-6 * done), "frac_reward_zero_std": done**2}
    ),
    "one step far away": healthy_log(lambda row, done: {"kl": 30.0 if row["step"] == 50 else 0.05}),
    "a metric that had no value": healthy_log(lambda row, done: {"advantage_share/ophtho": None, "kl": None}),
}


@pytest.mark.parametrize("log", LOOKS_LIKE_IT.values(), ids=LOOKS_LIKE_IT.keys())
def test_stays_silent(log: TrainingLog) -> None:
    assert kinds(log) == {}


@pytest.mark.parametrize("seed", range(20))
def test_healthy_runs_raise_nothing(seed: int) -> None:
    from healthy_log import WEIGHTS, healthy_rows

    log = TrainingLog(rows=healthy_rows(seed), weights=WEIGHTS, arguments=ARGUMENTS)
    log = replace(log, before=answers(90), after=answers(115))
    audit = audit_log(log)
    assert audit.findings == []
    assert set(audit.checks.values()) == {"clear"}, "a complete log lets every detector judge"


@pytest.mark.parametrize("run", ["grpo_tiny", "gspo_tiny"])
def test_recorded_runs_of_the_recipes_raise_nothing(run: str) -> None:
    assert kinds(read_training_log(RUNS / run)) == {}


def test_without_the_metrics_nothing_is_judged_and_nothing_claimed() -> None:
    rows = [{"step": step, "loss": random.Random(step).gauss(0, 1)} for step in range(1, 40)]
    audit = audit_log(TrainingLog(rows=rows, weights={"a": 1.0, "b": 1.0}))
    assert audit.findings == []
    judged = {name for name, result in audit.checks.items() if result != "unjudged"}
    assert judged == {"broken_numbers"}


def test_two_steps_are_too_few_to_judge() -> None:
    log = healthy_log(share_of(0.99))
    audit = audit_log(replace(log, rows=log.rows[:2]))
    assert audit.findings == []
    assert list(audit.checks) == [detector.__name__ for detector in DETECTORS]


def test_evaluations_stand_in_for_answers() -> None:
    log = healthy_log()
    falling = [{"step": step, "eval_rewards/ophtho/mean": 0.7 - step / 1000} for step in (10, 30, 50)]
    rising = [{"step": step, "eval_rewards/ophtho/mean": 0.7 + step / 1000} for step in (10, 30, 50)]
    assert kinds(replace(log, rows=[*log.rows, *falling])) == {"reward_hacking_evaluations": "warning"}
    assert kinds(replace(log, rows=[*log.rows, *rising])) == {}
