"""JSON in and out, a line or an array: every problem of a file told at once, files that are whole or absent."""

import codecs
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from medgrpo.errors import MedgrpoError

SHOWN_PROBLEMS = 10

Complain = Callable[[str, str], None]
"""Takes a field of the file, and what is wrong with it and what to do."""


class Problems:
    """What is wrong with the input, gathered so that a user can mend it all in one go.

    The first ten are kept and the rest are counted. `raise_if_any` raises one `MedgrpoError`: a single line
    for one problem; for several a heading and one line each.
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(
        self, path: str | Path, message: str, line: int | None = None, field: str | None = None, noun: str = "field"
    ) -> None:
        """Note one problem: the file, its line (1-based) and field where known, what is wrong, what to do."""
        self.count += 1
        if len(self.first) < SHOWN_PROBLEMS:
            where = str(path)
            if line is not None:
                where += f", line {line}"
            if field is not None:
                where += f", {noun} {field}"
            self.first.append(f"{where}: {message}")

    def at(self, path: str | Path, line: int, noun: str = "field") -> Complain:
        """Return a function (field, message) that notes a problem of this line; a table calls a field a column."""
        return lambda field, message: self.add(path, message, line, field, noun)

    def raise_if_any(self) -> None:
        """Raise `MedgrpoError` with what was noted, or return where nothing was."""
        if self.count == 0:
            return
        if self.count == 1:
            raise MedgrpoError(self.first[0])
        heading = f"{self.count} problems"
        if self.count > len(self.first):
            heading += f", the first {len(self.first)}"
        raise MedgrpoError("\n  ".join([f"{heading}:", *self.first]))


def read_objects(path: str | Path, problems: Problems) -> list[tuple[int, dict[str, Any]]]:
    """Read the JSON objects of a UTF-8 file (with or without BOM), one a line, as (line number, object).

    Blank lines are passed over. A line that is not UTF-8, not JSON, not an object, or that names a key twice
    is noted in `problems` and left out. Raises `MedgrpoError` where the file cannot be read at all, or is
    Shift_JIS or EUC-JP as a whole.
    """
    data = read_utf8_bytes(path)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse_older_encoding(path, data, error)
    objects = []
    # Split at \n only: str.splitlines would also cut at U+2028 and other marks that stand inside real texts.
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            record = json.loads(raw.decode("utf-8"), object_pairs_hook=_without_doubles)
            if b"\\u" in raw:
                _refuse_lone_surrogates(record)
        except UnicodeDecodeError as error:
            problems.add(path, f"byte {error.start + 1} is not UTF-8: save the file as UTF-8", number)
        except json.JSONDecodeError as error:
            problems.add(path, f"not JSON ({error.msg} at column {error.colno}): one object a line", number)
        except (ValueError, RecursionError) as error:
            problems.add(path, f"not usable JSON ({error})", number)
        else:
            if isinstance(record, dict):
                objects.append((number, record))
            else:
                problems.add(path, 'not a JSON object: every line is one object, {"id": ...}', number)
    return objects


def read_utf8_bytes(path: str | Path) -> bytes:
    """Return a file's bytes without a UTF-8 BOM; raises `MedgrpoError` where it cannot be read or is UTF-16."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise MedgrpoError(f"{path}: cannot be read ({error.strerror}): check the path") from error
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise MedgrpoError(f"{path}: is UTF-16: save it as UTF-8, or run: {_iconv(path, 'UTF-16')}")
    return data.removeprefix(codecs.BOM_UTF8)


def read_text(path: str | Path) -> str:
    """Read a UTF-8 file (with or without BOM); raises `MedgrpoError`, which names Shift_JIS and EUC-JP."""
    data = read_utf8_bytes(path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        _refuse_older_encoding(path, data, error)
        line = data.count(b"\n", 0, error.start) + 1
        raise MedgrpoError(
            f"{path}, line {line}: byte {error.start + 1} of the file is not UTF-8: save it as UTF-8"
        ) from error


def read_array(path: str | Path, problems: Problems) -> list[tuple[int, dict[str, Any]]]:
    """Read a UTF-8 file that holds one JSON array of objects, as (line on which it starts, object).

    What is broken is noted in `problems` with its line: reading ends there, for what follows is in doubt.
    Raises `MedgrpoError` where the file cannot be read at all.
    """
    text = read_text(path)
    decoder = json.JSONDecoder(object_pairs_hook=_without_doubles)
    objects: list[tuple[int, dict[str, Any]]] = []
    position = _skip_blanks(text, 0)
    expected = "["
    line, counted = 1, 0
    halves = _HALF.search(text) is not None
    while True:
        line, counted = line + text.count("\n", counted, position), position
        if text[position : position + 1] == "]" and expected != "[":
            if text[position + 1 :].strip():
                problems.add(path, "something follows the array's end: keep one array a file", line)
            return objects
        if expected and text[position : position + 1] != expected:
            problems.add(path, f"not a JSON array of objects: {expected!r} is missing here", line)
            return objects
        position = _skip_blanks(text, position + len(expected))
        line, counted = line + text.count("\n", counted, position), position
        if expected == "[" and text[position : position + 1] == "]":
            expected = ""
            continue
        try:
            record, position = decoder.raw_decode(text, position)
            if halves:
                _refuse_lone_surrogates(record)
        except json.JSONDecodeError as error:
            problems.add(path, f"not JSON ({error.msg} at column {error.colno})", error.lineno)
            return objects
        except (ValueError, RecursionError) as error:
            problems.add(path, f"not usable JSON ({error})", line)
            return objects
        if not isinstance(record, dict):
            problems.add(path, 'not a JSON object: every entry is one object, {"number": ...}', line)
            return objects
        objects.append((line, record))
        position = _skip_blanks(text, position)
        expected = ","


def write_objects(path: str | Path, objects: Iterable[Mapping[str, Any]]) -> None:
    """Write objects as UTF-8 JSON Lines, whole or not at all: to a neighbouring file that is then renamed.

    Makes missing parent folders. Raises `MedgrpoError` where the file cannot be written; whatever stood at
    `path` before is then still there.
    """
    target = Path(path).resolve()
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in objects)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise MedgrpoError(f"{path}: cannot be written ({error.strerror}): choose another path") from error


_JAPANESE_ENCODINGS = (("Shift_JIS (cp932)", "CP932"), ("EUC-JP", "EUC-JP"))
_KANA = re.compile("[ぁ-んァ-ヶ]")


def _refuse_older_encoding(path: str | Path, data: bytes, error: UnicodeDecodeError) -> None:
    """Raise `MedgrpoError` with the converting command where all of `data` is Shift_JIS or EUC-JP."""
    if _KANA.search(data[: error.start].decode("utf-8")):
        return  # Japanese in UTF-8 up to here: one damaged place, which may decode as Shift_JIS by chance
    found = _guess_encoding(data)
    if found is None:
        return
    name, codec = found
    line = data.count(b"\n", 0, error.start) + 1
    excel = " (in Excel: CSV UTF-8)" if Path(path).suffix.lower() == ".csv" else ""
    raise MedgrpoError(
        f"{path}, line {line}: is not UTF-8 but looks like {name}: save it as UTF-8{excel}, or "
        f"run: {_iconv(path, codec)}"
    ) from error


def _iconv(path: str | Path, codec: str) -> str:
    return f"iconv -f {codec} -t UTF-8 {shlex.quote(str(path))} > utf8{Path(path).suffix}"


def _guess_encoding(data: bytes) -> tuple[str, str] | None:
    """Name the older Japanese encoding under which most characters are kana; None where none fits."""
    kana = {}
    for name, codec in _JAPANESE_ENCODINGS:
        try:
            kana[name, codec] = len(_KANA.findall(data.decode(codec)))
        except UnicodeDecodeError:
            continue
    return max(kana, key=lambda found: kana[found]) if kana and max(kana.values()) else None


# The escape of half a character; only such text needs to be looked through for a half that stands alone.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_BLANKS = re.compile(r"[ \t\r\n]*+")


def _skip_blanks(text: str, position: int) -> int:
    return _BLANKS.match(text, position).end()


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object, refusing a key that stands twice (json would silently keep the last)."""
    record = dict(pairs)
    if len(record) < len(pairs):
        seen: set[str] = set()
        doubled = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {doubled!r} stands twice in one object: keep one")
    return record


def _refuse_lone_surrogates(record: Any) -> None:
    r"""Refuse half of a \ud83d\ude00 pair: it is no character, and could never be written again."""
    try:
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(f"the escape \\u{ord(half):04x} is half a character: mend the text") from error
