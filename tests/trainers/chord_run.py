"""CHORD runs for `test_chord_gradient.py`, launched with one process or two: argv = folder, model folder, cases (JSON).

Each case makes two optimizer steps on the same rollouts. Of the second, at which ratios and KL are no longer
trivial, each process writes what the loss was made of and the gradient that came out.
"""

import json
import sys
from pathlib import Path

import torch
from datasets import Dataset
from ddp_run import scripted_rollouts
from example_rewards import share_of_vowels
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, TrainerCallback

from medgrpo import CHORDConfig, CHORDTrainer

MU = 0.3
TEMPERATURE, BETA, EPSILON = 0.7, 0.05, 0.2
# From one taught token to many, so that a mean over samples or micro-batches is another number.
TEXTS = [("a", "b"), ("what is it", "no"), ("x y z", "a very long answer that goes on"), ("who", "it was me")]
TEXTS += [("m" * 17, "s"), ("yes or no", "one of the two"), ("c", "d e f g")]


class Recorder(TrainerCallback):
    """Keeps the parameters before the second step, and its gradient."""

    def __init__(self) -> None:
        self.parameters: dict[str, torch.Tensor] = {}
        self.gradient: dict[str, torch.Tensor] = {}

    def on_step_begin(self, args, state, control, model, **kwargs) -> None:
        self.parameters = {name: p.detach().clone() for name, p in model.named_parameters()}

    def on_pre_optimizer_step(self, args, state, control, model, **kwargs) -> None:
        self.gradient = {name: p.grad.clone() for name, p in model.named_parameters()}


class Recording(CHORDTrainer):
    def _compute_loss(self, model, inputs):
        kept = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages")
        self.seen.append({name: inputs[name].clone() for name in kept})
        return super()._compute_loss(model, inputs)


def load_double(folder: str) -> PreTrainedModel:
    """In float64, which the fast kernel of experts does not take."""
    options = {"experts_implementation": "eager"} if folder.endswith("moe") else {}
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, **options)


def run(case: dict, folder: Path, model: str) -> None:
    config = CHORDConfig(
        output_dir=str(folder / "run"),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=case["accumulation"],
        steps_per_generation=case["accumulation"],
        num_iterations=2,
        num_generations=4,
        max_completion_length=8,
        temperature=TEMPERATURE,
        beta=BETA,
        epsilon=EPSILON,
        max_steps=2,
        max_grad_norm=0.0,
        learning_rate=1e-2,
        chord_mu_peak=MU,
        chord_mu_valley=MU,
        chord_sft_per_device_train_batch_size=3,
        chord_enable_phi_function=case["phi"],
        gradient_checkpointing=case["checkpointing"],
        seed=3,
        use_cpu=True,
        report_to="none",
        save_strategy="no",
        log_completions=False,
        disable_tqdm=True,
    )
    trainer = Recording(
        model=load_double(model),
        processing_class=AutoTokenizer.from_pretrained(model),
        reward_funcs=share_of_vowels,
        rollout_func=scripted_rollouts,
        train_dataset=Dataset.from_dict({"prompt": [f"question {letter}" for letter in "abcdefghijklmnopqrstuvwx"]}),
        chord_sft_dataset=Dataset.from_list([{"prompt": prompt, "completion": answer} for prompt, answer in TEXTS]),
        args=config,
    )
    trainer.ref_model.double()
    if case["model"] == "moe":
        trainer.ref_model.set_experts_implementation("eager")
    trainer.seen = []
    recorder = Recorder()
    trainer.add_callback(recorder)
    drawn = []
    draw = trainer.sft_stream.draw
    trainer.sft_stream.draw = lambda count: _keep(draw(count), drawn)
    trainer.train()
    torch.save(
        {
            "micro_batches": trainer.seen[case["accumulation"] :],
            "sft_ids": [batch.ids for batch in drawn[-1]],
            "parameters": recorder.parameters,
            "gradient": recorder.gradient,
            "log": trainer.state.log_history[1],
        },
        folder / f"{case['name']}_{trainer.accelerator.process_index}.pt",
    )


def _keep(window, drawn):
    drawn.append(list(window.batches))
    return window


def main() -> None:
    folder, model, cases = sys.argv[1:]
    for case in json.loads(cases):
        run(case, Path(folder), f"{model}_{case['model']}")


if __name__ == "__main__":
    main()
