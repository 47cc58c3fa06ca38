"""`medgrpo data ...`: make and check files of questions."""

import argparse
import sys

from medgrpo.cli.verbs import Parser, add_verb


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


def data_check(args: argparse.Namespace) -> int:
    """Check two files of questions against the schema and each other; 1 where questions leak."""
    from medgrpo.exams.leakage import KIND_NAMES, describe_leaks, find_leaks, list_leaks
    from medgrpo.exams.question import read_questions

    train, evaluation = read_questions(args.train), read_questions(args.eval)
    leaks = find_leaks(train, evaluation)
    print(f"{args.train}: {len(train)} questions to train on")
    print(f"{args.eval}: {len(evaluation)} questions to evaluate on")
    for kind, name in KIND_NAMES.items():
        found = [leak for leak in leaks if leak.kind == kind]
        print(f"leaks by {name}: {len(found)}" + (f": {list_leaks(found, 20)}" if found else ""))
    if leaks:
        print(f"medgrpo data check: {describe_leaks(leaks, args.train, args.eval)}", file=sys.stderr)
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

    check = add_verb(
        data_verbs,
        data_check,
        "check",
        "check the schema of two files, and that no question of one is in the other",
        "medgrpo data check train.jsonl eval.jsonl",
    )
    check.add_argument("train", metavar="TRAIN.jsonl", help="questions to train on")
    check.add_argument("eval", metavar="EVAL.jsonl", help="questions to evaluate on")
