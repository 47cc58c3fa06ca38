"""A model folder in Hugging Face's format, written by all processes together."""

import copy
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from safetensors.torch import save_file
from transformers import PreTrainedTokenizerBase
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from medgrpo.distributed.hf_weights import expected_weights, hf_model, hf_tensors
from medgrpo.distributed.sharding import rank_and_world
from medgrpo.errors import MedgrpoError


def write_hf_folder(
    model: torch.nn.Module,
    folder: str | os.PathLike,
    tokenizer: PreTrainedTokenizerBase | None = None,
    dtype: torch.dtype | None = None,
    max_shard_bytes: int = 5 << 30,
) -> int:
    """Write what `from_pretrained` and vLLM load, and return the bytes of all weights; collective.

    Each process writes its share of the weights (`hf_tensors`), so that none holds more than `max_shard_bytes` and
    one parameter at a time. `folder` has to be on storage that all processes share. It appears with everything in
    it, or, where it is there already, goes from the old weights to the new ones by the exchange of one file; other
    files in it stay. `dtype` converts floating-point weights, as loading with that dtype would.

    Raises `MedgrpoError` on every process where one can't write, where the storage is not shared, and where the
    weights are not exactly those that the model's config calls for.
    """
    rank, _ = rank_and_world()
    folder = Path(folder)
    problem, partial = None, folder
    if rank == 0:
        # Moves have to stay on one file system, and a folder that is there may be a mount of its own.
        partial = folder / ".partial" if folder.is_dir() else folder.parent / f".{folder.name}.partial"
        problem = _try(partial, lambda: _make_empty(partial))
    partial = _agree(problem, partial)[0]
    try:
        shards, problem = _write_share(model, partial, rank, dtype, max_shard_bytes)
        everywhere = _agree(problem, shards)
        weights = [shard for share in everywhere for shard in share]
        if rank == 0:
            problem = _check(weights, expected_weights(model), partial) or _try(
                partial, lambda: _publish(model, tokenizer, dtype, weights, partial, folder)
            )
        _agree(problem)
    finally:
        if rank == 0:
            shutil.rmtree(partial, ignore_errors=True)
    return sum(shard["bytes"] for shard in weights)


def _write_share(
    model: torch.nn.Module, partial: Path, rank: int, dtype: torch.dtype | None, max_shard_bytes: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Write this process's weights; after a failure only keep step with the others."""
    shards: list[dict[str, Any]] = []
    kept: dict[str, torch.Tensor] = {}
    problem: str | None = None

    def flush() -> str | None:
        if not kept:
            return None
        path = partial / f"{rank:05d}-{len(shards):05d}.safetensors"
        problem = _try(partial, lambda: save_file(kept, path, metadata={"format": "pt"}))
        shards.append(
            {
                "file": path.name,
                "bytes": sum(tensor.nbytes for tensor in kept.values()),
                "shapes": {name: tuple(tensor.shape) for name, tensor in kept.items()},
            }
        )
        kept.clear()
        return problem

    for weight in hf_tensors(model):
        if not weight.mine or problem:
            continue
        wanted = dtype if dtype is not None and weight.tensor.is_floating_point() else weight.tensor.dtype
        size = weight.tensor.numel() * wanted.itemsize
        if kept and sum(tensor.nbytes for tensor in kept.values()) + size > max_shard_bytes:
            problem = flush()
        kept[weight.name] = weight.tensor.to("cpu", wanted, copy=True).contiguous()
    return shards, problem or flush()


def _check(weights: list[dict[str, Any]], expected: dict[str, torch.Size], partial: Path) -> str | None:
    """What is wrong with the written weights, in one line."""
    away = [shard["file"] for shard in weights if not (partial / shard["file"]).is_file()]
    if away:
        return f"{partial.parent} is not on storage that all processes share: process 0 finds no {away[0]} there"
    found: dict[str, tuple[int, ...]] = {}
    twice = []
    for shard in weights:
        twice += [name for name in shard["shapes"] if name in found]
        found.update(shard["shapes"])
    for names, what in (
        (sorted(expected.keys() - found.keys()), "are missing from"),
        (sorted(found.keys() - expected.keys()), "are too many in"),
        (sorted(twice), "come twice in"),
        (sorted(n for n in expected.keys() & found.keys() if tuple(expected[n]) != found[n]), "have another shape in"),
    ):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            return f"weights {what} the export, against the model's config: {', '.join(names[:3])}{more}"
    return None


def _publish(
    model: torch.nn.Module,
    tokenizer: PreTrainedTokenizerBase | None,
    dtype: torch.dtype | None,
    weights: list[dict[str, Any]],
    partial: Path,
    folder: Path,
) -> None:
    base = hf_model(model)
    config = copy.deepcopy(base.config)
    config.architectures = [type(base).__name__]
    config.dtype = str(dtype or base.dtype).removeprefix("torch.")
    config.save_pretrained(partial)
    if base.can_generate():
        base.generation_config.save_pretrained(partial)
    if tokenizer is not None:
        tokenizer.save_pretrained(partial)
    old = list(folder.glob("*.safetensors*")) if folder.is_dir() else []
    names = _name_shards(len(weights), {path.name for path in old})
    for shard, name in zip(weights, names, strict=True):
        os.replace(partial / shard["file"], partial / name)
    last = names[0]
    if len(weights) > 1:
        last = SAFE_WEIGHTS_INDEX_NAME
        index = {
            "metadata": {"total_size": sum(shard["bytes"] for shard in weights)},
            "weight_map": {key: name for shard, name in zip(weights, names, strict=True) for key in shard["shapes"]},
        }
        (partial / last).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    if not folder.exists():
        os.replace(partial, folder)
        return
    for path in sorted(partial.iterdir(), key=lambda path: path.name == last):
        os.replace(path, folder / path.name)
    # Loaders look for model.safetensors before the index, so up to here they found the old weights.
    for path in old:
        if path.name not in {*names, last} and _is_weights(path.name):
            path.unlink()


def _name_shards(count: int, taken: Iterable[str]) -> list[str]:
    """File names as `save_pretrained` gives them, made different where the folder's old shards have them."""
    if count == 1:
        return [SAFE_WEIGHTS_NAME]
    names = [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
    if not set(names) & set(taken):
        return names
    stem = f"model-{time.time_ns():x}"
    return [f"{stem}{name.removeprefix('model')}" for name in names]


def _is_weights(name: str) -> bool:
    return name in (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME) or name.startswith("model-")


def _make_empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _try(folder: Path, action: Callable[[], None]) -> str | None:
    """What went wrong with the disk, in one line."""
    try:
        action()
    except (OSError, SafetensorError) as error:
        return f"{folder}: the model can't be written: {error}"
    return None


def _agree(problem: str | None, mine: Any = None) -> list[Any]:
    """What each process brings; raises on all where one has a problem, so that none waits for it."""
    everywhere = [(problem, mine)]
    world = rank_and_world()[1]
    if world > 1:
        everywhere = [None] * world
        dist.all_gather_object(everywhere, (problem, mine))
    for found, _ in everywhere:
        if found is not None:
            raise MedgrpoError(found)
    return [brought for _, brought in everywhere]
