"""The tables of a comparison: accuracies, tests, departments, seeds, parse failures."""

from medgrpo.comparison.result import BestMethod, Cell, SliceKind, SliceScore
from medgrpo.report.numbers import bare_p, percent, percent_interval, points, points_interval, stars
from medgrpo.report.tables import Entry, Records, Table, entries

# A model this unlikely to be the best is not named.
NAMED_FROM = 0.01


def headline_table(records: Records) -> Table:
    """Models by year, all and text only: accuracy, the difference in points, Wilson's interval below."""
    comparison, say = records.comparison, records.say
    columns: list[tuple[SliceKind, str]] = [("year", name) for name in comparison.names("year")]
    columns += [("all", "all")] + ([("text_only", "text_only")] if comparison.names("text_only") else [])
    head = [say("word.model")]
    for kind, name in columns:
        score = records.score(comparison.base, kind, name)
        head.append(f"{records.label(kind, name)} (n={score.n if score else 0})")
    rows = [
        [Entry(name, strong=True), *(_headline_entry(records, name, *column) for column in columns)]
        for name in (comparison.base, *comparison.runs)
    ]
    return Table(head, rows, [say("note.headline", base=comparison.base, confidence=records.confidence)])


def test_tables(records: Records) -> list[Table]:
    """Every run against the base on all questions, and on the ones without images."""
    comparison, say = records.comparison, records.say
    head = [
        say("word.model"),
        "n",
        say("word.accuracy"),
        say("word.difference"),
        "b",
        "c",
        say("word.p"),
        say("word.p_holm"),
        say("word.judgement"),
        say("word.least"),
    ]
    tables = []
    for kind in ("all", "text_only"):
        cells = [c for c in comparison.cells if c.slice_kind == kind]
        if not cells:
            continue
        base = cells[0]
        score = records.score(comparison.base, kind, base.slice)
        rows = [entries(Entry(comparison.base), str(base.n), _accuracy(score), *[""] * 7)] if score else []
        rows += [
            entries(
                cell.run,
                str(cell.n),
                _accuracy(cell),
                Entry(points(cell.delta), points_interval(cell.delta_ci), strong=True),
                *_p_columns(records, cell),
                _least(records, cell),
            )
            for cell in cells
        ]
        tables.append(Table(head, rows, _family_notes(records, cells), records.label(kind, base.slice)))
    if tables:
        tables[-1].notes.append(say("note.counts", confidence=records.confidence))
        tables[-1].notes.append(say("note.stars", method=comparison.method, alpha=records.alpha))
        least = say("note.least", power=records.power, alpha=records.alpha)
        if comparison.method != "exact":
            least = records.sentences(least, say("note.least_exact", method=comparison.method))
        tables[-1].notes.append(least)
    return tables


def pair_table(records: Records) -> Table | None:
    """Every pair of runs other than the base, on all questions."""
    cells, say = records.pairs(), records.say
    if not cells:
        return None
    head = [say("word.pair"), "n", say("word.difference"), "b", "c"]
    head += [say("word.p"), say("word.p_holm"), say("word.judgement")]
    rows = [
        entries(
            f"{cell.base} → {cell.run}",
            str(cell.n),
            Entry(points(cell.delta), points_interval(cell.delta_ci), strong=True),
            *_p_columns(records, cell),
        )
        for cell in cells
    ]
    return Table(head, rows, [*_family_notes(records, cells), say("note.pair_counts", confidence=records.confidence)])


def department_table(records: Records) -> Table | None:
    """Departments by model: the base's accuracy and each model's difference in points."""
    comparison, say = records.comparison, records.say
    names = comparison.names("department")
    family = records.family(records.departments())
    if not names or family is None:
        return None
    head = [say("word.department"), "n", f"{comparison.base} %", *comparison.runs]
    rows = []
    for name in names:
        score = records.score(comparison.base, "department", name)
        cells = [records.cell(run, "department", name) for run in comparison.runs]
        rows.append(
            entries(
                name,
                str(score.n if score else 0),
                percent(score.accuracy if score else None),
                *(_department_entry(records, cell) for cell in cells),
            )
        )
    note = say("note.departments", correction=records.correction, tests=family.tests, alpha=records.alpha)
    return Table(head, rows, [note if family.declared else records.sentences(note, say("note.exploratory"))])


def best_table(records: Records) -> Table | None:
    """The best model of each department, and how surely it is."""
    comparison, say = records.comparison, records.say
    found = [best for best in comparison.best if best.slice_kind == "department"]
    if not found:
        return None
    head = [say("word.department"), "n", say("word.best"), say("figure.differences", base=comparison.base)]
    head.append(say("word.probability"))
    rows = [
        entries(best.slice, str(best.n), _winners(records, best), points(best.delta), _probabilities(records, best))
        for best in found
    ]
    return Table(head, rows, [say("note.best", draws=f"{comparison.draws:,}")])


def seed_tables(records: Records) -> list[Table]:
    """Each seed's result and the spread; then the methods against one another."""
    comparison, say = records.comparison, records.say
    if not comparison.seeds:
        return []
    tests = [say("word.difference"), say("word.p"), say("word.p_holm"), say("word.judgement")]
    head = [say("word.method"), say("word.seeds_each"), say("word.seeds_mean"), say("word.seeds_sd"), *tests]
    rows = [
        entries(
            Entry(group.name, f"{len(group.runs)} × n={group.n}"),
            " / ".join(percent(accuracy) for accuracy in group.seed_accuracies),
            percent(group.accuracy),
            f"{100 * group.seed_sd:.2f}",
            Entry(points(group.delta), points_interval(group.delta_ci), strong=True),
            bare_p(group.p),
            bare_p(group.p_holm),
            stars(group.p_holm, comparison.alpha),
        )
        for group in comparison.seeds
    ]
    tables = [Table(head, rows, [say("note.seeds"), say("note.seeds_family", groups=len(comparison.seeds))])]
    if comparison.seed_pairs:
        rows = [
            entries(
                f"{pair.base} → {pair.run}",
                Entry(points(pair.delta), points_interval(pair.delta_ci), strong=True),
                bare_p(pair.p),
                bare_p(pair.p_holm),
                stars(pair.p_holm, comparison.alpha),
            )
            for pair in comparison.seed_pairs
        ]
        note = say("note.seed_pairs_family", pairs=len(comparison.seed_pairs))
        tables.append(Table([say("word.pair"), *tests], rows, [note]))
    return tables


def parse_table(records: Records) -> Table:
    """What could not be read, run by run, and what stands in no denominator."""
    say = records.say
    head = [say("word.model"), "n", say("word.failures"), say("word.compliance"), say("word.excluded")]
    rows = [
        entries(
            facts.name,
            str(facts.n),
            str(facts.parse_failures),
            percent((facts.n - facts.parse_failures) / facts.n if facts.n else None),
            str(facts.excluded),
            str(facts.credited),
        )
        for facts in records.comparison.facts
    ]
    return Table([*head, say("word.credited")], rows, [say("note.parse")])


def _headline_entry(records: Records, run: str, kind: SliceKind, name: str) -> Entry:
    score, cell = records.score(run, kind, name), records.cell(run, kind, name)
    if score is None or not score.n:
        return Entry("–")
    change = f" ({points(cell.delta)})" if cell else ""
    return Entry(percent(score.accuracy) + change, percent_interval(score.ci))


def _accuracy(score: SliceScore | Cell) -> Entry:
    return Entry(percent(score.accuracy), percent_interval(score.ci))


def _p_columns(records: Records, cell: Cell) -> list[str]:
    corrected = records.corrected(cell)
    return [str(cell.b), str(cell.c), bare_p(cell.p), bare_p(corrected), stars(corrected, records.comparison.alpha)]


def _least(records: Records, cell: Cell) -> str:
    if cell.detectable_difference is None:
        return records.say("word.none")
    return records.say("word.least_value", least=f"{100 * cell.detectable_difference:.1f}")


def _family_notes(records: Records, cells: list[Cell]) -> list[str]:
    family = records.family(cells)
    return [records.describe(family)] if family else []


def _department_entry(records: Records, cell: Cell | None) -> Entry:
    if cell is None:
        return Entry("–")
    mark = stars(records.corrected(cell), records.comparison.alpha)
    return Entry(points(cell.delta) if mark == "n.s." else f"{points(cell.delta)} {mark}", strong=mark != "n.s.")


def _winners(records: Records, best: BestMethod) -> Entry:
    names = records.say.join(list(best.winners))
    return Entry(names, records.say("word.tie") if len(best.winners) > 1 else "")


def _probabilities(records: Records, best: BestMethod, shown: int = 3) -> str:
    ranked = sorted(best.probability_best.items(), key=lambda item: -item[1])[:shown]
    shares = [
        records.say("word.share", name=name, percent=f"{100 * share:.0f}")
        for name, share in ranked
        if share >= NAMED_FROM
    ]
    return records.say.join(shares)
