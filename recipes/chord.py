"""Post-train a model on exam questions with CHORD: GRPO that is taught from worked answers while it explores.

accelerate launch recipes/chord.py                       # a base that can't answer: CHORD, and GRPO beside it
accelerate launch recipes/chord.py --chord_enable_phi_function true --against_grpo false
accelerate launch recipes/chord.py --config my.yaml --chord_sft_dataset sft_igakuqa.jsonl

With `--against_grpo true` GRPO is trained first, from the same base with the same settings, into
`<output_dir>/grpo`; a table and a figure then show mu, both losses and both accuracies.
"""

from copy import deepcopy
from pathlib import Path

from medgrpo import CHORDConfig, CHORDTrainer, MedGRPOTrainer
from medgrpo.experiment.arguments import AgainstGRPOArguments, parse_arguments, run
from medgrpo.experiment.chord_show import find_base, load_teaching, show_chord
from medgrpo.experiment.exam import load_exam, to_dataset
from medgrpo.experiment.model import find_model
from medgrpo.experiment.verdict import Experiment
from medgrpo.rewards import get_reward_funcs

DEFAULT = Path(__file__).parent / "configs" / "tiny_chord_cpu.yaml"


def main() -> None:
    """Arguments, exam, teaching, model; GRPO; trainer, score, train, score, verdict; both side by side."""
    arguments, config, model_arguments = parse_arguments(CHORDConfig, DEFAULT, exam_class=AgainstGRPOArguments)
    exam = load_exam(arguments)
    teaching = load_teaching(config, exam)
    find_base(model_arguments, config)
    model, tokenizer, peft_config = find_model(model_arguments, config, arguments, exam)
    common = {
        "model": model,
        "processing_class": tokenizer,
        "peft_config": peft_config,
        "reward_funcs": get_reward_funcs(arguments.reward_funcs),
        "train_dataset": to_dataset(exam.train),
    }

    grpo_folder = None
    if arguments.against_grpo:
        grpo_config = deepcopy(config)
        grpo_config.output_dir = grpo_folder = str(Path(config.output_dir) / "grpo")
        grpo_config.push_to_hub, grpo_config.report_to = False, []
        grpo = Experiment(MedGRPOTrainer(**common, args=grpo_config), exam, arguments, model_arguments)
        before = grpo.score("before")
        grpo.trainer.train()
        grpo.conclude(before, grpo.score("after"))

    trainer = CHORDTrainer(**common, args=config, chord_sft_dataset=teaching)
    trainer.accelerator.print(exam.describe())
    experiment = Experiment(trainer, exam, arguments, model_arguments)
    before = experiment.score("before")
    trainer.train(resume_from_checkpoint=config.resume_from_checkpoint)
    trainer.save_model()
    after = experiment.score("after")
    experiment.conclude(before, after)
    show_chord(trainer, grpo_folder)
    experiment.push()


if __name__ == "__main__":
    run(main)
