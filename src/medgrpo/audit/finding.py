"""What a detector returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["problem", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("problem", "warning", "note")


@dataclass(frozen=True)
class Finding:
    """One thing that happened in a run; its words stand in `audit_texts.yaml` under its kind."""

    kind: str
    severity: Severity
    """`problem`: the run did not do what it was for; `warning`: it may not have; `note`: worth knowing."""
    steps: tuple[int, int]
    """First and last optimizer step of the evidence."""
    numbers: Mapping[str, float | int | str] = field(default_factory=dict)
    """The evidence, by the names that the words use."""
    subject: str = ""
    """The reward or metric that it is about, where there is one."""
