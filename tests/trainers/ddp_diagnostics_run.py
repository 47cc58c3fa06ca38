"""One run of a small mixture of experts for `test_ddp_diagnostics.py`: argv = folder, model, batch."""

import sys

from datasets import Dataset
from ddp_run import scripted_rollouts
from example_rewards import hash_reward, share_of_vowels
from transformers import AutoTokenizer

from medgrpo import MedGRPOConfig, MedGRPOTrainer


def main() -> None:
    folder, model, batch = sys.argv[1:]
    questions = [f"question {letter}" for letter in "abcdefghijklmnop"]
    trainer = MedGRPOTrainer(
        model=model,
        processing_class=AutoTokenizer.from_pretrained(model),
        reward_funcs=[share_of_vowels, hash_reward],
        rollout_func=scripted_rollouts,
        train_dataset=Dataset.from_dict({"prompt": questions, "answer": [[["a"]]] * len(questions)}),
        args=MedGRPOConfig(
            output_dir=folder,
            per_device_train_batch_size=int(batch),
            gradient_accumulation_steps=2,
            num_generations=4,
            max_completion_length=8,
            steps_per_generation=2,
            num_iterations=2,
            max_steps=6,
            logging_steps=2,
            learning_rate=5e-2,
            beta=0.1,
            seed=3,
            # Balance is a property of a whole batch: two halves of it have another one.
            router_aux_loss_coef=0.0,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            save_strategy="no",
            log_completions=False,
            disable_tqdm=True,
        ),
    )
    trainer.train()


if __name__ == "__main__":
    main()
