"""`medgrpo push`: a finished run, its evaluation in the model card, on the Hub."""

import argparse
import sys
from pathlib import Path

from medgrpo.cli.verbs import Parser, add_verb


def push(args: argparse.Namespace) -> int:
    """Write the folder, show it, and upload it unless it is a dry run; 1 where the Hub could not be reached."""
    from medgrpo.hub.folder import describe_files
    from medgrpo.hub.push import PushRequest, push_run, write_push
    from medgrpo.hub.upload import HubUnreachable

    names = ("run_dir", "repo_id", "private", "lang", "with_samples", "comparison", "run_name", "scored", "benchmark")
    given = {name.removesuffix("_name"): getattr(args, name) for name in names}
    request = PushRequest(**given, out=args.out)
    try:
        done = write_push(request) if args.dry_run else push_run(request)
    except HubUnreachable as error:
        print(f"medgrpo push: {error}", file=sys.stderr)
        return 1
    print(describe_files(done.folder, done.files))
    visibility = "private" if request.private else "public"
    if done.url is None:
        print(f"wrote {done.folder}: nothing was pushed; without --dry-run it goes to {done.repo_id} ({visibility})")
    else:
        print(f"pushed to {done.url}")
    return 0


def add_verbs(verbs: "argparse._SubParsersAction[Parser]") -> None:
    """Declare `medgrpo push`."""
    verb = add_verb(
        verbs,
        push,
        "push",
        "push a finished run to the Hub: weights, tokenizer, and a model card with the evaluation in it",
        "medgrpo push runs/gspo --repo-id my-lab/gspo-igaku --dry-run",
    )
    verb.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="the output_dir of a recipe's finished run")
    verb.add_argument("--repo-id", metavar="OWNER/NAME", required=True, help="the repository; made where missing")
    seen = verb.add_mutually_exclusive_group()
    seen.add_argument("--private", dest="private", action="store_true", default=True, help="for you alone (default)")
    seen.add_argument("--public", dest="private", action="store_false", help="for everybody")
    verb.add_argument("--dry-run", action="store_true", help="write exactly what would be pushed, and push nothing")
    verb.add_argument("--out", metavar="DIR", type=Path, help="where that folder is written (RUN_DIR/hub)")
    verb.add_argument("--lang", choices=("ja", "en"), default="ja", help="language of the card (ja)")
    verb.add_argument("--with-samples", action="store_true", help="push the completions, too: they may quote the exam")
    verb.add_argument("--comparison", metavar="DIR", type=Path, help="folder of comparison.json (RUN_DIR/comparison)")
    verb.add_argument("--run", dest="run_name", metavar="NAME", help="what a comparison of several runs calls this one")
    verb.add_argument("--scored", metavar="NAME", default="after", help="RUN_DIR's folder with the samples (after)")
    verb.add_argument(
        "--benchmark",
        metavar="OWNER/DATASET:TASK",
        help="the exam as a benchmark of the Hub: adds .eval_results/medgrpo.yaml for its leaderboard",
    )
