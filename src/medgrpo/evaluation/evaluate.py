"""A model becomes a scored run: load, prompt, generate, score, write."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.generate import generate_completions
from medgrpo.evaluation.load import load_model
from medgrpo.evaluation.run_info import build_run_info
from medgrpo.evaluation.samples import Run, check_writable, write_run
from medgrpo.evaluation.score import score_completions
from medgrpo.exams.prompts import SYSTEM_PROMPT, build_prompt
from medgrpo.exams.question import Question


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
