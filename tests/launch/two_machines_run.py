"""One training run for `test_two_machines.py`, a rank on each machine: argv = folder, batch of each rank."""

import sys
from pathlib import Path

import torch
from datasets import Dataset
from ddp_run import scripted_rollouts
from example_rewards import share_of_vowels
from safetensors.torch import save_file
from transformers import AutoTokenizer

from medgrpo import MedGRPOConfig, MedGRPOTrainer
from medgrpo.tiny import TINY_MODEL


def main() -> None:
    folder, batch = sys.argv[1:]
    Path(folder).mkdir(exist_ok=True)
    trainer = MedGRPOTrainer(
        model=str(TINY_MODEL),
        processing_class=AutoTokenizer.from_pretrained(TINY_MODEL),
        reward_funcs=[share_of_vowels],
        rollout_func=scripted_rollouts,
        train_dataset=Dataset.from_dict({"prompt": [f"question {letter}" for letter in "abcdefghijklmnop"]}),
        args=MedGRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=int(batch),
            num_generations=4,
            max_completion_length=8,
            steps_per_generation=1,
            num_iterations=2,
            max_steps=4,
            # AdamW would blow up rounding where a gradient is all but zero.
            optim="sgd",
            learning_rate=0.05,
            beta=0.0,
            seed=3,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            save_strategy="no",
            log_completions=False,
            disable_tqdm=True,
        ),
    )
    rank = trainer.accelerator.process_index
    save_file(weights(trainer), Path(folder) / f"start-{rank}.safetensors")
    trainer.train()
    save_file(weights(trainer), Path(folder) / f"rank-{rank}.safetensors")


def weights(trainer: MedGRPOTrainer) -> dict[str, torch.Tensor]:
    """This rank's own, tied ones twice."""
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


if __name__ == "__main__":
    main()
