"""One training run for `test_ddp.py`, launched with one process or two: argv = trainer, folder, model, batch."""

import sys

import torch
from datasets import Dataset
from example_rewards import hash_reward, share_of_vowels
from transformers import AutoTokenizer

from medgrpo import GSPOConfig, GSPOTrainer, MedGRPOConfig, MedGRPOTrainer, MOGRPOConfig, MOGRPOTrainer
from medgrpo.rewards import consensus

LENGTHS = (3, 5, 8, 6)


def scripted_rollouts(prompts: list[str], trainer: MedGRPOTrainer) -> dict[str, list]:
    """Completions that follow from the prompt and the place in the group, so that no process draws its own."""
    tokenizer = trainer.processing_class
    prompt_ids = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    completion_ids = []
    first = trainer.accelerator.process_index * len(prompts)  # a group may lie on two processes
    for row, ids in enumerate(prompt_ids, first):
        generator = torch.Generator().manual_seed(1000 * sum(ids) + row % trainer.num_generations)
        length = LENGTHS[row % trainer.num_generations]
        completion_ids.append(torch.randint(2, len(tokenizer), (length,), generator=generator).tolist())
    return {"prompt_ids": prompt_ids, "completion_ids": completion_ids, "logprobs": None}


def main() -> None:
    name, folder, model, batch = sys.argv[1:]
    adapting = {"adapt_reward_weights": True, "reward_weight_window": 2}
    trainer_class, config_class, rewards, changes = {
        "grpo": (MedGRPOTrainer, MedGRPOConfig, [share_of_vowels], {}),
        "gspo": (GSPOTrainer, GSPOConfig, [share_of_vowels], {"epsilon": 0.01, "epsilon_high": 0.02}),
        "mo_grpo": (MOGRPOTrainer, MOGRPOConfig, [share_of_vowels, hash_reward], {}),
        "consensus": (MOGRPOTrainer, MOGRPOConfig, [consensus, hash_reward], adapting),
    }[name]
    trainer = trainer_class(
        model=model,
        processing_class=AutoTokenizer.from_pretrained(model),
        reward_funcs=rewards,
        rollout_func=scripted_rollouts,
        train_dataset=Dataset.from_dict({"prompt": [f"question {letter}" for letter in "abcdefghijklmnop"]}),
        args=config_class(
            output_dir=folder,
            per_device_train_batch_size=int(batch),
            num_generations=4,
            max_completion_length=8,
            # The same rollouts serve two updates, so ratios leave 1, and micro-batches stay whole.
            steps_per_generation=1,
            num_iterations=2,
            max_steps=6,
            learning_rate=1e-2,
            beta=0.1,
            seed=3,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            save_strategy="no",
            log_completions=False,
            disable_tqdm=True,
            **changes,
        ),
    )
    trainer.train()
    trainer.save_model(folder)


if __name__ == "__main__":
    main()
