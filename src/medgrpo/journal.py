"""Records appended to a file as they come, so that a killed process goes on where it was."""

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from medgrpo.errors import MedgrpoError
from medgrpo.exams.jsonl import Problems, read_objects


class Journal:
    """A file of JSON lines, locked while it is open: settings in the first line, a record in each further one.

    `records` is what it held when it was opened, with the line of each. A last line that a kill cut off is
    dropped. Raises `MedgrpoError` for a file that can't be written, that another process is writing, that is
    damaged or no journal, or that was begun with other settings.
    """

    begin_anew = "delete it to begin anew"
    """What a user who does not want what is there can do; a subclass may have an option for it."""

    def __init__(self, path: str | Path, settings: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.records: list[tuple[int, dict[str, Any]]] = []
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b")
        except OSError as error:
            raise MedgrpoError(f"{self.path}: cannot be written ({error.strerror}): choose another --out") from error
        try:
            self._lock()
            self._load(settings)
        except BaseException:
            self._file.close()
            raise

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record; from here on a kill of the process does not lose it."""
        try:
            self._file.write((json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace"))
            self._file.flush()
        except OSError as error:
            raise MedgrpoError(f"{self.path}: cannot be written ({error.strerror}): what it holds is kept") from error

    def remove(self) -> None:
        """Delete the file: what it held stands elsewhere now."""
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Give the file free for other processes."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MedgrpoError(
                f"{self.path}: another process is writing it: wait for that one, or choose another --out"
            ) from error

    def _load(self, settings: Mapping[str, Any]) -> None:
        self._file.seek(0)
        data = self._file.read()
        if b"\n" not in data and not b'{"settings": '.startswith(data[:13]):
            raise MedgrpoError(f"{self.path}: is no journal: choose another --out")
        self._file.truncate(data.rfind(b"\n") + 1)
        problems = Problems()
        records = read_objects(self.path, problems)
        if not records and not problems.count:
            self.append({"settings": dict(settings)})
            return
        if problems.count or not isinstance(records[0][1].get("settings"), dict):
            problems.add(self.path, f"is damaged, or no journal: choose another --out, or {self.begin_anew}")
        problems.raise_if_any()
        refuse_other_settings(self.path, records[0][1]["settings"], settings, self.begin_anew)
        self.records = records[1:]


def refuse_other_settings(path: Path, then: Mapping[str, Any], now: Mapping[str, Any], begin_anew: str) -> None:
    """Raise `MedgrpoError` naming what differs between the settings of `path` and those asked for now."""
    # Through JSON, as the older ones went: a tuple is a list there.
    old, new = _flatten(then), _flatten(json.loads(json.dumps(now)))
    differing = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if differing:
        found = "; ".join(_describe_change(name, old.get(name), new.get(name)) for name in differing)
        raise MedgrpoError(
            f"{path}: was made with other settings ({found}): use those, choose another --out, or {begin_anew}"
        )


def _describe_change(name: str, then: Any, now: Any) -> str:
    if name == "prompts_sha256":  # two hashes tell a user nothing
        return "other questions or prompts"
    return f"{name} was {then!r:.60}, is now {now!r:.60}"


def _flatten(settings: Mapping[str, Any]) -> dict[str, Any]:
    """One level of nesting as dotted names: `sampling.temperature`."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            flat |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            flat[name] = value
    return flat
