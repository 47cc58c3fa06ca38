"""Trainings one after the other in the same processes: argv = a JSON file with what to do (see `Spec`)."""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from combined_run import TEXTS, CombinedConfig, CombinedTrainer
from datasets import Dataset
from ddp_run import scripted_rollouts
from example_rewards import hash_reward, share_of_vowels
from transformers import AutoTokenizer, TrainerCallback

from medgrpo import MedGRPOConfig, MedGRPOTrainer
from medgrpo.distributed.hf_folder import write_hf_folder
from medgrpo.distributed.hf_weights import full_state_dict
from medgrpo.distributed.sharding import autoep_layers, is_zero3
from medgrpo.errors import MedgrpoError

ZERO3 = {
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
    "zero_allow_untested_optimizer": True,
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
}
PLACES = {
    "plain": None,
    "zero3": ZERO3,
    "zero3_ep": {**ZERO3, "expert_parallel": {"enabled": True, "autoep_size": 2}},
}


@dataclass
class Spec:
    """One training, and what is written of it."""

    place: str
    model: str
    folder: str
    settings: dict[str, Any] = field(default_factory=dict)
    lora: bool = False
    combined: bool = False
    export_at_start: bool = False
    score_at_end: bool = False
    resume: str | None = None


def build(spec: Spec, processes: int) -> MedGRPOTrainer:
    config, trainer = (CombinedConfig, CombinedTrainer) if spec.combined else (MedGRPOConfig, MedGRPOTrainer)
    extra: dict[str, Any] = {}
    settings = dict(spec.settings)
    if spec.combined:
        settings["chord_sft_per_device_train_batch_size"] = 4 // processes
        extra["chord_sft_dataset"] = Dataset.from_list([{"prompt": p, "completion": c} for p, c in TEXTS])
    if spec.lora:
        from peft import LoraConfig

        extra["peft_config"] = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    settings = {
        "per_device_train_batch_size": 8 // processes,
        "gradient_accumulation_steps": 1,
        "num_generations": 4,
        "steps_per_generation": 1,
        "num_iterations": 2,
        "max_completion_length": 8,
        "max_steps": 3,
        "learning_rate": 1e-2,
        "beta": 0.0,
        "seed": 3,
        "save_strategy": "no",
        "gradient_checkpointing": True,
        "logging_steps": 1,
        **settings,
    }
    torch.manual_seed(11)  # for the adapter
    return trainer(
        model=spec.model,
        processing_class=AutoTokenizer.from_pretrained(spec.model),
        reward_funcs=[share_of_vowels, hash_reward],
        rollout_func=scripted_rollouts,
        train_dataset=Dataset.from_dict({"prompt": [f"question {letter}" for letter in "abcdefghijklmnop"]}),
        args=config(
            output_dir=spec.folder,
            deepspeed=json.loads(json.dumps(PLACES[spec.place])),
            use_cpu=True,
            bf16=False,
            report_to="none",
            log_completions=False,
            disable_tqdm=True,
            **settings,
        ),
        **extra,
    )


def run(spec: Spec, processes: int) -> None:
    trainer = build(spec, processes)
    folder = Path(spec.folder)
    main_process = trainer.accelerator.is_main_process
    if spec.export_at_start:
        trainer.add_callback(ExportAtStart(trainer, folder / "start"))
    trainer.train(resume_from_checkpoint=spec.resume)
    trainer.save_model()
    model = trainer.accelerator.unwrap_model(trainer.model)
    weights = full_state_dict(trainer.model_wrapped)
    if main_process:
        torch.save(weights, folder / "weights.pt")
        facts = {
            "zero3": is_zero3(model),
            "autoep": [layer.num_local_experts for layer in autoep_layers(model).values()],
            "leaves": sum(bool(getattr(module, "_z3_leaf", False)) for module in model.modules()),
        }
        (folder / "facts.json").write_text(json.dumps(facts))
    if spec.score_at_end:
        torch.save(score(trainer), folder / f"logps_{trainer.accelerator.process_index}.pt")
    trainer.accelerator.wait_for_everyone()
    trainer.accelerator.free_memory()


def score(trainer: MedGRPOTrainer) -> torch.Tensor:
    """The trainer's own log-probabilities of a fixed text, on every process."""
    ids = torch.arange(2, 14).view(1, 12)
    trainer.model_wrapped.eval()
    with torch.no_grad():
        logps, *_ = trainer._get_per_token_logps_and_entropies(trainer.model_wrapped, ids, torch.ones_like(ids), 8)
    return logps


class ExportAtStart(TrainerCallback):
    def __init__(self, trainer: MedGRPOTrainer, folder: Path) -> None:
        self.trainer, self.folder = trainer, folder

    def on_train_begin(self, args, state, control, **kwargs) -> None:
        trainer = self.trainer
        write_hf_folder(trainer.model_wrapped, self.folder, trainer.processing_class, max_shard_bytes=30_000)


def main() -> None:
    specs = [Spec(**spec) for spec in json.loads(Path(sys.argv[1]).read_text())]
    for spec in specs:
        try:
            run(spec, int(os.environ["WORLD_SIZE"]))
        except MedgrpoError as error:
            if os.environ["RANK"] == "0":
                Path(spec.folder).mkdir(parents=True, exist_ok=True)
                (Path(spec.folder) / "refused.txt").write_text(str(error))
    torch.distributed.destroy_process_group() if torch.distributed.is_initialized() else None


if __name__ == "__main__":
    main()
