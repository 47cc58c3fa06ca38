"""A short training against a `TransformersServer`, and what its log says."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import Dataset
from server_run import third_tokens
from small_model import build_model, build_tokenizer
from transformers import TrainerCallback
from transformers_server import TransformersServer

from medgrpo import MedGRPOConfig, MedGRPOTrainer
from medgrpo.trainers.metrics_file import read_metrics

TEXTS = ["a question", "another", "the third one", "and a last"]


def make_model_folder(folder: Path) -> Path:
    tokenizer = build_tokenizer()
    build_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class AfterStep(TrainerCallback):
    """Calls `action` when `step` is done."""

    def __init__(self, step: int, action: Callable[[], Any]) -> None:
        self.step, self.action = step, action

    def on_step_end(self, args, state, control, **kwargs) -> None:
        if state.global_step == self.step:
            self.action()


def build(server: TransformersServer, model_folder: Path, folder: Path, **settings) -> MedGRPOTrainer:
    settings = {"vllm_server_wait": 20, "vllm_request_timeout": 2, "vllm_server_timeout": 5, "max_steps": 4} | settings
    return MedGRPOTrainer(
        model=str(model_folder),
        processing_class=build_tokenizer(),
        reward_funcs=[third_tokens],
        train_dataset=Dataset.from_dict({"prompt": TEXTS}),
        args=MedGRPOConfig(
            output_dir=str(folder),
            use_vllm=True,
            vllm_mode="server",
            vllm_server_base_url=server.url,
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=4,
            learning_rate=1e-2,
            beta=0.0,
            report_to="none",
            save_strategy="no",
            log_completions=False,
            disable_tqdm=True,
            **settings,
        ),
    )


def differences(folder: Path) -> list[float]:
    rows = [row for row in read_metrics(folder) if "sampling/sync_logp_difference" in row]
    assert [row["step"] for row in rows] == list(range(1, len(rows) + 1))
    assert all(row["sampling/sampling_logp_difference/max"] < 1e-4 for row in rows)
    return [row["sampling/sync_logp_difference"] for row in rows]
