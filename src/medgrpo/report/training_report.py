"""One page on one training run: what was done, whether it helped, and how sure that is."""

import base64
import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.samples import Run, Sample, pair_outcomes
from medgrpo.evaluation.score import Summary, Tally, summarise
from medgrpo.exams.question import Question
from medgrpo.report.figures import draw_accuracy, draw_learning_curve, read_learning_curve
from medgrpo.statistics import PairedComparison, compare_paired, wilson_interval

SIGNIFICANCE = 0.05
EXAMPLES_SHOWN = 3


@dataclass(frozen=True)
class Verdict:
    """What the comparison allows to say, in both languages; `kind` is better, worse or open."""

    kind: str
    japanese: str
    english: str


@dataclass(frozen=True)
class Example:
    """A question that one run got right and the other wrong, with both completions."""

    sample: Sample
    base: Sample
    question: Question | None


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
    figures = {"accuracy.png": draw_accuracy(before, after)}
    if curve is not None:
        figures["learning_curve.png"] = draw_learning_curve(curve)

    texts = {question.id: question for question in questions}
    wins = [i for i, was, now in zip(ids, base_correct, tuned_correct, strict=True) if now and not was]
    losses = [i for i, was, now in zip(ids, base_correct, tuned_correct, strict=True) if was and not now]
    page = {
        "title": title,
        "settings": {str(name): str(value) for name, value in settings.items()},
        "held_out": held_out,
        "verdict": judge(comparison),
        "comparison": comparison,
        "before": before,
        "after": after,
        "slices": _slices(before, after),
        "decoding": describe_decoding(base.run_info, tuned.run_info),
        "won": _examples(wins, base, tuned, texts),
        "lost": _examples(losses, base, tuned, texts),
        "curve": curve,
        "figures": {name: base64.b64encode(png).decode("ascii") for name, png in figures.items()},
        "runs": {"学習前 before": base.run_info, "学習後 after": tuned.run_info},
    }
    folder = Path(out_dir)
    paths = folder / "report.md", folder / "report.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, png in figures.items():
            (folder / name).write_bytes(png)
        for path in paths:
            text = _environment().get_template(f"training_{path.name}.j2").render(page)
            path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise MedgrpoError(f"{folder}: the report cannot be written ({error.strerror})") from error
    return paths


def judge(comparison: PairedComparison) -> Verdict:
    """One plain sentence on the difference; "improved" only where p is below .05."""
    points = f"{100 * comparison.delta:+.1f}"
    p = format_p(comparison.p)
    if comparison.p < SIGNIFICANCE and comparison.c > comparison.b:
        return Verdict(
            "better",
            f"学習により正答率は有意に改善した（{points} ポイント、{p}）。",
            f"Training significantly improved accuracy ({points} points, {p}).",
        )
    if comparison.p < SIGNIFICANCE:
        return Verdict(
            "worse",
            f"学習により正答率は有意に悪化した（{points} ポイント、{p}）。",
            f"Training significantly lowered accuracy ({points} points, {p}).",
        )
    return Verdict(
        "open",
        f"学習で正答率が変わったという証拠は得られなかった（{points} ポイント、{p}）。"
        "「差がない」ことを示すものではない。",
        f"There is no evidence that training changed accuracy ({points} points, {p}). "
        "This does not show that there is no difference.",
    )


def describe_decoding(base_info: Mapping[str, Any], tuned_info: Mapping[str, Any]) -> str:
    """How both runs were decoded, from their run.json; says so where it is unknown or not the same."""
    base, tuned = _decoding(base_info), _decoding(tuned_info)
    if base == tuned:
        return base
    return f"学習前と学習後で復号が異なる decoded differently: before {base}; after {tuned}"


def format_p(p: float) -> str:
    """`p = .0342`, `p = .282` from .1 up (where the border at .05 is far), `p < .001` below that."""
    if p < 0.001:
        return "p < .001"
    return f"p = {p:.3f}" if p == 1 else f"p = {p:.{4 if p < 0.1 else 3}f}".replace("0.", ".", 1)


def _decoding(run_info: Mapping[str, Any]) -> str:
    sampling = run_info.get("sampling")
    if not sampling or sampling.get("temperature") is None:
        return "復号方法は不明 decoding unknown"
    temperature = sampling["temperature"]
    if temperature == 0:
        return "貪欲復号 greedy decoding (temperature 0)"
    return f"サンプリング sampling (temperature {temperature}, seed {run_info.get('seed')})"


def _slices(before: Summary, after: Summary) -> list[tuple[str, Tally, Tally]]:
    rows: list[tuple[str, Tally, Tally]] = [
        ("全体 all", before, after),
        ("文字のみ text only", before.text_only, after.text_only),
    ]
    rows += [
        (str(year) if year else "年不明 year unknown", tally, after.by_year[year])
        for year, tally in before.by_year.items()
    ]
    return [row for row in rows if row[1].n]


def _examples(
    ids: Iterable[str], base: Run, tuned: Run, questions: Mapping[str, Question]
) -> tuple[int, list[Example]]:
    """How many there are, and the first of them."""
    ids = list(ids)
    base_by_id = {sample.id: sample for sample in base.samples}
    tuned_by_id = {sample.id: sample for sample in tuned.samples}
    shown = [Example(tuned_by_id[i], base_by_id[i], questions.get(i)) for i in ids[:EXAMPLES_SHOWN]]
    return len(ids), shown


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("medgrpo.report"),
        autoescape=select_autoescape(enabled_extensions=("html", "html.j2"), default_for_string=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        percent=lambda share: f"{100 * share:.1f}",
        points=lambda share: f"{100 * share:+.1f}",
        p_value=format_p,
        wilson=lambda tally: wilson_interval(tally.correct, tally.n),
        answer=_answer,
        cell=_markdown_cell,
        fence=_fence,
    )
    return environment


def _answer(sample: Sample) -> str:
    if sample.parsed is None:
        return "読み取れず unreadable"
    return sample.parsed if isinstance(sample.parsed, str) else ", ".join(sample.parsed)


def _markdown_cell(text: str) -> str:
    """Text that stands as it is inside a Markdown table or line: no markup, no row break."""
    escaped = re.sub(r"([\\`*_\[\]~$])", r"\\\1", html.escape(text, quote=False)).replace("|", "&#124;")
    return " ".join(escaped.split())


def _fence(text: str) -> str:
    """Text as a Markdown code block whose fence is longer than any run of backticks in it."""
    ticks = "```"
    while ticks in text:
        ticks += "`"
    return f"{ticks}text\n{text}\n{ticks}"
