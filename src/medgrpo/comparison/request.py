"""What a comparison is asked to do: the options of `medgrpo compare` and of recipes/compare.py."""

from dataclasses import dataclass, field
from typing import Any

# As `medgrpo.statistics.MCNEMAR_METHODS`, which would bring SciPy into `medgrpo --help`.
METHODS = ("exact", "mid-p", "chi2", "chi2-cc")


def _option(default: Any, help: str, metavar: str | None = None, choices: tuple[str, ...] | None = None) -> Any:
    default = {"default_factory": list} if default == [] else {"default": default}
    return field(**default, metadata={"help": help, "metavar": metavar, "choices": choices})


@dataclass
class ComparisonRequest:
    """Which runs are compared with which base, how, and where the report goes; one field an option.

    A run is the folder of a scored run; `NAME=DIR` gives it the name that stands in the tables.
    """

    base: str | None = _option(None, "folder of the base's scored run, or NAME=DIR", "DIR")
    runs: list[str] = _option([], "folders of the scored runs to compare with it, or NAME=DIR", "DIR")
    group: list[str] = _option([], "runs that are seeds of one method, e.g. GRPO=runs/s0,runs/s1", "NAME=DIR,DIR")
    out: str | None = _option(None, "where comparison.json, .md, .html and the figures go", "DIR")
    method: str = _option("exact", "variant of McNemar's test (exact)", choices=METHODS)
    pairs: bool = _option(False, "count the pairs of runs into the family that is corrected, and print them")
    correction: str = _option("holm", "how departments are corrected (holm)", choices=("holm", "bh"))
    questions: str | None = _option(None, "questions, or `mini_exam`: their texts go into the report", "FILE.jsonl")
    lang: str = _option("ja", "language of the report (ja)", choices=("ja", "en"))
    confidence: float = _option(0.95, "of every interval (0.95)", "P")
    alpha: float = _option(0.05, "level at which a difference is called significant (0.05)", "P")
    power: float = _option(0.8, "chance of showing the smallest detectable difference (0.8)", "P")
    draws: int = _option(2000, "bootstrap draws (2000)", "N")
    seed: int = _option(0, "of the bootstrap (0)", "N")

    def __post_init__(self) -> None:
        # A YAML file may name one run without making a list of it.
        self.runs = [self.runs] if isinstance(self.runs, str) else self.runs
        self.group = [self.group] if isinstance(self.group, str) else self.group

    def options(self) -> dict[str, Any]:
        """Return the options of `compare_runs` that this request sets."""
        names = ("method", "correction", "confidence", "alpha", "power", "draws", "seed")
        return {"family": "pairs" if self.pairs else "base", **{name: getattr(self, name) for name in names}}
