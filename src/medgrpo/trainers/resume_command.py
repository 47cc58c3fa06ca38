"""The command that a stopped run is resumed with."""

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

OPTION = "--resume_from_checkpoint"


def resume_command(arguments: Sequence[str] | None = None) -> str:
    """This program's own command line, with its launcher, resuming from the last whole checkpoint.

    `arguments` are the program and its options (None: this process's).
    """
    arguments = list(sys.argv if arguments is None else arguments)
    return shlex.join([*_launcher(arguments[0]), *_without_option(arguments), OPTION, "last"])


def _without_option(arguments: Sequence[str]) -> list[str]:
    kept, skip = [], False
    for word in arguments:
        if skip or word == OPTION:
            skip = word == OPTION
        elif not word.startswith(f"{OPTION}="):
            kept.append(word)
    return kept


def _launcher(program: str) -> list[str]:
    """The words before the program in the command of the process that started this one; `python` where it is none."""
    try:
        command = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:  # another system, or another user's process
        return ["python"]
    if program not in command:
        return ["python"]
    words = command[: command.index(program)]
    # `/where/it/is/python /where/it/is/accelerate launch ...` is typed as `accelerate launch ...`.
    if len(words) > 1 and Path(words[0]).name.startswith("python") and not words[1].startswith("-"):
        words = words[1:]
    return [Path(words[0]).name, *words[1:]] if words else ["python"]
