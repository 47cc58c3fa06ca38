"""Which questions a run uses: by year, and for training only those whose key the exam board stood by."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from medgrpo.errors import MedgrpoError
from medgrpo.exams.question import Question

_SPAN = re.compile(r"([0-9]{4})(?:-([0-9]{4}))?")


def parse_years(spec: str) -> set[int]:
    """Read "2018-2021", "2018,2020" or a mixture of both; raises `MedgrpoError` for anything else."""
    years: set[int] = set()
    for part in unicodedata.normalize("NFKC", spec).split(","):
        match = _SPAN.fullmatch(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise MedgrpoError(f"years {spec!r}: {part.strip()!r} is no span: write 2018-2021 or 2018,2020")
        years.update(range(first, last + 1))
    return years


def select_years(questions: Sequence[Question], years: Collection[int]) -> list[Question]:
    """Keep the questions of these years, in order; raises `MedgrpoError` naming a year that has none."""
    present = {question.year for question in questions}
    absent = sorted(set(years) - present)
    if absent:
        raise MedgrpoError(
            f"years: no question of {', '.join(map(str, absent))}; "
            f"there are {', '.join(map(str, sorted(present))) or 'none'}"
        )
    return [question for question in questions if question.year in years]


def trainable(questions: Iterable[Question]) -> tuple[list[Question], list[Question]]:
    """Part the questions to train on from those to leave out: (kept, dropped), so that a run can tell.

    Excluded and credited questions are dropped: the board withdrew them because their key is not to be
    trusted, and a reward for that key would teach a mistake.
    """
    kept: list[Question] = []
    dropped: list[Question] = []
    for question in questions:
        (kept if question.scoring == "normal" else dropped).append(question)
    return kept, dropped


def tally(questions: Iterable[Question]) -> str:
    """Draw a table of what the questions are, a year a row and their sum (multi: several letters at once)."""
    counts: dict[str, Counter[str]] = {}
    for question in sorted(questions, key=lambda q: q.year):
        for row in (str(question.year), "all"):
            counts.setdefault(row, Counter()).update(_kinds(question))
    lines = ["  ".join(["year", *_COLUMNS])]
    for year in sorted(counts):
        cells = (str(counts[year][column]).rjust(len(column)) for column in _COLUMNS)
        lines.append("  ".join([year.ljust(4), *cells]))
    return "\n".join(lines)


def tally_departments(questions: Iterable[Question]) -> str:
    """Draw how many questions each department has, the largest first; `-` stands for no department."""
    counts = Counter(question.department or "-" for question in questions)
    return "\n".join(f"{count:>6}  {name}" for name, count in sorted(counts.items(), key=lambda c: (-c[1], c[0])))


_COLUMNS = ("questions", "text-only", "multi", "numeric", "excluded", "credited")


def _kinds(question: Question) -> list[str]:
    kinds = ["questions", question.scoring]
    if question.text_only:
        kinds.append("text-only")
    if question.answer_type == "number":
        kinds.append("numeric")
    elif any(len(letters) > 1 for letters in question.answer):
        kinds.append("multi")
    return kinds


def span_years(questions: Sequence[Question]) -> str:
    """The first and the last year, as `2019-2022`."""
    years = sorted({question.year for question in questions} - {0})
    if not years:
        return "year unknown"
    return str(years[0]) if len(years) == 1 else f"{years[0]}-{years[-1]}"
