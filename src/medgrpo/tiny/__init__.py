"""The embedded tiny model and its exam: what every recipe runs on without arguments, offline.

`facts.tsv` is the source of everything here: `exam.py` makes the mini exam's questions from it, `tokenizer.py`
the vocabulary, `corpus.py` the texts that the base model has read, and `pretrain.py` its weights.
"""

from pathlib import Path

TINY_MODEL = Path(__file__).parent / "model"
MINI_EXAM = Path(__file__).parents[1] / "exams" / "mini_exam.jsonl"

__all__ = ["MINI_EXAM", "TINY_MODEL"]
