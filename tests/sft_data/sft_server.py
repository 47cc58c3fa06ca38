"""A real HTTP server on loopback that speaks the chat completions of the synthesis, and can misbehave."""

import json
import re
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GOOD_PARTS = {
    "symptom": "数日前から続く症状について相談されています。発熱と全身のだるさが中心です。",
    "explanation": "感染に伴う炎症が疑われます。体の防御反応として熱が上がり、だるさも生じると考えられます。",
    "action": "水分を十分に取り、安静にしてください。必要に応じて血液検査を行います。",
    "when_to_see_doctor": "高い熱が三日以上続くときは、早めに内科を受診してください。",
    "caution": "自己判断で薬を重ねて飲まないでください。この説明は診察に代わるものではありません。",
}


class ChatServer:
    """Answers each stage well unless `misbehave` (set by a test) says otherwise; remembers what it was asked."""

    def __init__(self) -> None:
        self.requests: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.answered: list[str] = []
        self.delay_s = 0.0
        self.misbehave = lambda number, request: None
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server._lock:
                    server.requests.append(request)
                    server.headers.append({name.lower(): value for name, value in self.headers.items()})
                    number = len(server.requests)
                time.sleep(server.delay_s)
                status, body = server.misbehave(number, request) or (200, server.answer(request))
                data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    return  # the client was killed while it waited
                server.answered.append(request["messages"][1]["content"])

            def log_message(self, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def answer(self, request: dict, parts: dict[str, str] | None = None, finish: str = "stop") -> dict:
        """A chat completion that fits the schema that was asked for."""
        asked = request["messages"][1]["content"]
        if request["response_format"]["json_schema"]["name"] == "stage_question":
            value = {"question": f"相談番号{zlib.crc32(asked.encode())}番です。体のだるさが続くのはなぜでしょうか。"}
        else:
            number = re.search(r"相談番号(\d+)番", asked)
            value = {**GOOD_PARTS, **(parts or {})}
            value["caution"] += f"（相談番号は{number[1]}です。）" if number else ""
        return {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", "content": json.dumps(value, ensure_ascii=False)},
                }
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150},
        }

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
