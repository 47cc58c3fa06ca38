"""`medgrpo <verb>`: one verb a file, thin; what it needs is imported when it runs, so help is instant.

A verb is a function from its arguments to the exit status (0 done, 1 a check failed). Status 2 is bad use: a
wrong option, or a `MedgrpoError` printed on standard error. Ctrl-C gives 130, as shells have it.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from medgrpo.cli import audit, compare, data, evaluate, plan, push, score, serve
from medgrpo.cli.verbs import Parser
from medgrpo.errors import MedgrpoError
from medgrpo.plain_text import VisibleOutput, visible

VERBS = (data, score, evaluate, compare, audit, push, serve, plan)


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all verbs; a parsed verb stands in `run`, its name in `verb`, its parser in `parser`."""
    parser = Parser(
        prog="medgrpo",
        description="Post-train models on Japanese medical exam questions, and say whether it helped.",
        epilog="example: medgrpo data igakuqa IgakuQA --out questions.jsonl",
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for room in VERBS:
        room.add_verbs(verbs)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit status."""
    args, unknown = build_parser().parse_known_args(argv)
    if unknown:
        args.parser.refuse_unknown(unknown)
    try:
        with redirect_stdout(VisibleOutput(sys.stdout)):
            status = args.run(args)
        sys.stdout.flush()
        return status
    except MedgrpoError as error:
        print(visible(f"medgrpo {args.verb}: {error}"), file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Nobody reads on (`medgrpo ... | head`); Python would flush the rest at exit and fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(f"medgrpo {args.verb}: interrupted", file=sys.stderr)
        return 130
