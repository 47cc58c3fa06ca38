"""Prompts become completions of an OpenAI-compatible server: vLLM's, SGLang's, llama.cpp's, ..."""

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, as_completed
from typing import Any

import anyio
import openai
from anyio.from_thread import start_blocking_portal
from openai.types.chat import ChatCompletion

from medgrpo.chat_server import RETRIES, ChatServer
from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.backend import Prompt, Sampling, check_batch_size

# vLLM's server fills what a request leaves open from the model's generation_config; these values say "off".
VLLM_NEUTRAL = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}


class OpenAIBackend:
    """A server that speaks OpenAI's chat completions, asked `batch_size` questions at a time.

    Every parameter that the protocol has is sent, so that the server's defaults do not matter; a server that
    names itself vLLM (`owned_by` of /models) is also told to leave the generation_config's top-k, min-p and
    repetition penalty aside. What a server calls `reasoning` is put back between `<think>` tags.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None,
        sampling: Sampling,
        batch_size: int = 32,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        api_key_env: str | None = None,
        timeout: float = 600.0,
        retries: int = RETRIES,
    ) -> None:
        """Ask the server which models it has; `api_key_env` names the environment variable that holds the key.

        Raises `MedgrpoError` for a bad address, an unset variable, a server that is not there, does not answer
        within `timeout` seconds or refuses the key, and for a model that it does not have.
        """
        self.server = ChatServer(base_url, api_key_env, timeout, retries)
        self.base_url = self.server.base_url
        self.model, self.sampling = model, sampling
        self.template_kwargs = dict(chat_template_kwargs or {})
        server = self._ask_models()
        self.extra: dict[str, Any] = dict(VLLM_NEUTRAL) if server.get("owned_by") == "vllm" else {}
        self.settings = {
            "backend": "openai",
            "backend_version": self._ask_version() if server.get("owned_by") == "vllm" else None,
            "server": server,
            "temperature": float(sampling.temperature),
            "max_new_tokens": sampling.max_new_tokens,
            "chat_template_kwargs": self.template_kwargs,
            "extra": self.extra,
        }
        self.placement = {"batch_size": check_batch_size(batch_size), "base_url": self.base_url}

    def complete(self, prompts: Mapping[str, Prompt]) -> Iterator[tuple[str, str]]:
        """Yield (id, completion) as the answers come.

        Raises `MedgrpoError` when a question has failed for good: nothing new is asked from then on, and what was
        under way is waited for and yielded first.
        """
        with start_blocking_portal() as portal:
            client = portal.call(self._open_client)
            slots = portal.call(anyio.Semaphore, self.placement["batch_size"])
            failures: list[MedgrpoError] = []
            asked: dict[Future[str | None], str] = {
                portal.start_task_soon(self._ask, client, slots, failures, name, prompt): name
                for name, prompt in prompts.items()
            }
            try:
                for future in as_completed(asked):
                    text = future.result()
                    if text is not None:
                        yield asked[future], text
            finally:
                for future in asked:
                    future.cancel()
                portal.call(client.close)
        if failures:
            raise failures[0]

    def render(self, prompt: Prompt) -> None:
        """Return None: the server applies the chat template."""

    async def _open_client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(**self.server.client_options)

    async def _ask(
        self,
        client: openai.AsyncOpenAI,
        slots: anyio.Semaphore,
        failures: list[MedgrpoError],
        name: str,
        prompt: Prompt,
    ) -> str | None:
        """The completion; None where it failed, which is noted in `failures`, or after another one failed."""
        async with slots:
            if failures:
                return None
            try:
                return self._read(await self._request(client, name, prompt), name)
            except (openai.OpenAIError, json.JSONDecodeError) as error:
                failures.append(self.server.explain(error, f"asked {name}"))
            except MedgrpoError as error:
                failures.append(error)
        return None

    async def _request(self, client: openai.AsyncOpenAI, name: str, prompt: Prompt) -> ChatCompletion:
        extra = dict(self.extra)
        if self.template_kwargs:
            extra["chat_template_kwargs"] = self.template_kwargs
        return await client.chat.completions.create(
            model=self.model,
            messages=prompt,
            temperature=self.sampling.temperature,
            max_tokens=self.sampling.max_new_tokens,
            seed=self.sampling.seed_of(name),
            top_p=1.0,
            frequency_penalty=0.0,
            presence_penalty=0.0,
            n=1,
            extra_body=extra,
        )

    def _read(self, answer: ChatCompletion, name: str) -> str:
        """The text of an answer; raises where the server sent something else (the client checks no shapes)."""
        try:
            message = answer.choices[0].message
            content, reasoning = message.content, getattr(message, "reasoning", None)
            reasoning = reasoning or getattr(message, "reasoning_content", None)
        except (AttributeError, TypeError, IndexError) as error:
            raise MedgrpoError(
                f"{self.base_url}: answered {name} with something that is no chat completion "
                f"({str(answer)[:80]!r}): is this the address of an OpenAI-compatible server, with its /v1?"
            ) from error
        if reasoning is None:
            return content or ""
        # Cut while it was thinking: the tag stays open, and nothing in the thoughts counts as the answer.
        return f"<think>{reasoning}" if content is None else f"<think>{reasoning}</think>{content}"

    def _ask_models(self) -> dict[str, Any]:
        """What the server says of its model, {} where it lists none; raises where it lists only others."""
        with openai.OpenAI(**self.server.client_options) as client:
            try:
                listed = [model.to_dict() for model in client.models.list().data or []]
            except openai.NotFoundError:
                return {}
            except (openai.OpenAIError, json.JSONDecodeError) as error:
                raise self.server.explain(error, "asked for its models") from error
            except (AttributeError, TypeError) as error:
                raise MedgrpoError(
                    f"{self.base_url}: /models answers with something that is no list of models: is this the "
                    "address of an OpenAI-compatible server, with its /v1?"
                ) from error
        names = [str(model.get("id")) for model in listed]
        if names and self.model not in names:
            raise MedgrpoError(f"{self.base_url}: has no model {self.model!r}: its models are {', '.join(names[:10])}")
        found = next((model for model in listed if model.get("id") == self.model), {})
        return {key: found[key] for key in ("owned_by", "root", "max_model_len") if key in found}

    def _ask_version(self) -> str:
        """vLLM's version, which its server has beside /v1."""
        with openai.OpenAI(**{**self.server.client_options, "base_url": self.base_url.removesuffix("/v1")}) as client:
            try:
                return client.get("/version", cast_to=dict[str, str])["version"]
            except (openai.OpenAIError, json.JSONDecodeError, KeyError, TypeError) as error:
                raise MedgrpoError(f"{self.base_url}: calls itself vLLM and tells no version ({error})") from error
