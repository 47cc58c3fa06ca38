"""The table of medical facts, read as records: (relation, entity) -> one value, two values, or a number."""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
NUMBER = "number_"


@dataclass(frozen=True)
class Relation:
    """How one kind of fact is asked and stated; `{e}` is the entity, `{v}` the value or values."""

    name: str
    question: str
    question_multi: str
    statement: str
    statement_multi: str

    @property
    def numeric(self) -> bool:
        """Whether the value is a number, which has no choices."""
        return self.name.startswith(NUMBER)


@dataclass(frozen=True)
class Fact:
    """One fact. `values` holds one value or two; `wrong` the values that may stand as wrong choices."""

    relation: Relation
    department: str
    entity: str
    values: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def question(self) -> str:
        """The question's text, without choices."""
        template = self.relation.question if len(self.values) == 1 else self.relation.question_multi
        return template.format(e=self.entity)

    def statement(self, values: tuple[str, ...] | None = None) -> str:
        """The fact as a sentence, with `values` (written as given) in the place of the true ones."""
        shown = self.values if values is None else values
        template = self.relation.statement if len(shown) == 1 else self.relation.statement_multi
        return template.format(e=self.entity, v="と".join(shown))


def _rows(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def load_facts() -> tuple[Fact, ...]:
    """Every fact, in the table's order."""
    relations = {row["relation"]: Relation(*row.values()) for row in _rows("relations.tsv")}
    rows = _rows("facts.tsv")
    values_of: dict[str, list[str]] = {}
    for row in rows:
        known = values_of.setdefault(row["relation"], [])
        known.extend(value for value in row["values"].split("|") if value not in known)
    facts = []
    for row in rows:
        values = tuple(row["values"].split("|"))
        excluded = {*values, *(row["not_distractors"] or "").split("|")}
        wrong = tuple(value for value in values_of[row["relation"]] if value not in excluded)
        facts.append(Fact(relations[row["relation"]], row["department"], row["entity"], values, wrong))
    return tuple(facts)
