"""`medgrpo evaluate`: let a model answer questions, and score its answers."""

import argparse
from dataclasses import fields
from typing import get_args, get_type_hints

from medgrpo.cli.verbs import Parser, add_verb
from medgrpo.evaluation.request import EvaluationRequest


def evaluate(args: argparse.Namespace) -> int:
    """Let a model answer the questions, and score its answers."""
    from medgrpo.evaluation.choose_backend import open_backend
    from medgrpo.evaluation.describe import describe_run
    from medgrpo.evaluation.evaluate import evaluate

    request = _read_request(args)
    questions = request.load_questions()
    backend, model = open_backend(request, questions)
    run = evaluate(backend, questions, request.out, model=model, policy=request.policy, overwrite=request.overwrite)
    print(describe_run(run))
    print(f"wrote {request.out}/samples.jsonl and {request.out}/run.json")
    return 0


def add_verbs(verbs: "argparse._SubParsersAction[Parser]") -> None:
    """Declare `medgrpo evaluate`, an option for each field of the request."""
    verb = add_verb(
        verbs,
        evaluate,
        "evaluate",
        "let a model answer questions, and score its answers",
        "medgrpo evaluate --model tiny --questions mini_exam --years 2023-2026 --out runs/base",
    )
    verb.add_argument("--config", metavar="FILE.yaml", help="`option: value` lines; the command line wins")
    types = get_type_hints(EvaluationRequest)
    for field in fields(EvaluationRequest):
        said = {key: value for key, value in field.metadata.items() if value is not None}
        if types[field.name] is bool:
            said["action"] = "store_true"
        else:
            said["type"] = (get_args(types[field.name]) or (types[field.name],))[0]
        # Only what was given stands in the namespace, so that a --config file can say the rest.
        verb.add_argument(f"--{field.name.replace('_', '-')}", default=argparse.SUPPRESS, **said)


def _read_request(args: argparse.Namespace) -> EvaluationRequest:
    given = {field.name: getattr(args, field.name) for field in fields(EvaluationRequest) if field.name in args}
    if args.config is None:
        return EvaluationRequest(**given)
    from medgrpo.experiment.arguments import parse_dataclasses

    words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    return parse_dataclasses((EvaluationRequest,), ["--config", args.config, *words])[0]
