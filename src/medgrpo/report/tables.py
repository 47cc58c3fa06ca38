"""A table as both pages show it, and the comparison with its records at hand."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from medgrpo.comparison.result import Cell, Comparison, Family, SliceKind, SliceScore
from medgrpo.report.wording import Wording


@dataclass(frozen=True)
class Entry:
    """What stands in one field of a table: a text, and below it a smaller one."""

    text: str
    small: str = ""
    strong: bool = False


@dataclass(frozen=True)
class Table:
    """A head and rows of the same length; the first field of a row names it."""

    head: list[str]
    rows: list[list[Entry]]
    notes: list[str] = field(default_factory=list)
    title: str = ""


def entries(*fields: str | Entry) -> list[Entry]:
    """A row, plain texts made fields."""
    return [one if isinstance(one, Entry) else Entry(one) for one in fields]


class Records:
    """A comparison whose records are found by name at once, and the words for its slices."""

    def __init__(self, comparison: Comparison, wording: Wording) -> None:
        self.comparison = comparison
        self.say = wording
        self.confidence = f"{100 * comparison.confidence:g}"
        self.alpha = f"{comparison.alpha:g}".removeprefix("0")
        self.power = f"{100 * comparison.power:g}"
        self.correction = {"holm": "Holm", "bh": "BH"}[comparison.correction]
        self._cells = {_place(cell): cell for cell in (*comparison.cells, *comparison.pairs)}
        self._scores = {
            (facts.name, score.slice_kind, score.slice): score for facts in comparison.facts for score in facts.scores
        }
        self._families = {family.name: family for family in comparison.families}

    def cell(self, run: str, kind: SliceKind = "all", name: str = "all") -> Cell | None:
        """`run` against the base on one slice, None where the comparison has none."""
        return self._cells.get((run, self.comparison.base, kind, name))

    def score(self, run: str, kind: SliceKind = "all", name: str = "all") -> SliceScore | None:
        """One run's own score on one slice, None where no question of it counts."""
        return self._scores.get((run, kind, name))

    def family(self, cells: Iterable[Cell]) -> Family | None:
        """The family of tests that the cells belong to, None where there is none."""
        return next((self._families[cell.family] for cell in cells), None)

    def pairs(self, kind: SliceKind = "all") -> list[Cell]:
        """Every pair of runs other than the base on one kind of slice."""
        return [c for c in self.comparison.pairs if c.slice_kind == kind]

    def departments(self) -> list[Cell]:
        """Each run against the base, department by department."""
        return [c for c in self.comparison.cells if c.slice_kind == "department"]

    def corrected(self, cell: Cell) -> float:
        """The p by which a cell is read: Holm's, or Benjamini and Hochberg's for departments on request."""
        by_bh = cell.slice_kind == "department" and self.comparison.correction == "bh"
        return cell.p_bh if by_bh else cell.p_holm

    def firm(self, cell: Cell) -> bool:
        """Whether a cell is significant after correction."""
        return self.corrected(cell) < self.comparison.alpha

    def label(self, kind: SliceKind, name: str) -> str:
        """What a slice is called on the page."""
        if kind in ("all", "text_only"):
            return self.say(f"word.{kind}")
        return self.say("word.year_unknown") if (kind, name) == ("year", "0") else name

    def sentences(self, *texts: str) -> str:
        """Sentences in a row, as the language parts them."""
        return self.say.texts["list.sentence"].join(texts)

    def describe(self, family: Family) -> str:
        """Over what a p is corrected."""
        what = family.japanese if self.say.lang == "ja" else family.english
        text = self.say("note.family", what=what)
        return text if family.declared else self.sentences(text, self.say("note.exploratory"))


def _place(cell: Cell) -> tuple[str, str, SliceKind, str]:
    return cell.run, cell.base, cell.slice_kind, cell.slice
