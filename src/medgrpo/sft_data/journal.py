"""What the synthesis has finished, so that a killed run repeats nothing and loses nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medgrpo.exams.jsonl import Problems
from medgrpo.journal import Journal


class ReplyJournal(Journal):
    """Replies by (question id, stage), with the tokens that they cost over all starts."""

    def __init__(self, path: str | Path, settings: Mapping[str, Any]) -> None:
        super().__init__(path, settings)
        self.replies: dict[tuple[str, str], dict[str, str]] = {}
        self.prompt_tokens = 0
        self.completion_tokens = 0
        problems = Problems()
        for line, record in self.records:
            try:
                self._keep(record)
            except (KeyError, TypeError, ValueError):
                problems.add(self.path, "is no reply of this recipe: choose another --out", line)
        if problems.count:
            self.close()
            problems.raise_if_any()

    def add(self, name: str, stage: str, reply: Mapping[str, str], prompt_tokens: int, completion_tokens: int) -> None:
        """Keep one finished reply."""
        record = {"id": name, "stage": stage, "reply": dict(reply), "tokens": [prompt_tokens, completion_tokens]}
        self.append(record)
        self._keep(record)

    def _keep(self, record: Mapping[str, Any]) -> None:
        prompt_tokens, completion_tokens = record["tokens"]
        self.replies[record["id"], record["stage"]] = record["reply"]
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens
