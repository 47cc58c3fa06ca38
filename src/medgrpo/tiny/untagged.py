"""A base that never answers in the tag, made from the tiny model in seconds: what CHORD's show starts from.

The shipped base answers in four styles, one of them without the tag. A short fine-tuning on exam questions that
are all answered in that style (答えはcと思う。), beside facts as sentences so that nothing is forgotten, leaves it
the only one: at temperature 1 the tag is as good as never sampled. The base knows what it knew, but every group
of completions scores 0, and GRPO has nothing to learn from.
"""

import shutil
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3MoeForCausalLM

from medgrpo.tiny import TINY_MODEL
from medgrpo.tiny.corpus import Corpus
from medgrpo.tiny.pretrain import collate, loss_of

SEED = 20261201
STEPS = 160
LEARNING_RATE = 1e-3
STYLES = {"untagged": 1.0}


def make_untagged_model(folder: Path) -> None:
    """Write model and tokenizer into `folder`, whole or not at all; leaves what stands there alone.

    One seed, so the same machine and the same versions give the same weights. The caller's random state is kept.
    """
    if folder.is_dir():
        return
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    tokenizer = AutoTokenizer.from_pretrained(TINY_MODEL)
    _fine_tune(tokenizer).save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    partial.rename(folder)


def _fine_tune(tokenizer) -> Qwen3MoeForCausalLM:
    model = AutoModelForCausalLM.from_pretrained(TINY_MODEL, dtype=torch.float32).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0, betas=(0.9, 0.98))
    corpus = Corpus(SEED)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * min(1.0, 4 * (1 - step / STEPS))
        texts = corpus.batch(find_choices=0, look_ups=0, sentences=4, explanations=0, exam_answers=8, styles=STYLES)
        loss_of(model, *collate(texts, tokenizer)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()
