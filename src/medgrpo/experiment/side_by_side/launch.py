"""The runs of a side-by-side experiment one after another, each in processes of its own; or as Slurm jobs."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

from medgrpo.errors import MedgrpoError
from medgrpo.experiment.side_by_side.design import Design, PlannedRun
from medgrpo.experiment.side_by_side.stop import StopRequest
from medgrpo.experiment.side_by_side.train import FINISHED, parse_settings, refuse_other_settings, wait_until_left

LOG = "log.txt"
LINES_SHOWN = 15


def run_all(design: Design, script: str | Path) -> None:
    """Train and score every run that is not finished, `script` being the recipe that trains one (`--run NAME`).

    What a run prints goes to `log.txt` in its folder. A run that fails does not stop the others. Raises
    `MedgrpoError` for a placement that is no file and settings that a method refuses, before anything is trained, for
    a run that was begun with other settings, and in the end for the runs that failed. On SIGTERM or SIGUSR1 the run
    that is going saves a checkpoint, and this exits with status 0 (`SystemExit`).
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise MedgrpoError(
            "start this recipe as a single process (python recipes/side_by_side.py): it launches the processes of each "
            "run itself, by the design's `placement`"
        )
    if design.placement is not None and not Path(design.placement).is_file():
        raise MedgrpoError(
            f"{design.path}: placement: {design.placement}: no such file in {Path.cwd()}: name one of "
            "accelerate_configs/"
        )
    environment = _inherited()  # reading the settings of a run may add to it
    done = {run.name: is_finished(run) for run in design.runs}
    for run in design.runs:
        if not done[run.name]:
            try:
                parse_settings(run)
            except MedgrpoError as error:
                raise MedgrpoError(f"{design.path}, {run.name}: {error}") from error
    failed, stop = [], StopRequest()
    for number, run in enumerate(design.runs, start=1):
        head = f"[{number}/{len(design.runs)}] {run.name}"
        if done[run.name]:
            print(f"{head}: finished already", flush=True)
            continue
        print(f"{head}: running, log in {run.folder / LOG}", flush=True)
        started = time.monotonic()
        status = _run_one(launch_command(design, run, script), run, environment, stop)
        took = f"{time.monotonic() - started:.0f} s"
        if status == 0 and is_finished(run):
            print(f"{head}: finished in {took}", flush=True)
        elif stop.heard is None:
            failed.append(run)
            print(
                f"{head}: failed after {took} (exit status {status})\n{_end_of_log(run)}", file=sys.stderr, flush=True
            )
        if stop.heard is not None:
            # Whoever signals all processes ends accelerate before its training.
            wait_until_left(run)
            print(f"{head}: stopped by {stop.heard.name} after {took}: the same command goes on from there", flush=True)
            raise SystemExit(0)
    if failed:
        names = ", ".join(run.name for run in failed)
        raise MedgrpoError(
            f"{names}: did not finish, see {failed[0].folder / LOG}: the same command goes on from there, and a report "
            "is written when all runs are finished"
        )


def is_finished(run: PlannedRun) -> bool:
    """Whether the run is trained and scored; raises `MedgrpoError` where it was begun with other settings."""
    refuse_other_settings(run)
    return (run.folder / FINISHED).is_file()


def launch_command(design: Design, run: PlannedRun, script: str | Path) -> list[str]:
    """The command that trains one run where this process is."""
    placement = ["--config_file", design.placement] if design.placement else []
    launcher = [sys.executable, "-m", "accelerate.commands.launch", *placement]
    return [*launcher, str(script), "--config", str(design.path), "--run", run.name]


def slurm_jobs(design: Design, script: str | Path, batch_file: str) -> str:
    """Shell lines that submit a job for every run that is not finished, and one that reports when all are done.

    `batch_file` is one of launch/: it takes recipe and file from RECIPE and CONFIG and hands options on to the recipe.
    """
    told = f"RECIPE={shlex.quote(str(script))} CONFIG={shlex.quote(str(design.path))}"
    lines = ["jobs=()"]
    for run in design.runs:
        if not is_finished(run):
            name = run.name.replace("/", "-")
            words = shlex.join(["sbatch", "--parsable", f"--job-name={name}", batch_file, "--run", run.name])
            lines.append(f'jobs+=("$({told} {words})")')
    report = shlex.join([sys.executable, str(script), "--config", str(design.path)])
    # Slurm refuses a dependency on no job at all.
    after = '--dependency="afterok:$(IFS=:; echo "${jobs[*]}")" ' if len(lines) > 1 else ""
    lines.append(f"sbatch --job-name=report --nodes=1 --ntasks=1 {after}--wrap {shlex.quote(report)}")
    return "\n".join(lines)


def _inherited() -> dict[str, str]:
    """The environment of the runs. This process may itself have been started by accelerate: not with their settings."""
    own = ("ACCELERATE_", "FSDP_", "DEEPSPEED_")
    places = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {name: value for name, value in os.environ.items() if not name.startswith(own) and name not in places}


def _run_one(command: list[str], run: PlannedRun, environment: dict[str, str], stop: StopRequest) -> int:
    with (run.folder / LOG).open("ab") as log:
        launcher = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
        with launcher, stop.handed_on_to(launcher):
            return launcher.wait()


def _end_of_log(run: PlannedRun) -> str:
    text = (run.folder / LOG).read_text(encoding="utf-8", errors="replace")
    return "\n".join(f"    {line}" for line in text.splitlines()[-LINES_SHOWN:])
