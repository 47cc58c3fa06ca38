"""What the synthesis has finished, kept line by line, so that a killed run repeats nothing and loses nothing."""

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from medgrpo.errors import MedgrpoError


class Journal:
    """Replies by (question id, stage), appended to a file as they come in.

    The first line holds the settings that decide the replies. Opening the journal again with other settings
    is refused. A torn last line, as a kill in mid-write leaves, is cut off. Two processes can't have the same
    journal open.

    Raises `MedgrpoError` for other settings, a file that is not a journal, or one that is in use.
    """

    def __init__(self, path: str | Path, settings: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.replies: dict[tuple[str, str], dict[str, Any]] = {}
        self.prompt_tokens = 0
        self.completion_tokens = 0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b")
        except OSError as error:
            raise MedgrpoError(f"{self.path}: cannot be written ({error.strerror}): choose another --out") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise MedgrpoError(f"{self.path}: another process is writing it: wait for it, or stop it") from error
        try:
            self._load(dict(settings))
        except BaseException:
            self._file.close()
            raise

    def add(self, name: str, stage: str, reply: Mapping[str, Any], prompt_tokens: int, completion_tokens: int) -> None:
        """Keep one finished reply: on disk before this returns."""
        record = {"id": name, "stage": stage, "reply": dict(reply), "tokens": [prompt_tokens, completion_tokens]}
        self._append(record)
        self._keep(record)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _load(self, settings: dict[str, Any]) -> None:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._file.truncate(whole)
        lines = data[:whole].splitlines()
        if not lines:
            self._append({"settings": settings})
            return
        try:
            records = [json.loads(line) for line in lines]
            found = records[0]["settings"]
            for record in records[1:]:
                self._keep(record)
        except (ValueError, KeyError, TypeError) as error:
            raise MedgrpoError(f"{self.path}: is not a journal of this recipe: choose another --out") from error
        differing = sorted(key for key in {*found, *settings} if found.get(key) != settings.get(key))
        if differing:
            shown = "; ".join(f"{key} was {found.get(key)!r} and is {settings.get(key)!r}" for key in differing)
            raise MedgrpoError(
                f"{self.path}: was begun with other settings ({shown}): use those, choose another --out, or "
                "delete the journal to begin anew"
            )

    def _append(self, record: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(record, ensure_ascii=False).encode("utf-8") + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise MedgrpoError(f"{self.path}: cannot be written ({error.strerror}): free the disk and go on") from error

    def _keep(self, record: Mapping[str, Any]) -> None:
        self.replies[record["id"], record["stage"]] = record["reply"]
        prompt_tokens, completion_tokens = record["tokens"]
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens
