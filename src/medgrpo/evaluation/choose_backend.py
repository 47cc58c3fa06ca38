"""A request becomes a backend: the one that it names, with the model that it names."""

import json
from collections.abc import Sequence
from typing import Any

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.backend import Backend, Sampling
from medgrpo.evaluation.generate import TransformersBackend
from medgrpo.evaluation.load import ModelIdentity, identify_model, load_model, refuse_prompts_longer_than
from medgrpo.evaluation.request import EvaluationRequest
from medgrpo.exams.question import Question

# Options that one backend alone knows, with the value that says "not given".
_OWN_OPTIONS = {"engine_args": "vllm", "base_url": "openai", "api_key_env": "openai"}

# Arguments of a chat template's call that the backends set themselves; another value would change what is returned.
_SET_HERE = (
    "conversation",
    "add_generation_prompt",
    "continue_final_message",
    "tokenize",
    "padding",
    "truncation",
    "max_length",
    "return_tensors",
    "return_dict",
    "return_assistant_tokens_mask",
    "tokenizer_kwargs",
)


def open_backend(request: EvaluationRequest, questions: Sequence[Question] = ()) -> tuple[Backend, ModelIdentity]:
    """Return the backend of `request` and which model it asks; raises `MedgrpoError` for what it cannot be.

    Of the `questions` none may make a prompt that the model has no room for: told before the model is loaded, but for
    a model behind a server, which tells by itself.
    The packages vllm and openai are imported only where they are asked for.
    """
    for name, owner in _OWN_OPTIONS.items():
        if getattr(request, name) is not None and request.backend != owner:
            raise MedgrpoError(f"{name} is an option of the backend {owner}, not of {request.backend}")
    sampling = Sampling(request.temperature, request.max_new_tokens, request.seed)
    template_kwargs = _read_json(request.chat_template_kwargs, "chat_template_kwargs")
    for name in _SET_HERE:
        if name in template_kwargs:
            raise MedgrpoError(f"chat_template_kwargs: {name} is set by the evaluation itself: leave it out")
    options: dict[str, Any] = {"chat_template_kwargs": template_kwargs}
    if request.batch_size is not None:
        options["batch_size"] = request.batch_size
    if request.backend == "openai":
        return _open_server(request, sampling, options)
    source, model = identify_model(request.model, request.revision)
    if request.questions is not None:
        refuse_prompts_longer_than(
            request.model, model.revision, request.questions, questions, request.max_new_tokens, template_kwargs
        )
    if request.backend == "vllm":
        from medgrpo.evaluation.vllm_offline import VLLMBackend

        engine_args = _read_json(request.engine_args, "engine_args")
        return VLLMBackend(source, model.revision, sampling, engine_args=engine_args, **options), model
    loaded, tokenizer, _ = load_model(request.model, model.revision)
    return TransformersBackend(loaded, tokenizer, sampling, **options), model


def _open_server(
    request: EvaluationRequest, sampling: Sampling, options: dict[str, Any]
) -> tuple[Backend, ModelIdentity]:
    if request.revision is not None:
        raise MedgrpoError("revision: the server decides which revision it serves: leave it out")
    try:
        from medgrpo.evaluation.openai_server import OpenAIBackend
    except ModuleNotFoundError as error:
        raise MedgrpoError(
            f"the backend openai needs the package {error.name}: pip install 'medgrpo[openai]'"
        ) from error
    backend = OpenAIBackend(
        request.model,
        request.base_url,
        sampling,
        api_key_env=request.api_key_env,
        timeout=request.timeout,
        **options,
    )
    return backend, ModelIdentity(request.model)


def _read_json(text: str | None, option: str) -> dict[str, Any]:
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise MedgrpoError(f"{option} {text!r}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise MedgrpoError(f'{option} {text!r}: has to be a JSON object such as {{"enable_thinking": false}}')
    return value
