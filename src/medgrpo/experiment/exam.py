"""The exam of an experiment: training questions and held-out questions that share nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from datasets import Dataset

from medgrpo.errors import MedgrpoError
from medgrpo.exams.leakage import Leak, list_leaks, refuse_leaks
from medgrpo.exams.near_duplicates import settle_near_duplicates
from medgrpo.exams.prompts import build_prompt
from medgrpo.exams.question import MINI_EXAM, Question, read_questions
from medgrpo.exams.splits import parse_years, select_years, span_years, trainable
from medgrpo.experiment.arguments import ExamArguments


@dataclass(frozen=True)
class Exam:
    """Questions to train on, and held-out ones of which no training question reveals anything."""

    train: list[Question]
    held_out: list[Question]
    dropped: list[Question]
    """Training questions left out because the board withdrew them."""
    near: list[Leak] = field(default_factory=list)
    """Training questions that are nearly held-out ones: left out unless `near_duplicates` says to keep them."""

    def describe(self) -> str:
        """One line for people."""
        years = f"{span_years(self.train)} to train on, {span_years(self.held_out)} held out"
        dropped = f"; {len(self.dropped)} withdrawn by the board left out" if self.dropped else ""
        near = f"; near-duplicates of held-out ones: {list_leaks(self.near, 5)}" if self.near else ""
        return f"{len(self.train)} + {len(self.held_out)} questions ({years}){dropped}{near}"


def load_exam(arguments: ExamArguments) -> Exam:
    """Read, select by year and check; raises `MedgrpoError` where a file is damaged or questions leak."""
    if arguments.train_file is None:
        raise MedgrpoError(f"train_file is missing: name a questions.jsonl, or `{MINI_EXAM}`")
    eval_file = arguments.eval_file or arguments.train_file
    train = _read(arguments.train_file, arguments.train_years, "train_years")
    held_out = _read(eval_file, arguments.eval_years, "eval_years")
    refuse_leaks(train, held_out, arguments.train_file, eval_file)
    train, near = settle_near_duplicates(train, held_out, arguments.train_file, eval_file, arguments.near_duplicates)
    kept, dropped = trainable(train)
    if not kept:
        raise MedgrpoError(f"{arguments.train_file}: no question is left to train on")
    return Exam(kept, held_out, dropped, near)


def to_dataset(questions: Sequence[Question]) -> Dataset:
    """What the trainer reads: the prompt, and the columns that the rewards are given."""
    return Dataset.from_list(
        [
            {
                "prompt": build_prompt(question),
                "id": question.id,
                "answer": question.answer,
                "answer_type": question.answer_type,
            }
            for question in questions
        ]
    )


def _read(name: str, years: str | None, option: str) -> list[Question]:
    questions = read_questions(name)
    if years is None:
        return questions
    try:
        return select_years(questions, parse_years(str(years)))
    except MedgrpoError as error:
        raise MedgrpoError(f"{option} of {name}: {error}") from error
