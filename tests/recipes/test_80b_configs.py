"""The 80B's settings: taken by the recipes' own parser as one of so many processes, and planned to fit."""

import re
import shlex
from pathlib import Path

import pytest
from transformers import TrainingArguments

from medgrpo import CHORDConfig, GSPOConfig, MedGRPOConfig
from medgrpo.cli import main
from medgrpo.experiment.arguments import AgainstGRPOArguments, ExamArguments, parse_arguments

CONFIGS = Path(__file__).resolve().parents[2] / "recipes" / "configs"
METHODS = {
    "grpo": (MedGRPOConfig, ExamArguments),
    "gspo": (GSPOConfig, ExamArguments),
    "chord": (CHORDConfig, AgainstGRPOArguments),
}
# File, training processes, completions of an optimizer step, optimizer steps of a generation.
RUNS = [
    ("qwen3_next_80b_grpo_8x8", 64, 512, 5),
    ("qwen3_next_80b_gspo_8x8", 64, 512, 3),
    ("qwen3_next_80b_chord_8x8", 64, 512, 5),
    ("qwen3_next_80b_gspo_12x8", 96, 480, 3),
]


def test_every_80b_file_is_tested() -> None:
    assert {path.stem for path in CONFIGS.glob("qwen3_next_80b_*.yaml")} == {name for name, *_ in RUNS}


@pytest.mark.parametrize(("name", "processes", "batch", "steps"), RUNS)
def test_settings_mean_what_the_experiment_had(name, processes, batch, steps, monkeypatch) -> None:
    # TRL divides by the number of processes, which here is one; nothing else of a cluster is pretended.
    monkeypatch.setattr(TrainingArguments, "world_size", property(lambda _: processes))
    path = CONFIGS / f"{name}.yaml"
    config_class, exam_class = METHODS[name.split("_")[3]]
    exam, config, model = parse_arguments(config_class, path, ["--config", str(path)], exam_class)
    assert config.per_device_train_batch_size * config.gradient_accumulation_steps * processes == batch
    assert config.generation_batch_size == batch * steps
    assert config.optimizer_steps_per_generation == steps
    assert config.generation_batch_size % config.num_generations == 0
    assert not config.ratios_are_one
    assert (config.num_generations, config.learning_rate, config.beta, config.temperature) == (16, 1e-6, 0.1, 0.9)
    assert (config.num_train_epochs, config.vllm_max_model_length) == (5, 4096)
    assert config.max_completion_length < 4096
    assert (config.use_vllm, config.vllm_mode, config.loss_type) == (True, "server", "grpo")
    assert (exam.reward_funcs, config.reward_weights) == (["ophtho", "chinese"], [1.5, 1.0])
    assert (exam.train_years, exam.eval_years, model.dtype) == ("2001-2022", "2023-2025", "bfloat16")
    if "gspo" in name:
        assert (config.importance_sampling_level, config.epsilon, config.epsilon_high) == ("sequence", 3e-4, 4e-4)
    else:
        assert (config.importance_sampling_level, config.epsilon) == ("token", 0.2)
    if "chord" in name:
        assert (config.chord_mu_peak, config.chord_mu_valley, config.chord_mu_decay_steps) == (0.1, 0.01, 500)
        assert config.chord_enable_phi_function is False


@pytest.mark.parametrize(("name", "processes", "batch", "steps"), RUNS)
def test_the_plan_that_the_file_names_fits(name, processes, batch, steps, capsys, monkeypatch) -> None:
    monkeypatch.chdir(CONFIGS.parents[1])
    command = re.search(r"^#\s+(medgrpo plan .*)$", (CONFIGS / f"{name}.yaml").read_text(encoding="utf-8"), re.M)[1]
    assert main(shlex.split(command)[1:]) == 0
    said = capsys.readouterr().out
    assert "79.674 B parameters" in said
    assert f"{processes} GPUs = {batch} completions" in said
    assert f"a generation of {batch * steps} serves {steps} steps" in said
