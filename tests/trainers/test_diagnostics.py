"""The log of real runs: what is in it, that it is true for every method, and that it changes nothing."""

import logging
import math

import pytest
import torch
from example_rewards import hash_reward, share_of_vowels
from logged_rows import Listener
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

from medgrpo import MedGRPOConfig, MedGRPOTrainer, MOGRPOConfig, MOGRPOTrainer

SETTINGS = {
    "per_device_train_batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 8,
    "steps_per_generation": 2,
    "max_steps": 6,
    "learning_rate": 1e-2,
    "beta": 0.0,
    "seed": 3,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "log_completions": False,
    "disable_tqdm": True,
}
BOTH = [share_of_vowels, hash_reward]
NAMES = ("share_of_vowels", "hash_reward")


@pytest.fixture
def train(make_model, tokenizer, dataset, tmp_path):
    def run(
        trainer_class=MedGRPOTrainer, config_class=MedGRPOConfig, rewards=BOTH, model=None, data=dataset, **changes
    ):
        rows: list[dict] = []
        trainer = trainer_class(
            model=model or make_model(),
            processing_class=tokenizer,
            reward_funcs=rewards,
            train_dataset=data,
            eval_dataset=data.select(range(4)) if changes.get("eval_strategy") else None,
            args=config_class(output_dir=str(tmp_path), **{**SETTINGS, **changes}),
            callbacks=[Listener(rows)],
        )
        trainer.train()
        return trainer, [row for row in rows if "loss" in row], rows

    return run


def moe_model(tokenizer) -> Qwen3MoeForCausalLM:
    torch.manual_seed(7)
    config = Qwen3MoeConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        moe_intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        num_experts=4,
        num_experts_per_tok=2,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3MoeForCausalLM(config)


def test_large_reward_has_the_advantage_under_grpo_and_half_of_it_under_mo_grpo(train) -> None:
    _, grpo, _ = train()
    _, fair, _ = train(MOGRPOTrainer, MOGRPOConfig)
    for row in grpo[::2]:
        assert row["advantage_share/hash_reward"] > 0.9
        assert sum(row[f"advantage_share/{name}"] for name in NAMES) == pytest.approx(1)
        assert row["rewards/hash_reward/group_std"] > 5 * row["rewards/share_of_vowels/group_std"]
    for row in fair[::2]:
        assert 0.4 <= row["advantage_share_varying/share_of_vowels"] <= 0.6
        assert sum(row[f"advantage_share_varying/{name}"] for name in NAMES) == pytest.approx(1)
    # A generation serves two steps: rewards are logged at the first of them.
    assert "advantage_share/hash_reward" not in grpo[1]


@pytest.mark.parametrize("scale_rewards", ["group", "batch", "none"])
@pytest.mark.parametrize("aggregation", ["sum_then_normalize", "normalize_then_sum"])
def test_default_contributions_are_trls_advantages(train, monkeypatch, scale_rewards, aggregation) -> None:
    seen = []

    class Spy(MedGRPOTrainer):
        def advantage_contributions(self, rewards_per_func, num_generations):
            parts = super().advantage_contributions(rewards_per_func, num_generations)
            seen.append((parts.sum(dim=1), torch.tensor(list(self._logs["advantages"])[-len(parts) :])))
            return parts

    def sometimes(completions, **columns):
        return [None if "a" in text else len(text) / 3 for text in completions]

    # Every third completion is judged by nobody.
    def partly(completions, **columns):
        return [value if row % 3 else None for row, value in enumerate(hash_reward(completions))]

    settings = {"scale_rewards": scale_rewards, "multi_objective_aggregation": aggregation, "max_steps": 3}
    train(Spy, rewards=[sometimes, partly], reward_weights=[2.0, 0.5], **settings)
    assert seen
    for ours, trls in seen:
        torch.testing.assert_close(ours, trls, rtol=1e-4, atol=1e-4)


class Negated(MedGRPOTrainer):
    """A user's method that says nothing of its contributions."""

    def compute_advantages(self, rewards_per_func, num_generations):
        groups = rewards_per_func.sum(dim=1).view(-1, num_generations)
        return (groups.mean(dim=1, keepdim=True) - groups).flatten()


class NegatedWithContributions(Negated):
    """The same, and what each reward put in."""

    def advantage_contributions(self, rewards_per_func, num_generations):
        groups = rewards_per_func.view(-1, num_generations, 2)
        return (groups.mean(dim=1, keepdim=True) - groups).view(-1, 2)


def test_users_own_method_is_asked_for_its_contributions(train, caplog) -> None:
    logging.getLogger("transformers").propagate = True
    logging.getLogger("medgrpo").propagate = True
    with caplog.at_level(logging.WARNING):
        _, silent, _ = train(Negated, max_steps=2)
    assert not any(key.startswith("advantage_share") for key in silent[0])
    assert silent[0]["advantage_correlation/hash_reward"] < -0.9
    assert any("Negated" in record.getMessage() for record in caplog.records)
    _, told, _ = train(NegatedWithContributions, max_steps=2)
    assert told[0]["advantage_share/hash_reward"] > 0.9


def test_ratios_are_one_on_policy_and_leave_it_after_an_update(train) -> None:
    _, off_policy, _ = train()
    assert [row["ratio/token_max"] > 1.0001 for row in off_policy] == [False, True] * 3
    _, on_policy, _ = train(steps_per_generation=1)
    assert all(
        row["ratio/frac_exactly_one"] == row["ratio/token_max"] == row["ratio/seq_min"] == 1 for row in on_policy
    )
    assert all(row["ratio/token_spikes"] == 0 for row in on_policy)


def test_extremes_of_a_logged_window_are_those_of_its_steps(train) -> None:
    _, single, _ = train()
    _, window, _ = train(logging_steps=3)
    assert len(window) == 2
    for row, steps in zip(window, (single[:3], single[3:]), strict=True):
        assert row["ratio/token_max"] == pytest.approx(max(step["ratio/token_max"] for step in steps), rel=1e-4)
        assert row["ratio/seq_min"] == pytest.approx(min(step["ratio/seq_min"] for step in steps), rel=1e-4)


def test_accumulation_counts_every_micro_batch(train) -> None:
    shared = {"max_steps": 2, "num_iterations": 2}
    _, whole, _ = train(steps_per_generation=1, per_device_train_batch_size=16, **shared)
    _, parts, _ = train(steps_per_generation=2, gradient_accumulation_steps=2, **shared)
    for key in ("ratio/token_max", "ratio/token_min", "ratio/seq_max", "ratio/seq_min", "ratio/token_spike_share"):
        assert parts[1][key] == pytest.approx(whole[1][key], rel=1e-3)


def test_slope_is_of_the_logged_means(train) -> None:
    _, rows, _ = train()
    key = "rewards/hash_reward/"
    assert math.isnan(rows[0][key + "slope"] or math.nan)
    points = [(row["step"], row[key + "mean"]) for row in rows[::2]]
    assert rows[2][key + "slope"] == pytest.approx((points[1][1] - points[0][1]) / 2)
    by_hand = (points[2][1] - points[0][1]) / 4  # three equally spaced points: the middle one does not count
    assert rows[4][key + "slope"] == pytest.approx(by_hand)


def test_experts_that_change_are_counted(train, tokenizer) -> None:
    _, rows, _ = train(model=moe_model(tokenizer), learning_rate=5e-2)
    flips = [row["moe/expert_flip_rate"] for row in rows]
    assert flips[0] == flips[2] == flips[4] == 0, "the first update of a generation is by the rollout policy"
    assert all(0 < rate < 1 for rate in flips[1::2])
    _, on_policy, _ = train(model=moe_model(tokenizer), steps_per_generation=1)
    assert not any("moe/expert_flip_rate" in row for row in on_policy)


def test_parse_failures_are_logged_for_exams_only(train, dataset) -> None:
    exam = dataset.add_column("answer", [[["a"]]] * len(dataset))
    _, rows, _ = train(data=exam, max_steps=2)
    assert rows[0]["answers/parse_failure_rate"] == 1, "letters at random hold no [ans]"
    other = dataset.add_column("answer", ["42"] * len(dataset))
    _, rows, _ = train(data=other, max_steps=2)
    assert "answers/parse_failure_rate" not in rows[0]


def test_evaluations_have_the_log_too(train) -> None:
    _, _, rows = train(eval_strategy="steps", eval_steps=3, per_device_eval_batch_size=8, logging_steps=2)
    evaluated = [row for row in rows if "eval_loss" in row]
    assert [row["step"] for row in evaluated] == [3, 6]
    assert 0.9 < evaluated[0]["eval_advantage_share/hash_reward"] < 1.1
    assert evaluated[0]["eval_ratio/token_max"] == pytest.approx(1, abs=1e-5)
    # Step 3 was not logged yet when the evaluation was: its ratios are in the line of step 4.
    trained = [row for row in rows if "loss" in row]
    assert [row["step"] for row in trained] == [2, 4, 6]
    assert all(row["ratio/token_max"] > 1.0001 for row in trained)


def test_switched_off_it_logs_nothing_and_trains_the_same(train) -> None:
    one, with_it, _ = train()
    other, without, _ = train(diagnostics=False)
    ours = ("advantage_", "ratio/", "moe/", "answers/")
    assert not any(key.startswith(ours) or key.endswith(("group_std", "slope")) for row in without for key in row)
    assert any(key.startswith(ours) for key in with_it[0])
    assert "rewards/hash_reward/mean" in without[0]
    for left, right in zip(one.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(left, right)


def test_scoring_that_a_subclass_replaces_is_still_heard(train) -> None:
    class Replaced(MedGRPOTrainer):
        def _get_per_token_logps_and_entropies(self, model, input_ids, attention_mask, logits_to_keep, *args, **kwargs):
            logits = model(input_ids=input_ids, attention_mask=attention_mask).logits[:, -logits_to_keep - 1 : -1]
            logps = logits.log_softmax(dim=-1).gather(2, input_ids[:, -logits_to_keep:, None]).squeeze(2)
            return logps, torch.zeros_like(logps), None

    _, rows, _ = train(Replaced, max_steps=2)
    assert rows[1]["ratio/token_max"] > 1.0001
