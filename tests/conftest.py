"""Fixtures that every test may use."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real exam files, read in place (`MEDGRPO_TEST_DATA`, default `../shared/data`)."""
    path = Path(os.environ.get("MEDGRPO_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no real exam files at {path}: set MEDGRPO_TEST_DATA to their folder")
    return path
