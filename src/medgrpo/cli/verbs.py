"""How a verb is declared: its name, its function, its help with an example."""

import argparse
import difflib
from collections.abc import Callable, Sequence
from typing import NoReturn

Verb = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the options in one line, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def refuse_unknown(self, words: Sequence[str]) -> NoReturn:
        """Say which of the words that were left over is unknown, and the closest option where there is one."""
        name = next((word for word in words if word.startswith("-")), None)
        if name is None:
            self.error(f"unexpected argument {words[0]!r}")
        name = name.split("=", 1)[0]
        known = [option for action in self._actions for option in action.option_strings]
        near = difflib.get_close_matches(name, known, n=1)
        self.error(f"unknown option {name}" + (f": did you mean {near[0]}?" if near else ""))


def add_verb(
    verbs: "argparse._SubParsersAction[Parser]",
    run: Verb,
    name: str,
    help: str,
    example: str,
) -> argparse.ArgumentParser:
    """Add the verb `name`, run by `run`, with its help and one example; returns its parser for the options."""
    verb = verbs.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog=f"example: {example}",
        allow_abbrev=False,
    )
    verb.set_defaults(run=run, verb=verb.prog.removeprefix("medgrpo "), parser=verb)
    return verb
