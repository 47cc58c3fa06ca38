"""`medgrpo audit`: every detector on one log, written as audit.json, audit.md and audit.html."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from jinja2 import ChoiceLoader, Environment, PackageLoader

from medgrpo.audit.detectors import DETECTORS
from medgrpo.audit.figures import draw_figures
from medgrpo.audit.finding import SEVERITIES, Finding
from medgrpo.audit.training_log import TrainingLog, read_training_log
from medgrpo.errors import MedgrpoError
from medgrpo.report.page import data_uri, figure_files, new_environment, write_files
from medgrpo.report.wording import LANGUAGES, Wording

SCHEMA = 1
PARTS = ("what", "evidence", "means", "try")
SETTINGS_SHOWN = (
    "learning_rate",
    "beta",
    "epsilon",
    "epsilon_high",
    "importance_sampling_level",
    "loss_type",
    "scale_rewards",
    "num_generations",
    "gradient_accumulation_steps",
    "steps_per_generation",
    "num_iterations",
    "max_completion_length",
    "temperature",
    "seed",
)


@dataclass(frozen=True)
class Audit:
    """What every detector said, problems first."""

    findings: list[Finding]
    checks: dict[str, str]
    """Detector's name -> `found`, `clear`, or `unjudged` where the log lacks what it needs."""


def audit_log(log: TrainingLog) -> Audit:
    """Run every detector."""
    found, checks = [], {}
    for detector in DETECTORS:
        findings = detector(log)
        checks[detector.__name__] = "unjudged" if findings is None else "found" if findings else "clear"
        found += findings or []
    return Audit(sorted(found, key=lambda finding: SEVERITIES.index(finding.severity)), checks)


def audit_run(run_dir: str | Path, out_dir: str | Path, lang: str = "ja") -> Audit:
    """Audit the run in `run_dir` and write `audit.json`, `audit.md`, `audit.html` and the figures to `out_dir`.

    The HTML holds its figures and needs nothing beside it. Raises `MedgrpoError` where `read_training_log` does,
    for a language that is none, and for a folder that can't be written.
    """
    words = read_words(lang)
    log = read_training_log(run_dir)
    audit = audit_log(log)
    figures = draw_figures(log, words)
    page = {
        "t": words,
        "lang": lang,
        "folder": Path(run_dir).resolve().name,
        "log": log,
        "audit": audit,
        "counts": {level: sum(finding.severity == level for finding in audit.findings) for level in SEVERITIES},
        "said": [(finding, say(finding, words)) for finding in audit.findings],
        "settings": {key: log.arguments[key] for key in SETTINGS_SHOWN if log.arguments.get(key) is not None},
    }
    environment = _environment()
    pages = {
        "audit.json": json.dumps(to_json(audit, words), ensure_ascii=False, indent=2, allow_nan=False) + "\n",
        "audit.md": environment.get_template("audit.md.j2").render(page, figures=list(figures)),
        "audit.html": environment.get_template("audit.html.j2").render(
            page, figures={name: data_uri(drawing.png, "image/png") for name, drawing in figures.items()}
        ),
    }
    write_files(out_dir, {**figure_files({f"audit_{name}": drawing for name, drawing in figures.items()}), **pages})
    return audit


def say(finding: Finding, words: Wording) -> dict[str, str]:
    """What happened, the evidence, what it usually means and what to try, in words."""
    values = {**finding.numbers, "subject": finding.subject}
    return {part: words(f"finding.{finding.kind}.{part}", **values) for part in PARTS}


def to_json(audit: Audit, words: Wording) -> dict[str, Any]:
    """What `audit.json` holds."""
    findings = [
        {
            "kind": finding.kind,
            "severity": finding.severity,
            "subject": finding.subject or None,
            "first_step": finding.steps[0],
            "last_step": finding.steps[1],
            "numbers": dict(finding.numbers),
            "text": say(finding, words),
        }
        for finding in audit.findings
    ]
    return {"schema": SCHEMA, "lang": words.lang, "findings": findings, "checks": audit.checks}


def read_words(lang: str) -> Wording:
    """The audit's texts in `lang`; raises `MedgrpoError` for a language that the pages do not speak."""
    if lang not in LANGUAGES:
        raise MedgrpoError(f"no audit in the language {lang!r}: choose from {', '.join(LANGUAGES)}")
    return Wording(lang, {key: texts[lang] for key, texts in read_catalogue().items()})


@cache
def read_catalogue() -> Mapping[str, Mapping[str, str]]:
    """Key -> language -> text."""
    text = files("medgrpo.audit").joinpath("templates", "audit_texts.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


def _environment() -> Environment:
    """The report's templates and filters, and this room's templates beside them."""
    environment = new_environment()
    environment.loader = ChoiceLoader([PackageLoader("medgrpo.audit"), PackageLoader("medgrpo.report")])
    return environment
