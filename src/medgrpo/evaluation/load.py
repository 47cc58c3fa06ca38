"""A model's name becomes a model: a folder, the Hub, or the embedded one, with readable refusals."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import torch
from huggingface_hub import constants, is_offline_mode, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import build_hf_headers
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from medgrpo.errors import MedgrpoError
from medgrpo.exams.prompt_length import refuse_long_prompts
from medgrpo.exams.question import Question
from medgrpo.tiny import TINY, TINY_MODEL

# Enough for a slow line, short enough that a machine without one says so at once.
HUB_TIMEOUT_S = 10

_MODEL_SUFFIXES = (".safetensors", ".bin", ".jinja", ".model")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_NO_WEIGHTS = ("training_args.bin", "optimizer.pt", "scheduler.pt")
_MODEL_CONFIGS = ("config.json", "generation_config.json", "adapter_config.json", "tokenizer.json",
                  "tokenizer_config.json")  # fmt: skip


@dataclass(frozen=True)
class ModelIdentity:
    """Which model answered, as run.json says it."""

    name: str
    revision: str | None = None
    """The commit on the Hub; None for a folder, a model in memory or one behind a server."""
    files: str | None = None
    """Hash of the names, sizes and times of a folder's model files; None where there is no folder."""


def load_model(
    model_name_or_path: str, revision: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, str | None]:
    """Model, tokenizer and Hub commit (None for a folder).

    In the weights' own dtype on the GPUs where there are any, and in float32 on a CPU. `tiny` is the embedded
    model. Raises `MedgrpoError` as `resolve_model` does, and for weights that can't be loaded.
    """
    source, commit = resolve_model(model_name_or_path, revision)
    gpu = torch.cuda.is_available()
    with readable(source):
        tokenizer = AutoTokenizer.from_pretrained(source, revision=commit, trust_remote_code=False)
        model = AutoModelForCausalLM.from_pretrained(
            source,
            revision=commit,
            trust_remote_code=False,
            use_safetensors=True,
            dtype="auto" if gpu else torch.float32,
            device_map="auto" if gpu else None,
        )
    return model, tokenizer, commit


def resolve_model(model_name_or_path: str, revision: str | None = None) -> tuple[str, str | None]:
    """Where a model is: (folder, None), or (name on the Hub, the commit of `revision`), known to be there.

    `revision` is a branch, a tag or a commit; None is the main branch. A model of the Hub in the local cache is
    taken at the commit that the cache has for it. Raises `MedgrpoError` for a model or revision that is not
    there, and for a revision of a folder; a folder that does not exist is never looked for on the network.
    """
    name = str(TINY_MODEL) if model_name_or_path == TINY else str(model_name_or_path)
    if _is_folder(name):
        if revision not in (None, constants.DEFAULT_REVISION):
            raise MedgrpoError(f"model {name}: is a folder, which has no revision {revision!r}: leave it out")
        return str(Path(name).expanduser()), None
    try:
        cached = try_to_load_from_cache(name, "config.json", revision=revision)
    except HFValidationError as error:
        raise MedgrpoError(f"model {name!r}: neither a folder here nor a name on the Hub") from error
    if isinstance(cached, str):
        return name, Path(cached).parent.name  # .../snapshots/<commit>/config.json
    return name, _ask_hub(name, revision)


def identify_model(model_name_or_path: str, revision: str | None = None) -> tuple[str, ModelIdentity]:
    """Where a model is, and which it is; raises `MedgrpoError` as `resolve_model` does."""
    source, commit = resolve_model(model_name_or_path, revision)
    return source, ModelIdentity(model_name_or_path, commit, None if commit else _hash_files(Path(source)))


def _hash_files(folder: Path) -> str:
    """Changes when a checkpoint is written again; reads no weights, for which hundreds of GB would take hours."""
    files = sorted(path for path in folder.iterdir() if path.suffix in _MODEL_SUFFIXES or path.name in _MODEL_CONFIGS)
    stamps = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    return hashlib.sha256(json.dumps(stamps).encode()).hexdigest()[:16]


def find_context(config: PreTrainedConfig) -> int | None:
    """The longest sequence, in tokens, that a model was made for; None where its config does not say."""
    return getattr(config.get_text_config(), "max_position_embeddings", None)


def count_tokens_with(
    tokenizer: PreTrainedTokenizerBase, template_options: Mapping[str, Any] | None = None
) -> Callable[[list[dict[str, str]]], int]:
    """A function from a prompt's messages to the number of tokens that the model sees."""

    def count(messages: list[dict[str, str]]) -> int:
        encoded = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=True, **(template_options or {})
        )
        return len(encoded["input_ids"])

    return count


def refuse_prompts_longer_than(
    model_name_or_path: str,
    revision: str | None,
    path: str | Path,
    questions: Sequence[Question],
    max_new_tokens: int,
    template_options: Mapping[str, Any],
) -> None:
    """Raise `MedgrpoError` naming the questions whose prompts a model has no room for, before it is loaded."""
    source, commit = resolve_model(model_name_or_path, revision)
    with readable(source):
        config = AutoConfig.from_pretrained(source, revision=commit, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(source, revision=commit, trust_remote_code=False)
    if tokenizer.chat_template is not None:
        count = count_tokens_with(tokenizer, template_options)
        refuse_long_prompts(path, questions, count, find_context(config), max_new_tokens, "max_new_tokens")


@contextmanager
def readable(source: str) -> Iterator[None]:
    """Turn what `from_pretrained` raises for a damaged or foreign model into one line."""
    try:
        yield
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        lines = str(error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        raise MedgrpoError(f"model {source}: cannot be loaded ({reason})") from error


def _is_folder(name: str) -> bool:
    """Whether `name` is a model folder; raises where it is meant as one and is not there or has no model."""
    path = Path(name).expanduser()
    if path.is_dir():
        if not any((path / file).is_file() for file in ("config.json", "adapter_config.json")):
            raise MedgrpoError(f"model {name}: no config.json in it: give a saved checkpoint's folder")
        _refuse_pickles(path)
        return True
    if path.exists():
        raise MedgrpoError(f"model {name}: is a file: give the folder of a saved checkpoint")
    # A Hub id is `name` or `owner/name`; the latter is meant as a path where `owner` is a folder here.
    parts = name.replace(os.sep, "/").split("/")
    if name.startswith((".", "~")) or len(parts) > 2 or (len(parts) == 2 and Path(parts[0] or "/").is_dir()):
        raise MedgrpoError(f"model {name}: no such folder: check the path")
    return False


def _refuse_pickles(folder: Path) -> None:
    """Raise where the only weights of a folder are pickles: to load one is to run the code that is in it."""
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLES and path.name not in _NO_WEIGHTS)
    if pickles and not any(path.suffix == ".safetensors" for path in folder.iterdir()):
        raise MedgrpoError(
            f"model {folder}: its weights are pickles ({pickles[0]}), which can run code when they are loaded: convert "
            "them to safetensors where you trust them (model.save_pretrained)"
        )


def _ask_hub(name: str, revision: str | None) -> str:
    """The commit of a Hub model's revision, by one short request; raises where the Hub has or gives none."""
    if is_offline_mode():
        raise MedgrpoError(
            f"model {name}{_at(revision)}: no such folder, and not in the cache while HF_HUB_OFFLINE is set"
        )
    # Asked here first because the Hub's own client tries again for half a minute where there is no network.
    at = f"/revision/{quote(revision, safe='')}" if revision else ""
    request = Request(f"{constants.ENDPOINT}/api/models/{name}{at}", headers=build_hf_headers())
    try:
        with urlopen(request, timeout=HUB_TIMEOUT_S) as response:
            return json.load(response)["sha"]
    except HTTPError as error:
        raise MedgrpoError(
            f"model {name}{_at(revision)}: no such folder, and the Hub does not give it (status {error.code}): "
            "check the name and revision, or log in where it is private"
        ) from error
    except (OSError, HTTPException, ValueError, KeyError) as error:
        raise MedgrpoError(
            f"model {name}: no such folder, and the Hub cannot be asked ({error}): check the path, or "
            "download the model first"
        ) from error


def _at(revision: str | None) -> str:
    return f" at {revision}" if revision else ""
