"""What CHORD is for: from a base that never answers in the tag GRPO learns nothing, and CHORD does."""

from pathlib import Path

from accelerate import PartialState
from datasets import Dataset
from trl import ModelConfig

from medgrpo.errors import MedgrpoError
from medgrpo.exams.leakage import normalise_text
from medgrpo.exams.question import Question
from medgrpo.experiment.exam import Exam
from medgrpo.report.chord_curves import describe_chord_curves, draw_chord_curves
from medgrpo.tiny.untagged import make_untagged_model
from medgrpo.tiny.worked_answers import worked_answers
from medgrpo.trainers.chord import CHORDTrainer
from medgrpo.trainers.chord_config import CHORDConfig
from medgrpo.trainers.run_log import read_metrics
from medgrpo.trainers.sft_samples import read_sft_rows

# Names that stand for something embedded, as `tiny` and `mini_exam` do.
UNTAGGED = "tiny_untagged"
WORKED = "worked_answers"
FIGURE = "chord.png"


def find_base(model: ModelConfig, config: CHORDConfig) -> None:
    """Put the folder of the embedded untagged base in the place of its name, made in `<output_dir>/base` if need be."""
    if model.model_name_or_path == UNTAGGED:
        folder = Path(config.output_dir) / "base"
        with PartialState().local_main_process_first():
            make_untagged_model(folder)
        model.model_name_or_path = str(folder)


def load_teaching(config: CHORDConfig, exam: Exam) -> Dataset | None:
    """What CHORD is taught from: the embedded worked answers by their name; None leaves it to `chord_sft_dataset`.

    Raises `MedgrpoError`, naming ids, where a sample of the file holds a held-out question.
    """
    if config.chord_sft_dataset is None:
        raise MedgrpoError(f"chord_sft_dataset is missing: name a JSONL file, or `{WORKED}` with the mini exam")
    if config.chord_sft_dataset == WORKED:
        config.chord_sft_dataset = None
        return Dataset.from_list(worked_answers(exam.train))
    refuse_taught_questions(config.chord_sft_dataset, exam.held_out)
    return None


def refuse_taught_questions(path: str, held_out: list[Question]) -> None:
    """Raise where a sample of the SFT file spells out a held-out question: its text and all of its choices."""
    texts = [(name, normalise_text(text)) for name, text in read_sft_rows(path)]
    found = []
    for question in held_out:
        parts = [normalise_text(part) for part in (question.question, *question.choices.values())]
        found += [(name, question.id) for name, text in texts if all(part in text for part in parts)]
    if found:
        named = ", ".join(f"{name} (question {question})" for name, question in found[:5])
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        raise MedgrpoError(f"{path}: teaches held-out questions: samples {named}{more}: take them out")


def show_chord(trainer: CHORDTrainer, grpo_folder: str | Path | None) -> None:
    """Print how mu, both losses and the accuracy went and draw them into the run's folder, on the first process."""
    if not trainer.accelerator.is_main_process:
        return
    folder = Path(trainer.args.output_dir)
    grpo = None if grpo_folder is None else read_metrics(grpo_folder)
    (folder / FIGURE).write_bytes(draw_chord_curves(read_metrics(folder), grpo).png)
    print(f"\n{describe_chord_curves(read_metrics(folder), grpo)}\n")
    print(f"figure     {folder / FIGURE}")
