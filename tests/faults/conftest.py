"""A warm process and a base model for the tests that kill."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trainers"))

from small_model import build_model, build_tokenizer
from warm import WarmProcess


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    tokenizer = build_tokenizer()
    build_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def warm(tmp_path_factory) -> Iterator[WarmProcess]:
    with WarmProcess(tmp_path_factory.mktemp("warm")) as process:
        yield process
