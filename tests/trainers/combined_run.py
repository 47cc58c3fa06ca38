"""CHORD, MO-GRPO and sequence ratios in one class: argv = place, folder, model, batch, SFT batch (each a process)."""

import sys
from dataclasses import dataclass

from datasets import Dataset
from ddp_run import scripted_rollouts
from example_rewards import hash_reward, share_of_vowels
from transformers import AutoTokenizer

from medgrpo import CHORDConfig, CHORDTrainer, MOGRPOConfig, MOGRPOTrainer

ZERO3 = {
    "zero_optimization": {
        "stage": 3,
        "stage3_param_persistence_threshold": 0,
        "stage3_gather_16bit_weights_on_model_save": True,
    },
    "zero_allow_untested_optimizer": True,
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
}
TEXTS = [("a", "b"), ("what is it", "no"), ("x y z", "a long answer"), ("who", "it was me"), ("c", "d e f g")]


@dataclass
class CombinedConfig(CHORDConfig, MOGRPOConfig):
    pass


class CombinedTrainer(CHORDTrainer, MOGRPOTrainer):
    pass


def main() -> None:
    place, folder, model, batch, sft_batch = sys.argv[1:]
    trainer = CombinedTrainer(
        model=model,
        processing_class=AutoTokenizer.from_pretrained(model),
        reward_funcs=[share_of_vowels, hash_reward],
        rollout_func=scripted_rollouts,
        train_dataset=Dataset.from_dict({"prompt": [f"question {letter}" for letter in "abcdefghijklmnop"]}),
        chord_sft_dataset=Dataset.from_list([{"prompt": prompt, "completion": answer} for prompt, answer in TEXTS]),
        args=CombinedConfig(
            output_dir=folder,
            deepspeed=ZERO3 if place == "zero3" else None,
            importance_sampling_level="sequence",
            epsilon=0.01,
            epsilon_high=0.02,
            use_bias_correction_kl=False,
            per_device_train_batch_size=int(batch),
            gradient_accumulation_steps=2,
            # The same rollouts serve two updates, so ratios leave 1, and micro-batches stay whole.
            steps_per_generation=2,
            num_iterations=2,
            num_generations=4,
            max_completion_length=8,
            max_steps=4,
            learning_rate=1e-2,
            beta=0.1,
            seed=3,
            chord_sft_per_device_train_batch_size=int(sft_batch),
            # mu is 0 in the first step, so that ZeRO-3 sees the number of forward passes change.
            chord_mu_warmup_steps=1,
            chord_mu_peak=0.6,
            chord_mu_decay_steps=10,
            gradient_checkpointing=True,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="steps",
            save_steps=3,
            save_only_model=False,
            log_completions=False,
            disable_tqdm=True,
        ),
    )
    trainer.train()
    trainer.save_model(folder)


if __name__ == "__main__":
    main()
