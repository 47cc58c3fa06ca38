"""What a comparison allows to say, and what not, in plain sentences."""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from medgrpo.comparison.result import Cell, SeedGroup
from medgrpo.report.numbers import format_p, percent, points, points_interval
from medgrpo.report.tables import Records

Kind = Literal["better", "worse", "open"]
DEPARTMENTS_NAMED = 5


@dataclass(frozen=True)
class Statement:
    """One finding: about whom, which way, and the sentence."""

    kind: Kind
    name: str
    text: str


@dataclass(frozen=True)
class Conclusions:
    """The verdict in one line, each model's statement, and what holds for all of them."""

    headline: str
    statements: list[Statement]
    remarks: list[str]


def draw_conclusions(records: Records) -> Conclusions:
    """The verdict over all questions; a method with several seeds is judged over its seeds, not run by run.

    Seeds and single runs are corrected as families of their own, so no sentence of the headline holds both.
    """
    comparison, say = records.comparison, records.say
    grouped = {run for group in comparison.seeds for run in group.runs}
    methods = [_judge_seeds(records, group) for group in comparison.seeds]
    cells = [records.cell(run) for run in comparison.runs if run not in grouped]
    singles = [_judge(records, cell) for cell in cells if cell is not None]
    headline = [
        say(f"verdict.{kind}", names=say.join(names), base=comparison.base)
        for kind in ("better", "worse", "open")
        for family in (methods, singles)
        if (names := [statement.name for statement in family if statement.kind == kind])
    ]
    remarks = [*_pairs(records), *_departments(records), *_best(records)]
    if methods and singles:
        remarks.insert(0, say("say.seeds_family", names=say.join([method.name for method in methods])))
    return Conclusions(records.sentences(*headline), [*methods, *singles], remarks)


def _judge(records: Records, cell: Cell) -> Statement:
    comparison, say = records.comparison, records.say
    numbers = say(
        "say.numbers",
        before=percent(cell.base_accuracy),
        after=percent(cell.accuracy),
        delta=points(cell.delta),
        confidence=records.confidence,
        ci=points_interval(cell.delta_ci),
        p=format_p(cell.p_holm),
    )
    if cell.p_holm < comparison.alpha:
        kind: Kind = "better" if cell.delta > 0 else "worse"
        return Statement(kind, cell.run, say(f"say.{kind}", numbers=numbers))
    family = records.family([cell])
    if cell.p < comparison.alpha and family is not None:
        texts = [say("say.uncorrected", raw=format_p(cell.p), tests=family.tests, numbers=numbers)]
    elif not cell.b + cell.c:
        texts = [say("say.open", numbers=numbers), say("say.alike", n=cell.n)]
    else:
        texts = [say("say.open", numbers=numbers), _explain_power(records, cell), _explain_imbalance(records, cell)]
    return Statement("open", cell.run, records.sentences(*texts))


def _explain_power(records: Records, cell: Cell) -> str:
    if cell.detectable_difference is None:
        return records.say("say.nothing_found", n=cell.n, power=records.power)
    least = f"{100 * cell.detectable_difference:.1f}"
    return records.say("say.least", n=cell.n, power=records.power, least=least)


def _explain_imbalance(records: Records, cell: Cell) -> str:
    discordant, say = cell.b + cell.c, records.say
    if cell.significant_imbalance is None:
        return say("say.too_few", m=discordant, alpha=records.alpha)
    observed = abs(cell.c - cell.b)
    return say("say.imbalance", m=discordant, alpha=records.alpha, needed=cell.significant_imbalance, observed=observed)


def _judge_seeds(records: Records, group: SeedGroup) -> Statement:
    comparison, say = records.comparison, records.say
    numbers = say(
        "say.numbers",
        before=percent(group.accuracy - group.delta),
        after=percent(group.accuracy),
        delta=points(group.delta),
        confidence=records.confidence,
        ci=points_interval(group.delta_ci),
        p=format_p(group.p_holm),
    ) + say("say.seeds", seeds=len(group.runs))
    if group.p_holm < comparison.alpha:
        kind: Kind = "better" if group.delta > 0 else "worse"
        return Statement(kind, group.name, say(f"say.{kind}", numbers=numbers))
    return Statement("open", group.name, say("say.open", numbers=numbers))


def _pairs(records: Records) -> list[str]:
    say, seeds = records.say, records.comparison.seed_pairs
    if seeds:
        pairs = [(pair.base, pair.run, pair.delta, pair.p_holm) for pair in seeds]
        family = None
    else:
        group = {run: one.name for one in records.comparison.seeds for run in one.runs}
        cells = [cell for cell in records.pairs() if group.get(cell.run, 1) != group.get(cell.base, 2)]
        pairs = [(cell.base, cell.run, cell.delta, cell.p_holm) for cell in cells]
        family = records.family(cells)
    if not pairs:
        return []
    found = []
    for base, run, delta, p in pairs:
        if p < records.comparison.alpha:
            better, worse = (run, base) if delta > 0 else (base, run)
            found.append(say("say.pair", better=better, worse=worse, p=format_p(p)))
    text = say("say.pairs", pairs=_list(records, found)) if found else say("say.no_pairs", n=len(pairs))
    return [text if family is None or family.declared else records.sentences(text, say("say.exploratory"))]


def _departments(records: Records) -> list[str]:
    cells, say = records.departments(), records.say
    family = records.family(cells)
    if family is None:
        return []
    firm = sorted((cell for cell in cells if records.firm(cell)), key=records.corrected)
    if not firm:
        return [say("say.no_departments", tests=family.tests, correction=records.correction)]
    names = [say("say.department", department=cell.slice, name=cell.run, delta=points(cell.delta)) for cell in firm]
    found = {"tests": family.tests, "hits": len(firm), "correction": records.correction}
    return [say("say.departments", names=_list(records, names), **found)]


def _best(records: Records) -> list[str]:
    comparison, say = records.comparison, records.say
    found = [best for best in comparison.best if best.slice_kind == "department"]
    if not found:
        return []
    counts = Counter(best.winners[0] if len(best.winners) == 1 else say("word.tie") for best in found)
    certain = sum(max(best.probability_best.values()) >= comparison.confidence for best in found)
    names = say.join([say("say.best_count", name=name, n=n) for name, n in counts.most_common()])
    return [say("say.best", names=names, certain=certain, total=len(found), confidence=records.confidence)]


def _list(records: Records, names: list[str]) -> str:
    more = len(names) - DEPARTMENTS_NAMED
    shown = names[:DEPARTMENTS_NAMED] + ([records.say("say.more", n=more)] if more > 0 else [])
    return records.say.join(shown)
