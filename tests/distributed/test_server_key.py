import asyncio

import pytest

from medgrpo.distributed.server_key import KEY_VARIABLE, NoBrowsers, RequireKey, read_key
from medgrpo.errors import MedgrpoError

KEY = "k" * 32


async def app(scope, receive, send) -> None:
    await send({"type": "reached"})


def answer(door, **scope) -> str | int:
    """What a request meets: "reached", or a status."""
    sent = []

    async def send(message) -> None:
        sent.append(message)

    asyncio.run(door({"type": "http", "path": "/collective_rpc", "method": "POST", **scope}, None, send))
    return sent[0].get("status", sent[0]["type"])


@pytest.fixture
def door(monkeypatch) -> RequireKey:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    return RequireKey(app)


def bearer(key: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {key}".encode())]


def test_only_the_key_opens(door) -> None:
    assert answer(door, headers=bearer(KEY)) == "reached"
    for headers in (
        [],
        bearer(KEY[:-1]),
        bearer(KEY + "k"),
        bearer(""),
        [(b"authorization", KEY.encode())],
        [(b"authorization", f"bearer {KEY}".encode())],
        bearer("wrong") + bearer(KEY),
        [(b"x-api-key", KEY.encode())],
    ):
        for path in ("/v1/models", "/collective_rpc", "/health", "/", "//collective_rpc"):
            # vLLM's own check lets OPTIONS through.
            for method in ("GET", "POST", "OPTIONS", "HEAD"):
                assert answer(door, path=path, method=method, headers=headers) == 401, (path, headers)
    assert answer(door, type="websocket", headers=[]) == "websocket.close"
    assert answer(door, type="lifespan") == "reached"


def test_a_door_without_a_key_does_not_stand_open(monkeypatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with pytest.raises(MedgrpoError, match="not set"):
        RequireKey(app)


def test_web_pages_are_refused_on_loopback() -> None:
    """A page in a browser on the same machine can send a POST to any address, and always names its origin."""
    assert answer(NoBrowsers(app), headers=[]) == "reached"
    assert answer(NoBrowsers(app), headers=[(b"Origin", b"https://example.org")]) == 403
    assert answer(NoBrowsers(app), headers=[(b"origin", b"null")]) == 403


def test_a_name_that_was_led_to_loopback_is_refused() -> None:
    """A page of such a host reads what GET answers, and names no origin."""
    for host in (b"127.0.0.1:8000", b"127.0.0.1", b"localhost:8000", b"LOCALHOST", b"[::1]:8000"):
        assert answer(NoBrowsers(app), method="GET", headers=[(b"host", host)]) == "reached", host
    for host in (b"example.org:8000", b"127.0.0.1.example.org", b"localhost.example.org", b"", b"[x]", b"\xff"):
        assert answer(NoBrowsers(app), method="GET", headers=[(b"Host", host)]) == 421, host


def test_where_a_key_comes_from(monkeypatch, tmp_path) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert read_key() is None
    monkeypatch.setenv(KEY_VARIABLE, f" {KEY}\n")
    assert read_key() == KEY
    path = tmp_path / "key"
    path.write_text("f" * 16 + "\n")
    assert read_key(str(path)) == "f" * 16  # the file wins


@pytest.mark.parametrize("key", ["short", "k" * 15, "鍵" * 20, "two words of many", "k" * 20 + "\nk"])
def test_bad_keys_are_named_and_not_shown(key, monkeypatch, tmp_path) -> None:
    path = tmp_path / "key"
    path.write_text(key, encoding="utf-8")
    with pytest.raises(MedgrpoError, match=str(path)) as error:
        read_key(str(path))
    assert key not in str(error.value)


def test_a_key_file_that_can_not_be_read(tmp_path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(MedgrpoError, match="can't be read"):
            read_key(str(path))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00k")
    with pytest.raises(MedgrpoError, match="not text"):
        read_key(str(tmp_path / "binary"))
