"""A recipe with TRL's own `push_to_hub`: our card, the chosen files, private, once, after the evaluation."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants
from loopback_hub import READ_TOKEN, TOKEN, hub_environment, loopback_hub
from trl import ModelConfig

from medgrpo.errors import MedgrpoError
from medgrpo.exams.question import EMBEDDED, MINI_EXAM, read_questions
from medgrpo.experiment.arguments import ExamArguments
from medgrpo.experiment.exam import Exam
from medgrpo.experiment.verdict import Experiment
from medgrpo.hub.record import read_record
from medgrpo.trainers.base import MedGRPOTrainer
from medgrpo.trainers.config import MedGRPOConfig
from medgrpo.trainers.hub_pushes import HubGRPOTrainer
from medgrpo.trainers.private import PrivateGRPOTrainer

RECIPE = Path(__file__).parents[2] / "recipes" / "gspo.py"


def run_recipe(hub, tmp_path, *options):
    words = [sys.executable, str(RECIPE), "--max_steps", "2", "--output_dir", str(tmp_path / "run"), "--push_to_hub"]
    return subprocess.run(
        [*words, "true", "--hub_model_id", "lab/gspo", *options],
        env={**os.environ, **hub_environment(hub, tmp_path / "home"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=800,
    )


def test_a_recipe_pushes_its_result_once(tmp_path, capsys):
    with loopback_hub() as hub:
        done = run_recipe(hub, tmp_path, "--save_strategy", "steps", "--save_steps", "1")
    assert done.returncode == 0, done.stderr
    repository = hub.repositories["lab/gspo"]
    assert f"pushed     {hub.endpoint}/lab/gspo/commit/" in done.stdout
    # Checkpoints were saved, and TRL has put its own card beside the model; neither went anywhere.
    run = tmp_path / "run"
    assert (run / "checkpoint-1").is_dir()
    assert repository.private
    assert repository.commits == ["GSPO, 2 steps, with its evaluation"]
    pushed = {p.relative_to(run / "hub").as_posix(): p.read_bytes() for p in (run / "hub").rglob("*") if p.is_file()}
    assert repository.files == pushed
    assert set(pushed) == {
        "README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json", "chat_template.jinja", "evaluation/after_run.json", "evaluation/before_run.json",
        "evaluation/comparison.json", "figures/learning_curve.png", "figures/differences.png",
    }  # fmt: skip
    assert pushed["model.safetensors"] == (run / "model.safetensors").read_bytes()
    card = pushed["README.md"].decode()
    cell = json.loads((run / "comparison" / "comparison.json").read_text(encoding="utf-8"))["cells"][0]
    assert f"value: {cell['accuracy']}\n" in card
    assert "臨床での使用" in card
    assert str(tmp_path) not in card
    # The code that the card shows works on what was pushed.
    code = re.search(r"```python\n(.*?)```", card, re.S)[1].replace('"lab/gspo"', repr(str(run / "hub")))
    exec(code.replace('question = "..."', 'question = "どれか。\\na. はい\\nb. いいえ"'), {})
    assert "[ans]" in capsys.readouterr().out
    assert re.search(r"mini\\_exam.jsonl \| mini\\_exam \| 2019–2022 \| 260 \| 0 \| [0-9a-f]{64}", card)


def begin(tmp_path, **settings):
    """An experiment that is about to start, its trainer known by its settings alone."""
    args = MedGRPOConfig(output_dir=str(tmp_path / "run"), num_generations=8, push_to_hub=True, **settings)
    trainer = SimpleNamespace(args=args, accelerator=SimpleNamespace(is_main_process=True))
    questions = read_questions(MINI_EXAM)
    exam = Exam(questions[:9], questions[9:], questions[:2])
    arguments = ExamArguments(train_file=MINI_EXAM)
    return Experiment(trainer, exam, arguments, ModelConfig(model_name_or_path="lab/base", model_revision="f" * 40))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hub_token": "hf_wrong"}, "the Hub refuses the access token"),
        ({"hub_token": READ_TOKEN}, "run: the access token may not write there"),
        ({"hub_token": TOKEN, "hub_model_id": "others/x"}, "others/x: the access token may not write there"),
        ({"hub_token": TOKEN, "hub_strategy": "all_checkpoints"}, "hub_strategy=all_checkpoints"),
        ({"hub_token": TOKEN, "hub_revision": "dev"}, "hub_revision"),
    ],
)
def test_what_could_not_be_pushed_is_told_before_the_training(tmp_path, monkeypatch, settings, said):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with loopback_hub() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
        with pytest.raises(MedgrpoError, match=said):
            begin(tmp_path, **settings)
        assert hub.repositories == {}


def test_a_start_opens_a_private_repository_and_writes_what_the_run_is_about(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with loopback_hub() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
        begin(tmp_path, hub_token=TOKEN, hub_model_id="lab/x")
        assert hub.repositories["lab/x"].private
    record = read_record(tmp_path / "run")
    assert (record.base, record.base_revision) == ("lab/base", "f" * 40)
    assert record.train.sha256 == hashlib.sha256(EMBEDDED.read_bytes()).hexdigest()
    assert (record.train.name, record.train.examples, record.train.left_out) == ("mini_exam.jsonl", 9, 2)
    assert record.held_out.years[-1] == 2026
    assert TOKEN not in (tmp_path / "run" / "experiment.json").read_text(encoding="utf-8")


def test_the_trainers_own_push_is_refused_with_the_command():
    trainer = HubGRPOTrainer.__new__(HubGRPOTrainer)
    trainer.args = SimpleNamespace(output_dir="runs/x")
    with pytest.raises(MedgrpoError, match=r"medgrpo push runs/x --repo-id OWNER/NAME"):
        trainer.push_to_hub()


def test_private_unless_told_otherwise():
    assert MedGRPOConfig(output_dir="x", num_generations=8).hub_private_repo is True
    assert MedGRPOConfig(output_dir="x", num_generations=8, hub_private_repo=False).hub_private_repo is False


def test_no_class_that_saves_stands_before_the_one_that_keeps_it_from_pushing():
    savers = [one for one in MedGRPOTrainer.__mro__ if "save_model" in vars(one)]
    # PrivateGRPOTrainer saves through the next class only, and cleans up after all of them.
    assert savers[:2] == [PrivateGRPOTrainer, HubGRPOTrainer]
