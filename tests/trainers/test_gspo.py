import logging
import math

import pytest
import torch
from trl import GRPOTrainer

from medgrpo import GSPOConfig, GSPOTrainer, MedGRPOConfig

CPU = {"use_cpu": True, "bf16": False, "report_to": "none"}


def config(tmp_path, **changes) -> GSPOConfig:
    return GSPOConfig(output_dir=str(tmp_path), **{**CPU, "per_device_train_batch_size": 16, **changes})


def test_defaults_are_the_vetted_ones(tmp_path) -> None:
    settings = config(tmp_path, gradient_accumulation_steps=2)
    assert settings.importance_sampling_level == "sequence"
    assert settings.loss_type == "grpo"
    assert (settings.epsilon, settings.epsilon_high) == (3e-4, 4e-4)
    assert settings.steps_per_generation == 8
    assert settings.optimizer_steps_per_generation == 4
    assert (settings.learning_rate, settings.beta, settings.num_generations, settings.temperature) == (
        1e-6,
        0.1,
        16,
        0.9,
    )


def test_grpo_defaults_are_the_seeds(tmp_path) -> None:
    settings = MedGRPOConfig(output_dir=str(tmp_path), **CPU, per_device_train_batch_size=16)
    assert (settings.learning_rate, settings.beta, settings.num_generations, settings.temperature) == (
        1e-6,
        0.1,
        16,
        0.9,
    )
    assert (settings.loss_type, settings.epsilon, settings.importance_sampling_level) == (
        "grpo",
        0.2,
        "token",
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"loss_type": "dapo"}, "as it is long"),
        ({"loss_type": "dr_grpo"}, "as it is long"),
        ({"importance_sampling_level": "token"}, "not GSPO"),
        ({"steps_per_generation": 1}, "exactly 1"),
        ({"steps_per_generation": 4, "gradient_accumulation_steps": 4}, "exactly 1"),
        ({"generation_batch_size": 16}, "exactly 1"),
    ],
)
def test_settings_under_which_it_is_not_gspo_are_refused(tmp_path, changes, reason) -> None:
    with pytest.raises(ValueError, match=reason):
        config(tmp_path, **changes)


def test_reused_rollouts_are_enough_for_ratios(tmp_path) -> None:
    assert not config(tmp_path, steps_per_generation=1, num_iterations=2).ratios_are_one


def test_wide_epsilon_is_warned_about_once(tmp_path, caplog) -> None:
    logging.getLogger("transformers").propagate = True
    logger = logging.getLogger("medgrpo.trainers.gspo_config")
    logger.propagate = True
    with caplog.at_level(logging.WARNING):
        config(tmp_path, epsilon=0.2, epsilon_high=0.3)
        config(tmp_path, epsilon=0.2, epsilon_high=0.3)
        config(tmp_path)
    assert len([r for r in caplog.records if "next to nothing is clipped" in r.getMessage()]) == 1


# The seed's example: five tokens, the third's expert changed and its ratio jumped to 2.5.
RATIOS = (1.0, 1.1, 2.5, 0.9, 1.0)
SEQUENCE_RATIO = 1.1987


@pytest.mark.parametrize(
    ("epsilon_high", "advantage", "clipped"),
    [(4e-4, 1.0, True), (0.19, 1.0, True), (0.2, 1.0, False), (4e-4, -1.0, False)],
)
def test_five_token_example(
    tmp_path, make_model, tokenizer, dataset, monkeypatch, epsilon_high, advantage, clipped
) -> None:
    trainer = GSPOTrainer(
        model=make_model(),
        processing_class=tokenizer,
        reward_funcs=lambda completions, **columns: [0.0] * len(completions),
        train_dataset=dataset,
        args=config(
            tmp_path,
            epsilon=3e-4,
            epsilon_high=epsilon_high,
            beta=0.0,
            log_completions=False,
            steps_per_generation=2,
            shared_prefix=False,
        ),
    )
    old = torch.full((1, 5), -2.0)
    new = (old + torch.tensor([RATIOS]).log()).requires_grad_()
    monkeypatch.setattr(
        GRPOTrainer,
        "_get_per_token_logps_and_entropies",
        lambda self, *args, **kwargs: (new, torch.zeros_like(new), None),
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    ids = torch.ones(1, 5, dtype=torch.long)
    loss = trainer._compute_loss(
        trainer.model,
        {
            "prompt_ids": ids,
            "prompt_mask": ids,
            "completion_ids": ids,
            "completion_mask": ids,
            "advantages": torch.tensor([advantage]),
            "old_per_token_logps": old,
        },
    )
    ratio = math.prod(RATIOS) ** (1 / 5)
    assert ratio == pytest.approx(SEQUENCE_RATIO, abs=5e-5)
    used = 1 + epsilon_high if clipped else ratio
    assert loss.item() == pytest.approx(-used * advantage, rel=1e-6)
    loss.backward()
    if clipped:
        assert torch.equal(new.grad, torch.zeros_like(new))
    else:
        # d/dlogp_t of -(prod ratios)^(1/5) * A: the same for every token, the jump spread over all five.
        torch.testing.assert_close(new.grad, torch.full_like(new, -advantage * ratio / 5))
    assert trainer._metrics["train"]["clip_ratio/high_mean"] == [float(clipped)]
