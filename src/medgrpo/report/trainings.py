"""How the compared models were trained, for the page that compares them: settings, curves, what the audits found."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medgrpo.exams.question import Question
from medgrpo.exams.splits import span_years
from medgrpo.report.figure_style import Drawing
from medgrpo.report.method_curves import Metrics, draw_method_curves
from medgrpo.report.tables import Entry, Table, entries
from medgrpo.report.wording import Wording
from medgrpo.trainers.metrics_file import RUN_FILE, read_metrics

# The rows of the set-up table, in the order in which such experiments are published; one that no run has stays out.
SETTINGS = (
    "learning_rate",
    "beta",
    "epsilon",
    "epsilon_high",
    "importance_sampling_level",
    "loss_type",
    "num_generations",
    "temperature",
    "max_completion_length",
    "num_train_epochs",
    "max_steps",
    "per_device_train_batch_size",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "num_iterations",
    "advantage",
    "adapt_reward_weights",
    "chord_mu_peak",
    "chord_mu_valley",
    "chord_mu_warmup_steps",
    "chord_mu_decay_steps",
    "chord_enable_phi_function",
)


@dataclass(frozen=True)
class AuditedRun:
    """What the audit of one run said: (severity, what happened, what to try) a finding, in the page's language."""

    name: str
    findings: Sequence[tuple[str, str, str]]
    page: str
    """Where its own page is, relative to the report."""


@dataclass(frozen=True)
class Trainings:
    """What a comparison of trained models says of their training."""

    setup: list[Table]
    """What differs between the methods, and what is the same for all."""
    curves: Drawing | None
    audits: Table


def describe_trainings(
    folders: Mapping[str, Sequence[Path]], audits: Sequence[AuditedRun], say: Wording, *, base: str, data: str
) -> Trainings:
    """Read each method's `run.json` and `metrics.jsonl` (a folder a seed) and put them side by side.

    `base` names the model that all started from, `data` what they were trained on.
    """
    infos = {label: [_read_info(folder) for folder in seeds] for label, seeds in folders.items()}
    metrics: dict[str, list[Metrics]] = {
        label: [read_metrics(folder) for folder in seeds] for label, seeds in folders.items()
    }
    facts = {say("setup.base"): base, say("setup.train"): data}
    return Trainings(_setup(infos, say, facts), draw_method_curves(metrics, say), _audits(audits, say))


def describe_questions(
    file: str,
    train: Sequence[Question],
    held_out: Sequence[Question],
    *,
    dropped: int,
    near: int,
    near_kept: bool,
    say: Wording,
) -> str:
    """What the models learnt from and are asked: numbers and years; `dropped` were withdrawn by the board."""
    text = say(
        "setup.questions",
        file=file,
        train=len(train),
        train_years=span_years(train),
        held_out=len(held_out),
        held_out_years=span_years(held_out),
    )
    if dropped:
        text += say("setup.dropped", n=dropped)
    if near:
        text += say("setup.near_kept", n=near) if near_kept else say("setup.near", n=near)
    return text


def _setup(infos: Mapping[str, Sequence[Mapping[str, Any]]], say: Wording, facts: Mapping[str, str]) -> list[Table]:
    firsts = [seeds[0] for seeds in infos.values()]
    rows = {name: [text] * len(firsts) for name, text in facts.items()}
    rows[say("setup.rewards")] = [
        say.join([f"{name} x {weight:g}" for name, weight in info.get("rewards", {}).items()]) for info in firsts
    ]
    rows[say("setup.batch")] = [str(_global_batch(info)) for info in firsts]
    for key in SETTINGS:
        values = [_setting(info["arguments"], key) for info in firsts]
        if any(value is not None for value in values):
            rows[key] = [_show(value) for value in values]
    rows["seed"] = [say.join([str(info["seed"]) for info in each]) for each in infos.values()]
    rows[say("setup.processes")] = [str(info["world_size"]) for info in firsts]
    unlike = [entries(name, *values) for name, values in rows.items() if len(set(values)) > 1]
    alike = [entries(name, values[0]) for name, values in rows.items() if len(set(values)) == 1]
    tables = [
        Table([say("word.item"), *infos], unlike, [say("note.setup")], say("setup.unlike")),
        Table([say("word.item"), say("setup.value")], alike, title=say("setup.alike")),
    ]
    return [table for table in tables if table.rows]


def _setting(arguments: Mapping[str, Any], key: str) -> Any:
    """None where the run has no such setting, or another one overrules it."""
    limited = arguments.get("max_steps", -1) > 0
    if (key == "max_steps" and not limited) or (key == "num_train_epochs" and limited):
        return None
    return arguments.get(key)


def _global_batch(info: Mapping[str, Any]) -> int:
    """Completions an optimizer step learns from, over all processes."""
    told = info["arguments"]
    return told["per_device_train_batch_size"] * told["gradient_accumulation_steps"] * info["world_size"]


def _show(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _audits(audits: Sequence[AuditedRun], say: Wording) -> Table:
    rows = []
    for run in audits:
        where = say("audits.page", page=run.page)
        if not run.findings:
            rows.append([Entry(run.name, where), *entries("-", say("audits.clear"), "")])
        for number, (severity, what, advice) in enumerate(run.findings):
            head = Entry(run.name, where) if number == 0 else Entry("")
            rows.append([head, Entry(severity, strong=True), *entries(what, advice)])
    return Table([say("word.model"), say("audits.severity"), say("audits.what"), say("audits.try")], rows)


def _read_info(folder: Path) -> dict[str, Any]:
    return json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))
