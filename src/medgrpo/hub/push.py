"""From a finished run to a repository on the Hub, or to the folder that would be pushed."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from medgrpo.errors import MedgrpoError
from medgrpo.hub.finished_run import AFTER, FinishedRun, read_finished_run
from medgrpo.hub.folder import check_repo_id, write_folder
from medgrpo.hub.upload import open_repository, upload

# Where the pushed folder lies in the run's own, unless told otherwise.
PUSHED = "hub"


@dataclass(frozen=True)
class PushRequest:
    """What is pushed, and where to."""

    run_dir: Path
    repo_id: str
    private: bool = True
    lang: str = "ja"
    with_samples: bool = False
    """Whether the completions go with it, which may quote the exam."""
    comparison: Path | None = None
    """Folder of comparison.json; None = the run's own."""
    run: str | None = None
    """What the comparison calls this run; None = its only run, or the one called by the method."""
    scored: str = AFTER
    benchmark: str | None = None
    out: Path | None = None

    @property
    def folder(self) -> Path:
        """Where the pushed folder is written."""
        return self.out or Path(self.run_dir) / PUSHED

    def command(self) -> str:
        """The command that does the same again."""
        words = ["medgrpo", "push", str(self.run_dir), "--repo-id", self.repo_id]
        words += [] if self.private else ["--public"]
        words += [] if self.lang == "ja" else ["--lang", self.lang]
        words += ["--with-samples"] if self.with_samples else []
        given = {"--comparison": self.comparison, "--run": self.run, "--benchmark": self.benchmark, "--out": self.out}
        given["--scored"] = None if self.scored == AFTER else self.scored
        for option, value in given.items():
            words += [] if value is None else [option, str(value)]
        return shlex.join(words)


@dataclass(frozen=True)
class Pushed:
    """What was written, and the commit that it became."""

    folder: Path
    files: list[Path]
    repo_id: str
    url: str | None
    """None where nothing was uploaded."""


def write_push(request: PushRequest) -> Pushed:
    """Write the folder that would be pushed; asks nothing of the network."""
    run = read_request(request)
    return Pushed(request.folder, _write(request, run, request.repo_id), request.repo_id, None)


def push_run(request: PushRequest, token: str | None = None) -> Pushed:
    """Write the folder and upload it; nothing of the run is changed, and the folder stays.

    Raises `MedgrpoError` as `read_finished_run`, `write_folder`, `open_repository` and `upload` do; where the Hub
    or the way to it failed, the message ends with the command that tries again.
    """
    run = read_request(request)
    try:
        repo_id = open_repository(request.repo_id, request.private, token)
        files = _write(request, run, repo_id)
        url = upload(request.folder, repo_id, f"{run.record.method}, {run.steps} steps, with its evaluation", token)
    except MedgrpoError as error:
        raise type(error)(f"{error}. Nothing is lost; again: {request.command()}") from error
    return Pushed(request.folder, files, repo_id, url)


def read_request(request: PushRequest) -> FinishedRun:
    """The run that is meant; raises `MedgrpoError` for a bad name or a run that is not finished."""
    check_repo_id(request.repo_id)
    return read_finished_run(request.run_dir, request.comparison, request.run, request.scored)


def _write(request: PushRequest, run: FinishedRun, repo_id: str) -> list[Path]:
    return write_folder(
        run,
        request.folder,
        repo_id,
        request.lang,
        with_samples=request.with_samples,
        benchmark=request.benchmark,
    )
