"""Train several methods from the same base on the same data, score all of them, and say which helped.

python recipes/side_by_side.py                                     # embedded tiny model, mini exam: four methods
python recipes/side_by_side.py --config my_experiment.yaml         # your own; interrupted, it goes on where it was
python recipes/side_by_side.py --config my_experiment.yaml --print_jobs launch/train_8x8.sbatch   # or Slurm jobs

Each run is trained in processes of its own, placed as the file's `placement` says. They are told `--run NAME`, and
may be told where the rollout server is, or any other field of a recipe. The report stands in `<output_dir>/report`.
"""

from argparse import ArgumentParser
from pathlib import Path

from medgrpo.experiment.arguments import run
from medgrpo.experiment.side_by_side.conclude import conclude
from medgrpo.experiment.side_by_side.design import read_design
from medgrpo.experiment.side_by_side.launch import run_all, slurm_jobs
from medgrpo.experiment.side_by_side.train import train_run
from medgrpo.report.headline import describe_comparison

DEFAULT = Path(__file__).parent / "configs" / "tiny_side_by_side_cpu.yaml"


def main() -> None:
    """Design; then one run, or the jobs, or every run and the report."""
    parser = ArgumentParser(description="Train several methods side by side and compare them.")
    parser.add_argument("--config", default=str(DEFAULT), metavar="FILE.yaml", help="the experiment")
    parser.add_argument("--run", metavar="NAME", help="train and score this run alone, e.g. GSPO/seed0")
    parser.add_argument("--print_jobs", metavar="BATCH_FILE", help="print Slurm jobs that use this batch file")
    arguments, fields = parser.parse_known_args()
    if fields and arguments.run is None:
        parser.error(f"{fields[0]}: fields of a recipe stand in the file's `settings`, or go with --run")
    design = read_design(arguments.config)
    if arguments.run is not None:
        train_run(design, design.find(arguments.run), fields)
    elif arguments.print_jobs is not None:
        print(slurm_jobs(design, __file__, arguments.print_jobs))
    else:
        run_all(design, __file__)
        for name, (comparison, page) in conclude(design).items():
            print(f"\n{name}\n{describe_comparison(comparison)}")
            print(f"report     {page}")


if __name__ == "__main__":
    run(main)
