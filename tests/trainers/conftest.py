"""A model small enough for hundreds of steps, its tokenizer and a dataset."""

from collections.abc import Callable

import pytest
from datasets import Dataset
from small_model import LETTERS, build_model, build_tokenizer
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer()


@pytest.fixture
def make_model(tokenizer: PreTrainedTokenizerFast) -> Callable[[], Qwen3ForCausalLM]:
    return lambda: build_model(tokenizer)


@pytest.fixture
def dataset() -> Dataset:
    return Dataset.from_dict({"prompt": [f"question {letter}" for letter in LETTERS[:16]]})
