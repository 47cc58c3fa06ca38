"""`medgrpo score`: score completions that exist."""

import argparse

from medgrpo.cli.verbs import Parser, add_verb


def score(args: argparse.Namespace) -> int:
    """Score completions that exist; no model needed."""
    from medgrpo.evaluation.describe import describe_run
    from medgrpo.evaluation.score import score_file

    run = score_file(args.completions, args.questions, args.out, args.policy, overwrite=args.overwrite)
    print(describe_run(run))
    print(f"wrote {args.out}/samples.jsonl and {args.out}/run.json")
    return 0


def add_verbs(verbs: "argparse._SubParsersAction[Parser]") -> None:
    """Declare `medgrpo score`."""
    verb = add_verb(
        verbs,
        score,
        "score",
        "score completions that exist",
        "medgrpo score completions.jsonl --questions eval.jsonl --out runs/scored",
    )
    verb.add_argument("completions", metavar="COMPLETIONS.jsonl", help='{"id", "completion"} a line')
    verb.add_argument("--questions", metavar="FILE.jsonl", required=True, help="questions, or `mini_exam`")
    verb.add_argument("--out", metavar="DIR", required=True, help="where samples.jsonl and run.json go")
    verb.add_argument(
        "--policy",
        choices=("board", "key"),
        default="board",
        help="board (default): excluded questions are not counted, credited ones are right; key: all by their key",
    )
    verb.add_argument("--overwrite", action="store_true", help="replace a model's run, or a begun one, in --out")
