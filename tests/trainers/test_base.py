import json
from pathlib import Path

import pytest
import torch
from example_rewards import hash_reward, share_of_vowels
from trl import GRPOConfig, GRPOTrainer

from medgrpo import GSPOConfig, GSPOTrainer, MedGRPOConfig, MedGRPOTrainer
from medgrpo.trainers.run_log import METRICS, RUN_FILE, read_metrics

SETTINGS = {
    "per_device_train_batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 8,
    "steps_per_generation": 2,
    "max_steps": 5,
    "learning_rate": 1e-2,
    "beta": 0.1,
    "temperature": 0.9,
    "loss_type": "grpo",
    "epsilon": 0.2,
    "seed": 3,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "logging_steps": 1,
    "disable_tqdm": True,
}


@pytest.fixture
def train(make_model, tokenizer, dataset, tmp_path):
    def run(trainer_class, config_class, rewards=share_of_vowels, resume=None, folder="run", **changes):
        settings = {**SETTINGS, **changes}
        if issubclass(config_class, MedGRPOConfig):
            settings.setdefault("log_completions", False)
        base = tmp_path / "base"
        make_model().save_pretrained(base)
        trainer = trainer_class(
            model=str(base),
            processing_class=tokenizer,
            reward_funcs=rewards,
            train_dataset=dataset,
            args=config_class(output_dir=str(tmp_path / folder), **settings),
        )
        trainer.train(resume_from_checkpoint=resume)
        return trainer

    return run


def parameters(trainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in trainer.model.named_parameters()}


def largest_difference(first, second) -> float:
    first, second = parameters(first), parameters(second)
    return max((first[name] - second[name]).abs().max().item() for name in first)


# Prompts are shared, and rows of a prompt meet in micro-batches: TRL's gradient, within one optimizer step, but for
# rounding, which AdamW enlarges where a gradient is nearly 0.
ONE_STEP = {"gradient_accumulation_steps": 2, "num_iterations": 2, "adam_epsilon": 1e-5}


def test_equals_trls_grpo_after_five_steps(train, make_model) -> None:
    ours, theirs = train(MedGRPOTrainer, MedGRPOConfig, **ONE_STEP), train(GRPOTrainer, GRPOConfig, **ONE_STEP)
    assert ours.packed_passes
    assert largest_difference(ours, theirs) < 1e-5
    start = dict(make_model().named_parameters())
    still = [name for name, value in parameters(ours).items() if torch.equal(value, start[name])]
    assert not still, f"parameters that five steps did not move: {still}"


def test_gspo_equals_trl_with_the_same_settings_and_differs_from_grpo(train) -> None:
    epsilons = {"epsilon": 3e-4, "epsilon_high": 4e-4, **ONE_STEP}
    ours = train(GSPOTrainer, GSPOConfig, **epsilons)
    theirs = train(
        GRPOTrainer,
        GRPOConfig,
        importance_sampling_level="sequence",
        use_bias_correction_kl=False,
        **epsilons,
    )
    assert largest_difference(ours, theirs) < 1e-5
    assert largest_difference(ours, train(MedGRPOTrainer, MedGRPOConfig, **ONE_STEP)) > 1e-4


def test_two_rewards_with_weights_equal_trls(train) -> None:
    both = {"rewards": [share_of_vowels, hash_reward], "reward_weights": [1.5, 1.0], **ONE_STEP}
    assert (
        largest_difference(train(MedGRPOTrainer, MedGRPOConfig, **both), train(GRPOTrainer, GRPOConfig, **both)) < 1e-5
    )


def test_same_seed_same_parameters_other_seed_others(train) -> None:
    first = train(MedGRPOTrainer, MedGRPOConfig)
    assert largest_difference(first, train(MedGRPOTrainer, MedGRPOConfig)) == 0
    assert largest_difference(first, train(MedGRPOTrainer, MedGRPOConfig, seed=4)) > 1e-4


class SignFlipped(MedGRPOTrainer):
    """Advantages by hand from the raw rewards: TRL's, with the sign turned round."""

    def compute_advantages(self, rewards_per_func, num_generations):
        assert rewards_per_func.shape == (16, 1)
        groups = rewards_per_func[:, 0].view(-1, num_generations)
        centred = groups - groups.mean(dim=1, keepdim=True)
        return -(centred / (groups.std(dim=1, keepdim=True) + 1e-4)).flatten()


def test_advantages_hook_decides_the_direction(train) -> None:
    one_step = {
        "max_steps": 1,
        "beta": 0.0,
        "optim": "sgd",
        "max_grad_norm": 0.0,
        "lr_scheduler_type": "constant",
    }
    plain = parameters(train(MedGRPOTrainer, MedGRPOConfig, **one_step))
    flipped_trainer = train(SignFlipped, MedGRPOConfig, **one_step)
    flipped = parameters(flipped_trainer)
    start = parameters(train(MedGRPOTrainer, MedGRPOConfig, **{**one_step, "learning_rate": 0.0}))
    moved = 0.0
    for name, value in start.items():
        torch.testing.assert_close(flipped[name] - value, value - plain[name], atol=1e-6, rtol=1e-3)
        moved = max(moved, (plain[name] - value).abs().max().item())
    assert moved > 1e-5
    # The table of completions shows the advantages that were used.
    rewards = torch.tensor(list(flipped_trainer._logs["rewards"]["share_of_vowels"])).view(-1, 4)
    shown = torch.tensor(list(flipped_trainer._logs["advantages"])).view(-1, 4)
    best = rewards.argmax(dim=1)
    assert (shown[torch.arange(len(best)), best] < 0).all()


class PullToZero(MedGRPOTrainer):
    """A loss term of the extra kind: half the squared norm of the parameters."""

    def extend_loss(self, loss, model, inputs):
        penalty = 0.5 * sum((value**2).sum() for value in model.parameters())
        return 0 * loss + penalty / self.current_gradient_accumulation_steps


@pytest.mark.parametrize("accumulation", [1, 2])
def test_extra_loss_hook_is_the_loss(train, make_model, accumulation: int) -> None:
    trainer = train(
        PullToZero,
        MedGRPOConfig,
        max_steps=1,
        optim="sgd",
        max_grad_norm=0.0,
        learning_rate=0.1,
        lr_scheduler_type="constant",
        gradient_accumulation_steps=accumulation,
        router_aux_loss_coef=0.0,
    )
    start = dict(make_model().named_parameters())
    for name, value in parameters(trainer).items():
        torch.testing.assert_close(value, 0.9 * start[name], atol=1e-6, rtol=1e-5)


def test_run_folder_holds_metrics_and_settings(train, tmp_path: Path) -> None:
    train(MedGRPOTrainer, MedGRPOConfig, rewards=[share_of_vowels, hash_reward], reward_weights=[1.5, 1.0])
    rows = read_metrics(tmp_path / "run")
    steps = [row for row in rows if "loss" in row]
    assert [row["step"] for row in steps] == [1, 2, 3, 4, 5]
    assert {"rewards/share_of_vowels/mean", "rewards/hash_reward/std", "kl", "clip_ratio/region_mean"} <= set(steps[0])
    settings = json.loads((tmp_path / "run" / RUN_FILE).read_text())
    assert settings["seed"] == 3
    assert settings["rewards"] == {"share_of_vowels": 1.5, "hash_reward": 1.0}
    assert settings["versions"]["torch"] == torch.__version__
    assert settings["arguments"]["learning_rate"] == 1e-2


def test_resumed_run_continues_and_logs_no_step_twice(train, tmp_path: Path) -> None:
    whole = train(MedGRPOTrainer, MedGRPOConfig, folder="whole", max_steps=6)
    saving = {"save_strategy": "steps", "save_steps": 4, "folder": "cut", "max_steps": 6}
    train(MedGRPOTrainer, MedGRPOConfig, **saving)
    resumed = train(MedGRPOTrainer, MedGRPOConfig, resume=str(tmp_path / "cut" / "checkpoint-4"), **saving)
    assert [r["step"] for r in read_metrics(tmp_path / "cut") if "loss" in r] == [1, 2, 3, 4, 5, 6]
    assert largest_difference(whole, resumed) < 1e-6


def test_torn_last_line_of_the_metrics_is_dropped(tmp_path: Path) -> None:
    (tmp_path / METRICS).write_text('{"step": 1, "reward": 0.5}\n{"step": 2, "rew')
    assert read_metrics(tmp_path) == [{"step": 1, "reward": 0.5}]
    assert read_metrics(tmp_path / "nowhere") == []


def test_table_of_completions_comes_every_so_many_steps(train, tmp_path: Path, capsys) -> None:
    train(MedGRPOTrainer, MedGRPOConfig, log_completions=True, completions_every=2, num_completions_to_print=1)
    files = sorted(path.name for path in (tmp_path / "run" / "completions").iterdir())
    assert files == ["completions_00002.parquet", "completions_00004.parquet"]
    assert "Step 2" in capsys.readouterr().out


def test_config_of_another_method_is_refused(train) -> None:
    with pytest.raises(TypeError, match="GSPOConfig"):
        train(GSPOTrainer, MedGRPOConfig)
    with pytest.raises(TypeError, match="MedGRPOConfig"):
        train(MedGRPOTrainer, GRPOConfig)
