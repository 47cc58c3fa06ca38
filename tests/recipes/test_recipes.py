"""The recipes as people launch them: the demo itself, the real exam, and every configuration file."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from forked import run_forked
from transformers import AutoModelForCausalLM

from medgrpo import CHORDConfig, GSPOConfig, MedGRPOConfig, MOGRPOConfig
from medgrpo.cli import main
from medgrpo.evaluation.samples import pair_outcomes, read_run
from medgrpo.exams.question import read_questions
from medgrpo.experiment.arguments import AgainstGRPOArguments, ExamArguments, parse_arguments
from medgrpo.report.reward_gains import read_reward_gains
from medgrpo.statistics import compare_paired
from medgrpo.trainers.run_log import read_metrics

ROOT = Path(__file__).resolve().parents[2]
RECIPES = {"grpo": MedGRPOConfig, "gspo": GSPOConfig}
# Method -> the classes that its recipe reads its options into.
METHODS = {
    "grpo": (MedGRPOConfig, ExamArguments),
    "gspo": (GSPOConfig, ExamArguments),
    "chord": (CHORDConfig, AgainstGRPOArguments),
    "mo_grpo": (MOGRPOConfig, AgainstGRPOArguments),
}
# The side-by-side design is no recipe's options; tests/experiment reads it.
CONFIGS = [
    path for path in sorted((ROOT / "recipes" / "configs").glob("tiny_*.yaml")) if "side_by_side" not in path.stem
]


def launch(recipe: str, *arguments: str, folder: Path, quiet: bool = False) -> subprocess.CompletedProcess[str]:
    """As the README has it."""
    command = [sys.executable, "-m", "accelerate.commands.launch", *(["--quiet"] if quiet else [])]
    return subprocess.run(
        [*command, str(ROOT / "recipes" / f"{recipe}.py"), *arguments],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=900,
    )


def run_recipe(
    recipe: str, *arguments: str, folder: Path, processes: int | None = None
) -> subprocess.CompletedProcess[str]:
    """The same without the launcher."""
    return run_forked(ROOT / "recipes" / f"{recipe}.py", *arguments, cwd=folder, processes=processes)


@pytest.mark.parametrize("recipe", RECIPES)
def test_without_arguments_it_learns_and_says_so(recipe: str, tmp_path: Path) -> None:
    done = (launch if recipe == "gspo" else run_recipe)(recipe, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    run = tmp_path / "runs" / f"{recipe}_tiny"
    before, after = read_run(run / "before"), read_run(run / "after")
    _, was, now = pair_outcomes(before, after)
    paired = compare_paired(was, now)
    assert paired.n >= 200
    assert paired.c > paired.b
    assert paired.p < 0.01
    if recipe == "gspo":
        # What the README shows holds here, within the interval that stands beside it.
        shown = re.search(r"after (\S+) % \(\d+/260\) \[(\S+), (\S+)\]", (ROOT / "README.md").read_text("utf-8"))
        assert float(shown[2]) <= 100 * sum(now) / len(now) <= float(shown[3])
    for said in ("greedy decoding", "McNemar exact p = ", f"/{paired.n})", "readable", "report.html"):
        assert said in done.stdout
    training = next(row["train_runtime"] for row in read_metrics(run) if "train_runtime" in row)
    assert training < 180
    assert {"report.html", "report.md", "metrics.jsonl", "run.json", "completions"} <= {p.name for p in run.iterdir()}
    assert before.run_info["sampling"]["temperature"] == 0
    # The saved model is the trained one: it answers as the run's samples say.
    out = tmp_path / "again"
    assert main(["evaluate", "--model", str(run), "--questions", "mini_exam", "--years", "2023-2026",
                 "--max-new-tokens", "24", "--batch-size", "64", "--out", str(out)]) == 0  # fmt: skip
    assert [s.completion for s in read_run(out).samples] == [s.completion for s in after.samples]


def test_mo_grpo_without_arguments_shows_what_each_reward_gained(tmp_path: Path) -> None:
    done = run_recipe("mo_grpo", folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    run = tmp_path / "runs" / "mo_grpo_tiny"
    # The log and the table say the same: `length` had the advantage under GRPO, half of it under MO-GRPO.
    grpo, mo_grpo = read_reward_gains(read_metrics(run / "grpo")), read_reward_gains(read_metrics(run))
    assert grpo["length"].share > 0.9
    assert 0.4 < mo_grpo["length"].share_varying < 0.6
    assert mo_grpo["ophtho"].end > grpo["ophtho"].end
    assert mo_grpo["length"].end > mo_grpo["length"].start
    line = next(line for line in done.stdout.splitlines() if line.startswith("ophtho "))
    shown = [f"{grpo['ophtho'].start:.3g}", f"{grpo['ophtho'].end:.3g}", f"{mo_grpo['ophtho'].end:.3g}"]
    assert line.split()[-3:] == shown
    assert (run / "reward_gains.png").read_bytes().startswith(b"\x89PNG")
    # Both from the same start: the first rollouts are the same.
    first = [read_metrics(folder)[0]["rewards/length/mean"] for folder in (run, run / "grpo")]
    assert first[0] == first[1]
    # The report and the samples are the MO-GRPO run's.
    _, was, now = pair_outcomes(read_run(run / "before"), read_run(run / "after"))
    paired = compare_paired(was, now)
    assert paired.c > paired.b
    assert "McNemar exact p = " in done.stdout


def test_mo_grpo_alone_trains_no_second_model(tmp_path: Path) -> None:
    options = ["--against_grpo", "false", "--max_steps", "2", "--output_dir", "run", "--reward_funcs", "ophtho"]
    options += ["consensus", "--advantage", "gdpo", "--adapt_reward_weights", "true"]
    done = run_recipe("mo_grpo", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert not (tmp_path / "run" / "grpo").exists()
    assert "share of the advantage" not in done.stdout
    assert "rewards/consensus/weight" in read_metrics(tmp_path / "run")[0]


def test_no_held_out_question_reaches_the_trainer(tmp_path: Path) -> None:
    options = ["--max_steps", "2", "--output_dir", "run", "--completions_every", "1", "--save_strategy", "no"]
    done = run_recipe("gspo", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    import pandas

    seen = pandas.concat(pandas.read_parquet(p) for p in (tmp_path / "run" / "completions").glob("*.parquet"))
    held_out = [q.question for q in read_questions("mini_exam") if q.year >= 2023]
    shown = "".join(str(prompt) for prompt in seen["prompt"])
    assert shown
    assert not [question for question in held_out if question in shown]


def test_real_exam_years_2018_to_2021_trained_and_2022_scored(data_dir: Path, tmp_path: Path, capsys) -> None:
    source, questions = data_dir / "igakuqa", tmp_path / "igakuqa.jsonl"
    assert main(["data", "igakuqa", str(source), "--out", str(questions)]) == 0
    assert len(read_questions(questions)) == 2000
    config = ["--config", str(ROOT / "recipes" / "configs" / "tiny_gspo_cpu.yaml"), "--train_file", str(questions)]
    years = ["--train_years", "2018-2021", "--eval_years", "2022"]
    few = ["--max_steps", "2", "--num_generations", "4", "--per_device_train_batch_size", "4", "--output_dir", "run",
           "--steps_per_generation", "2", "--max_completion_length", "8", "--eval_batch_size", "16"]  # fmt: skip
    done = run_recipe("gspo", *config, *years, *few, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "withdrawn by the board left out" in done.stdout
    after = read_run(tmp_path / "run" / "after")
    assert len(after.samples) == 400
    assert {sample.year for sample in after.samples} == {2022}

    # One question of 2022 slipped into the training file: the check names it, the recipe refuses.
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    slipped = next(row for row in rows if row["id"] == "116A1")
    files = {
        "train": [row for row in rows if row["year"] < 2022] + [{**slipped, "id": "115X1", "year": 2021}],
        "eval": [row for row in rows if row["year"] == 2022],
    }
    for name, chosen in files.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(json.dumps(row) for row in chosen))
    capsys.readouterr()
    assert main(["data", "check", str(tmp_path / "train.jsonl"), str(tmp_path / "eval.jsonl")]) == 1
    printed = capsys.readouterr()
    assert "115X1" in printed.out + printed.err
    assert "116A1" in printed.out + printed.err
    refused = launch("gspo", *config[:2], "--train_file", "train.jsonl", "--eval_file", "eval.jsonl",
                     "--train_years", "2018-2021", "--eval_years", "2022", folder=tmp_path, quiet=True)  # fmt: skip
    assert refused.returncode != 0
    assert "115X1" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configuration_file_is_accepted_by_its_method(path: Path) -> None:
    method = "_".join(path.stem.split("_")[1:-1])  # model, method, place
    config_class, exam_class = METHODS[method]
    exam, config, model = parse_arguments(config_class, path, ["--config", str(path)], exam_class)
    assert isinstance(config, config_class)
    written = yaml.safe_load(path.read_text())
    assert config.reward_weights == written.get("reward_weights", [1.5, 1.0])
    for name, value in written.items():
        holder = next(part for part in (exam, config, model) if name in part.__dataclass_fields__)
        assert getattr(holder, name) == value or isinstance(value, str)


def test_interrupted_demo_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    options = ["--output_dir", "run", "--save_strategy", "steps", "--save_steps", "4"]
    assert run_recipe("grpo", *options, "--max_steps", "4", folder=tmp_path).returncode == 0
    done = run_recipe(
        "grpo", *options, "--max_steps", "8", "--resume_from_checkpoint", "run/checkpoint-4", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    steps = [row["step"] for row in read_metrics(tmp_path / "run") if "loss" in row]
    assert steps == list(range(1, 9))
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "run").num_parameters() > 500_000


def test_two_processes_share_the_scoring_and_the_training(tmp_path: Path) -> None:
    one = ["--max_steps", "1", "--output_dir", "one"]
    assert run_recipe("gspo", *one, folder=tmp_path).returncode == 0
    done = run_recipe("gspo", "--max_steps", "2", "--output_dir", "two", folder=tmp_path, processes=2)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("McNemar exact") == 1
    alone, shared = (read_run(tmp_path / folder / "before").samples for folder in ("one", "two"))
    assert [sample.id for sample in shared] == [sample.id for sample in alone]
    # Batches are cut otherwise, so float noise may turn an answer between two equally probable letters.
    assert sum(a.completion != b.completion for a, b in zip(alone, shared, strict=True)) <= 3
    assert json.loads((tmp_path / "two" / "run.json").read_text())["world_size"] == 2
