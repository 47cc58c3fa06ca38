"""Compare scored runs with a base and each other: `medgrpo compare` in recipe form.

python recipes/compare.py                                                # what recipes/grpo.py and gspo.py left
python recipes/compare.py --base runs/grpo/before --runs GRPO=runs/grpo/after GSPO=runs/gspo/after --out runs/comparison
python recipes/compare.py --config my_comparison.yaml                    # a YAML file with the same options
python recipes/compare.py --base runs/base --group GRPO=runs/g0,runs/g1 GSPO=runs/s0,runs/s1 --out runs/comparison
"""

import sys

from medgrpo.comparison.compare import compare_runs
from medgrpo.comparison.read import read_runs
from medgrpo.comparison.request import ComparisonRequest
from medgrpo.comparison.write import write_comparison
from medgrpo.experiment.arguments import parse_dataclasses, run
from medgrpo.report.comparison_report import write_comparison_report
from medgrpo.report.headline import describe_comparison

DEMO = ["--base", "runs/grpo_tiny/before", "--runs", "GRPO=runs/grpo_tiny/after", "GSPO=runs/gspo_tiny/after",
        "--questions", "mini_exam", "--out", "runs/comparison_tiny"]  # fmt: skip


def main() -> None:
    """Arguments, runs, comparison, report, headline."""
    (request,) = parse_dataclasses((ComparisonRequest,), sys.argv[1:] or DEMO)
    read = read_runs(request)
    comparison = compare_runs(read.runs, read.base, groups=read.groups, folders=read.folders, **request.options())
    write_comparison(request.out, comparison)
    write_comparison_report(request.out, comparison, read.runs, read.questions, request.lang)
    print(describe_comparison(comparison))
    print(f"report     {request.out}/comparison.html")


if __name__ == "__main__":
    run(main)
