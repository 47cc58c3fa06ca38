"""Post-train a model on exam questions with GSPO, and say whether it helped.

accelerate launch recipes/gspo.py                                        # embedded tiny model, mini exam
accelerate launch recipes/gspo.py --seed 1                               # the same, another seed
accelerate launch recipes/gspo.py --config recipes/configs/tiny_gspo_cpu.yaml --learning_rate 5e-4
"""

from pathlib import Path

from medgrpo import GSPOConfig, GSPOTrainer
from medgrpo.experiment.arguments import parse_arguments, run
from medgrpo.experiment.exam import load_exam, to_dataset
from medgrpo.experiment.model import find_model
from medgrpo.experiment.verdict import Experiment
from medgrpo.rewards import get_reward_funcs

DEFAULT = Path(__file__).parent / "configs" / "tiny_gspo_cpu.yaml"


def main() -> None:
    """Arguments, exam, model, trainer, score, train, score, verdict."""
    arguments, config, model_arguments = parse_arguments(GSPOConfig, DEFAULT)
    exam = load_exam(arguments)
    model, tokenizer, peft_config = find_model(model_arguments, config, arguments, exam)
    trainer = GSPOTrainer(
        model=model,
        processing_class=tokenizer,
        peft_config=peft_config,
        args=config,
        reward_funcs=get_reward_funcs(arguments.reward_funcs),
        train_dataset=to_dataset(exam.train),
    )

    trainer.accelerator.print(exam.describe())
    experiment = Experiment(trainer, exam, arguments, model_arguments)
    before = experiment.score("before")
    trainer.train(resume_from_checkpoint=config.resume_from_checkpoint)
    trainer.save_model()
    after = experiment.score("after")
    experiment.conclude(before, after)
    experiment.push()


if __name__ == "__main__":
    run(main)
