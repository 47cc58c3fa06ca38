"""Post-train a model on exam questions with MO-GRPO, so that every reward counts, and say whether it helped.

accelerate launch recipes/mo_grpo.py                     # embedded tiny model: MO-GRPO, and GRPO beside it
accelerate launch recipes/mo_grpo.py --against_grpo false --advantage gdpo
accelerate launch recipes/mo_grpo.py --config recipes/configs/tiny_mo_grpo_cpu.yaml --reward_funcs ophtho japanese

With `--against_grpo true` GRPO is trained, too, from the same start and with the same settings, into
`<output_dir>/grpo`; a table and a figure then show what each reward gained under each.
"""

from copy import deepcopy
from pathlib import Path

from medgrpo import MOGRPOConfig, MOGRPOTrainer
from medgrpo.experiment.arguments import AgainstGRPOArguments, parse_arguments, run
from medgrpo.experiment.exam import load_exam, to_dataset
from medgrpo.experiment.model import find_model
from medgrpo.experiment.reward_gains import show_reward_gains
from medgrpo.experiment.verdict import Experiment
from medgrpo.rewards import get_reward_funcs

DEFAULT = Path(__file__).parent / "configs" / "tiny_mo_grpo_cpu.yaml"


def main() -> None:
    """Arguments, exam, model, trainer, score, train, score, verdict; then GRPO on the same, and both side by side."""
    arguments, config, model_arguments = parse_arguments(MOGRPOConfig, DEFAULT, exam_class=AgainstGRPOArguments)
    exam = load_exam(arguments)
    model, tokenizer, peft_config = find_model(model_arguments, config, arguments, exam)

    def make_trainer(config: MOGRPOConfig) -> MOGRPOTrainer:
        return MOGRPOTrainer(
            model=model,
            processing_class=tokenizer,
            peft_config=peft_config,
            args=config,
            reward_funcs=get_reward_funcs(arguments.reward_funcs),
            train_dataset=to_dataset(exam.train),
        )

    grpo_config = deepcopy(config)
    trainer = make_trainer(config)
    trainer.accelerator.print(exam.describe())
    experiment = Experiment(trainer, exam, arguments, model_arguments)
    before = experiment.score("before")
    trainer.train(resume_from_checkpoint=config.resume_from_checkpoint)
    trainer.save_model()
    after = experiment.score("after")
    experiment.conclude(before, after)

    if arguments.against_grpo:
        grpo_config.advantage, grpo_config.adapt_reward_weights = "grpo", False
        grpo_config.output_dir = str(experiment.folder / "grpo")
        grpo_config.push_to_hub, grpo_config.report_to = False, []
        make_trainer(grpo_config).train()
        show_reward_gains(trainer, grpo_config.output_dir)
    experiment.push()


if __name__ == "__main__":
    run(main)
