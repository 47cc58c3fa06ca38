"""`medgrpo data ...`: make and check files of questions."""

import argparse
import sys
from pathlib import Path

from medgrpo.cli.verbs import Parser, add_verb
from medgrpo.errors import MedgrpoError
from medgrpo.plain_text import visible


def data_igakuqa(args: argparse.Namespace) -> int:
    """Convert IgakuQA's files into questions and say what they are."""
    from medgrpo.exams.igakuqa import read_igakuqa
    from medgrpo.exams.question import write_questions
    from medgrpo.exams.splits import parse_years, tally

    questions = read_igakuqa(args.source, parse_years(args.years) if args.years is not None else None)
    write_questions(args.out, questions)
    print(tally(questions))
    print(f"wrote {len(questions)} questions to {args.out}")
    return 0


def data_igakuqa119(args: argparse.Namespace) -> int:
    """Convert IgakuQA119's files into questions; say what they are and what was mended in them."""
    from medgrpo.exams.igakuqa119 import read_igakuqa119
    from medgrpo.exams.question import write_questions
    from medgrpo.exams.splits import tally

    questions, mended = read_igakuqa119(args.source)
    write_questions(args.out, questions)
    print(tally(questions))
    for name, how in mended.items():
        print(f"mended {name}: {how}")
    print(f"wrote {len(questions)} questions to {args.out}")
    return 0


def data_table(args: argparse.Namespace) -> int:
    """Convert a table of one's own into questions and say what they are."""
    from medgrpo.exams.question import write_questions
    from medgrpo.exams.splits import tally, tally_departments
    from medgrpo.exams.table import read_table

    if Path(args.out).resolve() == Path(args.table).resolve():
        raise MedgrpoError(f"{args.out}: is the table itself: choose another --out")
    questions = read_table(args.table, exam=args.exam, year=args.year)
    write_questions(args.out, questions)
    print(tally(questions))
    print(tally_departments(questions))
    print(f"wrote {len(questions)} questions to {args.out}")
    return 0


def data_check(args: argparse.Namespace) -> int:
    """Check two files of questions against the schema and each other; 1 where questions leak."""
    from medgrpo.exams.leakage import KIND_NAMES, describe_leaks, find_leaks, list_leaks
    from medgrpo.exams.near_duplicates import find_near_duplicates
    from medgrpo.exams.question import read_questions

    train, evaluation = read_questions(args.train), read_questions(args.eval)
    leaks = find_leaks(train, evaluation)
    near = find_near_duplicates(train, evaluation)
    print(f"{args.train}: {len(train)} questions to train on")
    print(f"{args.eval}: {len(evaluation)} questions to evaluate on")
    for kind, name in KIND_NAMES.items():
        found = [leak for leak in leaks + near if leak.kind == kind]
        allowed = " (allowed)" if kind == "near" and found and args.allow_near_duplicates else ""
        print(f"leaks by {name}{allowed}: {len(found)}" + (f": {list_leaks(found, 20)}" if found else ""))
    if not args.allow_near_duplicates:
        leaks = leaks + near
    if leaks:
        print(visible(f"medgrpo data check: {describe_leaks(leaks, args.train, args.eval)}"), file=sys.stderr)
    return 1 if leaks else 0


def add_verbs(verbs: "argparse._SubParsersAction[Parser]") -> None:
    """Declare `medgrpo data` and the verbs under it."""
    data = verbs.add_parser(
        "data",
        help="make and check files of questions",
        description="Make and check files of questions.",
        epilog="example: medgrpo data check train.jsonl eval.jsonl",
    )
    data_verbs = data.add_subparsers(title="verbs", metavar="VERB", required=True)
    igakuqa = add_verb(
        data_verbs,
        data_igakuqa,
        "igakuqa",
        "convert a checkout of IgakuQA's files into questions",
        "medgrpo data igakuqa IgakuQA --out train.jsonl --years 2018-2021",
    )
    igakuqa.add_argument("source", metavar="SRC", help="the checkout, or the data folder in it")
    igakuqa.add_argument("--out", metavar="FILE.jsonl", required=True, help="the file of questions to write")
    igakuqa.add_argument("--years", metavar="YEARS", help="2018-2021 or 2018,2020 (default: all there are)")

    igakuqa119 = add_verb(
        data_verbs,
        data_igakuqa119,
        "igakuqa119",
        "convert IgakuQA119's files (the exam of 2025) into questions",
        "medgrpo data igakuqa119 IgakuQA119 --out 2025.jsonl",
    )
    igakuqa119.add_argument("source", metavar="SRC", help="the checkout, or a folder with its files")
    igakuqa119.add_argument("--out", metavar="FILE.jsonl", required=True, help="the file of questions to write")

    table = add_verb(
        data_verbs,
        data_table,
        "table",
        "convert a CSV or JSONL table of one's own exam into questions",
        "medgrpo data table specialist.csv --out specialist.jsonl --exam ophthalmology",
    )
    table.add_argument("table", metavar="FILE.csv", help="the table: see docs/data-formats.md for its columns")
    table.add_argument("--out", metavar="FILE.jsonl", required=True, help="the file of questions to write")
    table.add_argument("--exam", metavar="NAME", help="the exam's name where the table has no column exam")
    table.add_argument("--year", metavar="YEAR", type=int, help="the year where the table has no column year")

    check = add_verb(
        data_verbs,
        data_check,
        "check",
        "check the schema of two files, and that no question of one is in the other",
        "medgrpo data check train.jsonl eval.jsonl",
    )
    check.add_argument("train", metavar="TRAIN.jsonl", help="questions to train on")
    check.add_argument("eval", metavar="EVAL.jsonl", help="questions to evaluate on")
    check.add_argument(
        "--allow-near-duplicates", action="store_true", help="name near-duplicates, but do not count them as leaks"
    )
