"""`medgrpo audit`: what a training log says."""

import argparse

from medgrpo.cli.verbs import Parser, add_verb


def audit(args: argparse.Namespace) -> int:
    """Read a run's log and say what happened; findings are no failure."""
    from medgrpo.audit.audit import audit_run, read_words, say

    found = audit_run(args.run_dir, args.out, args.lang)
    words = read_words(args.lang)
    for finding in found.findings:
        text = say(finding, words)
        print(f"{words('severity.' + finding.severity)}: {text['what']}\n  {text['evidence']}")
    if not found.findings:
        print(words("verdict.none"))
    unjudged = [name for name, result in found.checks.items() if result == "unjudged"]
    if unjudged:
        print(f"{words('word.unjudged')}: {words.join([words('check.' + name) for name in unjudged])}")
    print(f"wrote {args.out}/audit.html, {args.out}/audit.md and {args.out}/audit.json")
    return 0


def add_verbs(verbs: "argparse._SubParsersAction[Parser]") -> None:
    """Declare `medgrpo audit`."""
    verb = add_verb(
        verbs,
        audit,
        "audit",
        "say what a training log shows: which reward moved the policy, dead groups, spikes, reward hacking",
        "medgrpo audit runs/grpo_tiny --out runs/grpo_tiny/audit",
    )
    verb.add_argument("run_dir", metavar="RUN_DIR", help="the output_dir of a training run, over or under way")
    verb.add_argument("--out", metavar="DIR", required=True, help="where audit.html, audit.md and audit.json go")
    verb.add_argument("--lang", choices=("ja", "en"), default="ja", help="language of the pages (ja)")
