"""The same recipes on two processes that share one model: ZeRO-3, and ZeRO-3 with the experts spread over both."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from medgrpo.evaluation.backend import Sampling
from medgrpo.evaluation.generate import TransformersBackend
from medgrpo.exams.prompts import build_prompt
from medgrpo.exams.question import read_questions
from medgrpo.tiny import TINY_MODEL

ROOT = Path(__file__).resolve().parents[2]
# DeepSpeed builds a small extension, and looks on the path for the ninja that is installed beside it.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="needs the extra `deepspeed`")
@pytest.mark.parametrize(("place", "recipe"), [("cpu_zero3_ep", "gspo"), ("cpu_zero3", "grpo")])
def test_a_recipe_runs_whole_and_scores_as_one_process_does(place: str, recipe: str, tmp_path) -> None:
    # 65 questions in batches of 32: the first process has two batches, the second one.
    options = ["--max_steps", "2", "--eval_years", "2026", "--eval_batch_size", "32", "--output_dir", str(tmp_path)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "accelerate.commands.launch"),
            *("--config_file", f"accelerate_configs/{place}.yaml", "--main_process_port", "0"),
            *(f"recipes/{recipe}.py", *options),
        ],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PATH": PATH},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "McNemar exact" in done.stdout
    questions = {question.id: question for question in read_questions("mini_exam")}
    for name, model in (("before", TINY_MODEL), ("after", tmp_path)):
        lines = (tmp_path / name / "samples.jsonl").read_text(encoding="utf-8").splitlines()
        scored = {row["id"]: row["completion"] for row in map(json.loads, lines)}
        assert len(scored) == 65
        alone = TransformersBackend(
            AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
            AutoTokenizer.from_pretrained(model),
            Sampling(max_new_tokens=24),
            batch_size=65,
        )
        again = dict(alone.complete({question: build_prompt(questions[question]) for question in scored}))
        # Another batch pads otherwise, which may turn a tie between two tokens.
        assert sum(again[question] != scored[question] for question in scored) <= 1
