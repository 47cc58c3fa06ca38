"""One page on one training run: what was done, whether it helped, and how sure that is."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import Run, pair_outcomes
from medgrpo.evaluation.score import Summary, Tally, summarise
from medgrpo.exams.question import Question
from medgrpo.owner import last_name
from medgrpo.report.examples import find_changes
from medgrpo.report.numbers import format_p, points
from medgrpo.report.page import data_uri, figure_files, new_environment, write_files
from medgrpo.report.training_figures import draw_accuracy, draw_learning_curve, read_learning_curve
from medgrpo.statistics import PairedComparison, compare_paired

SIGNIFICANCE = 0.05
EXAMPLES_SHOWN = 3
LEAVE_OUT = "…（{n} 文字を省略 {n} characters left out）…"
# A path of this machine within a text: the page is shown to others, so that only its last name stays.
_PATH = re.compile(r"(?<![\w./~:<-])(?:~/|/)[^\s:,;()]+")


@dataclass(frozen=True)
class Verdict:
    """What the comparison allows to say, in both languages; `kind` is better, worse or open."""

    kind: str
    japanese: str
    english: str


def write_training_report(
    out_dir: str | Path,
    base: Run,
    tuned: Run,
    metrics: Sequence[Mapping[str, Any]],
    title: str,
    settings: Mapping[str, Any],
    *,
    questions: Sequence[Question] = (),
    held_out: bool = True,
) -> tuple[Path, Path]:
    """Write `report.md` and `report.html` with their figures into `out_dir`; returns both paths.

    `base` and `tuned` are the scored runs before and after, `metrics` the rows of metrics.jsonl and
    `settings` the table of what was trained on what. `questions` adds the texts to the examples.
    `held_out=False` makes the page say that the questions were trained on. The HTML carries its figures and
    needs nothing beside it. Raises `MedgrpoError` for runs over different questions or with none counted.
    """
    ids, base_correct, tuned_correct = pair_outcomes(base, tuned)
    if not ids:
        raise MedgrpoError("no report: every question of the runs is excluded, so no accuracy exists")
    comparison = compare_paired(base_correct, tuned_correct)
    before, after = summarise(base.samples), summarise(tuned.samples)
    curve = read_learning_curve(metrics)
    figures = {"accuracy": draw_accuracy(before, after)}
    if curve is not None:
        figures["learning_curve"] = draw_learning_curve(curve)
    won, lost = find_changes(base, tuned, {question.id: question for question in questions}, EXAMPLES_SHOWN)

    page = {
        "title": _shown(title),
        "settings": {str(name): _shown(str(value)) for name, value in settings.items()},
        "held_out": held_out,
        "verdict": judge(comparison),
        "comparison": comparison,
        "before": before,
        "after": after,
        "slices": _slices(before, after),
        "decoding": describe_decoding(base.run_info, tuned.run_info),
        "won": won,
        "lost": lost,
        "curve": curve,
        "figures": {name: data_uri(drawing.png, "image/png") for name, drawing in figures.items()},
        "runs": {
            "学習前 before": _shown(str(base.run_info.get("model") or "")),
            "学習後 after": _shown(str(tuned.run_info.get("model") or "")),
        },
        "leave_out": LEAVE_OUT,
    }
    environment = new_environment()
    pages = {
        name: environment.get_template(f"training_{name}.j2").render(page) for name in ("report.md", "report.html")
    }
    *_, markdown, html = write_files(out_dir, {**figure_files(figures), **pages})
    return markdown, html


def judge(comparison: PairedComparison) -> Verdict:
    """One plain sentence on the difference; "improved" only where p is below .05."""
    change = points(comparison.delta)
    p = format_p(comparison.p)
    if comparison.p < SIGNIFICANCE and comparison.c > comparison.b:
        return Verdict(
            "better",
            f"学習により正答率は有意に改善した（{change} ポイント、{p}）。",
            f"Training significantly improved accuracy ({change} points, {p}).",
        )
    if comparison.p < SIGNIFICANCE:
        return Verdict(
            "worse",
            f"学習により正答率は有意に悪化した（{change} ポイント、{p}）。",
            f"Training significantly lowered accuracy ({change} points, {p}).",
        )
    return Verdict(
        "open",
        f"学習で正答率が変わったという証拠は得られなかった（{change} ポイント、{p}）。"
        "「差がない」ことを示すものではない。",
        f"There is no evidence that training changed accuracy ({change} points, {p}). "
        "This does not show that there is no difference.",
    )


def describe_decoding(base_info: Mapping[str, Any], tuned_info: Mapping[str, Any]) -> str:
    """How both runs were decoded, from their run.json; says so where it is unknown or not the same."""
    base, tuned = _decoding(base_info), _decoding(tuned_info)
    if base == tuned:
        return base
    return f"学習前と学習後で復号が異なる decoded differently: before {base}; after {tuned}"


def _decoding(run_info: Mapping[str, Any]) -> str:
    sampling = run_info.get("sampling")
    if not sampling or sampling.get("temperature") is None:
        return "復号方法は不明 decoding unknown"
    temperature = sampling["temperature"]
    if temperature == 0:
        return "貪欲復号 greedy decoding (temperature 0)"
    return f"サンプリング sampling (temperature {temperature}, seed {run_info.get('seed')})"


def _shown(text: str) -> str:
    return _PATH.sub(lambda path: last_name(path[0]), text)


def _slices(before: Summary, after: Summary) -> list[tuple[str, Tally, Tally]]:
    rows: list[tuple[str, Tally, Tally]] = [
        ("全体 all", before, after),
        ("テキストのみ text only", before.text_only, after.text_only),
    ]
    rows += [
        (str(year) if year else "年不明 year unknown", tally, after.by_year[year])
        for year, tally in before.by_year.items()
    ]
    return [row for row in rows if row[1].n]
