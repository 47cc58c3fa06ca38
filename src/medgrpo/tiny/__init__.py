"""The embedded tiny model and its exam: what every recipe runs on without arguments, offline.

`facts.tsv` is the source of everything here: `exam.py` makes the mini exam's questions from it, `tokenizer.py`
the vocabulary, `corpus.py` the texts that the base model has read, and `pretrain.py` its weights.
"""

from pathlib import Path

# The name under which recipes and commands take it for a model.
TINY = "tiny"
TINY_MODEL = Path(__file__).parent / "model"
