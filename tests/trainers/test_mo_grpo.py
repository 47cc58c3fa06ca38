"""MO-GRPO, GDPO and AW-GRPO as trainers: what reaches the loss, the log and the checkpoint."""

import logging
from dataclasses import dataclass

import pytest
import torch
from example_rewards import hash_reward, share_of_vowels
from trl import GRPOConfig, GRPOTrainer

from medgrpo import GSPOConfig, GSPOTrainer, MedGRPOConfig, MedGRPOTrainer, MOGRPOConfig, MOGRPOTrainer
from medgrpo.advantages import advantage_contributions, gdpo_advantages, grpo_advantages, mo_grpo_advantages
from medgrpo.errors import MedgrpoError
from medgrpo.rewards import consensus
from medgrpo.trainers.adaptive_weights import AdaptiveWeights
from medgrpo.trainers.reward_calls import RewardError
from medgrpo.trainers.run_log import read_metrics

SETTINGS = {
    "per_device_train_batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 8,
    "steps_per_generation": 2,
    "max_steps": 4,
    "learning_rate": 1e-2,
    "beta": 0.0,
    "seed": 3,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
}
BOTH = [share_of_vowels, hash_reward]


def wide(completions, **columns):
    """`share_of_vowels` in other units."""
    return [1000 * reward + 20 for reward in share_of_vowels(completions)]


def constant(completions, **columns):
    return [0.7 for _ in completions]


def no_say(completions, **columns):
    return [None for _ in completions]


class Kept:
    """Keeps every batch's raw rewards and the advantages that go to the loss."""

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        self.seen = [*getattr(self, "seen", []), (self.raw, output["advantages"])]
        return output

    def _calculate_rewards(self, *args):
        self.raw = super()._calculate_rewards(*args)
        return self.raw


class KeptMOGRPO(Kept, MOGRPOTrainer):
    pass


class KeptTRL(Kept, GRPOTrainer):
    pass


@pytest.fixture
def build(make_model, tokenizer, dataset, tmp_path):
    def make(trainer_class=MOGRPOTrainer, config_class=MOGRPOConfig, rewards=BOTH, folder="run", **changes):
        base = tmp_path / "base"
        make_model().save_pretrained(base)
        settings = {**SETTINGS, **changes}
        if issubclass(config_class, MedGRPOConfig):
            settings.setdefault("log_completions", False)
        return trainer_class(
            model=str(base),
            processing_class=tokenizer,
            reward_funcs=list(rewards),
            train_dataset=dataset,
            eval_dataset=dataset.select(range(8)) if "eval_strategy" in changes else None,
            args=config_class(output_dir=str(tmp_path / folder), **settings),
        )

    return make


@pytest.fixture
def train(build):
    def run(*args, resume=None, **changes):
        trainer = build(*args, **changes)
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    return run


def largest_difference(first, second) -> float:
    second = dict(second.model.named_parameters())
    return max((value - second[name]).abs().max().item() for name, value in first.model.named_parameters())


@pytest.mark.parametrize(("advantage", "function"), [("mo_grpo", mo_grpo_advantages), ("gdpo", gdpo_advantages)])
def test_its_advantages_reach_the_loss_and_the_log(train, make_model, tmp_path, advantage, function) -> None:
    trainer = train(
        KeptMOGRPO, rewards=[*BOTH, constant], advantage=advantage, reward_weights=[1.5, 1.0, 2.0], log_completions=True
    )
    assert len(trainer.seen) == 2
    for raw, used in trainer.seen:
        assert raw.shape == (16, 3)
        torch.testing.assert_close(used, function(raw, 4, [1.5, 1.0, 2.0]))
        assert used.abs().max() > 0.5
    start = dict(make_model().named_parameters())
    still = [name for name, value in trainer.model.named_parameters() if torch.equal(value, start[name])]
    assert not still, f"parameters that four steps did not move: {still}"
    first = read_metrics(tmp_path / "run")[0]
    assert first["rewards/constant/mean"] == pytest.approx(0.7)
    assert first["advantage_share/constant"] == 0
    assert first["advantage_share/share_of_vowels"] + first["advantage_share/hash_reward"] == pytest.approx(1)
    torch.testing.assert_close(torch.tensor(list(trainer._logs["advantages"])), used)


def test_units_of_a_reward_do_not_change_the_training_as_they_do_under_grpo(train) -> None:
    here, there = train(), train(rewards=[wide, hash_reward])
    assert largest_difference(here, there) < 1e-5
    here, there = train(advantage="grpo"), train(advantage="grpo", rewards=[wide, hash_reward])
    assert largest_difference(here, there) > 1e-3


def test_equal_weights_give_equal_shares_where_grpo_gives_the_wide_one_all(train, tmp_path) -> None:
    train(folder="mo")
    train(folder="grpo", advantage="grpo")
    key = "advantage_share_varying/"
    for row in read_metrics(tmp_path / "mo"):
        if row.get(f"{key}hash_reward") is not None:
            assert row[f"{key}hash_reward"] == pytest.approx(0.5, abs=1e-6)
    first = read_metrics(tmp_path / "grpo")[0]
    assert first["advantage_share/hash_reward"] > 0.9


def test_choosing_grpo_is_trls_grpo(train) -> None:
    # Rows of a prompt meet in micro-batches: TRL's gradient where all of these make one optimizer step, but for
    # rounding, which AdamW enlarges where a gradient is nearly 0.
    settings = {"reward_weights": [1.5, 1.0], "gradient_accumulation_steps": 2, "adam_epsilon": 1e-5}
    ours = train(advantage="grpo", **settings)
    theirs = train(GRPOTrainer, GRPOConfig, loss_type="grpo", temperature=0.9, **settings)
    assert largest_difference(ours, theirs) < 1e-5


@pytest.mark.parametrize(("scale", "method"), [("group", "grpo"), ("batch", "grpo_batch"), ("none", "dr_grpo")])
def test_grpo_advantages_are_trls_but_for_its_epsilon(train, scale, method) -> None:
    trainer = train(KeptTRL, GRPOConfig, rewards=[*BOTH, no_say], scale_rewards=scale, max_steps=2)
    for raw, used in trainer.seen:
        torch.testing.assert_close(used, grpo_advantages(raw, 4, scale=scale), atol=2e-3, rtol=2e-3)
        parts = advantage_contributions(raw, 4, method=method)
        assert (parts[:, 2] == 0).all()


def test_single_reward_is_grpo_and_is_warned_about_once(train, caplog) -> None:
    logging.getLogger("transformers").propagate = True
    logging.getLogger("medgrpo.trainers.mo_grpo").propagate = True
    with caplog.at_level(logging.WARNING):
        # sgd: Adam would make a large step of TRL's epsilon in a tiny gradient.
        alone = train(rewards=[hash_reward], optim="sgd")
        train(rewards=[hash_reward], optim="sgd")
    assert len([r for r in caplog.records if "single reward equals GRPO" in r.getMessage()]) == 1
    assert largest_difference(alone, train(rewards=[hash_reward], optim="sgd", advantage="grpo")) < 1e-5


class T(MOGRPOTrainer):
    pass


class GSPOAndMOGRPO(KeptMOGRPO, GSPOTrainer):
    pass


@dataclass
class GSPOAndMOGRPOConfig(GSPOConfig, MOGRPOConfig):
    pass


def test_it_combines_with_sequence_ratios(train, make_model, tmp_path) -> None:
    trainer = train(T, importance_sampling_level="sequence", epsilon=3e-4, epsilon_high=4e-4)
    start = dict(make_model().named_parameters())
    assert all(not torch.equal(value, start[name]) for name, value in trainer.model.named_parameters())
    assert max(row.get("clip_ratio/region_mean", 0) for row in read_metrics(tmp_path / "run")) > 0
    both = train(GSPOAndMOGRPO, GSPOAndMOGRPOConfig)
    assert (both.args.importance_sampling_level, both.args.epsilon, both.args.advantage) == (
        "sequence", 3e-4, "mo_grpo",
    )  # fmt: skip
    raw, used = both.seen[0]
    torch.testing.assert_close(used, mo_grpo_advantages(raw, 4))


def opposite(completions, **columns):
    return [1 - reward for reward in share_of_vowels(completions)]


def test_share_of_dead_groups_is_about_these_advantages(train, tmp_path) -> None:
    # The sum is constant in every group. MO-GRPO agrees that there is nothing to learn at equal weights only.
    train(rewards=[share_of_vowels, opposite], folder="even")
    train(rewards=[share_of_vowels, opposite], folder="uneven", reward_weights=[2.0, 1.0])
    assert read_metrics(tmp_path / "even")[0]["frac_reward_zero_std"] == 1
    assert read_metrics(tmp_path / "uneven")[0]["frac_reward_zero_std"] == 0


def test_evaluation_with_larger_and_single_groups(train, tmp_path) -> None:
    evaluation = {"eval_strategy": "steps", "eval_steps": 2, "log_completions": True, "completions_every": 2}
    train(**evaluation, per_device_eval_batch_size=32, folder="large")
    train(**evaluation, per_device_eval_batch_size=4, num_generations_eval=1, folder="single")
    for folder in ("large", "single"):
        rows = [row for row in read_metrics(tmp_path / folder) if "eval_reward" in row]
        assert [row["step"] for row in rows] == [2, 4]
        assert all(row["eval_reward"] == row["eval_reward"] for row in rows)
    assert rows[0]["eval_frac_reward_zero_std"] == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"advantage": "gspo"}, "'gspo': has to be one of mo_grpo, gdpo, grpo"),
        ({"scale_rewards": "none"}, "scale_rewards='none' would be ignored"),
        ({"scale_rewards": "batch", "advantage": "gdpo"}, "would be ignored: gdpo"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "advantage='gdpo'"),
        ({"reward_weights": [1.0, float("inf")]}, "finite"),
        ({"reward_weights": [1.0, 0.0], "adapt_reward_weights": True}, "above 0"),
        ({"reward_weight_window": 1}, "at least 2"),
    ],
)
def test_settings_under_which_it_is_not_itself_are_refused(tmp_path, changes, reason) -> None:
    with pytest.raises(ValueError, match=reason):
        MOGRPOConfig(output_dir=str(tmp_path), **{**SETTINGS, **changes})


def test_grpo_with_trls_own_scaling_is_allowed(tmp_path) -> None:
    settings = MOGRPOConfig(output_dir=str(tmp_path), **SETTINGS, advantage="grpo", scale_rewards="none")
    assert settings.scale_rewards == "none"


def test_weights_and_configs_that_do_not_fit_are_refused_at_construction(build) -> None:
    with pytest.raises(ValueError, match=r"weights \(3\) must match number of reward functions \(2\)"):
        build(reward_weights=[1.0, 1.0, 1.0])
    with pytest.raises(MedgrpoError, match="nothing to weigh it against"):
        build(rewards=[hash_reward], adapt_reward_weights=True)
    with pytest.raises(TypeError, match="MOGRPOConfig"):
        build(MOGRPOTrainer, MedGRPOConfig)


def broken(completions, **columns):
    return [float("inf") if index == 5 else 1.0 for index, _ in enumerate(completions)]


def scalars(completions, **columns):
    return torch.tensor(hash_reward(completions), dtype=torch.float64)


def test_bad_rewards_stop_the_training_by_name_and_scalars_do_not(train) -> None:
    for trainer_class, config_class in ((MOGRPOTrainer, MOGRPOConfig), (MedGRPOTrainer, MedGRPOConfig)):
        with pytest.raises(RewardError, match="'broken' returned inf for completion 5 of 16"):
            train(trainer_class, config_class, rewards=[share_of_vowels, broken])
    assert largest_difference(train(rewards=[share_of_vowels, scalars]), train()) < 1e-6


def test_consensus_trains_in_groups(train) -> None:
    trainer = train(KeptMOGRPO, rewards=[consensus, hash_reward], max_steps=1)
    raw, used = trainer.seen[0]
    assert raw[:, 0].isfinite().all()
    assert raw[:, 0].max() <= 1
    assert used.abs().max() > 0.5


# ----- AW-GRPO ---------------------------------------------------------------------------------------------------


def test_weights_adapt_as_published_and_are_logged(train, tmp_path) -> None:
    trainer = train(
        KeptMOGRPO, adapt_reward_weights=True, reward_weight_window=2, reward_weights=[1.5, 0.5], max_steps=6
    )
    means = torch.stack([raw.mean(0) for raw, _ in trainer.seen]).tolist()
    shares = torch.tensor([0.75, 0.25], dtype=torch.float64)
    for (before, after), (raw, used) in zip(zip(means, means[1:], strict=False), trainer.seen[1:], strict=True):
        shares = shares * torch.exp(-(torch.tensor(after) - torch.tensor(before)).double())
        shares = shares.clamp(0.1, 0.8)
        shares = shares / shares.sum()
        torch.testing.assert_close(used, mo_grpo_advantages(raw, 4, 2 * shares))
    torch.testing.assert_close(trainer.reward_weights, (2 * shares).float())
    rows = [row for row in read_metrics(tmp_path / "run") if "rewards/hash_reward/weight" in row]
    assert rows[0]["rewards/hash_reward/weight"] == 0.5  # the window is not full yet
    assert rows[-1]["rewards/hash_reward/weight"] == pytest.approx(2 * shares[1].item())
    assert rows[-1]["rewards/hash_reward/weight"] != 0.5


@pytest.mark.parametrize("restore", [False, True])
def test_resumed_run_with_adapting_weights_equals_the_uninterrupted_one(train, tmp_path, restore) -> None:
    adapting = {"adapt_reward_weights": True, "reward_weight_window": 2, "max_steps": 8, "advantage": "grpo"}
    whole = train(folder="whole", **adapting)
    cut = {**adapting, "folder": "cut", "save_strategy": "steps", "save_steps": 4}
    train(**cut)
    resumed = train(
        resume=str(tmp_path / "cut" / "checkpoint-4"), restore_callback_states_from_checkpoint=restore, **cut
    )
    assert resumed.reward_weights.tolist() == whole.reward_weights.tolist() != [1.0, 1.0]
    assert largest_difference(whole, resumed) < 1e-6
    weights = [row.get("rewards/hash_reward/weight") for row in read_metrics(tmp_path / "whole")]
    assert weights == [row.get("rewards/hash_reward/weight") for row in read_metrics(tmp_path / "cut")]
    # A checkpoint from before the weights adapted has none: they start here.
    train(folder="plain", max_steps=4, save_strategy="steps", save_steps=4)
    later = {**adapting, "folder": "plain", "save_strategy": "steps", "save_steps": 4}
    fresh = train(resume=str(tmp_path / "plain" / "checkpoint-4"), **later)
    adaptive = next(c for c in fresh.callback_handler.callbacks if isinstance(c, AdaptiveWeights))
    assert [len(means) for means in adaptive.means] == [2, 2]
