"""A server that speaks OpenAI's chat completions: its address, its key, and its errors in one readable line."""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import openai

from medgrpo.errors import MedgrpoError

RETRIES = 3  # of the client: after connection errors, timeouts and statuses 408, 409, 429 and 5xx


class ChatServer:
    """Where the server is and how it is asked; `client_options` are those of `openai.OpenAI` and its async twin.

    `api_key_env` names the environment variable of the API key. Without it no key is sent, whatever the
    environment holds: the client by itself would send OPENAI_API_KEY to whatever server this is. Raises
    `MedgrpoError` for a bad address and an unset variable.
    """

    def __init__(
        self, base_url: str | None, api_key_env: str | None = None, timeout: float = 600.0, retries: int = RETRIES
    ) -> None:
        self.base_url = _check_url(base_url)
        self._key = _read_key(api_key_env)
        self.timeout = timeout
        self.tries = retries + 1
        self.client_options: Mapping[str, Any] = {
            "base_url": self.base_url,
            "api_key": self._key or "none",
            "timeout": timeout,
            "max_retries": retries,
        }

    def explain(self, error: Exception, what: str) -> MedgrpoError:
        """The client's error as one line for the user, without the key, should the server have echoed it."""
        hint = "check the address and that the server runs"
        reason = str(error) or type(error).__name__
        if isinstance(error, openai.APITimeoutError):
            reason = f"no answer within {self.timeout:g} s, tried {self.tries} times"
            hint = "raise --timeout, ask for less at a time, or look after the server"
        elif isinstance(error, openai.APIConnectionError):
            reason = f"{error.__cause__ or error}, tried {self.tries} times"
        elif isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
            hint = "name the variable that holds the key with --api-key-env"
        elif isinstance(error, openai.BadRequestError):
            hint = "see what it refuses (a prompt that is too long, an option that it does not know)"
        elif isinstance(error, openai.NotFoundError):
            hint = "check --model and --base-url"
        elif isinstance(error, openai.APIStatusError):
            reason, hint = f"{reason}, tried {self.tries} times", "look after the server"
        elif not isinstance(error, openai.OpenAIError):
            reason = f"not JSON: {reason}"
        line = " ".join(reason.split())[:300]
        if self._key:
            line = line.replace(self._key, "***")
        return MedgrpoError(f"{self.base_url}: {what}: {line}: {hint}")


def _check_url(base_url: str | None) -> str:
    if base_url is None:
        raise MedgrpoError("the backend openai needs an address: --base-url http://127.0.0.1:8000/v1")
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise MedgrpoError(f"base_url {base_url!r}: is no address: write http://127.0.0.1:8000/v1")
    if parts.username or parts.password or parts.query:
        raise MedgrpoError("base_url: holds a user, a password or a query: give a key with --api-key-env")
    return base_url.rstrip("/")


def _read_key(name: str | None) -> str | None:
    if name is None:
        return None
    key = os.environ.get(name)
    if not key:
        raise MedgrpoError(f"api_key_env: there is no environment variable {name}, or it is empty")
    return key
