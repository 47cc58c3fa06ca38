"""One chat completion from an OpenAI-compatible endpoint, as an object that fits a JSON schema."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import openai

from medgrpo.errors import MedgrpoError

RETRIES = 4
"""Of the client: connection errors, 408, 409, 429 and 5xx are tried again with growing pauses."""

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

    `api_key_env` names the environment variable of the API key; without it none is sent, whatever the
    environment holds. Raises `MedgrpoError` where that variable is not set.
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
    ) -> None:
        self.base_url = base_url
        self.model = model
        self.options = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed}
        self._client = openai.AsyncOpenAI(
            base_url=base_url,
            api_key=_read_key(api_key_env),
            max_retries=RETRIES,
            timeout=timeout_s,
        )

    async def ask(self, messages: Sequence[Mapping[str, str]], name: str, schema: Mapping[str, Any]) -> Reply:
        """One reply as an object of `schema`, all of whose fields are texts.

        Raises `ReplyFault` with a reason for what concerns this request alone, and `MedgrpoError` where the
        endpoint refuses the model or the key, or can't be reached.
        """
        try:
            completion = await self._client.chat.completions.create(
                model=self.model,
                messages=[dict(message) for message in messages],  # type: ignore[misc]
                response_format={
                    "type": "json_schema",
                    "json_schema": {"name": name, "schema": dict(schema), "strict": True},
                },
                **self.options,
            )
        except FATAL as error:
            raise MedgrpoError(f"{self.base_url}: refuses model {self.model!r} ({_first_line(error)})") from error
        except openai.APITimeoutError as error:
            raise ReplyFault("no reply in time") from error
        except openai.APIConnectionError as error:
            raise MedgrpoError(f"{self.base_url}: cannot be reached ({error.__cause__ or error})") from error
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


def _read_key(name: str | None) -> str:
    """The key; a word that is none where no variable is named, for the client would take OPENAI_API_KEY itself."""
    if name is None:
        return "none"
    if not os.environ.get(name):
        raise MedgrpoError(f"api_key_env: there is no environment variable {name}, or it is empty")
    return os.environ[name]


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
