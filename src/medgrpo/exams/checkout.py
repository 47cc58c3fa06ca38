"""A checkout's files, and no others: a link in it must not make a reader read what lies elsewhere."""

from pathlib import Path

from medgrpo.exams.jsonl import Problems


def stays_inside(path: Path, root: Path, problems: Problems) -> bool:
    """Whether `path`, links followed, lies in the folder `root`; notes a problem where it does not."""
    if path.resolve().is_relative_to(root.resolve()):
        return True
    problems.add(path, f"is a link that leads out of {root}: put the file itself there")
    return False
