"""The page on a comparison: who beats whom, where, how surely, and on which questions; as HTML and Markdown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from medgrpo.comparison.result import Cell, Comparison, SliceKind
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import Run
from medgrpo.exams.question import Question
from medgrpo.report.comparison_figures import LINES_WITH_INTERVALS, Mark, Series, YearLine, draw_forest, draw_years
from medgrpo.report.comparison_tables import (
    best_table,
    department_table,
    headline_table,
    pair_table,
    parse_table,
    seed_tables,
    test_tables,
)
from medgrpo.report.conclusions import Conclusions, draw_conclusions
from medgrpo.report.examples import Examples, find_changes
from medgrpo.report.figure_style import Drawing
from medgrpo.report.page import data_uri, figure_files, new_environment, write_files
from medgrpo.report.pass_table import pass_table
from medgrpo.report.run_conditions import describe_conditions
from medgrpo.report.tables import Records
from medgrpo.report.trainings import Trainings
from medgrpo.report.wording import read_wording

# Completions are long: with many runs fewer of them are shown, so that the page still opens on a phone.
EXAMPLES_SHOWN, EXAMPLES_IN_ALL, IDS_SHOWN = 5, 40, 300
# More runs than these are not told apart in a figure; the tables have them all.
RUNS_DRAWN = 12

SECTIONS = ("verdict", "cautions", "setup", "accuracy", "tests", "pairs", "years", "departments", "best", "seeds")
SECTIONS += ("passing", "parse", "curves", "audits", "changes", "conditions", "reading")
READINGS = {
    "holm": ("reading.wilson", "reading.mcnemar", "reading.holm", "reading.ns"),
    "bh": ("reading.wilson", "reading.mcnemar", "reading.holm", "reading.bh", "reading.ns"),
}


@dataclass(frozen=True)
class Changes:
    """What one run newly won and lost against the base."""

    run: str
    won: Examples
    lost: Examples


def write_comparison_report(
    out_dir: str | Path,
    comparison: Comparison,
    runs: Mapping[str, Run],
    questions: Sequence[Question] = (),
    lang: str = "ja",
    trainings: Trainings | None = None,
) -> list[Path]:
    """Write `comparison.html`, `comparison.md` and the figures (PNG and SVG) into `out_dir`; returns the paths.

    `runs` holds every run of the comparison by its name there, the base's as well; `questions` adds the texts
    to the questions won and lost, `trainings` how the models were trained, their curves and what their audits
    found. The HTML carries its figures and needs nothing beside it. All prose is in `lang`, "ja" or "en". Raises
    `MedgrpoError` for another language, for a run that is missing, for runs over different questions, and where
    the folder cannot be written.
    """
    wording = read_wording(lang)
    names = [comparison.base, *comparison.runs]
    missing = [name for name in names if name not in runs]
    if missing:
        raise MedgrpoError(f"no report: the runs lack {', '.join(missing)}, which the comparison names")
    runs = {name: runs[name] for name in names}
    records = Records(comparison, wording)
    shown = max(1, min(EXAMPLES_SHOWN, EXAMPLES_IN_ALL // (2 * max(1, len(comparison.runs)))))
    texts = {question.id: question for question in questions}
    base = runs[comparison.base]
    changes = [Changes(name, *find_changes(base, runs[name], texts, shown)) for name in comparison.runs]
    tables, prompts = describe_conditions(records, runs)
    figures = _draw(records)
    if trainings is not None and trainings.curves is not None:
        figures["curves"] = trainings.curves
    exams = dict.fromkeys(sample.exam or wording("subject.unnamed") for sample in base.samples)
    conclusions = draw_conclusions(records)
    page = {
        "t": wording,
        "lang": lang,
        "comparison": comparison,
        "records": records,
        "subject": wording("subject", exam=wording.join(list(exams)), n=comparison.facts[0].n),
        "conclusions": conclusions,
        "verdict_kind": _overall(conclusions),
        "cautions": [c.japanese if lang == "ja" else c.english for c in comparison.cautions],
        "readings": READINGS[comparison.correction],
        "setup": trainings and trainings.setup,
        "curves": "curves" in figures,
        "audits": trainings and trainings.audits,
        "headline": headline_table(records),
        "tests": test_tables(records),
        "pairs": pair_table(records),
        "departments": department_table(records),
        "best": best_table(records),
        "seeds": seed_tables(records),
        "passing": pass_table(records, runs),
        "parse": parse_table(records),
        "changes": changes,
        "shown": shown,
        "ids_shown": IDS_SHOWN,
        "has_questions": bool(questions),
        "conditions": tables,
        "prompts": prompts,
        "figures": {name: data_uri(drawing.svg, "image/svg+xml") for name, drawing in figures.items()},
        "years": "years" in figures,
        "undrawn": wording("note.undrawn", n=RUNS_DRAWN) if len(comparison.runs) > RUNS_DRAWN else "",
        "lines_with_intervals": LINES_WITH_INTERVALS,
    }
    page["contents"] = [key for key in SECTIONS if page.get(key, True)]
    environment = new_environment()
    pages = {name: environment.get_template(f"{name}.j2").render(page) for name in ("comparison.html", "comparison.md")}
    return write_files(out_dir, {**pages, **figure_files(figures)})


def _overall(conclusions: Conclusions) -> str:
    """How the verdict's box looks: as every model's, or mixed."""
    kinds = {statement.kind for statement in conclusions.statements}
    return kinds.pop() if len(kinds) == 1 else "mixed"


def _draw(records: Records) -> dict[str, Drawing]:
    comparison, say = records.comparison, records.say
    labels = {
        "axis": say("figure.differences", base=comparison.base),
        "firm": say("figure.firm", alpha=records.alpha),
        "open_": say("figure.open"),
    }
    figures = dict(
        _number("differences", draw_forest([(run, None) for run in comparison.runs], _overview(records), **labels))
    )
    years, departments = comparison.names("year"), comparison.names("department")
    if len(years) > 1:
        figures["years"] = _draw_years(records, years)
    if departments:
        series = [
            Series(run, number, [_mark(records, records.cell(run, "department", name)) for name in departments])
            for number, run in enumerate(comparison.runs[:RUNS_DRAWN])
        ]
        sizes = [(name, _size(records, "department", name)) for name in departments]
        figures.update(_number("departments", draw_forest(sizes, series, **labels)))
    return figures


def _overview(records: Records) -> list[Series]:
    """All questions and the ones without images, one mark a run."""
    slices = [(kind, name) for kind, name in records.comparison.slices if kind in ("all", "text_only")]
    return [
        Series(
            f"{records.label(kind, name)} (n={_size(records, kind, name)})",
            number,
            [_mark(records, records.cell(run, kind, name)) for run in records.comparison.runs],
        )
        for number, (kind, name) in enumerate(slices)
    ]


def _number(name: str, sheets: Sequence[Drawing]) -> list[tuple[str, Drawing]]:
    if len(sheets) == 1:
        return [(name, sheets[0])]
    return [(f"{name}_{number}", sheet) for number, sheet in enumerate(sheets, start=1)]


def _size(records: Records, kind: SliceKind, name: str) -> int:
    score = records.score(records.comparison.base, kind, name)
    return score.n if score else 0


def _draw_years(records: Records, years: Sequence[str]) -> Drawing:
    lines = []
    for name in (records.comparison.base, *records.comparison.runs[:RUNS_DRAWN]):
        scores = [records.score(name, "year", year) for year in years]
        counted = [score if score and score.n else None for score in scores]
        lines.append(
            YearLine(
                name,
                [score and 100 * score.accuracy for score in counted],
                [score and (100 * score.ci[0], 100 * score.ci[1]) for score in counted],
            )
        )
    sizes = [(records.label("year", year), _size(records, "year", year)) for year in years]
    return draw_years(sizes, lines, axis=records.say("word.accuracy_axis"))


def _mark(records: Records, cell: Cell | None) -> Mark | None:
    if cell is None:
        return None
    low, high = cell.delta_ci
    return Mark(100 * cell.delta, 100 * low, 100 * high, records.firm(cell))
