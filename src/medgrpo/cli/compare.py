"""`medgrpo compare`: scored runs against a base and each other."""

import argparse
from dataclasses import fields
from typing import get_args, get_origin, get_type_hints

from medgrpo.cli.verbs import Parser, add_verb
from medgrpo.comparison.request import ComparisonRequest

# Given by their place; a --config file may name them instead.
PLACES = {"base": "?", "runs": "*"}


def compare(args: argparse.Namespace) -> int:
    """Compare scored runs, write comparison.json and the report, and print the headline."""
    from medgrpo.comparison.compare import compare_runs
    from medgrpo.comparison.read import read_runs
    from medgrpo.comparison.write import write_comparison
    from medgrpo.report.comparison_report import write_comparison_report
    from medgrpo.report.headline import describe_comparison

    request = _read_request(args)
    read = read_runs(request)
    comparison = compare_runs(read.runs, read.base, groups=read.groups, folders=read.folders, **request.options())
    written = [write_comparison(request.out, comparison)]
    written += write_comparison_report(request.out, comparison, read.runs, read.questions, request.lang)
    print(describe_comparison(comparison))
    print(f"wrote {', '.join(str(path) for path in written)}")
    return 0


def add_verbs(verbs: "argparse._SubParsersAction[Parser]") -> None:
    """Declare `medgrpo compare`, an argument for each field of the request."""
    verb = add_verb(
        verbs,
        compare,
        "compare",
        "compare scored runs with a base and each other: paired tests, intervals, a report",
        "medgrpo compare runs/base GRPO=runs/grpo GSPO=runs/gspo --out runs/comparison",
    )
    verb.add_argument("--config", metavar="FILE.yaml", help="`option: value` lines; the command line wins")
    types = get_type_hints(ComparisonRequest)
    for field in fields(ComparisonRequest):
        said = {key: value for key, value in field.metadata.items() if value is not None}
        if field.name in PLACES:
            verb.add_argument(field.name, nargs=PLACES[field.name], **said)
            continue
        if types[field.name] is bool:
            said["action"] = "store_true"
        elif get_origin(types[field.name]) is list:
            said["action"] = "append"
        else:
            said["type"] = (get_args(types[field.name]) or (types[field.name],))[0]
        # Only what was given stands in the namespace, so that a --config file can say the rest.
        verb.add_argument(f"--{field.name}", default=argparse.SUPPRESS, **said)


def _read_request(args: argparse.Namespace) -> ComparisonRequest:
    given = {field.name: getattr(args, field.name) for field in fields(ComparisonRequest) if field.name in args}
    given = {name: value for name, value in given.items() if value not in (None, [])}
    if args.config is None:
        return ComparisonRequest(**given)
    from medgrpo.experiment.arguments import parse_dataclasses

    words = []
    for name, value in given.items():
        words += [f"--{name}", *(map(str, value) if isinstance(value, list) else [str(value)])]
    return parse_dataclasses((ComparisonRequest,), ["--config", args.config, *words])[0]
