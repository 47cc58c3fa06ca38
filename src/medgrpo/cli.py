"""`medgrpo <verb>`: one verb a function, thin; what it needs is imported when it runs, so help is instant.

A verb is a function from its arguments to the exit status (0 done, 1 a check failed) and a parser for its
options in `build_parser`. Status 2 is bad use: a wrong option, or a `MedgrpoError` printed on standard error.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from medgrpo.errors import MedgrpoError

Verb = Callable[[argparse.Namespace], int]


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


def score(args: argparse.Namespace) -> int:
    """Score completions that exist; no model needed."""
    from medgrpo.evaluation.score import score_file, summarise

    run = score_file(args.completions, args.questions, args.out)
    print(summarise(run.samples).describe())
    print(f"wrote {args.out}/samples.jsonl and {args.out}/run.json")
    return 0


def evaluate(args: argparse.Namespace) -> int:
    """Let a model answer the questions, and score its answers."""
    from medgrpo.evaluation.evaluate import evaluate_model
    from medgrpo.evaluation.score import summarise
    from medgrpo.exams.question import read_questions
    from medgrpo.exams.splits import parse_years, select_years

    questions = read_questions(args.questions)
    if args.years is not None:
        questions = select_years(questions, parse_years(args.years))
    run = evaluate_model(
        args.model,
        questions,
        args.out,
        batch_size=args.batch_size,
        max_new_tokens=args.max_new_tokens,
        temperature=args.temperature,
        seed=args.seed,
        limit=args.limit,
    )
    print("greedy decoding" if args.temperature == 0 else f"sampled at temperature {args.temperature:g}")
    print(summarise(run.samples).describe())
    print(f"wrote {args.out}/samples.jsonl and {args.out}/run.json")
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all verbs; a parsed verb stands in `run` and its name in `verb`."""
    parser = _Parser(
        prog="medgrpo",
        description="Post-train models on Japanese medical exam questions, and say whether it helped.",
        epilog="example: medgrpo data igakuqa IgakuQA --out questions.jsonl",
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)

    data = verbs.add_parser(
        "data",
        help="make and check files of questions",
        description="Make and check files of questions.",
        epilog="example: medgrpo data check train.jsonl eval.jsonl",
    )
    data_verbs = data.add_subparsers(title="verbs", metavar="VERB", required=True)
    igakuqa = _add_verb(
        data_verbs,
        data_igakuqa,
        "igakuqa",
        "convert a checkout of IgakuQA's files into questions",
        "medgrpo data igakuqa IgakuQA --out train.jsonl --years 2018-2021",
    )
    igakuqa.add_argument("source", metavar="SRC", help="the checkout, or the data folder in it")
    igakuqa.add_argument("--out", metavar="FILE.jsonl", required=True, help="the file of questions to write")
    igakuqa.add_argument("--years", metavar="YEARS", help="2018-2021 or 2018,2020 (default: all there are)")

    check = _add_verb(
        data_verbs,
        data_check,
        "check",
        "check the schema of two files, and that no question of one is in the other",
        "medgrpo data check train.jsonl eval.jsonl",
    )
    check.add_argument("train", metavar="TRAIN.jsonl", help="questions to train on")
    check.add_argument("eval", metavar="EVAL.jsonl", help="questions to evaluate on")

    scoring = _add_verb(
        verbs,
        score,
        "score",
        "score completions that exist",
        "medgrpo score completions.jsonl --questions eval.jsonl --out runs/scored",
    )
    scoring.add_argument("completions", metavar="COMPLETIONS.jsonl", help='{"id", "completion"} a line')
    evaluation = _add_verb(
        verbs,
        evaluate,
        "evaluate",
        "let a model answer questions, and score its answers",
        "medgrpo evaluate --model tiny --questions mini_exam --years 2023-2026 --out runs/base",
    )
    evaluation.add_argument("--model", metavar="M", required=True, help="a model's folder, its Hub name, or `tiny`")
    evaluation.add_argument("--years", metavar="YEARS", help="2023-2026 or 2023,2025 (default: all there are)")
    evaluation.add_argument("--batch-size", metavar="N", type=int, default=8, help="questions at a time (8)")
    evaluation.add_argument("--max-new-tokens", metavar="N", type=int, default=1024, help="longest answer (1024)")
    evaluation.add_argument("--temperature", metavar="T", type=float, default=0.0, help="0 is greedy (0)")
    evaluation.add_argument("--seed", metavar="N", type=int, default=0, help="for sampled answers (0)")
    evaluation.add_argument("--limit", metavar="N", type=int, help="only the first N questions")
    for verb in (scoring, evaluation):
        verb.add_argument("--questions", metavar="FILE.jsonl", required=True, help="questions, or `mini_exam`")
        verb.add_argument("--out", metavar="DIR", required=True, help="where samples.jsonl and run.json go")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit status."""
    args = build_parser().parse_args(argv)
    try:
        return args.run(args)
    except MedgrpoError as error:
        print(f"medgrpo {args.verb}: {error}", file=sys.stderr)
        return 2


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with the options in one line, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _add_verb(
    verbs: "argparse._SubParsersAction[_Parser]",
    run: Verb,
    name: str,
    help: str,
    example: str,
) -> argparse.ArgumentParser:
    verb = verbs.add_parser(
        name,
        help=help,
        description=f"{help.capitalize()}.",
        epilog=f"example: {example}",
        allow_abbrev=False,
    )
    verb.set_defaults(run=run, verb=verb.prog.removeprefix("medgrpo "))
    return verb


if __name__ == "__main__":
    raise SystemExit(main())
