"""One run of a side-by-side experiment, in the processes that accelerate started: train, then score every exam."""

import fcntl
import json
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import yaml
from accelerate import PartialState
from trl import ModelConfig

from medgrpo.errors import MedgrpoError
from medgrpo.experiment.arguments import ExamArguments, parse_arguments
from medgrpo.experiment.chord_show import find_base, load_teaching
from medgrpo.experiment.exam import Exam, load_exam, to_dataset
from medgrpo.experiment.methods import combine
from medgrpo.experiment.model import find_model
from medgrpo.experiment.side_by_side.design import BASE, Design, HeldOut, PlannedRun
from medgrpo.experiment.verdict import Experiment
from medgrpo.hub.record import EXPERIMENT_FILE
from medgrpo.mapping_file import read_json
from medgrpo.rewards import get_reward_funcs
from medgrpo.trainers.base import MedGRPOTrainer
from medgrpo.trainers.chord_config import CHORDConfig
from medgrpo.trainers.config import MedGRPOConfig

STARTED, FINISHED = "started.json", "finished.json"
SETTINGS = "settings.yaml"
LOCK = "lock"


def train_run(design: Design, run: PlannedRun, fields: Sequence[str] = ()) -> None:
    """Train the run, going on from its last checkpoint, and score it on every exam; the base is only scored.

    `fields` are further options of a recipe (`--field value`): where this machine has the model, or the rollout
    server. Raises `MedgrpoError` for what the settings, the questions or the model have wrong.
    """
    arguments, config, model_arguments = parse_settings(run, fields)
    refuse_other_settings(run)
    with _alone(run):
        _train_and_score(design, run, arguments, config, model_arguments)


def _train_and_score(
    design: Design, run: PlannedRun, arguments: ExamArguments, config: MedGRPOConfig, model_arguments: ModelConfig
) -> None:
    exams = load_exams(design, arguments)
    trainer = _make_trainer(run, arguments, config, model_arguments, exams)
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.is_main_process:
        _mark(run, STARTED)
    for exam in exams.values():
        trainer.accelerator.print(exam.describe())
    if run.label != BASE:
        trainer.train(resume_from_checkpoint="auto")
        trainer.save_model()
    for name, exam in exams.items():
        Experiment(trainer, exam, on_exam(arguments, design.exams[name]), model_arguments).score(name)
        if trainer.accelerator.is_main_process:
            # The model card of a run that is scored on several exams is about one of them.
            shutil.copyfile(run.folder / EXPERIMENT_FILE, run.folder / name / EXPERIMENT_FILE)
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.is_main_process:
        _mark(run, FINISHED)


def refuse_other_settings(run: PlannedRun) -> None:
    """Raise `MedgrpoError` where the run was finished, or left a checkpoint, with other settings than it has now."""
    for name, left in ((FINISHED, True), (STARTED, any(run.folder.glob("checkpoint-*")))):
        path = run.folder / name
        if left and path.is_file() and read_json(path, "remove it").get("fingerprint") != run.fingerprint:
            raise MedgrpoError(
                f"{run.folder}: was {path.stem} with other settings than the file has now: name another output_dir, or "
                "remove that folder"
            )


@contextmanager
def _alone(run: PlannedRun) -> Iterator[None]:
    """Refuse a second training into the same folder: a killed launcher can leave its processes behind.

    Held by the first process of the run; the system lets go of it however that ends.
    """
    if PartialState().process_index > 0:
        yield
        return
    with (run.folder / LOCK).open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MedgrpoError(f"{run.folder}: another process is training this run: wait for it, or end it") from error
        yield


def wait_until_left(run: PlannedRun) -> None:
    """Return when no process trains the run: one that was asked to stop may still be saving."""
    with (run.folder / LOCK).open("a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def _mark(run: PlannedRun, name: str) -> None:
    mark = {"run": run.name, "fingerprint": run.fingerprint}
    (run.folder / name).write_text(json.dumps(mark) + "\n", encoding="utf-8")


def parse_settings(run: PlannedRun, fields: Sequence[str] = ()) -> tuple[ExamArguments, MedGRPOConfig, ModelConfig]:
    """The run's settings as a recipe reads them, from `settings.yaml` in its folder, which this writes."""
    config_class, _ = combine(run.parts)
    # Trackers tell runs by their name alone.
    name = f"{run.folder.parent.parent.name}/{run.name}"
    settings = {**run.settings, "output_dir": str(run.folder), "seed": run.seed, "run_name": name}
    if run.label == BASE:
        # Nothing is trained: no reference model has to be loaded, nothing is written to a tracker.
        settings |= {"beta": 0.0, "report_to": "none"}
    path = run.folder / SETTINGS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(settings, allow_unicode=True, sort_keys=False), encoding="utf-8")
    parsed = parse_arguments(config_class, path, ["--config", str(path), *fields])
    if parsed[1].push_to_hub:
        raise MedgrpoError(
            "push_to_hub: which run is worth it is known when all are compared: leave it out, and push that one with "
            f"medgrpo push {run.folder} --repo-id OWNER/NAME --comparison REPORT --run {shlex.quote(run.label)} "
            "--scored EXAM"
        )
    return parsed


def load_exams(design: Design, arguments: ExamArguments) -> dict[str, Exam]:
    """Each exam with the same training questions: those of which no exam reveals anything.

    Raises `MedgrpoError` where a file is damaged, or training questions leak into an exam.
    """
    exams = {name: load_exam(on_exam(arguments, held_out)) for name, held_out in design.exams.items()}
    kept = set.intersection(*({question.id for question in exam.train} for exam in exams.values()))
    if not kept:
        raise MedgrpoError(f"{arguments.train_file}: no question is left to train on")
    return {
        name: replace(exam, train=[question for question in exam.train if question.id in kept])
        for name, exam in exams.items()
    }


def on_exam(arguments: ExamArguments, held_out: HeldOut) -> ExamArguments:
    """The run's arguments as those of a recipe that is scored on one exam."""
    return replace(arguments, eval_file=held_out.file, eval_years=held_out.years)


def _make_trainer(
    run: PlannedRun,
    arguments: ExamArguments,
    config: MedGRPOConfig,
    model_arguments: ModelConfig,
    exams: dict[str, Exam],
) -> MedGRPOTrainer:
    _, trainer_class = combine(run.parts)
    extra = {}
    held_out = [question for exam in exams.values() for question in exam.held_out]
    together = replace(next(iter(exams.values())), held_out=held_out)
    if isinstance(config, CHORDConfig):
        # No question of any exam may be taught.
        extra["chord_sft_dataset"] = load_teaching(config, together)
    find_base(model_arguments, config)
    model, tokenizer, peft_config = find_model(model_arguments, config, arguments, together)
    return trainer_class(
        model=model,
        processing_class=tokenizer,
        peft_config=peft_config,
        args=config,
        reward_funcs=get_reward_funcs(arguments.reward_funcs),
        train_dataset=to_dataset(together.train),
        **extra,
    )
