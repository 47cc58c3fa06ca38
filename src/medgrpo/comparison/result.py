"""What a comparison of runs found: plain frozen records, read by the report and written to `comparison.json`.

Every share, difference and interval is a share of 1, every interval is at `Comparison.confidence`, and every
count leaves out the questions that the exam board excluded.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

SliceKind = Literal["all", "text_only", "year", "department"]
SLICE_KINDS: tuple[SliceKind, ...] = ("all", "text_only", "year", "department")

FamilyChoice = Literal["base", "pairs"]
Correction = Literal["holm", "bh"]

# Raised when a field of comparison.json changes its meaning.
SCHEMA = 1

Interval = tuple[float, float]


@dataclass(frozen=True)
class SliceScore:
    """One run's own score on one slice of the questions."""

    slice_kind: SliceKind
    slice: str
    """`all`, `text_only`, the year as digits, or the department's name."""
    n: int
    correct: int
    accuracy: float
    ci: Interval
    """Wilson's interval of the accuracy."""
    parse_failures: int
    format_compliance: float


@dataclass(frozen=True)
class RunFacts:
    """One run by itself: where it lies, what made it, and its scores, slice by slice."""

    name: str
    folder: str
    """As it was given; only its name where the path was absolute, empty where no folder was read."""
    n: int
    excluded: int
    credited: int
    parse_failures: int
    model: str | None
    revision: str | None
    seed: int | None
    sampling: dict[str, Any] | None
    """`run.json`'s sampling: backend, temperature, ...; None = not known."""
    scores: tuple[SliceScore, ...]
    """One a slice, in the order of `Comparison.slices`."""


@dataclass(frozen=True)
class Cell:
    """One run against another on one slice of the questions."""

    run: str
    base: str
    slice_kind: SliceKind
    slice: str
    n: int
    accuracy: float
    ci: Interval
    base_accuracy: float
    delta: float
    """`accuracy - base_accuracy`."""
    delta_ci: Interval
    b: int
    """Questions that the base got right and the run wrong."""
    c: int
    """Questions that the run got right and the base wrong."""
    p: float
    p_holm: float
    p_bh: float
    method: str
    """McNemar's variant: exact, mid-p, chi2 or chi2-cc."""
    family: str
    """Name of the `Family` over which `p_holm` and `p_bh` are taken."""
    detectable_difference: float | None
    """The smallest true difference that n questions with this share of discordant pairs show (p < alpha) with
    the probability `Comparison.power`; None where no difference within that share reaches it."""
    significant_imbalance: int | None
    """The smallest |c - b| that gives p < alpha at b + c discordant pairs; None where none does."""


@dataclass(frozen=True)
class Family:
    """The tests among which one p is corrected; declared before they are looked at."""

    name: str
    slice_kind: SliceKind
    tests: int
    declared: bool
    """False for what the command did not ask about: shown, but exploratory."""
    english: str
    japanese: str


@dataclass(frozen=True)
class BestMethod:
    """Which run is best on one slice, and how sure that is. The base competes as well."""

    slice_kind: SliceKind
    slice: str
    n: int
    winners: tuple[str, ...]
    """The names with the highest accuracy; more than one where they tie."""
    delta: float
    """The winners' accuracy minus the base's."""
    probability_best: dict[str, float]
    """Name -> share of bootstrap draws in which it is best; a draw with a tie is shared. Sums to 1."""


@dataclass(frozen=True)
class SeedGroup:
    """Several seeds of one method against the base, on all questions. The question is the unit."""

    name: str
    runs: tuple[str, ...]
    """One run a seed; each seed's own McNemar is its `Cell`."""
    n: int
    accuracy: float
    """Mean over the seeds."""
    seed_accuracies: tuple[float, ...]
    seed_sd: float
    """Standard deviation of the seeds' accuracies."""
    delta: float
    delta_ci: Interval
    """Takes in the variation of questions and that of seeds."""
    p: float
    """Two-sided, of no mean difference over questions and seeds."""
    p_holm: float
    """Holm's, over the groups."""


@dataclass(frozen=True)
class SeedPair:
    """Two groups of seeds against each other, as in `SeedGroup`."""

    base: str
    run: str
    n: int
    delta: float
    delta_ci: Interval
    p: float
    p_holm: float


@dataclass(frozen=True)
class Caution:
    """Something that a reader has to know before believing a difference."""

    kind: str
    """decoding, prompt, sampled, parse_failures, identical, seeds, small_slices."""
    english: str
    japanese: str


@dataclass(frozen=True)
class Comparison:
    """Runs against a base and each other, over the same questions."""

    base: str
    runs: tuple[str, ...]
    """The other runs' names, in the order given."""
    facts: tuple[RunFacts, ...]
    """The base's first, then one a run."""
    slices: tuple[tuple[SliceKind, str], ...]
    cells: tuple[Cell, ...]
    """Each run against the base: slice by slice, and within a slice run by run."""
    pairs: tuple[Cell, ...]
    """Each run against each earlier one (`base` is the earlier), ordered as `cells`."""
    families: tuple[Family, ...]
    best: tuple[BestMethod, ...]
    """On all questions, then department by department."""
    method: str
    family: FamilyChoice
    correction: Correction
    """How the department cells are to be read: `p_holm` or `p_bh`."""
    confidence: float
    alpha: float
    power: float
    draws: int
    seed: int
    """Of the bootstrap."""
    seeds: tuple[SeedGroup, ...] = ()
    seed_pairs: tuple[SeedPair, ...] = ()
    cautions: tuple[Caution, ...] = field(default=())

    def names(self, slice_kind: SliceKind) -> list[str]:
        """Return the slices of one kind, in order: `names("year")` -> ["2023", "2024"]."""
        return [name for kind, name in self.slices if kind == slice_kind]

    def facts_of(self, name: str) -> RunFacts:
        """Return the facts of one run; `KeyError` for a name that is none."""
        return _only([facts for facts in self.facts if facts.name == name], name)

    def score(self, name: str, slice_kind: SliceKind = "all", slice: str = "all") -> SliceScore:
        """Return one run's own score on one slice; `KeyError` where there is none."""
        scores = self.facts_of(name).scores
        return _only([s for s in scores if (s.slice_kind, s.slice) == (slice_kind, slice)], f"{name}, {slice}")

    def cell(self, run: str, slice_kind: SliceKind = "all", slice: str = "all", base: str | None = None) -> Cell:
        """Return `run` against `base` (default: the base) on one slice; `KeyError` where there is none."""
        base = self.base if base is None else base
        wanted = (run, base, slice_kind, slice)
        cells = [*self.cells, *self.pairs]
        return _only([c for c in cells if (c.run, c.base, c.slice_kind, c.slice) == wanted], str(wanted))

    def to_json(self) -> dict[str, Any]:
        """Return what `comparison.json` holds; the names are those of the fields."""
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        rows = {name: _rows(value) for name, value in found.items() if _is_records(value)}
        return {"schema": SCHEMA, **found, **rows}


def _is_records(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and not isinstance(value[0], str | tuple)


def _rows(records: Sequence[Any]) -> list[dict[str, Any]]:
    # `asdict` copies deeply, which only the records that nest others need.
    return [asdict(r) if isinstance(r, RunFacts) else dict(vars(r)) for r in records]


def _only(found: list[Any], wanted: str) -> Any:
    if len(found) != 1:
        raise KeyError(wanted)
    return found[0]
