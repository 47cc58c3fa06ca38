from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from medgrpo.evaluation.samples import Run, Sample

BLANK = Sample(
    id="",
    completion="[ans]a[/ans]",
    parsed=["a"],
    parse_failure=False,
    correct=False,
    contraindicated_chosen=[],
    exam="exam",
    year=0,
    department=None,
    text_only=True,
    points=1,
    required=False,
    scoring="normal",
)

MakeRun = Callable[..., Run]


@pytest.fixture
def make_run() -> MakeRun:
    """A run from right and wrong: `make_run("1101", year=2024, department=["内科", "外科", ...])`.

    A field of the samples is one value for all, or a list of one a question; `info` is run.json.
    """

    def make(outcomes: str | Sequence[int], info: dict[str, Any] | None = None, **fields: Any) -> Run:
        samples = []
        for number, right in enumerate(outcomes):
            own = {name: value[number] if isinstance(value, list) else value for name, value in fields.items()}
            samples.append(replace(BLANK, **{"id": f"q{number}", "correct": bool(int(right)), **own}))
        greedy = {"model": "m", "seed": 0, "sampling": {"backend": "transformers", "temperature": 0.0}}
        return Run(samples, greedy if info is None else info)

    return make
