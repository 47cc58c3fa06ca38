"""The headline of a comparison as lines for the terminal."""

import unicodedata
from collections.abc import Sequence

from medgrpo.comparison.result import Cell, Comparison
from medgrpo.report.numbers import bare_p, percent, percent_interval, points, points_interval

# Pairs that a terminal shows; comparison.json and the report have them all.
PAIRS_SHOWN = 30


def describe_comparison(comparison: Comparison) -> str:
    """Accuracies, paired differences with p, what the runs could have shown, and what to be careful about."""
    base = comparison.score(comparison.base)
    first = [comparison.base, str(base.n), f"{percent(base.accuracy)} [{percent_interval(base.ci)}]"]
    head = ["run", "n", "accuracy", "difference", "b", "c", "p", "p Holm", "detectable"]
    rows = [first + [""] * (len(head) - len(first))]
    rows += [_row(cell.run, cell) for cell in comparison.cells if cell.slice_kind == "all"]
    lines = _table([head, *rows])
    shown = [cell for cell in comparison.pairs if cell.slice_kind == "all"] if comparison.family == "pairs" else []
    if shown:
        pairs = [_row(f"{cell.run} - {cell.base}", cell) for cell in shown[:PAIRS_SHOWN]]
        lines += ["", *_table([["pair", *head[1:]], *pairs])]
        if len(shown) > PAIRS_SHOWN:
            lines.append(f"... and {len(shown) - PAIRS_SHOWN} more pairs in comparison.json")
    if comparison.seeds:
        lines += ["", *_seeds(comparison)]
    lines += ["", *_explain(comparison)]
    lines += [f"caution    {caution.english}" for caution in comparison.cautions]
    return "\n".join(lines)


def _row(name: str, cell: Cell) -> list[str]:
    detectable = cell.detectable_difference
    return [
        name,
        str(cell.n),
        f"{percent(cell.accuracy)} [{percent_interval(cell.ci)}]",
        f"{points(cell.delta)} {points_interval(cell.delta_ci)}",
        str(cell.b),
        str(cell.c),
        bare_p(cell.p),
        bare_p(cell.p_holm),
        "none" if detectable is None else f"{100 * detectable:.1f}",
    ]


def _seeds(comparison: Comparison) -> list[str]:
    head = ["seeds of", "n", "accuracy", "over seeds", "difference", "p", "p Holm"]
    rows = [
        [
            group.name,
            f"{group.n} x {len(group.runs)}",
            percent(group.accuracy),
            f"{percent_interval((min(group.seed_accuracies), max(group.seed_accuracies)))}"
            f" (sd {percent(group.seed_sd)})",
            f"{points(group.delta)} {points_interval(group.delta_ci)}",
            bare_p(group.p),
            bare_p(group.p_holm),
        ]
        for group in comparison.seeds
    ]
    rows += [
        [
            f"{p.run} - {p.base}",
            "",
            "",
            "",
            f"{points(p.delta)} {points_interval(p.delta_ci)}",
            bare_p(p.p),
            bare_p(p.p_holm),
        ]
        for p in comparison.seed_pairs
    ]
    return _table([head, *rows])


def _explain(comparison: Comparison) -> list[str]:
    level, base = f"{100 * comparison.confidence:g} %", comparison.base
    corrections = {"holm": "Holm", "bh": "Benjamini-Hochberg"}
    lines = [
        f"accuracy   in %, difference in points, each with its {level} interval",
        f"b, c       right only in {base}, right only in the run; p by McNemar's test ({comparison.method})",
    ]
    for family in comparison.families:
        if family.declared:
            correction = "holm" if family.slice_kind == "all" else comparison.correction
            lines.append(f"family     {family.english}, corrected by {corrections[correction]}")
    lines.append(
        f"detectable the smallest true difference that as many questions, as often discordant, show at p < "
        f"{comparison.alpha:g} in {100 * comparison.power:g} % of cases: n.s. does not rule out a smaller one"
    )
    if comparison.method != "exact":
        lines[-1] += f" (the exact test's, though p is by {comparison.method})"
    if comparison.seeds:
        lines.append("seeds      p Holm over the methods of this table, and over their pairs: families of their own")
    facts = comparison.facts_of(base)
    if facts.excluded or facts.credited:
        lines.append(f"excluded   {facts.excluded} by the board (in no denominator); {facts.credited} credited to all")
    return lines


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns padded to their width on the screen, where a Japanese character takes two places."""
    widths = [max(_width(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            text + " " * (width - _width(text)) if column == 0 else " " * (width - _width(text)) + text
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "FW" else 1 for character in text)
