"""A model becomes a scored run: load, prompt, generate, score, write."""

import json
import os
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import torch
from huggingface_hub import constants, is_offline_mode, try_to_load_from_cache
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import build_hf_headers
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.generate import generate_completions
from medgrpo.evaluation.run_info import build_run_info
from medgrpo.evaluation.samples import Run, check_writable, write_run
from medgrpo.evaluation.score import score_completions
from medgrpo.exams.prompts import SYSTEM_PROMPT, build_prompt
from medgrpo.exams.question import Question

# Enough for a slow line, short enough that a machine without one says so at once.
HUB_TIMEOUT_S = 10


def evaluate_model(
    model_name_or_path: str,
    questions: Sequence[Question],
    out_dir: str | Path,
    batch_size: int = 8,
    max_new_tokens: int = 1024,
    temperature: float = 0.0,
    seed: int = 0,
    limit: int | None = None,
    progress: bool = True,
) -> Run:
    """Evaluate a model folder or a model of the Hub with transformers; writes a run into `out_dir`.

    `limit` keeps the first so many questions. Raises `MedgrpoError` for a model that is not there or cannot
    be loaded; a folder that does not exist is never looked for on the network.
    """
    if limit is not None and limit < 1:
        raise MedgrpoError(f"limit has to be at least 1, got {limit}")
    model, tokenizer, revision = load_model(model_name_or_path)
    return evaluate_loaded_model(
        model,
        tokenizer,
        questions if limit is None else questions[:limit],
        out_dir,
        name=model_name_or_path,
        revision=revision,
        batch_size=batch_size,
        max_new_tokens=max_new_tokens,
        temperature=temperature,
        seed=seed,
        progress=progress,
    )


def evaluate_loaded_model(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[Question],
    out_dir: str | Path,
    *,
    name: str,
    revision: str | None = None,
    batch_size: int = 8,
    max_new_tokens: int = 1024,
    temperature: float = 0.0,
    seed: int = 0,
    progress: bool = True,
) -> Run:
    """The same for a model in memory, for example one that has just been trained; `name` goes to run.json."""
    if not questions:
        raise MedgrpoError("no questions to evaluate on")
    check_writable(out_dir)
    prompts = [build_prompt(question) for question in questions]
    texts = generate_completions(
        model,
        tokenizer,
        prompts,
        max_new_tokens=max_new_tokens,
        batch_size=batch_size,
        temperature=temperature,
        seed=seed,
        progress=progress,
    )
    ids = [question.id for question in questions]
    samples = score_completions(questions, dict(zip(ids, texts, strict=True)))
    run_info = build_run_info(
        model=name,
        revision=revision,
        **sampling_info(
            model,
            tokenizer,
            questions[0],
            temperature=temperature,
            max_new_tokens=max_new_tokens,
            batch_size=batch_size,
        ),
        seed=seed,
    )
    return write_run(out_dir, samples, run_info)


def sampling_info(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    question: Question,
    *,
    temperature: float,
    max_new_tokens: int,
    batch_size: int,
) -> dict[str, dict[str, Any]]:
    """The `prompt_template` and `sampling` of run.json for generation with transformers.

    `question` (the first one) is shown as the model sees it: system prompt, layout and chat template at once.
    """
    prompt = tokenizer.apply_chat_template(build_prompt(question), add_generation_prompt=True, tokenize=False)
    return {
        "prompt_template": {"system": SYSTEM_PROMPT, "first_prompt": prompt},
        "sampling": {
            "backend": "transformers",
            "temperature": temperature,
            "max_new_tokens": max_new_tokens,
            "batch_size": batch_size,
            "dtype": str(model.dtype).removeprefix("torch."),
            "device": model.device.type,
        },
    }


def load_model(model_name_or_path: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase, str | None]:
    """Model, tokenizer and Hub revision (None for a folder), on the GPUs where there are any.

    A model of the Hub that is whole in the local cache is taken from there as it is. Raises `MedgrpoError` as
    `evaluate_model` does.
    """
    name = str(model_name_or_path)
    if _is_folder(name):
        return *_load(str(Path(name).expanduser())), None
    try:
        cached = try_to_load_from_cache(name, "config.json")
    except HFValidationError as error:
        raise MedgrpoError(f"model {name!r}: neither a folder here nor a name on the Hub") from error
    if isinstance(cached, str):
        revision = Path(cached).parent.name  # .../snapshots/<commit>/config.json
        try:
            return *_load(name, revision=revision, local_files_only=True), revision
        except MedgrpoError:
            # A cache with only some of the files: the rest has to come from the Hub.
            if is_offline_mode():
                raise
    revision = _ask_hub(name)
    return *_load(name, revision=revision), revision


def _load(source: str, **where: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **where)
        model = AutoModelForCausalLM.from_pretrained(
            source,
            trust_remote_code=False,
            dtype="auto",
            device_map="auto" if torch.cuda.is_available() else None,
            **where,
        )
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        lines = str(error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        raise MedgrpoError(f"model {source}: cannot be loaded ({reason})") from error
    return model, tokenizer


def _is_folder(name: str) -> bool:
    """Whether `name` is a model folder; raises where it is meant as one and is not there or has no model."""
    path = Path(name).expanduser()
    if path.is_dir():
        if not any((path / file).is_file() for file in ("config.json", "adapter_config.json")):
            raise MedgrpoError(f"model {name}: no config.json in it: give a saved checkpoint's folder")
        return True
    if path.exists():
        raise MedgrpoError(f"model {name}: is a file: give the folder of a saved checkpoint")
    # A Hub id is `name` or `owner/name`; the latter is meant as a path where `owner` is a folder here.
    parts = name.replace(os.sep, "/").split("/")
    if name.startswith((".", "~")) or len(parts) > 2 or (len(parts) == 2 and Path(parts[0] or "/").is_dir()):
        raise MedgrpoError(f"model {name}: no such folder: check the path")
    return False


def _ask_hub(name: str) -> str:
    """The current commit of a Hub model, by one short request; raises where the Hub has or gives none."""
    if is_offline_mode():
        raise MedgrpoError(f"model {name}: no such folder, and not in the cache while HF_HUB_OFFLINE is set")
    # Asked here first because the Hub's own client tries again for half a minute where there is no network.
    request = Request(f"{constants.ENDPOINT}/api/models/{name}", headers=build_hf_headers())
    try:
        with urlopen(request, timeout=HUB_TIMEOUT_S) as response:
            return json.load(response)["sha"]
    except HTTPError as error:
        raise MedgrpoError(
            f"model {name}: no such folder, and the Hub does not give it (status {error.code}): check the "
            "name, or log in where it is private"
        ) from error
    except (OSError, HTTPException, ValueError, KeyError) as error:
        raise MedgrpoError(
            f"model {name}: no such folder, and the Hub cannot be asked ({error}): check the path, or "
            "download the model first"
        ) from error
