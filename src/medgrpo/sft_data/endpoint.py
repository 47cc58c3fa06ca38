"""One chat completion from an OpenAI-compatible endpoint, as an object that fits a JSON schema."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import openai

from medgrpo.chat_server import RETRIES, ChatServer

# A request that is refused for what it is (a wrong model, a missing key) is refused for every question.
FATAL = (
    openai.AuthenticationError,
    openai.PermissionDeniedError,
    openai.NotFoundError,
)


class ReplyFault(Exception):
    """A reply that can't be used; the reason is counted, and the item is asked for again at the next start."""


@dataclass(frozen=True)
class Reply:
    """What the endpoint gave: the object, and the tokens that it counted."""

    value: dict[str, str]
    prompt_tokens: int
    completion_tokens: int


class Endpoint:
    """A model behind an OpenAI-compatible server; the client retries by itself.

    Raises `MedgrpoError` as `ChatServer` does.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key_env: str | None = None,
        max_tokens: int = 2048,
        temperature: float = 0.7,
        seed: int = 0,
        timeout_s: float = 120.0,
        retries: int = RETRIES,
    ) -> None:
        self.server = ChatServer(base_url, api_key_env, timeout_s, retries)
        self.model = model
        self.options = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
        self._client = openai.AsyncOpenAI(**self.server.client_options)

    async def ask(self, messages: Sequence[Mapping[str, str]], name: str, schema: Mapping[str, Any]) -> Reply:
        """One reply as an object of `schema`, all of whose fields are texts.

        Raises `ReplyFault` with a reason for what concerns this request alone, and `MedgrpoError` where the
        endpoint refuses the model or the key, or can't be reached.
        """
        try:
            completion = await self._client.chat.completions.create(
                model=self.model,
                messages=[dict(message) for message in messages],
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": name, "schema": dict(schema), "strict": True},
                },
                **self.options,
            )
        except FATAL as error:
            raise self.server.explain(error, f"refuses model {self.model!r}") from error
        except openai.APITimeoutError as error:
            raise ReplyFault("no reply in time") from error
        except openai.APIConnectionError as error:
            raise self.server.explain(error, "cannot be reached") from error
        except openai.APIStatusError as error:
            raise ReplyFault(f"status {error.status_code}") from error
        except (openai.OpenAIError, ValueError) as error:
            raise ReplyFault("not a chat completion") from error
        return _read(completion, schema)

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.close()


def _read(completion: Any, schema: Mapping[str, Any]) -> Reply:
    try:
        choice = completion.choices[0]
        text, reason = choice.message.content, choice.finish_reason
        usage = completion.usage
        tokens = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
    except (AttributeError, IndexError, TypeError) as error:
        raise ReplyFault("not a chat completion") from error
    if reason == "length":
        raise ReplyFault("cut off at max_tokens")
    try:
        value = json.loads(text or "")
    except ValueError as error:
        raise ReplyFault("not JSON") from error
    fields = schema["required"]
    if not isinstance(value, dict) or not all(isinstance(value.get(field), str) for field in fields):
        raise ReplyFault("not the fields that were asked for")
    return Reply({field: value[field] for field in fields}, *tokens)
