"""CHORD as a run: what mu = 0 leaves alone, what is logged, how it resumes, and what it refuses."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from example_rewards import share_of_vowels

from medgrpo import CHORDConfig, CHORDTrainer, MedGRPOConfig, MedGRPOTrainer
from medgrpo.errors import MedgrpoError
from medgrpo.mixing import mu_schedule
from medgrpo.trainers.run_log import read_metrics

SETTINGS = {
    "per_device_train_batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 8,
    "steps_per_generation": 3,
    "max_steps": 5,
    "learning_rate": 1e-2,
    "beta": 0.1,
    "seed": 3,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "logging_steps": 1,
    "disable_tqdm": True,
    "log_completions": False,
}
SCHEDULE = {"chord_mu_peak": 0.8, "chord_mu_valley": 0.2, "chord_mu_warmup_steps": 2, "chord_mu_decay_steps": 3}
TEACHING = Dataset.from_list(
    [
        {"id": f"s{n}", "prompt": f"question {letter}", "completion": letter * (n + 1)}
        for n, letter in enumerate("abcde")
    ]
)


@pytest.fixture
def build(make_model, tokenizer, dataset, tmp_path):
    def build(trainer_class=CHORDTrainer, config_class=CHORDConfig, folder="run", rewards=share_of_vowels, **changes):
        given = {"chord_sft_dataset": TEACHING} if issubclass(trainer_class, CHORDTrainer) else {}
        given = changes.pop("given", given)
        if issubclass(config_class, CHORDConfig):
            changes = {**SCHEDULE, "chord_sft_per_device_train_batch_size": 2, **changes}
        base = tmp_path / "base"
        make_model().save_pretrained(base)
        return trainer_class(
            model=str(base),
            processing_class=tokenizer,
            reward_funcs=rewards,
            train_dataset=dataset,
            args=config_class(output_dir=str(tmp_path / folder), **{**SETTINGS, **changes}),
            **given,
        )

    return build


def parameters(trainer) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in trainer.model.named_parameters()}


def watch_draws(trainer) -> list[list[str]]:
    """The ids of every batch that is drawn from now on."""
    drawn, draw = [], trainer.sft_stream.draw

    def watched(count):
        window = draw(count)
        drawn.extend(batch.ids for batch in window.batches)
        return window

    trainer.sft_stream.draw = watched
    return drawn


def steps(folder: Path) -> list[dict]:
    return [row for row in read_metrics(folder) if "loss" in row]


def test_mu_zero_throughout_is_grpo_bit_for_bit_and_reads_no_sft_batch(build, tmp_path: Path) -> None:
    chord = build(chord_mu_peak=0.0, chord_mu_valley=0.0, folder="chord")
    drawn = watch_draws(chord)
    chord.train()
    grpo = build(MedGRPOTrainer, MedGRPOConfig, folder="grpo")
    grpo.train()
    ours, theirs = parameters(chord), parameters(grpo)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert drawn == []
    assert [row["chord/mu"] for row in steps(tmp_path / "chord")] == [0.0] * 5
    assert "chord/sft_loss" not in steps(tmp_path / "chord")[-1]


def test_every_parameter_moves_and_mu_and_both_losses_are_logged(build, make_model, tmp_path: Path) -> None:
    trainer = build(gradient_accumulation_steps=2, steps_per_generation=2)
    drawn = watch_draws(trainer)
    trainer.train()
    start = dict(make_model().named_parameters())
    still = [name for name, value in parameters(trainer).items() if torch.equal(value, start[name])]
    assert not still, f"parameters that five steps did not move: {still}"
    rows = steps(tmp_path / "run")
    expected = [mu_schedule(step, 2, 3, 0.8, 0.2) for step in range(5)]
    assert expected[0] == 0
    assert [row["chord/mu"] for row in rows] == pytest.approx(expected)
    # No forward pass in the first step, whose mu is 0; two micro-batches of two samples in each later one.
    assert len(drawn) == 2 * 4
    assert "chord/sft_loss" not in rows[0]
    lengths = {f"s{n}": n + 2 for n in range(5)}  # the letters and the end
    seen = [sum(lengths[name] for batch in drawn[: 2 * step] for name in batch) for step in range(5)]
    assert [row["chord/sft_tokens"] for row in rows] == seen
    for row in rows[1:]:
        # KL and policy gradient, as TRL logs them, are mixed in the same share.
        mixed = (1 - row["chord/mu"]) * row["chord/policy_loss"] + row["chord/mu"] * row["chord/sft_loss"]
        assert row["loss"] == pytest.approx(mixed, abs=1e-5)
        assert 0 < row["chord/phi_mean"] < 0.25
    assert rows[-1]["chord/sft_loss"] < rows[1]["chord/sft_loss"]


def test_evaluation_has_no_sft_term(build, dataset) -> None:
    trainer = build(chord_mu_peak=1.0, chord_mu_valley=1.0, chord_mu_warmup_steps=0, max_steps=1,
                    per_device_eval_batch_size=8)  # fmt: skip
    drawn = watch_draws(trainer)
    torch.manual_seed(0)
    with_sft = trainer.evaluate(dataset.select(range(2)))
    plain = build(MedGRPOTrainer, MedGRPOConfig, per_device_eval_batch_size=8)
    torch.manual_seed(0)
    assert with_sft["eval_loss"] == plain.evaluate(dataset.select(range(2)))["eval_loss"]
    assert drawn == []
    assert not [name for name in with_sft if "chord" in name]


@pytest.mark.parametrize("accumulation", [1, 2])
def test_stopped_after_any_step_it_goes_on_as_if_it_had_not_been(build, tmp_path: Path, accumulation: int) -> None:
    # Three updates a generation, each with rollouts of its own: a stop falls in between, too.
    changes = {"gradient_accumulation_steps": accumulation, "steps_per_generation": 3 * accumulation}
    changes |= {"save_strategy": "steps", "save_steps": 1}
    whole = build(folder="whole", **changes)
    drawn = watch_draws(whole)
    whole.train()
    expected = {row["step"]: row for row in steps(tmp_path / "whole")}
    for stop in range(1, 5):
        resumed = build(folder=f"cut{stop}", **changes)
        later = watch_draws(resumed)
        resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{stop}"))
        ours, theirs = parameters(resumed), parameters(whole)
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs), f"stopped after step {stop}"
        assert later == drawn[accumulation * (stop - 1) :]  # mu is 0 in the first step
        for row in steps(tmp_path / f"cut{stop}"):
            for name in ("chord/mu", "chord/sft_loss", "chord/policy_loss", "chord/sft_tokens", "reward", "kl"):
                assert row.get(name) == expected[row["step"]].get(name), (stop, row["step"], name)
        assert [row["step"] for row in steps(tmp_path / f"cut{stop}")] == list(range(stop + 1, 6))


def test_checkpoint_of_another_method_or_other_data_is_refused(build, tmp_path: Path) -> None:
    build(max_steps=1, save_strategy="steps", save_steps=1).train()
    saved = tmp_path / "run" / "checkpoint-1"
    others = build(folder="others", given={"chord_sft_dataset": TEACHING.select(range(3))})
    with pytest.raises(MedgrpoError, match="other SFT data"):
        others.train(resume_from_checkpoint=str(saved))
    plain = tmp_path / "plain"
    shutil.copytree(saved, plain)
    for name in ("sft_stream.json", "manifest.json"):
        (plain / name).unlink()
    with pytest.raises(MedgrpoError, match="no checkpoint to resume CHORD from"):
        build(folder="others").train(resume_from_checkpoint=str(plain))


def test_temperature_of_the_rollouts_does_not_reach_the_sft_loss(build, tmp_path: Path) -> None:
    for temperature in (0.5, 1.0):
        build(folder=str(temperature), temperature=temperature, max_steps=1, chord_mu_warmup_steps=0).train()
    first = [steps(tmp_path / name)[0]["chord/sft_loss"] for name in ("0.5", "1.0")]
    assert first[0] == pytest.approx(first[1], abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"chord_mu_peak": 1.1}, r"chord_mu_peak has to lie in \[0, 1\], got 1.1"),
        ({"chord_mu_peak": float("nan")}, "chord_mu_peak"),
        ({"chord_mu_valley": -0.1}, "chord_mu_valley"),
        ({"chord_mu_peak": 0.1, "chord_mu_valley": 0.2}, "chord_mu_valley=0.2 lies above chord_mu_peak=0.1"),
        ({"chord_mu_warmup_steps": -1}, "chord_mu_warmup_steps has to be 0 or more"),
        ({"chord_mu_decay_steps": -5}, "chord_mu_decay_steps has to be 0 or more"),
        ({"chord_sft_per_device_train_batch_size": 0}, "at least 1"),
        ({"chord_sft_max_length": 0}, "at least 2"),
        ({"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": True}}, "runs the model"),
        ({"activation_checkpointing": True, "activation_checkpointing_kwargs": {"use_reentrant": True}}, "twice"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, changes: dict, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        CHORDConfig(output_dir=str(tmp_path), **{**SETTINGS, **changes})


def test_defaults_are_the_seeds_and_the_batch_is_the_policys(tmp_path: Path) -> None:
    config = CHORDConfig(output_dir=str(tmp_path), **SETTINGS)
    assert (config.chord_mu_peak, config.chord_mu_valley) == (0.1, 0.01)
    assert (config.chord_mu_warmup_steps, config.chord_mu_decay_steps) == (0, 500)
    assert config.chord_enable_phi_function is False
    assert config.chord_sft_per_device_train_batch_size == 1


def test_sft_data_comes_from_one_place(build, tmp_path: Path) -> None:
    path = tmp_path / "sft.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in TEACHING))
    from_file = build(given={}, chord_sft_dataset=str(path))
    assert from_file.sft_stream.fingerprint == build().sft_stream.fingerprint
    with pytest.raises(MedgrpoError, match="given twice"):
        build(chord_sft_dataset=str(path))
    with pytest.raises(MedgrpoError, match="without it CHORD is GRPO"):
        build(given={})
    with pytest.raises(MedgrpoError, match="no trainable token"):
        build(given={"chord_sft_dataset": Dataset.from_dict({"prompt": ["a"], "completion": [""]})})


def test_config_of_another_method_is_refused(build) -> None:
    with pytest.raises(TypeError, match="CHORDConfig"):
        build(CHORDTrainer, MedGRPOConfig)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"steps_per_generation": 2}, "micro_batches_per_generation was 4, is now 2"),
        ({"beta": 0.1}, "reference was False, is now True"),
    ],
)
def test_rollouts_that_do_not_fit_are_generated_anew_with_a_warning(
    build, tmp_path: Path, monkeypatch, changed, said
) -> None:
    start = {"save_strategy": "steps", "save_steps": 1, "steps_per_generation": 4, "beta": 0.0}
    build(max_steps=1, **start).train()
    warned = []
    monkeypatch.setattr("medgrpo.trainers.resumable.logger.warning", warned.append)
    build(folder="other", max_steps=2, **{**start, **changed}).train(
        resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-1")
    )
    assert len(warned) == 1
    assert said in warned[0]
