"""The rollout server's key: demanded on every path, and never printed.

vLLM's own `--api-key` covers `/v1` alone, and leaves open what replaces weights (`/collective_rpc`). Imported by
vLLM's server, too, so it needs the standard library only.
"""

import hmac
import ipaddress
import os
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from medgrpo.errors import MedgrpoError

KEY_VARIABLE = "MEDGRPO_VLLM_API_KEY"
SHORTEST = 16

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


def read_key(key_file: str | None = None) -> str | None:
    """The key in `key_file`, or else in the environment's MEDGRPO_VLLM_API_KEY; None where neither is given.

    Raises `MedgrpoError` for a file that can't be read, and for a key that is no line of 16 printable ASCII
    characters or more.
    """
    where = key_file or KEY_VARIABLE
    if key_file is not None:
        try:
            key = Path(key_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise MedgrpoError(f"{key_file}: the key can't be read ({reason})") from error
    else:
        key = os.environ.get(KEY_VARIABLE, "").strip()
        if not key:
            return None
    if len(key) < SHORTEST or not (key.isascii() and key.isprintable()) or " " in key:
        raise MedgrpoError(
            f"{where}: a key is one word of at least {SHORTEST} ASCII characters: openssl rand -hex 32 makes one"
        )
    return key


def is_loopback(host: str) -> bool:
    """Whether a name or an address means this machine alone, without asking a name server."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class RequireKey:
    """ASGI middleware: answers 401 to every request that does not carry the key, whichever its path or method."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self.app = app
        key = read_key()
        if key is None:
            raise MedgrpoError(f"{KEY_VARIABLE} is not set: the server would let everyone in")
        self._expected = f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        given = [value for name, value in scope.get("headers", ()) if name.lower() == b"authorization"]
        if len(given) == 1 and hmac.compare_digest(given[0], self._expected):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _refuse(send, 401, b'{"error": {"message": "no or wrong API key", "code": 401}}')


class NoBrowsers:
    """ASGI middleware for a server on loopback without a key: refuses what a web page could make a browser send.

    A page's request names its origin, or, where a page has had its own host's name lead here, that host.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on unless it comes from a page."""
        headers = [(name.lower(), value) for name, value in scope.get("headers", ())]
        if scope["type"] == "http" and any(name == b"origin" for name, _ in headers):
            await _refuse(send, 403, b'{"error": {"message": "not for web pages", "code": 403}}')
        elif scope["type"] == "http" and not all(_names_loopback(value) for name, value in headers if name == b"host"):
            await _refuse(send, 421, b'{"error": {"message": "only as localhost, without a key", "code": 421}}')
        else:
            await self.app(scope, receive, send)


def _names_loopback(host: bytes) -> bool:
    """Whether a Host header (`127.0.0.1:8000`, `[::1]:8000`) names this machine."""
    try:
        return is_loopback(urlsplit(f"//{host.decode('latin-1')}").hostname or "")
    except ValueError:  # brackets that hold no address
        return False


async def _refuse(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
