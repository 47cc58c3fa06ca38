from collections.abc import Iterator

import pytest
from sft_server import ChatServer


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """A chat server on loopback that answers each stage well unless a test says otherwise."""
    chat = ChatServer()
    yield chat
    chat.close()
