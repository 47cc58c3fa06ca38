"""Which base and which files a run is about, written down before it starts."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from trl import ModelConfig

from medgrpo.exams.question import EMBEDDED, MINI_EXAM, Question
from medgrpo.experiment.arguments import ExamArguments
from medgrpo.experiment.exam import Exam
from medgrpo.hub.record import DataFile, ExperimentRecord
from medgrpo.trainers.config import MedGRPOConfig
from medgrpo.trainers.sft_samples import read_sft_rows


def build_record(
    method: str, exam: Exam, arguments: ExamArguments, model: ModelConfig, config: MedGRPOConfig
) -> ExperimentRecord:
    """The record of a recipe's run: the base with its commit, and each file with its hash and what was used of it."""
    near = {leak.train_id for leak in exam.near} if arguments.near_duplicates == "leave_out" else set()
    train = str(arguments.train_file)
    return ExperimentRecord(
        method=method,
        base=str(model.model_name_or_path),
        base_revision=model.model_revision,
        train=_question_file(train, exam.train, len(exam.dropped) + len(near)),
        held_out=_question_file(arguments.eval_file or train, exam.held_out, 0),
        sft=_sft_file(config),
    )


def _question_file(name: str, questions: Sequence[Question], left_out: int) -> DataFile:
    path = EMBEDDED if name == MINI_EXAM else Path(name)
    return DataFile(
        name=path.name,
        sha256=_hash(path),
        examples=len(questions),
        years=sorted({question.year for question in questions} - {0}),
        exams=sorted({question.exam for question in questions} - {""}),
        left_out=left_out,
    )


def _sft_file(config: MedGRPOConfig) -> DataFile | None:
    # Only CHORD's settings have it, and CHORD combines with the others; None is a data set in memory.
    name = getattr(config, "chord_sft_dataset", None)
    if name is None:
        return None
    path = Path(name)
    return DataFile(path.name, _hash(path), len(read_sft_rows(path)), [], [])


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
