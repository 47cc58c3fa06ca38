"""A training with rollouts from a vLLM server, for `test_server_training.py`: argv = a JSON object of settings."""

import json
import sys

from datasets import Dataset
from transformers import AutoTokenizer

from medgrpo import MedGRPOConfig, MedGRPOTrainer
from medgrpo.experiment.arguments import run
from medgrpo.tiny import TINY_MODEL

QUESTIONS = [[{"role": "user", "content": f"質問{number}: 緑内障の眼圧は?"}] for number in range(16)]


def third_tokens(completion_ids: list[list[int]], **columns) -> list[float]:
    """The share of token ids that three divides: a few steps raise it."""
    return [sum(token % 3 == 0 for token in ids) / len(ids) for ids in completion_ids]


def main() -> None:
    settings = json.loads(sys.argv[1])
    resume = settings.pop("resume", None)
    if len(sys.argv) > 3:  # the printed command adds `--resume_from_checkpoint last`
        assert sys.argv[2] == "--resume_from_checkpoint"
        resume = sys.argv[3]
    model = settings.pop("model", str(TINY_MODEL))
    trainer = MedGRPOTrainer(
        model=model,
        processing_class=AutoTokenizer.from_pretrained(model),
        reward_funcs=[third_tokens],
        train_dataset=Dataset.from_dict({"prompt": QUESTIONS}),
        args=MedGRPOConfig(
            num_generations=8,
            max_completion_length=12,
            learning_rate=2e-3,
            beta=0.0,
            temperature=1.0,
            use_cpu=True,
            bf16=False,
            use_vllm=True,
            vllm_mode="server",
            report_to="none",
            save_strategy="no",
            log_completions=False,
            disable_tqdm=True,
            **settings,
        ),
    )
    trainer.train(resume_from_checkpoint=resume)


if __name__ == "__main__":
    run(main)
