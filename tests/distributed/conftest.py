"""The tokenizer of letters that the trainers' tests use, too."""

import sys
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

# small_model.py and the scripts of runs, wherever pytest was pointed.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "trainers"))


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    from small_model import build_tokenizer

    return build_tokenizer()
