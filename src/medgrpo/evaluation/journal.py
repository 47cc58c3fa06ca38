"""Completions on disk as they come, so that a killed evaluation goes on where it was.

`completions.partial.jsonl` holds the settings in its first line and a completion in each further one. It is
removed once samples.jsonl and run.json are written: those hold all of it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medgrpo.evaluation.samples import RUN_FILE, read_run
from medgrpo.exams.jsonl import Problems
from medgrpo.journal import Journal, refuse_other_settings

PARTIAL_FILE = "completions.partial.jsonl"


class CompletionJournal(Journal):
    """The journal of one evaluation in `folder`; `done` is what it holds, id -> completion."""

    begin_anew = "begin anew with --overwrite"

    def __init__(self, folder: str | Path, settings: Mapping[str, Any]) -> None:
        super().__init__(Path(folder) / PARTIAL_FILE, settings)
        self.done: dict[str, str] = {}
        problems = Problems()
        for line, record in self.records:
            if isinstance(record.get("id"), str) and isinstance(record.get("completion"), str):
                self.done[record["id"]] = record["completion"]
            else:
                problems.add(self.path, 'is no {"id", "completion"}: begin anew with --overwrite', line)
        if problems.count:
            self.close()
            problems.raise_if_any()

    def add(self, name: str, completion: str) -> None:
        """Keep one completion."""
        self.append({"id": name, "completion": completion})
        self.done[name] = completion


def read_finished(folder: str | Path, settings: Mapping[str, Any]) -> dict[str, str] | None:
    """Completions of the finished run in `folder`, None where there is none.

    Raises `MedgrpoError` where the run was made with other settings, or is no evaluation.
    """
    path = Path(folder) / RUN_FILE
    if not path.exists():
        return None
    run = read_run(folder)
    refuse_other_settings(
        path, {key: run.run_info.get(key) for key in settings}, settings, CompletionJournal.begin_anew
    )
    return {sample.id: sample.completion for sample in run.samples}
