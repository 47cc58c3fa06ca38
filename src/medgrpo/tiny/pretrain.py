"""Rebuilds the tiny base model: `python -m medgrpo.tiny.pretrain --out DIR` (about a quarter of an hour on one core).

One thread and one seed, so the same machine and the same versions give the same bytes; `weights.json` beside
the shipped weights holds their checksum and the versions that they were made with.
"""

import argparse
import hashlib
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import transformers
from torch.nn import functional
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen3MoeConfig, Qwen3MoeForCausalLM

from medgrpo.tiny import TINY_MODEL
from medgrpo.tiny.corpus import BASE_STYLES, CAREFUL, Corpus, Text
from medgrpo.tiny.tokenizer import build_tokenizer

SEED = 20261130
LEARNING_RATE = 2e-3
IGNORED = -100


@dataclass(frozen=True)
class Stage:
    """A stretch of pre-training: its length and what a batch is made of (`Corpus.batch`)."""

    steps: int
    find_choices: int
    look_ups: int
    sentences: int
    explanations: int
    exam_answers: int
    styles: Mapping[str, float]


# First how a choice is found, then the facts and careful answers, last the mixture of styles that the base has.
STAGES = (
    Stage(350, find_choices=56, look_ups=0, sentences=8, explanations=0, exam_answers=0, styles=CAREFUL),
    Stage(1100, find_choices=6, look_ups=6, sentences=16, explanations=10, exam_answers=26, styles=CAREFUL),
    Stage(400, find_choices=4, look_ups=4, sentences=16, explanations=10, exam_answers=30, styles=BASE_STYLES),
)


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3MoeForCausalLM:
    """An untrained two-layer Qwen3-MoE whose attention starts out matching like with like.

    Queries and keys share their projection at the start: a token then finds its earlier occurrence, which is
    what looking up a choice's letter needs and what a model this small hardly discovers by itself.
    """
    config = Qwen3MoeConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        moe_intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        num_experts=4,
        num_experts_per_tok=2,
        norm_topk_prob=True,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3MoeForCausalLM(config)
    groups = config.num_attention_heads // config.num_key_value_heads
    with torch.no_grad():
        for layer in model.model.layers:
            key = layer.self_attn.k_proj.weight
            torch.nn.init.normal_(key, std=config.hidden_size**-0.5)
            # (kv heads, head_dim, hidden) -> (heads, head_dim, hidden)
            shared = key.view(config.num_key_value_heads, config.head_dim, config.hidden_size)
            layer.self_attn.q_proj.weight.copy_(shared.repeat_interleave(groups, dim=0).flatten(0, 1))
    return model


def encode(text: Text, tokenizer: PreTrainedTokenizerFast) -> tuple[list[int], list[int]]:
    """Token ids and labels of one text; a completion ends with the end-of-turn token."""
    ids: list[int] = []
    labels: list[int] = []
    if text.prompt:
        ids = list(tokenizer.apply_chat_template(text.prompt, add_generation_prompt=True, return_dict=False))
        labels = [IGNORED] * len(ids)
    for segment, learnt in text.segments:
        tokens = tokenizer.encode(segment, add_special_tokens=False)
        ids += tokens
        labels += tokens if learnt else [IGNORED] * len(tokens)
    if text.prompt:
        ids.append(tokenizer.eos_token_id)
        labels.append(tokenizer.eos_token_id)
    return ids, labels


def collate(texts: list[Text], tokenizer: PreTrainedTokenizerFast) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids, attention mask and labels, each (B, T), padded on the right."""
    rows = [encode(text, tokenizer) for text in texts]
    length = max(len(ids) for ids, _ in rows)
    ids = torch.full((len(rows), length), tokenizer.pad_token_id)
    labels = torch.full((len(rows), length), IGNORED)
    mask = torch.zeros((len(rows), length), dtype=torch.long)
    for index, (row, row_labels) in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row)
        labels[index, : len(row)] = torch.tensor(row_labels)
        mask[index, : len(row)] = 1
    return ids, mask, labels


def loss_of(model: Qwen3MoeForCausalLM, ids: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean NLL of the labelled tokens; only their rows go through the vocabulary projection."""
    hidden = model.model(input_ids=ids, attention_mask=mask).last_hidden_state[:, :-1]
    targets = labels[:, 1:]
    wanted = targets != IGNORED
    return functional.cross_entropy(model.lm_head(hidden[wanted]), targets[wanted])


def pretrain(
    stages: Sequence[Stage] = STAGES, log_every: int = 100
) -> tuple[Qwen3MoeForCausalLM, PreTrainedTokenizerFast]:
    """Train from scratch; returns (model, tokenizer). Deterministic for one machine and one set of versions."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    tokenizer = build_tokenizer()
    model = build_model(tokenizer).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.01, betas=(0.9, 0.98))
    total = sum(stage.steps for stage in stages)
    corpus = Corpus(SEED)
    step, started = 0, time.monotonic()
    for stage in stages:
        for _ in range(stage.steps):
            warm = min(1.0, (step + 1) / 50)
            rate = LEARNING_RATE * warm * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / total)))
            for group in optimizer.param_groups:
                group["lr"] = rate
            composition = {key: value for key, value in asdict(stage).items() if key != "steps"}
            texts = corpus.batch(**composition)
            loss = loss_of(model, *collate(texts, tokenizer))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % log_every == 0:
                print(
                    f"step {step}/{total}  loss {loss.item():.3f}  {time.monotonic() - started:.0f} s",
                    flush=True,
                )
    return model.eval(), tokenizer


def save(model: Qwen3MoeForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Write weights (bfloat16, half the size), config, tokenizer and the checksum with the versions."""
    model.generation_config = GenerationConfig(eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    digest = hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()
    made = {
        "sha256": digest,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "seed": SEED,
    }
    (out / "weights.json").write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(f"{out / 'model.safetensors'}: sha256 {digest}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=TINY_MODEL)
    save(*pretrain(), parser.parse_args().out)
