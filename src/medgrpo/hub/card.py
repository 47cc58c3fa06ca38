"""The model card: what the run's own files say, in one language, with nothing that leaves a path or a secret."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from jinja2 import ChoiceLoader, Environment, PackageLoader

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import Run
from medgrpo.exams.prompts import CHOICE_INSTRUCTION, SYSTEM_PROMPT
from medgrpo.hub.finished_run import FinishedRun
from medgrpo.hub.metadata import build_metadata, exam_name
from medgrpo.hub.papers import find_papers
from medgrpo.hub.private import is_path, last_name, model_label, strip_paths
from medgrpo.hub.record import DataFile
from medgrpo.hub.slices import slice_table
from medgrpo.report.comparison_tables import headline_table, parse_table, seed_tables, test_tables
from medgrpo.report.conclusions import draw_conclusions
from medgrpo.report.page import new_environment
from medgrpo.report.tables import Entry, Records, Table, entries
from medgrpo.report.wording import LANGUAGES, Wording, read_wording

# Of the trainer's two hundred settings, those that decide the result; a method's own come by their prefix.
SETTINGS = (
    "learning_rate", "lr_scheduler_type", "warmup_steps", "optim", "weight_decay", "max_grad_norm",
    "num_train_epochs", "max_steps", "per_device_train_batch_size", "gradient_accumulation_steps",
    "steps_per_generation", "num_iterations", "num_generations", "max_completion_length", "temperature", "top_p",
    "top_k", "beta", "epsilon", "epsilon_high", "delta", "importance_sampling_level", "loss_type", "scale_rewards",
    "multi_objective_aggregation", "mask_truncated_completions", "advantage", "adapt_reward_weights",
    "reward_weight_window", "use_vllm", "bf16", "fp16", "gradient_checkpointing",
)  # fmt: skip
METHOD_SETTINGS = ("chord_",)


@dataclass(frozen=True)
class CardFigure:
    """A figure of the card: its place in the pushed folder and the key of its caption."""

    path: str
    caption: str


def write_card(run: FinishedRun, repo_id: str, lang: str = "ja", figures: Sequence[CardFigure] = ()) -> str:
    """The text of `README.md`: YAML, then Markdown in `lang`; the warning on use is in both languages.

    Every number is comparison.json's, written as the reports write it. Raises `MedgrpoError` for a language that
    the card does not speak.
    """
    words, wording = read_card_words(lang), read_wording(lang)
    records = Records(run.comparison, wording)
    papers = find_papers(run.arguments)
    title = repo_id.split("/")[-1]
    asked, sampling = run.after.run_info.get("prompt_template") or {}, run.after.run_info.get("sampling") or {}
    page = {
        "t": words,
        "other": read_card_words("en" if lang == "ja" else "ja"),
        "title": title,
        "run": run,
        "exam": exam_name(run),
        "base": model_label(run.record.base, run.record.base_revision),
        "conclusions": draw_conclusions(records),
        "cautions": [strip_paths(c.japanese if lang == "ja" else c.english) for c in run.comparison.cautions],
        "model_table": _model_table(run, words),
        "headline": headline_table(records),
        "tests": [replace(table, title=f"{words('section.tests')}: {table.title}") for table in test_tables(records)],
        "seeds": seed_tables(records),
        "parse": parse_table(records),
        "years": slice_table(records, run.name, "year", words("word.year")),
        "departments": slice_table(records, run.name, "department", wording("word.department")),
        "decoding": _decoding_table(run.after, words),
        "data": _data_table(run, words),
        "settings": _settings_table(run, words),
        "versions": Table(
            [words("word.package"), words("word.version")],
            [entries(k, str(v)) for k, v in run.training["versions"].items() if v is not None and k != "platform"],
        ),
        "figures": figures,
        "papers": papers,
        "prompt": {"system": SYSTEM_PROMPT, "choice_instruction": CHOICE_INSTRUCTION, **asked},
        "repo_id": repo_id,
        "max_new_tokens": int(sampling.get("max_new_tokens") or run.arguments.get("max_completion_length") or 1024),
        "adapter": bool(list(run.folder.glob("adapter_model*.safetensors"))),
    }
    body = _environment().get_template("model_card.md.j2").render(page)
    return f"---\n{build_metadata(run, title, papers).to_yaml()}\n---\n\n{body}"


def read_card_words(lang: str) -> Wording:
    """The card's texts in `lang`; raises `MedgrpoError` for a language that it does not speak."""
    if lang not in LANGUAGES:
        raise MedgrpoError(f"no model card in the language {lang!r}: choose from {', '.join(LANGUAGES)}")
    return Wording(lang, {key: texts[lang] for key, texts in _read_catalogue().items()})


@cache
def _read_catalogue() -> Mapping[str, Mapping[str, str]]:
    text = files("medgrpo.hub").joinpath("templates", "card_texts.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def _environment() -> Environment:
    environment = new_environment()
    environment.loader = ChoiceLoader([PackageLoader("medgrpo.hub"), PackageLoader("medgrpo.report")])
    # A text as a literal of Python, in which no backtick can end the code block around it.
    environment.filters["literal"] = lambda text: json.dumps(text, ensure_ascii=False).replace("`", "\\u0060")
    return environment


def _model_table(run: FinishedRun, words: Wording) -> Table:
    record, training = run.record, run.training
    seconds = next((row["train_runtime"] for row in reversed(run.metrics) if "train_runtime" in row), None)
    rows = [
        (words("word.base"), model_label(record.base, record.base_revision)),
        (words("word.revision"), record.base_revision or words("word.folder")),
        (words("word.method"), record.method),
        (words("word.rewards"), ", ".join(f"{name} × {weight:g}" for name, weight in training["rewards"].items())),
        (words("word.steps"), str(run.steps)),
        (words("word.processes"), str(training.get("world_size", 1))),
        (words("word.seed"), str(training.get("seed"))),
        (words("word.commit"), str(training.get("commit") or words("word.unknown"))),
    ]
    if seconds is not None:
        rows.append((words("word.time"), words("word.seconds", n=f"{seconds:.0f}")))
    return Table([words("word.item"), words("word.value")], [entries(*row) for row in rows])


def _data_table(run: FinishedRun, words: Wording) -> Table:
    record, head = run.record, ["", "word.file", "word.exam", "word.years", "word.n", "word.left_out", "SHA-256"]
    rows = [_data_row(words("data.train"), record.train, words), _held_out_row(run, words)]
    if record.sft is not None:
        rows.append(_data_row(words("data.sft"), record.sft, words))
    return Table([words(key) if key.startswith("word.") else key for key in head], rows)


def _data_row(what: str, file: DataFile, words: Wording) -> list[Entry]:
    years = _span(file.years) or words("word.unknown")
    exams = ", ".join(file.exams) or "–"
    name = last_name(file.name) if is_path(file.name) else file.name
    return entries(what, name, exams, years, str(file.examples), str(file.left_out), file.sha256)


def _held_out_row(run: FinishedRun, words: Wording) -> list[Entry]:
    """The file as the record has it; where the run was scored on other questions, what the samples say of them."""
    file, samples = run.record.held_out, run.after.samples
    years = sorted({sample.year for sample in samples} - {0})
    if (file.examples, file.years) == (len(samples), years):
        return _data_row(words("data.held_out"), file, words)
    return entries(
        words("data.held_out"), "–", exam_name(run), _span(years) or words("word.unknown"), str(len(samples)), "–", "–"
    )


def _span(years: list[int]) -> str:
    if not years:
        return ""
    whole = years == list(range(years[0], years[-1] + 1))
    return f"{years[0]}–{years[-1]}" if whole and len(years) > 1 else ", ".join(map(str, years))


def _settings_table(run: FinishedRun, words: Wording) -> Table:
    shown: dict[str, Any] = {name: run.arguments[name] for name in SETTINGS if name in run.arguments}
    shown |= {name: value for name, value in run.arguments.items() if name.startswith(METHOD_SETTINGS)}
    if (shown.get("max_steps") or 0) > 0:
        # The Trainer then leaves the epochs out of account.
        del shown["num_train_epochs"]
    rows = [
        entries(name, last_name(value) if isinstance(value, str) and is_path(value) else str(value))
        for name, value in shown.items()
        if value is not None and name != "chord_sft_dataset"
    ]
    return Table([words("word.setting"), words("word.value")], rows)


def _decoding_table(scored: Run, words: Wording) -> Table:
    sampling = scored.run_info.get("sampling") or {}
    wanted = ("backend", "backend_version", "temperature", "top_p", "max_new_tokens", "dtype", "device")
    rows = [entries(name, strip_paths(str(sampling[name]))) for name in wanted if sampling.get(name) is not None]
    rows.append(entries("seed", str(scored.run_info.get("seed"))))
    rows.append(entries("policy", str(scored.run_info.get("policy"))))
    rows.append(entries("prompts_sha256", str(scored.run_info.get("prompts_sha256"))))
    return Table([words("word.setting"), words("word.value")], rows)
