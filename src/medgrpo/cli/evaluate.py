"""`medgrpo evaluate`: let a model answer questions, and score its answers."""

import argparse

from medgrpo.cli.verbs import Parser, add_verb


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


def add_verbs(verbs: "argparse._SubParsersAction[Parser]") -> None:
    """Declare `medgrpo evaluate`."""
    verb = add_verb(
        verbs,
        evaluate,
        "evaluate",
        "let a model answer questions, and score its answers",
        "medgrpo evaluate --model tiny --questions mini_exam --years 2023-2026 --out runs/base",
    )
    verb.add_argument("--model", metavar="M", required=True, help="a model's folder, its Hub name, or `tiny`")
    verb.add_argument("--years", metavar="YEARS", help="2023-2026 or 2023,2025 (default: all there are)")
    verb.add_argument("--batch-size", metavar="N", type=int, default=8, help="questions at a time (8)")
    verb.add_argument("--max-new-tokens", metavar="N", type=int, default=1024, help="longest answer (1024)")
    verb.add_argument("--temperature", metavar="T", type=float, default=0.0, help="0 is greedy (0)")
    verb.add_argument("--seed", metavar="N", type=int, default=0, help="for sampled answers (0)")
    verb.add_argument("--limit", metavar="N", type=int, help="only the first N questions")
    verb.add_argument("--questions", metavar="FILE.jsonl", required=True, help="questions, or `mini_exam`")
    verb.add_argument("--out", metavar="DIR", required=True, help="where samples.jsonl and run.json go")
