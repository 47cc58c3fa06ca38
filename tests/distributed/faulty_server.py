"""A real HTTP server on loopback that answers what a test tells it to."""

import copy
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, bytes]


class FaultyServer:
    """Answers each path by a function of the request's JSON, (status, body) or something that becomes JSON."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[Any], Any]] = {}
        self.asked: list[tuple[str, Any, str | None]] = []
        """(path, JSON, Authorization) of each request."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(None)

            def do_POST(self) -> None:
                self.answer(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "null"))

            def answer(self, body: Any) -> None:
                path = self.path.split("?")[0]
                outer.asked.append((path, body, self.headers.get("Authorization")))
                result = outer.answers.get(path, lambda _: (404, b'{"detail":"Not Found"}'))(body)
                if result is None:  # hang up without a word
                    self.close_connection = True
                    return
                status, content = result if isinstance(result, tuple) else (200, json.dumps(result).encode())
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def hang(_: Any) -> None:
    """Longer than any test waits."""
    time.sleep(3)


def completions(prompts: list[list[int]], n: int = 1, tokens: tuple[int, ...] = (5, 6)) -> dict[str, Any]:
    """What vLLM answers to a request with `logprobs=0`, each completion the same."""
    names = [f"token_id:{token}" for token in tokens]
    logprobs = {"tokens": names, "token_logprobs": [-1.0] * len(tokens), "top_logprobs": [None] * len(tokens)}
    choice = {"token_ids": list(tokens), "logprobs": logprobs}
    return {"choices": [copy.deepcopy(choice) for _ in range(len(prompts) * n)]}
