"""Every command that the documentation shows is run: the `medgrpo` verbs and a training here, one after another in
one folder as a reader would, the others by the tests that are named here."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from shown import ROOT, blocks, commands

from medgrpo.cli import main
from medgrpo.exams.question import MINI_EXAM, Question, read_questions, write_questions
from medgrpo.tiny import TINY_MODEL

PAGES = [
    ROOT / "README.md",
    ROOT / "README.ja.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "launch").glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
# Every command once, in the order in which a reader meets it.
COMMANDS = list({shlex.join(words): words for page in PAGES for words in commands(page)}.values())
HERE = "run by this file"
# The README's training on real questions, with a model that is here and one short step (the last option wins).
TRAINING = "accelerate launch recipes/gspo.py --model_name_or_path"
SHORT = ["--max_steps", "1", "--num_generations", "4", "--max_completion_length", "16", "--report_to", "none"]

# How a command starts (the longest start decides) -> what runs it, and a word by which that can be seen in the file.
# Elsewhere is what starts a server, needs a cluster, or takes minutes. Of the recipes without arguments gspo.py is
# started by `accelerate launch` there, the others are run without that launcher.
RUN_BY = {
    "medgrpo": (HERE, "main(words[1:])"),
    TRAINING: (HERE, "accelerate.commands.launch"),
    "make demo": ("tests/recipes/test_recipes.py", "test_without_arguments_it_learns_and_says_so"),
    "make test": (".ci/run", "make test"),
    "accelerate launch recipes/grpo.py": ("tests/recipes/test_recipes.py", '"grpo": MedGRPOConfig'),
    "accelerate launch recipes/mo_grpo.py": ("tests/recipes/test_recipes.py", 'run_recipe("mo_grpo"'),
    "accelerate launch recipes/chord.py": ("tests/recipes/test_chord_recipe.py", "without_arguments"),
    "accelerate launch recipes/grpo.py --use_vllm": ("tests/distributed/served_training.py", "use_vllm"),
    "accelerate launch --config_file accelerate_configs/cpu_zero3_ep.yaml": (
        "tests/recipes/test_placed_recipes.py",
        "cpu_zero3_ep",
    ),
    # Eight GPUs. Here: its settings are read by accelerate and DeepSpeed, and its like for two CPU processes trains.
    "accelerate launch --config_file accelerate_configs/zero3.yaml": (
        "tests/distributed/test_accelerate_configs.py",
        '"zero3"',
    ),
    "python recipes/side_by_side.py": ("tests/recipes/test_side_by_side.py", "side_by_side.py"),
    "python recipes/sft_data.py": ("tests/recipes/test_sft_data_recipe.py", "sft_data"),
    "medgrpo serve": ("tests/distributed/test_serve.py", '"serve"'),
    "sbatch": ("tests/launch/test_slurm_training.py", "sbatch"),
    "python benchmarks/update_step.py": ("tests/benchmarks/test_update_step.py", "update_step"),
    "python benchmarks/quick_start_parts.py": ("tests/benchmarks/test_quick_start_parts.py", "quick_start_parts"),
    # A peer, in an environment of its own: not in the tests.
    "python -m venv swift": ("benchmarks/peers.md", "swift"),
    "swift/bin/swift": ("benchmarks/peers.md", "swift"),
    "--chord_sft_dataset": ("benchmarks/peers.md", "swift"),
}


def run_by(words: list[str]) -> tuple[str, str]:
    told = shlex.join(words)
    starts = [start for start in RUN_BY if told.startswith(start)]
    assert starts, f"no test runs `{told}`: add it to RUN_BY"
    return RUN_BY[max(starts, key=len)]


def two_of_each_block(source: Path, out: Path) -> None:
    """A checkout of IgakuQA with the first two questions of each of its blocks."""
    for path in sorted((source / "data").rglob("*.jsonl")):
        copy = out / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:2]), encoding="utf-8")


def write_answers(path: Path, questions: Iterable[Question], wrong_every: int) -> None:
    """Completions with the key, and with an answer that nobody accepts at every `wrong_every`-th question."""
    with path.open("w", encoding="utf-8") as file:
        for number, question in enumerate(questions):
            answer = "z" if number % wrong_every == 0 else ",".join(question.answer[0])
            file.write(json.dumps({"id": question.id, "completion": f"[ans]{answer}[/ans]"}) + "\n")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    """A folder with what a reader of the pages has: the project, exams, answers of other systems, scored runs."""
    folder = tmp_path_factory.mktemp("reader")
    shutil.copytree(ROOT / "recipes", folder / "recipes")
    two_of_each_block(data_dir / "igakuqa", folder / "IgakuQA")
    shutil.copytree(data_dir / "igakuqa119", folder / "IgakuQA119")
    (table,) = blocks(ROOT / "docs" / "data-formats.md", "csv")
    (folder / "specialist.csv").write_text(table, encoding="utf-8")
    exam = read_questions(MINI_EXAM)
    write_questions(folder / "train.jsonl", [question for question in exam if question.year < 2023])
    write_questions(folder / "eval.jsonl", [question for question in exam if question.year >= 2023])
    runs = ["base", "grpo/before", "grpo/after", "gspo/after", "chord/after", "g0", "g1", "g2", "s0", "s1", "s2"]
    for number, name in enumerate(runs, start=2):
        write_answers(folder / "answers.jsonl", exam, wrong_every=number)
        asked = ["--questions", MINI_EXAM, "--out", str(folder / "runs" / name)]
        assert main(["score", str(folder / "answers.jsonl"), *asked]) == 0
    return folder


def test_no_command_stands_where_it_is_not_seen() -> None:
    """Shell commands stand in blocks that say `bash`, and what runs them is asked of a command that is shown."""
    programs = ("medgrpo ", "python ", "accelerate ", "sbatch ", "make ", "pip ", "sphinx-build ")
    for page in PAGES:
        hidden = [line for text in blocks(page, "") for line in text.splitlines()]
        assert not [line for line in hidden if line.startswith(programs)], page
    shown = [shlex.join(words) for words in COMMANDS]
    assert [start for start in RUN_BY if not any(told.startswith(start) for told in shown)] == []


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: shlex.join(words)[:60])
def test_something_runs_it(words: list[str]) -> None:
    path, sign = run_by(words)
    assert sign in (Path(__file__) if path == HERE else ROOT / path).read_text(encoding="utf-8")


def test_the_verbs_and_the_training_in_the_order_of_the_pages(reader: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(reader)
    trained = False
    for words in COMMANDS:
        if run_by(words)[0] != HERE:
            continue
        told = shlex.join(words)
        if words[0] == "medgrpo":
            if words[1] == "score":
                write_answers(reader / words[2], read_questions("igakuqa.jsonl"), wrong_every=3)
            assert main(words[1:]) == 0, told
        elif not trained:
            # The README's training comes before what is said of its result, the Japanese one is the same, shorter.
            options = [str(TINY_MODEL) if "/Qwen" in word or word == "モデル" else word for word in words[2:]]
            train(options)
            trained = True
    assert trained
    for made in ("gspo_igakuqa/report.html", "again/run.json", "other/run.json", "comparison/comparison.html"):
        assert (reader / "runs" / made).is_file()
    assert (
        json.loads((reader / "runs" / "again" / "run.json").read_text(encoding="utf-8"))["model"] == "runs/gspo_igakuqa"
    )


def train(options: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "accelerate.commands.launch", *options, *SHORT],
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
