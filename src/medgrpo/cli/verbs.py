"""How a verb is declared: its name, its function, its help with an example."""

import argparse
from collections.abc import Callable
from typing import NoReturn

Verb = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the options in one line, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with status 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


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
        description=f"{help.capitalize()}.",
        epilog=f"example: {example}",
        allow_abbrev=False,
    )
    verb.set_defaults(run=run, verb=verb.prog.removeprefix("medgrpo "))
    return verb
