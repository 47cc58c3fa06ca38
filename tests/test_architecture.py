"""The house plan, read off the code: imports go down only, and files stay one idea long."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "medgrpo"
FLOORS = {
    "errors": 0,
    "versions": 0,
    "nfkc": 0,
    "tags": 0,
    "plain_text": 0,
    "owner": 0,
    "advantages": 0,
    "answers": 0,
    "japanese": 0,
    "mixing": 0,
    "statistics": 0,
    "chat_server": 1,
    "exams": 1,
    "journal": 1,
    "mapping_file": 1,
    "rewards": 1,
    "consensus": 1,
    "sft_data": 1,
    "tiny": 1,
    "trainers": 2,
    "distributed": 2,
    "evaluation": 2,
    "comparison": 2,
    "report": 3,
    "audit": 3,
    "hub": 3,
    "experiment": 4,
    "cli": 4,
}
FILES = sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Dotted names of everything that a file imports, lazily or not."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_only(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "medgrpo" and parts[1] != room:
            assert FLOORS[parts[1]] <= FLOORS[room], f"{path} climbs from {room} to {parts[1]}"
            assert (room, parts[1]) not in (("evaluation", "trainers"), ("distributed", "trainers"))
        if parts[0] in ("trl", "deepspeed"):
            assert room in ("trainers", "distributed", "experiment"), (
                f"{path}: only trainers/, distributed/ and the recipes' arguments know {parts[0]}"
            )
        if FLOORS[room] == 0:
            assert parts[0] not in ("trl", "transformers", "accelerate", "datasets"), f"{path} is on floor 0"


def test_every_room_has_a_floor() -> None:
    assert {room_of(path) for path in FILES} - {"__init__"} == set(FLOORS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_outgrows_one_idea(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
