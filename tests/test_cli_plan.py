"""`medgrpo plan` as people call it."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from medgrpo.cli import main
from medgrpo.distributed.plan.batch import batch_of
from medgrpo.trainers.config import MedGRPOConfig

BIG = ["plan", "--model", "qwen3_next_80b"]
EIGHT = [*BIG, "--nodes", "9", "--rollout-nodes", "1", "--ep", "8", "--batch", "512"]


def read_json(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


def test_80b_on_eight_nodes_fits_and_answers_offline_in_ten_seconds() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-m", "medgrpo.cli", *EIGHT],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for said in ("79.674 B parameters", "77.31 B in experts", "fits", "NVLink", "ASSUMED, not measured"):
        assert said in done.stdout
    # Processor time: other processes on a test machine make the clock's useless. Two processes' worth is allowed.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20


def test_numbers_as_json(capsys) -> None:
    assert main([*EIGHT, "--json"]) == 0
    plan = read_json(capsys)
    assert plan["model"]["parameters"] == 79_674_391_296
    states = plan["bytes_per_gpu"]["states"]
    assert sum(states[name] for name in ("weights", "gradients", "optimizer")) == pytest.approx(19.92e9, rel=1e-3)
    assert plan["fits"] is True
    assert plan["batch"]["tokens_per_step"] == 512 * 4096
    assert plan["rollouts"]["weights"] == pytest.approx(2 * 79.674e9 / 8, rel=1e-3)


def test_what_does_not_fit_is_said_with_a_change_that_does(capsys) -> None:
    assert main([*BIG, "--nodes", "1", "--batch", "128", "--json"]) == 1
    plan = read_json(capsys)
    assert plan["fits"] is False
    assert plan["advice"]["peak_bytes"] <= 80e9
    # What it advises, asked for, fits.
    words = [word for change in plan["advice"]["changes"] for word in change.split(" (")[0].split()]
    assert main([*BIG, "--batch", "128", *words]) == 0
    assert "does not fit" not in capsys.readouterr().out


def test_free_changes_come_before_more_nodes(capsys) -> None:
    # 80 GB of activations: smaller micro-batches and checkpointing cost no node.
    asked = [*EIGHT[:-2], "--batch", "512", "--micro-batch", "8", "--no-checkpointing"]
    assert main([*asked, "--json"]) == 1
    advice = read_json(capsys)["advice"]
    assert not advice["other_method"]
    assert not any("--nodes" in change for change in advice["changes"])


def test_shared_prefix_runs_fewer_tokens(capsys) -> None:
    tokens = {}
    for flag in ("--shared-prefix", "--no-shared-prefix"):
        main([*EIGHT, "--micro-batch", "8", flag, "--json"])
        tokens[flag] = read_json(capsys)["batch"]["tokens_per_micro_batch"]
    assert tokens == {"--shared-prefix": 1024 + 8 * 3072, "--no-shared-prefix": 8 * 4096}


def test_tiny_and_a_folder_give_the_same_plan(capsys) -> None:
    import medgrpo.tiny

    said = []
    for model in ("tiny", str(Path(medgrpo.tiny.__file__).parent / "model")):
        assert main(["plan", "--model", model, "--gpus-per-node", "1", "--json"]) == 0
        said.append(read_json(capsys))
    assert said[0]["bytes_per_gpu"] == said[1]["bytes_per_gpu"]
    assert said[0]["traffic_per_gpu_and_step"]["all_gather"]["received"] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "no/such-model"], "--model no/such-model"),
        ([], "--model is missing"),
        (["--model", "tiny", "--nodes", "0"], "--nodes"),
        (["--model", "tiny", "--gpu-memory", "-1"], "--gpu-memory"),
        (["--model", "tiny", "--mfu", "nan"], "--mfu"),
        (["--model", "tiny", "--batch", "100", "--gpus-per-node", "8"], "don't divide over 8"),
        (["--model", "tiny", "--num-generations", "7", "--batch", "8"], "no multiple of num_generations 7"),
        (["--model", "tiny", "--prompt-length", "0"], "prompt has to be at least 1"),
        (["--model", "tiny", "--config", "no.yaml"], "no.yaml: can't be read"),
        (["--model", "tiny", "--ep", "5"], "--ep 5 does not divide"),
        (["--model", "tiny", "--nodes", "2", "--rollout-nodes", "1", "--tp", "3"], "--tp 3 does not divide"),
        (["--model", "tiny", "--steps-per-generation", "0"], "--steps-per-generation"),
        (["--model", "tiny", "--placement", "fsdp"], "--placement fsdp"),
    ],
)
def test_bad_use_is_one_line(options: list[str], said: str, capsys) -> None:
    assert main(["plan", *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_file_with_no_number_or_name_where_one_belongs_is_one_line(tmp_path: Path, capsys) -> None:
    path = tmp_path / "bad.yaml"
    bad = {"model_name_or_path: tiny\nbeta: x": "beta has to be a number", "model_name_or_path: [a]": "--model [a]"}
    for lines, said in bad.items():
        path.write_text(lines, encoding="utf-8")
        assert main(["plan", "--config", str(path)]) == 2
        error = capsys.readouterr().err.replace("'", "")
        assert said in error
        assert error.count("\n") == 1


def test_a_misspelt_field_of_a_file_is_not_planned_with_its_default(tmp_path: Path, capsys) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("model_name_or_path: tiny\nsteps_per_generatoin: 5\n", encoding="utf-8")
    assert main(["plan", "--config", str(path)]) == 2
    assert "unknown field 'steps_per_generatoin': did you mean 'steps_per_generation'?" in capsys.readouterr().err
    # A field of TRL's that looks like one that is read, and is another.
    path.write_text("model_name_or_path: tiny\nnum_generations_eval: 4\n", encoding="utf-8")
    assert main(["plan", "--config", str(path)]) == 0


def test_what_a_file_leaves_out_is_as_the_recipes_have_it() -> None:
    left, batch = MedGRPOConfig(output_dir="x", report_to="none"), batch_of({})
    assert batch.per_device == left.per_device_train_batch_size
    assert (batch.accumulation, batch.num_generations) == (left.gradient_accumulation_steps, left.num_generations)
    assert batch.completion == left.max_completion_length
    assert (batch.reference, batch.checkpointing, batch.shared_prefix) == (
        left.beta > 0,
        left.gradient_checkpointing,
        left.shared_prefix,
    )


def test_config_with_a_server_needs_its_nodes(capsys) -> None:
    config = Path(__file__).parents[1] / "recipes" / "configs" / "qwen3_next_80b_grpo_8x8.yaml"
    assert main(["plan", "--config", str(config), "--nodes", "8"]) == 2
    assert "--rollout-nodes" in capsys.readouterr().err
