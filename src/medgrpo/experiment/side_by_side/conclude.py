"""Finished runs become one comparison and one report an exam, with each run's audit beside it."""

import os
from pathlib import Path

from medgrpo.audit.audit import audit_run, read_words, say
from medgrpo.comparison.compare import compare_runs
from medgrpo.comparison.result import Comparison
from medgrpo.comparison.write import write_comparison
from medgrpo.evaluation.samples import read_run
from medgrpo.experiment.side_by_side.design import BASE, Design, PlannedRun
from medgrpo.experiment.side_by_side.train import load_exams, parse_settings
from medgrpo.owner import last_name
from medgrpo.report.comparison_report import write_comparison_report
from medgrpo.report.trainings import AuditedRun, describe_questions, describe_trainings
from medgrpo.report.wording import read_wording

REPORT = "report"
AUDIT = "audit"


def conclude(design: Design) -> dict[str, tuple[Comparison, Path]]:
    """Compare the runs on each exam and write its report; returns both by the exam's name.

    All pairs are in the family that is corrected, since the question is which method is better than which. Several
    seeds of a method are compared as such. Raises `MedgrpoError` for a run that is damaged or can't be compared.
    """
    arguments, _, model = parse_settings(design.find(BASE))
    exams = load_exams(design, arguments)
    wording = read_wording(design.lang)
    results = {}
    for name, exam in exams.items():
        out = design.output_dir / REPORT / (name if len(exams) > 1 else "")
        runs = {_title(design, run): read_run(run.folder / name) for run in design.runs}
        groups = {label: [_title(design, run) for run in design.of(label)] for label in design.labels}
        comparison = compare_runs(
            runs,
            BASE,
            family="pairs",
            groups=groups if len(design.seeds) > 1 else {},
            folders={_title(design, run): str(run.folder) for run in design.runs},
        )
        trainings = describe_trainings(
            {label: [run.folder for run in design.of(label)] for label in design.labels},
            [_audit(design, run, out) for run in design.runs if run.label != BASE],
            wording,
            base=f"{last_name(str(model.model_name_or_path))} ({model.model_revision or '-'})",
            data=describe_questions(
                last_name(str(arguments.train_file)),
                exam.train,
                exam.held_out,
                dropped=len(exam.dropped),
                near=len(exam.near),
                near_kept=arguments.near_duplicates == "keep",
                say=wording,
            ),
        )
        write_comparison(out, comparison)
        write_comparison_report(out, comparison, runs, exam.held_out, design.lang, trainings)
        results[name] = (comparison, out / "comparison.html")
    return results


def _title(design: Design, run: PlannedRun) -> str:
    """What a run is called in the tables: with one seed the method's label."""
    return run.label if len(design.seeds) == 1 or run.label == BASE else f"{run.label} ({run.seed})"


def _audit(design: Design, run: PlannedRun, report: Path) -> AuditedRun:
    folder = run.folder / AUDIT
    audit = audit_run(run.folder, folder, design.lang)
    words = read_words(design.lang)
    said = [(finding, say(finding, words)) for finding in audit.findings]
    return AuditedRun(
        _title(design, run),
        [(words(f"severity.{finding.severity}"), text["what"], text["try"]) for finding, text in said],
        os.path.relpath(folder / "audit.html", report),
    )
