"""The audit of real runs: it names what was done to them, and keeps silent where nothing was."""

import pytest
from example_rewards import hash_reward, share_of_vowels

from medgrpo import GSPOConfig, GSPOTrainer, MedGRPOConfig, MedGRPOTrainer, MOGRPOConfig, MOGRPOTrainer
from medgrpo.audit.audit import audit_log
from medgrpo.audit.finding import Finding
from medgrpo.audit.training_log import read_training_log


@pytest.fixture
def findings_of(make_model, tokenizer, dataset, tmp_path):
    def run(trainer_class, config_class, rewards, **changes) -> dict[str, Finding]:
        base = tmp_path / "base"
        make_model().save_pretrained(base)
        settings = {
            "per_device_train_batch_size": 8,
            "num_generations": 4,
            "max_completion_length": 8,
            "steps_per_generation": 2,
            "max_steps": 12,
            "learning_rate": 1e-3,
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
        trainer = trainer_class(
            model=str(base),
            processing_class=tokenizer,
            reward_funcs=rewards,
            train_dataset=dataset,
            args=config_class(output_dir=str(tmp_path / "run"), **{**settings, **changes}),
        )
        trainer.train()
        return {finding.kind: finding for finding in audit_log(read_training_log(tmp_path / "run")).findings}

    return run


def test_grpos_dominating_reward_is_named_and_mo_grpo_has_none(findings_of) -> None:
    both = [share_of_vowels, hash_reward]
    grpo = findings_of(MedGRPOTrainer, MedGRPOConfig, both)
    assert grpo["dominant_reward"].subject == "hash_reward"
    assert grpo["dominant_reward"].numbers["drowned"] == "share_of_vowels"
    fair = findings_of(MOGRPOTrainer, MOGRPOConfig, both)
    assert not fair.keys() & {"dominant_reward", "drowned_reward"}


def test_sequence_ratios_without_a_second_update_are_named(findings_of) -> None:
    # GSPOConfig refuses this; TRL's own settings allow it.
    sequence = {"importance_sampling_level": "sequence", "steps_per_generation": 1}
    assert findings_of(MedGRPOTrainer, MedGRPOConfig, share_of_vowels, **sequence)["gspo_is_grpo"].severity == "problem"
    gspo = findings_of(GSPOTrainer, GSPOConfig, share_of_vowels, epsilon=0.05, epsilon_high=0.06)
    assert not gspo.keys() & {"gspo_is_grpo", "ratio_one", "everything_clipped", "dead_groups", "ratio_spikes"}


def test_epsilons_too_narrow_for_the_steps_are_named(findings_of) -> None:
    narrow = findings_of(MedGRPOTrainer, MedGRPOConfig, share_of_vowels, epsilon=1e-5, learning_rate=2e-2)
    assert "everything_clipped" in narrow


def everyone_the_same(completions: list[str], **columns: object) -> list[float]:
    return [1.0] * len(completions)


def test_a_reward_that_is_always_the_same_teaches_nothing(findings_of) -> None:
    found = findings_of(MedGRPOTrainer, MedGRPOConfig, everyone_the_same)
    assert found["dead_groups"].severity == "problem"
    assert found["constant_reward"].subject == "everyone_the_same"
    beside = findings_of(MedGRPOTrainer, MedGRPOConfig, [everyone_the_same, share_of_vowels])
    assert "dead_groups" not in beside
    assert beside["constant_reward"].severity == "note"
    assert "dominant_reward" not in beside, "the other reward had nothing to say"
