"""From a model to its score on the held-out questions, and from two scores to a verdict."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers.trainer_utils import HubStrategy
from trl import ModelConfig

from medgrpo.comparison.compare import compare_runs
from medgrpo.comparison.write import write_comparison
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.backend import Sampling
from medgrpo.evaluation.evaluate import evaluate_in_memory
from medgrpo.evaluation.load import ModelIdentity
from medgrpo.evaluation.samples import Run, pair_outcomes
from medgrpo.evaluation.score import Summary, summarise
from medgrpo.experiment.arguments import ExamArguments
from medgrpo.experiment.exam import Exam
from medgrpo.experiment.provenance import build_record
from medgrpo.experiment.scoring import scoring_backend
from medgrpo.hub.push import PushRequest, push_run
from medgrpo.hub.record import write_record
from medgrpo.hub.upload import open_repository
from medgrpo.report.comparison_report import write_comparison_report
from medgrpo.report.training_report import write_training_report
from medgrpo.statistics import compare_paired, wilson_interval
from medgrpo.trainers.base import MedGRPOTrainer
from medgrpo.trainers.run_log import METRICS, RUN_FILE, read_metrics


@dataclass
class Experiment:
    """One trainer on one exam: scores its model as it stands, and concludes."""

    trainer: MedGRPOTrainer
    exam: Exam
    arguments: ExamArguments
    model: ModelConfig

    def __post_init__(self) -> None:
        """Write `experiment.json`; with `push_to_hub` ask the Hub, before the training and not days after it.

        Raises `MedgrpoError` for a repository that cannot be made or written, and for settings that would push
        more than the result.
        """
        args = self.trainer.args
        if not self.trainer.accelerator.is_main_process:
            return
        write_record(self.folder, build_record(self.method, self.exam, self.arguments, self.model, args))
        if args.push_to_hub:
            if args.hub_strategy in (HubStrategy.CHECKPOINT, HubStrategy.ALL_CHECKPOINTS):
                raise MedgrpoError(
                    f"hub_strategy={args.hub_strategy.value}: checkpoints hold optimizer states and rollouts, and are "
                    "not pushed: leave it out"
                )
            if args.hub_revision is not None:
                raise MedgrpoError("hub_revision: the result is pushed to the main branch: leave it out")
            open_repository(self._push_request.repo_id, self._push_request.private, args.hub_token)

    def score(self, name: str) -> Run | None:
        """Score the model on the held-out questions, greedily, into `<output_dir>/<name>/`.

        The processes share the questions; the run is returned on the first one, None on the others.
        """
        trainer, arguments = self.trainer, self.arguments
        sampling = Sampling(
            max_new_tokens=arguments.eval_max_new_tokens or trainer.args.max_completion_length,
            seed=trainer.args.seed,
        )
        with scoring_backend(trainer, sampling, arguments.eval_batch_size, len(self.exam.held_out)) as (backend, share):
            return evaluate_in_memory(
                backend,
                self.exam.held_out,
                self.folder / name,
                model=ModelIdentity(
                    f"{self.model.model_name_or_path} ({name} {self.method})", self.model.model_revision
                ),
                share=share,
            )

    def conclude(self, before: Run | None, after: Run | None) -> None:
        """Print the verdict and write the report and the comparison, on the first process."""
        if before is None or after is None:
            return
        runs = {"base": before, self.method: after}
        comparison = compare_runs(runs, "base")
        compared = self.folder / "comparison"
        write_comparison(compared, comparison)
        write_comparison_report(compared, comparison, runs, self.exam.held_out)
        _, report = write_training_report(
            self.folder,
            before,
            after,
            read_metrics(self.folder),
            f"{self.method}: {self.model.model_name_or_path}",
            self._settings(),
            questions=self.exam.held_out,
        )
        print(describe(before, after))
        print(f"report     {report}")
        print(f"comparison {compared / 'comparison.html'}")
        print(f"model      {self.folder}")
        print(f"samples    {self.folder / 'before'}, {self.folder / 'after'}")
        print(f"metrics    {self.folder / METRICS}, {self.folder / RUN_FILE}")

    def push(self) -> None:
        """With `push_to_hub`, push the result with its model card, on the first process; else do nothing.

        Raises `MedgrpoError` where the Hub refuses or cannot be reached, with the command that tries again.
        """
        if self.trainer.args.push_to_hub and self.trainer.accelerator.is_main_process:
            done = push_run(self._push_request, self.trainer.args.hub_token)
            print(f"pushed     {done.url}")

    @property
    def _push_request(self) -> PushRequest:
        args = self.trainer.args
        # Not said is private: a medical model is published on purpose.
        return PushRequest(
            run_dir=self.folder,
            repo_id=args.hub_model_id or self.folder.absolute().name,
            private=args.hub_private_repo is not False,
        )

    @property
    def folder(self) -> Path:
        """Where everything of the run is written."""
        return Path(self.trainer.args.output_dir)

    @property
    def method(self) -> str:
        """The method's name: GRPO, GSPO, ..."""
        return type(self.trainer).__name__.removesuffix("Trainer").removeprefix("Med")

    def _settings(self) -> dict[str, Any]:
        trainer, args = self.trainer, self.trainer.args
        files = f"{self.arguments.train_file} / {self.arguments.eval_file or self.arguments.train_file}"
        weights = zip(trainer.reward_func_names, trainer.reward_weights.tolist(), strict=True)
        high = args.epsilon if args.epsilon_high is None else args.epsilon_high
        return {
            "method": self.method,
            "model": self.model.model_name_or_path,
            "questions": f"{files}: {self.exam.describe()}",
            "rewards": ", ".join(f"{name} x {weight:g}" for name, weight in weights),
            "optimizer steps": f"{trainer.state.global_step}, {args.optimizer_steps_per_generation:g} a generation",
            "batch": f"{args.train_batch_size * args.gradient_accumulation_steps * args.world_size} completions",
            "generations": f"{args.num_generations} a question at temperature {args.temperature:g}",
            "learning rate": f"{args.learning_rate:g}",
            "ratio": f"{args.importance_sampling_level}, clipped at -{args.epsilon:g} / +{high:g}",
            "KL (beta)": f"{args.beta:g}",
            "seed": args.seed,
            "training time": f"{trainer.state.log_history[-1]['train_runtime']:.0f} s",
        }


def describe(before: Run, after: Run) -> str:
    """The verdict in a few lines: accuracies with n, discordant counts, exact p, format compliance."""
    _, was, now = pair_outcomes(before, after)
    paired = compare_paired(was, now)
    first, last = summarise(before.samples), summarise(after.samples)
    years = sorted({sample.year for sample in before.samples} - {0})
    span = f" of {years[0]}-{years[-1]}" if len(years) > 1 else f" of {years[0]}" if years else ""
    low, high = paired.delta_ci
    return "\n".join(
        [
            "",
            f"held out   {first.n} questions{span}, none of them trained on; greedy decoding",
            f"accuracy   before {_accuracy(first)}   after {_accuracy(last)}",
            f"change     {100 * paired.delta:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]   McNemar exact "
            f"p = {paired.p:.2g}   (b = {paired.b} right only before, c = {paired.c} right only after)",
            f"format     before {_share(first)} readable   after {_share(last)} readable",
        ]
    )


def _accuracy(summary: Summary) -> str:
    low, high = wilson_interval(summary.correct, summary.n)
    return f"{100 * summary.accuracy:.1f} % ({summary.correct}/{summary.n}) [{100 * low:.1f}, {100 * high:.1f}]"


def _share(summary: Summary) -> str:
    return f"{100 * summary.format_compliance:.1f} %"
