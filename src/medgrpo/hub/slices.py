"""One run against the base, year by year or department by department, every number of it."""

from medgrpo.comparison.result import SliceKind
from medgrpo.report.numbers import bare_p, percent, percent_interval, points, points_interval, stars
from medgrpo.report.tables import Entry, Records, Table, entries


def slice_table(records: Records, run: str, kind: SliceKind, title: str) -> Table | None:
    """n, both accuracies (the run's with Wilson's interval), the paired difference, b, c and p; None without slices."""
    say, comparison = records.say, records.comparison
    names = [name for name in comparison.names(kind) if records.cell(run, kind, name) is not None]
    family = records.family(comparison.cell(run, kind, name) for name in names)
    if family is None:
        return None
    correction = "BH" if kind == "department" and comparison.correction == "bh" else "Holm"
    head = [title, "n", f"{comparison.base} %", f"{run} %", say("word.difference"), "b", "c", "p", f"p ({correction})"]
    rows = []
    for name in names:
        cell = comparison.cell(run, kind, name)
        corrected = records.corrected(cell)
        rows.append(
            entries(
                records.label(kind, name),
                str(cell.n),
                percent(cell.base_accuracy),
                Entry(percent(cell.accuracy), percent_interval(cell.ci)),
                Entry(points(cell.delta), points_interval(cell.delta_ci)),
                str(cell.b),
                str(cell.c),
                bare_p(cell.p),
                f"{bare_p(corrected)} {stars(corrected, comparison.alpha)}",
            )
        )
    return Table(head, rows, [records.describe(family)])
