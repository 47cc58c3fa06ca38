"""The Hub's few endpoints that a push needs, on 127.0.0.1: repositories in memory, and faults on demand."""

import base64
import hashlib
import json
import socket
import struct
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import unquote, urlsplit

TOKEN, READ_TOKEN = "hf_" + "w" * 34, "hf_" + "r" * 34


@dataclass
class Repository:
    private: bool
    files: dict[str, bytes] = field(default_factory=dict)
    commits: list[str] = field(default_factory=list)


class LoopbackHub(ThreadingHTTPServer):
    """What was asked for and what arrived, for the test to look at."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.repositories: dict[str, Repository] = {}
        self.blobs: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.drops = 0
        """How many uploads are still cut in the middle by a closed socket."""

    def handle_error(self, request, client_address) -> None:
        """A socket that this server itself has cut is no news."""


@contextmanager
def loopback_hub():
    hub = LoopbackHub()
    Thread(target=hub.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()


def hub_environment(hub: LoopbackHub, home, token: str | None = TOKEN) -> dict[str, str]:
    """What a process needs to see this server as the Hub, and nothing of the user's own."""
    given = {"HF_ENDPOINT": hub.endpoint, "HF_HUB_OFFLINE": "0", "TRANSFORMERS_OFFLINE": "0", "HF_HOME": str(home)}
    given |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1", "HOME": str(home)}
    return given | ({} if token is None else {"HF_TOKEN": token})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LoopbackHub

    def log_message(self, *args) -> None: ...

    def do_GET(self) -> None:
        parts = self._arrive()
        if parts[:2] == ["api", "models"] and self._allow(write=False):
            repository = self.server.repositories.get("/".join(parts[2:4]))
            if repository is None:
                self._answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
            elif parts[4:5] == ["tree"]:
                self._answer(200, [{"type": "file", "path": p, "size": len(c), "oid": _git_oid(c)}
                                   for p, c in repository.files.items()])  # fmt: skip
            else:
                self._answer(200, {"id": "/".join(parts[2:4]), "private": repository.private, "siblings": []})

    def do_POST(self) -> None:
        parts = self._arrive()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self._allow(write=parts != ["api", "validate-yaml"]):
            return
        if parts == ["api", "validate-yaml"]:
            self._answer(200, {"errors": [], "warnings": []})
        elif parts == ["api", "repos", "create"]:
            self._create(json.loads(body))
        elif parts[-4:] == ["info", "lfs", "objects", "batch"]:
            objects = [self._lfs_object(o["oid"], o["size"]) for o in json.loads(body)["objects"]]
            self._answer(200, {"transfer": "basic", "objects": objects})
        elif parts[4:5] == ["preupload"]:
            repository = self.server.repositories["/".join(parts[2:4])]
            self._answer(200, {"files": [
                {"path": f["path"], "uploadMode": "lfs" if f["path"].endswith(".safetensors") else "regular",
                 "shouldIgnore": False,
                 "oid": _git_oid(repository.files[f["path"]]) if f["path"] in repository.files else None}
                for f in json.loads(body)["files"]]})  # fmt: skip
        elif parts[4:5] == ["commit"]:
            self._commit("/".join(parts[2:4]), [json.loads(line) for line in body.splitlines()])
        else:
            self._answer(404, {"error": f"no such endpoint {self.path}"})

    def do_PUT(self) -> None:
        parts, size = self._arrive(), int(self.headers["Content-Length"])
        if self.server.drops > 0:
            self.server.drops -= 1
            self.rfile.read(min(size // 2, 1 << 20))
            # With a linger of 0 the client gets a reset, as from a line that breaks.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        content = self.rfile.read(size)
        assert hashlib.sha256(content).hexdigest() == parts[1]
        self.server.blobs[parts[1]] = content
        self._answer(200, {})

    def _arrive(self) -> list[str]:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        return path.strip("/").split("/")

    def _allow(self, write: bool) -> bool:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in (TOKEN, READ_TOKEN):
            self._answer(401, {"error": "Invalid credentials in Authorization header"})
            return False
        if write and token == READ_TOKEN:
            self._answer(403, {"error": "Forbidden: you must use a write token"})
            return False
        return True

    def _create(self, wanted: dict) -> None:
        name = f"{wanted.get('organization') or 'somebody'}/{wanted['name']}"
        if name.startswith("others/"):
            self._answer(403, {"error": "You don't have the rights to create a model under the namespace"})
            return
        known = name in self.server.repositories
        self.server.repositories.setdefault(name, Repository(wanted.get("visibility") == "private"))
        self._answer(409 if known else 200, {"url": f"{self.server.endpoint}/{name}"})

    def _lfs_object(self, oid: str, size: int) -> dict:
        known = {"oid": oid, "size": size}
        if oid in self.server.blobs:
            return known
        return known | {"actions": {"upload": {"href": f"{self.server.endpoint}/lfs/{oid}"}}}

    def _commit(self, name: str, lines: list[dict]) -> None:
        repository = self.server.repositories[name]
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                repository.files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                repository.files[value["path"]] = self.server.blobs[value["oid"]]
            elif line["key"] == "deletedFile":
                del repository.files[value["path"]]
            else:
                repository.commits.append(value["summary"])
        oid = hashlib.sha1(str(len(repository.commits)).encode()).hexdigest()
        self._answer(200, {"commitUrl": f"{self.server.endpoint}/{name}/commit/{oid}", "commitOid": oid})

    def _answer(self, status: int, content, headers: dict[str, str] | None = None) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for key, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _git_oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
