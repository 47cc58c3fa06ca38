"""A finished run as a recipe leaves it, made without training, with secrets and hostile texts wherever they fit."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from medgrpo.comparison.compare import compare_runs
from medgrpo.comparison.write import write_comparison
from medgrpo.evaluation.samples import Run, write_run
from medgrpo.evaluation.score import score_completions
from medgrpo.exams.question import Question
from medgrpo.hub.record import DataFile, ExperimentRecord, write_record

HOME = "/home/alice"
QUESTION_TEXT = "SECRET_QUESTION_TEXT"
TOKEN = "hf_" + "Q" * 34
CANARIES = (HOME, "alice", QUESTION_TEXT, TOKEN, "10.1.2.3", "gpu-node-7", "OPTIMIZER", "ROLLOUT", "TRL_CARD")
DEPARTMENTS = ["内科", "外科 | <script>alert(1)</script>", "眼科 `code` [x](javascript:1)", "# 皮膚科\n---\n- a: b"]
HOSTILE_EXAM = "exam: [x]\n---\n# 見出し <img src=x onerror=alert(1)>"


def make_questions(n: int = 100) -> list[Question]:
    """Half of 2021, half of 2022; every fourth needs an image; four departments in turn."""
    return [
        Question(
            id=f"Q{i}",
            question=f"{QUESTION_TEXT} {i}",
            choices={"a": "はい", "b": "いいえ"},
            answer=[["a"]],
            exam=HOSTILE_EXAM,
            year=2021 + (2 * i) // n,
            department=DEPARTMENTS[i % 4],
            text_only=i % 4 != 0,
        )
        for i in range(n)
    ]


def make_run(questions: list[Question], right: set[int]) -> Run:
    """A run that gets exactly those questions right (by their place)."""
    completions = {
        question.id: f"{QUESTION_TEXT} [ans]{'a' if i in right else 'b'}[/ans]" for i, question in enumerate(questions)
    }
    info = {
        "model": f"{HOME}/models/base-8b/ (before GRPO)",
        "revision": None,
        "seed": 3,
        "prompt_template": {
            "system": "あなたは医師です。```\n# x",
            "choice_instruction": "記号を[ans]…[/ans]に。",
            "first_prompt": QUESTION_TEXT,
        },
        "sampling": {"backend": "vllm", "temperature": 0.0, "max_new_tokens": 64, "base_url": "http://10.1.2.3/v1"},
        "placement": {"host": "gpu-node-7", "base_url": "http://10.1.2.3/v1"},
        "files": f"{HOME}/x",
        "policy": "board",
        "versions": {"torch": "2.13.0", "platform": "Linux-gpu-node-7"},
        "commit": "a" * 40,
        "prompts_sha256": "b" * 64,
    }
    return Run(score_completions(questions, completions), info)


# Of 100 questions the base gets 40 right, the run 48: b = 2 lost, c = 10 won.
BEFORE, AFTER = set(range(40)), set(range(2, 50))


def make_finished_run(folder: Path, weights: int = 1000, method: str = "GRPO", extra: set[int] | None = None) -> Path:
    """`weights` bytes, about; `extra` adds a second run to the comparison, right on those places."""
    questions = make_questions()
    before, after = make_run(questions, BEFORE), make_run(questions, AFTER)
    for name, run in (("before", before), ("after", after)):
        write_run(folder / name, run.samples, run.run_info)
    runs = {"base": before, method: after}
    if extra is not None:
        runs["Other"] = make_run(questions, extra)
    write_comparison(folder / "comparison", compare_runs(runs, "base"))
    write_record(folder, make_record(method))
    arguments = {
        "output_dir": f"{HOME}/run", "learning_rate": 1e-06, "max_steps": 7, "num_train_epochs": 3.0, "beta": 0.1,
        "num_generations": 16, "importance_sampling_level": "token", "hub_token": TOKEN, "loss_type": "grpo",
        "chord_sft_dataset": f"{HOME}/sft.jsonl", "chord_mu_peak": 0.1, "max_completion_length": 64,
        "model_init_kwargs": {"x": f"{HOME}/y"}, "run_name": TOKEN,
    }  # fmt: skip
    if method == "GRPO":
        arguments = {key: value for key, value in arguments.items() if not key.startswith("chord_")}
    training = {
        "model": f"{HOME}/models/base-8b", "rewards": {"ophtho": 1.5, "evil|<b>": 1.0}, "seed": 3, "world_size": 8,
        "versions": {"python": "3.11.7", "trl": "1.16.0", "platform": "Linux-gpu-node-7"}, "commit": "c" * 40,
        "arguments": arguments,
    }  # fmt: skip
    files = {
        "run.json": json.dumps(training),
        "metrics.jsonl": '{"step": 7, "loss": 0.1}\n{"step": 7, "train_runtime": 61.2}\n',
        "config.json": json.dumps({"model_type": "qwen3", "_name_or_path": f"{HOME}/models/base-8b", "hidden_size": 8}),
        "tokenizer.json": "{}",
        "tokenizer_config.json": json.dumps({"tokenizer_file": f"{HOME}/t/tokenizer.json", "pad_token": "/a/b"}),
        "chat_template.jinja": "{{ messages }}",
        "README.md": "---\nbase_model: x\n---\nTRL_CARD",
        "report.html": f"<p>{QUESTION_TEXT}</p>",
        "training_args.bin": HOME,
        "log.txt": f"{HOME} gpu-node-7",
        "rollouts_0.pt": "ROLLOUT",
        "optimizer.pt": "OPTIMIZER",
        "checkpoint-7/optimizer.pt": "OPTIMIZER",
        "checkpoint-7/model.safetensors": "OPTIMIZER",
        "completions/completions_00001.parquet": QUESTION_TEXT,
        "comparison/comparison.html": QUESTION_TEXT,
        ".env": TOKEN,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("learning_curve.png", "comparison/differences.png"):
        (folder / name).write_bytes(b"\x89PNG\r\n")
    values = np.random.default_rng(0).integers(0, 256, weights, dtype=np.uint8)
    save_file({"w": values}, folder / "model.safetensors", {"format": "pt"})
    return folder


def make_record(method: str = "GRPO", base: str = f"{HOME}/models/base-8b", revision: str | None = None):
    train = DataFile("train.jsonl", "d" * 64, 300, [2018, 2019, 2020], [HOSTILE_EXAM], left_out=4)
    held_out = DataFile("eval.jsonl", "e" * 64, 100, [2021, 2022], [HOSTILE_EXAM])
    return ExperimentRecord(method, base, revision, train, held_out)
