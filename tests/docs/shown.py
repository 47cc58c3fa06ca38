"""What the documentation's pages show in their blocks."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    """The page's blocks in a language; those that name none have the language ``""``."""
    return [text for kind, text in _BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


def commands(page: Path) -> list[list[str]]:
    """Each command of the page's shell blocks as words: broken lines joined, comments and settings of the environment
    before the command left out."""
    lines = "\n".join(blocks(page, "bash")).replace("\\\n", " ").splitlines()
    found = []
    for words in (shlex.split(line, comments=True) for line in lines):
        while words and re.match(r"[A-Z_]+=", words[0]):
            words = words[1:]
        if words:
            found.append(words)
    return found
