"""From a model to its score on the held-out questions, and from two scores to a verdict."""

from pathlib import Path
from typing import Any

from accelerate.utils import gather_object

from medgrpo.evaluation.evaluate import sampling_info
from medgrpo.evaluation.generate import generate_completions
from medgrpo.evaluation.run_info import build_run_info
from medgrpo.evaluation.samples import Run, pair_outcomes, write_run
from medgrpo.evaluation.score import Summary, score_completions, summarise
from medgrpo.exams.prompts import build_prompt
from medgrpo.experiment.arguments import ExamArguments
from medgrpo.experiment.exam import Exam
from medgrpo.report.training_report import write_training_report
from medgrpo.statistics import compare_paired, wilson_interval
from medgrpo.trainers.base import MedGRPOTrainer
from medgrpo.trainers.run_log import read_metrics


def score_held_out(trainer: MedGRPOTrainer, exam: Exam, arguments: ExamArguments, name: str) -> Run | None:
    """Score the trainer's model as it stands, greedily, into `<output_dir>/<name>/`.

    The processes share the questions; the run is returned on the first one, None on the others.
    """
    accelerator = trainer.accelerator
    rank, world = accelerator.process_index, accelerator.num_processes
    model = accelerator.unwrap_model(trainer.model)
    tokens = arguments.eval_max_new_tokens or trainer.args.max_completion_length
    texts = generate_completions(
        model,
        trainer.processing_class,
        [build_prompt(question) for question in exam.held_out[rank::world]],
        max_new_tokens=tokens,
        batch_size=arguments.eval_batch_size,
        progress=accelerator.is_main_process,
    )
    ids = [question.id for question in exam.held_out[rank::world]]
    completions = dict(gather_object(list(zip(ids, texts, strict=True))))
    if not accelerator.is_main_process:
        return None
    run_info = build_run_info(
        model=f"{trainer.model.config.name_or_path} {name}",
        revision=None,
        **sampling_info(
            model,
            trainer.processing_class,
            exam.held_out[0],
            temperature=0.0,
            max_new_tokens=tokens,
            batch_size=arguments.eval_batch_size,
        ),
        seed=trainer.args.seed,
    )
    folder = Path(trainer.args.output_dir) / name
    return write_run(folder, score_completions(exam.held_out, completions), run_info)


def conclude(
    trainer: MedGRPOTrainer, exam: Exam, arguments: ExamArguments, before: Run | None, after: Run | None
) -> None:
    """Print the verdict and write the report, on the first process."""
    if before is None or after is None:
        return
    folder = Path(trainer.args.output_dir)
    method = type(trainer).__name__.removesuffix("Trainer")
    _, report = write_training_report(
        folder,
        before,
        after,
        read_metrics(folder),
        f"{method}: {trainer.model.config.name_or_path}",
        _settings(trainer, exam, arguments),
        questions=exam.held_out,
    )
    print(describe(exam, before, after))
    print(f"report     {report}")
    print(f"model      {folder}")
    print(f"samples    {folder / 'before'}, {folder / 'after'}")
    print(f"metrics    {folder / 'metrics.jsonl'}, {folder / 'training.json'}")


def describe(exam: Exam, before: Run, after: Run) -> str:
    """The verdict in a few lines: accuracies with n, discordant counts, exact p, format compliance."""
    _, was, now = pair_outcomes(before, after)
    paired = compare_paired(was, now)
    first, last = summarise(before.samples), summarise(after.samples)
    years = sorted({question.year for question in exam.held_out})
    low, high = paired.delta_ci
    return "\n".join(
        [
            "",
            f"held out   {first.n} questions of {years[0]}-{years[-1]}, greedy decoding; no question about their "
            "facts was trained on",
            f"accuracy   before {_accuracy(first)}   after {_accuracy(last)}",
            f"change     {100 * paired.delta:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]; "
            f"discordant: {paired.b} right before only, {paired.c} right after only; "
            f"McNemar exact p = {paired.p:.2g}",
            f"format     before {_share(first)} readable   after {_share(last)} readable",
        ]
    )


def _accuracy(summary: Summary) -> str:
    low, high = wilson_interval(summary.correct, summary.n)
    return f"{100 * summary.accuracy:.1f} % ({summary.correct}/{summary.n}) [{100 * low:.1f}, {100 * high:.1f}]"


def _share(summary: Summary) -> str:
    return f"{100 * summary.format_compliance:.1f} %"


def _settings(trainer: MedGRPOTrainer, exam: Exam, arguments: ExamArguments) -> dict[str, Any]:
    args = trainer.args
    weights = trainer.reward_weights.tolist()
    return {
        "method": type(trainer).__name__.removesuffix("Trainer"),
        "model": trainer.model.config.name_or_path,
        "questions": exam.describe(),
        "files": f"{arguments.train_file} -> {arguments.eval_file or arguments.train_file}",
        "rewards": ", ".join(f"{n} x {w:g}" for n, w in zip(trainer.reward_func_names, weights, strict=True)),
        "optimizer steps": trainer.state.global_step,
        "learning rate": f"{args.learning_rate:g}",
        "generations": f"{args.num_generations} at temperature {args.temperature:g}",
        "ratio": f"{args.importance_sampling_level}, clipped at -{args.epsilon:g} / +{args.epsilon_high or args.epsilon:g}",
        "beta (KL)": f"{args.beta:g}",
        "seed": args.seed,
        "training time": f"{trainer.training_seconds:.0f} s",
    }
