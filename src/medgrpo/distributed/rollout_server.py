"""A client of the rollout server: every request has a time limit, none is repeated blindly, each fault has a kind."""

import http.client
import json
import math
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from medgrpo.distributed.server_key import KEY_VARIABLE
from medgrpo.errors import MedgrpoError

CONNECT_S = 5.0


class ServerFault(Exception):
    """The server is away, hangs, fails (5xx) or answers nonsense: it may come back."""


class ServerRefusal(MedgrpoError):
    """The server refuses a request (4xx), and would refuse it again."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class RolloutServer:
    """vLLM's OpenAI server with `medgrpo serve`'s worker methods, at `base_url`.

    Methods raise `ServerFault` for what may pass, and `MedgrpoError` for what won't: a wrong key, a request that the
    server refuses (4xx). Proxies of the environment are not asked, and redirects not followed: neither belongs
    between a trainer and its server, and both would be shown the key.
    """

    def __init__(self, base_url: str, key: str | None = None, timeout: float = 600.0) -> None:
        parts = urlsplit(base_url)
        try:
            port = parts.port
            (parts.hostname or "").encode("idna")
        except ValueError:  # which a UnicodeError is, too
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or len(parts.netloc.split()) != 1:
            raise MedgrpoError(f"vllm_server_base_url {base_url!r}: is no address: write http://127.0.0.1:8000")
        if parts.username or parts.password or parts.query:
            raise MedgrpoError(
                f"vllm_server_base_url: holds a user, a password or a query: give a key in {KEY_VARIABLE}"
            )
        self._https, self._port, self._prefix = parts.scheme == "https", port, parts.path.rstrip("/")
        # 0.0.0.0, TRL's default, is where a server listens; from here that is this machine.
        self._host = "127.0.0.1" if parts.hostname == "0.0.0.0" else parts.hostname
        self.base_url = base_url.rstrip("/")
        self.timeout = timeout
        self._headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        self.model: str | None = None
        self.vocab_size: int | None = None
        """Where it is known, token ids are checked against it."""

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout: float | None = None) -> Any:
        """One request; returns the JSON that came back, None for an empty answer.

        The limit is on the silence: `timeout` seconds without a byte, or `self.timeout`.
        """
        timeout = timeout or self.timeout
        connection = (http.client.HTTPSConnection if self._https else http.client.HTTPConnection)(
            self._host, self._port, timeout=min(CONNECT_S, timeout)
        )
        try:
            connection.connect()
            connection.sock.settimeout(timeout)
            connection.request(method, self._prefix + path, None if body is None else json.dumps(body), self._headers)
            answer = connection.getresponse()
            status, content = answer.status, answer.read()
        except TimeoutError as error:
            raise ServerFault(f"no answer to {path} within {timeout:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            if isinstance(error, socket.gaierror):
                reason = f"unknown host {self._host}"
            raise ServerFault(f"{path}: {reason or type(error).__name__}") from error
        finally:
            connection.close()
        if status >= 500 or status in (408, 425, 429):
            raise ServerFault(f"{path} answered {status}{_message(content)}")
        if status in (401, 403):
            message = f"{self.base_url}: the server refuses the API key: put the server's into {KEY_VARIABLE}"
            raise ServerRefusal(message, status)
        if status >= 300:
            raise ServerRefusal(f"{self.base_url}{path} answered {status}{_message(content)}", status)
        if not content:
            return None
        try:
            return json.loads(content)
        except ValueError as error:
            raise ServerFault(f"{path} answered what is not JSON: {content[:60]!r}") from error

    def is_up(self) -> None:
        """Raise `ServerFault` where the server is not ready."""
        self.ask("GET", "/health", timeout=CONNECT_S)

    def read_model(self) -> str:
        """The name under which the server serves its model."""
        self.model = _get(self.ask("GET", "/v1/models", timeout=60.0), "/v1/models", "data", 0, "id")
        return self.model

    def get_server_info(self) -> dict[str, Any]:
        """The server's settings (`VllmConfig`) as TRL asks for them; only with VLLM_SERVER_DEV_MODE=1."""
        return _get(self.ask("GET", "/server_info?config_format=json", timeout=60.0), "/server_info", "vllm_config")

    def call_workers(self, method: str, **kwargs: str) -> dict[str, Any]:
        """One of the methods of `TrainedWorker`, on all workers; what they answer has to agree."""
        answers = _get(
            self.ask("POST", "/collective_rpc", {"method": method, "kwargs": kwargs}), "/collective_rpc", "results"
        )
        if not isinstance(answers, list) or not answers or not all(isinstance(answer, dict) for answer in answers):
            raise ServerFault(f"{method} answered {answers!r:.60}")
        failed = next((answer["error"] for answer in answers if "error" in answer), None)
        if failed is not None:
            raise MedgrpoError(f"{self.base_url}: {failed}")
        if any(answer != answers[0] for answer in answers):
            raise ServerFault(f"{method}: the server's workers do not agree")
        return answers[0]

    def loaded(self) -> str | None:
        """The id of the weights that it computes with, None for those of its start."""
        return self.call_workers("medgrpo_loaded").get("id")

    def load(self, folder: str) -> None:
        """Load the weights of a folder, and forget what was computed with the old ones."""
        self.call_workers("medgrpo_load", folder=folder)
        self.reset_prefix_cache()

    def reset_prefix_cache(self) -> None:
        """Forget the keys and values of prompts that were computed with older weights."""
        done = self.ask("POST", "/reset_prefix_cache")
        if isinstance(done, dict) and done.get("success") is False:
            # Requests that somebody else has running keep their blocks.
            raise ServerFault("the prefix cache could not be emptied: requests are running on the server")

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        features: None = None,
        n: int = 1,
        logprobs: int | None = 0,
        **sampling: Any,
    ) -> dict[str, Any]:
        """What TRL's `VLLMClient.generate` returns, checked: `n` completions of each prompt, prompt by prompt.

        `features` (of images) has to be None. Raises `ServerFault` where completions are missing or not what a
        vocabulary can hold.
        """
        if features is not None:
            raise MedgrpoError("images: rollouts from a vLLM server take text only")
        from trl.generation.vllm_client import parse_logprobs

        structured = sampling.pop("structured_outputs_regex", None)
        extra = sampling.pop("generation_kwargs", None) or {}
        body = {
            "model": self.model,
            "prompt": prompts,
            "n": n,
            "logprobs": logprobs,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            **sampling,
            **({"structured_outputs": {"regex": structured}} if structured is not None else {}),
            **extra,
        }
        choices = _get(self.ask("POST", "/v1/completions", body), "/v1/completions", "choices")
        try:
            completion_ids = [choice["token_ids"] for choice in choices]
            values, token_ids = parse_logprobs([choice["logprobs"] for choice in choices])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ServerFault(f"/v1/completions answered without {error}") from error
        if values is None and logprobs is not None:
            raise ServerFault("/v1/completions answered without log-probabilities")
        self._check(completion_ids, len(prompts) * n, values)
        return {
            "prompt_ids": [list(prompt) for prompt in prompts],
            "completion_ids": completion_ids,
            "logprobs": values,
            "logprob_token_ids": token_ids,
        }

    def score(self, prompts: Sequence[Sequence[int]]) -> list[list[float]]:
        """The log-probability of each prompt's tokens after the first, by the server's weights."""
        body = {"model": self.model, "prompt": prompts, "max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
        choices = _get(self.ask("POST", "/v1/completions", body), "/v1/completions", "choices")
        try:
            return [
                [
                    float(place[str(token)]["logprob"])
                    for token, place in zip(ids[1:], choice["prompt_logprobs"][1:], strict=True)
                ]
                for ids, choice in zip(prompts, choices, strict=True)
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise ServerFault(f"/v1/completions answered without prompt_logprobs ({error})") from error

    def tokenize(self, text: str) -> list[int]:
        """The ids of a text by the server's tokenizer, without special tokens."""
        body = {"model": self.model, "prompt": text, "add_special_tokens": False}
        return _get(self.ask("POST", "/tokenize", body, timeout=60.0), "/tokenize", "tokens")

    def wait_until_up(self, limit: float, tell: Any) -> None:
        """Wait for a server that is starting; `tell(seconds left, why)` is called every now and then.

        Raises `MedgrpoError` after `limit` seconds.
        """
        end = time.monotonic() + limit
        while True:
            try:
                self.is_up()
                return
            except ServerFault as fault:
                left = end - time.monotonic()
                if left <= 0:
                    raise MedgrpoError(
                        f"{self.base_url}: no vLLM server there after {limit:g} s ({fault}): start one with "
                        "`medgrpo serve`, or correct vllm_server_base_url"
                    ) from fault
                tell(left, str(fault))
                time.sleep(min(2.0, left))

    def _check(self, completion_ids: Any, count: int, logprobs: Any) -> None:
        if len(completion_ids) != count:
            raise ServerFault(f"/v1/completions answered {len(completion_ids)} completions instead of {count}")
        limit = self.vocab_size or math.inf
        for number, ids in enumerate(completion_ids):
            if not isinstance(ids, list) or not ids or not all(isinstance(t, int) and 0 <= t < limit for t in ids):
                raise ServerFault(f"/v1/completions: completion {number} holds what are no token ids: {ids!r:.60}")
            if logprobs is None:
                continue
            if len(logprobs[number]) != len(ids):
                raise ServerFault(f"/v1/completions: completion {number} has not as many log-probabilities as tokens")
            if not all(row[0] is not None and row[0] <= 1e-3 for row in logprobs[number]):
                raise ServerFault(f"/v1/completions: completion {number} holds what are no log-probabilities")


def _get(answer: Any, path: str, *keys: str | int) -> Any:
    for key in keys:
        try:
            answer = answer[key]
        except (KeyError, IndexError, TypeError) as error:
            raise ServerFault(f"{path} answered without {key!r}: {answer!r:.60}") from error
    return answer


def _message(content: bytes) -> str:
    """The server's own words, in one short line."""
    text = content.decode("utf-8", "replace")
    try:
        error = json.loads(text)
        error = error.get("error", error) if isinstance(error, dict) else error
        text = str(error.get("message", error.get("detail", error)) if isinstance(error, dict) else error)
    except ValueError:
        pass
    text = " ".join(text.split())[:200]
    return f" ({text})" if text else ""
