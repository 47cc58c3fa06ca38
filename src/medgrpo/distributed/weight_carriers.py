"""The two ways of weights to a rollout server: a folder that both sides see, and NCCL."""

import json
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from trl.generation.vllm_client import VLLMClient

from medgrpo.distributed.hf_folder import write_hf_folder
from medgrpo.distributed.hf_weights import hf_tensors
from medgrpo.distributed.rollout_server import RolloutServer
from medgrpo.errors import MedgrpoError

STAMP = "sync.json"  # as `vllm_worker.STAMP`, which can't be imported where there is no vLLM
OURS = re.compile(r"\.?sync-\d{6}(\.partial)?")


class FolderCarrier:
    """Every process writes its share of the weights into `folder`, which the server sees under the same path.

    One folder a sync, `sync-000012`; an older one goes once the server holds the newer.
    """

    def __init__(self, model: torch.nn.Module, folder: Path, first: bool, dtype: torch.dtype | None) -> None:
        # Not resolved: a link may lead elsewhere on the server's machine.
        self.model, self.folder, self.first, self.dtype = model, folder.absolute(), first, dtype
        self.current: Path | None = None
        self._number = 0
        self.bytes = 0
        if first:
            self._remove_others()

    def publish(self, stamp: str) -> None:
        """Collective: write the present weights, called `stamp`; raises `MedgrpoError` as `write_hf_folder` does."""
        self._number += 1
        self.current = self.folder / f"sync-{self._number:06d}"
        self.bytes = write_hf_folder(self.model, self.current, dtype=self.dtype)
        if self.first:
            (self.current / STAMP).write_text(json.dumps({"id": stamp}) + "\n", encoding="utf-8")

    def load(self, server: RolloutServer) -> None:
        """On the first process: let the server load what was written last, and remove what was before."""
        server.load(str(self.current))
        self._remove_others()

    def close(self) -> None:
        """On the first process: leave nothing behind."""
        self.current = None
        self._remove_others()
        if self.folder.is_dir() and not any(self.folder.iterdir()):
            self.folder.rmdir()

    def _remove_others(self) -> None:
        """What older syncs left, or a run that was killed."""
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if path != self.current and OURS.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)


class NCCLCarrier:
    """TRL's way, GPU to GPU, with the names and shapes that vLLM knows whatever the placement.

    Never run on GPUs yet. A server that dies inside a transfer leaves NCCL waiting until its own time-out.
    """

    def __init__(self, model: torch.nn.Module, group_port: int, device: torch.device, first: bool) -> None:
        if device.type != "cuda":
            raise MedgrpoError("vllm_sync=nccl needs GPUs: use vllm_sync=filesystem")
        if find_spec("vllm") is None:
            raise MedgrpoError(
                "vllm_sync=nccl needs vLLM beside the trainer: pip install 'medgrpo[vllm]', or use vllm_sync=filesystem"
            )
        self.model, self.group_port, self.device, self.first = model, group_port, device, first
        self._sender: VLLMClient | None = None
        self._metadata: list[tuple[str, str, list[int]]] | None = None
        self._stamp = ""

    def publish(self, stamp: str) -> None:
        """Collective: the present weights are called `stamp` from here on."""
        self._stamp = stamp
        if self._metadata is None:
            # The server wants to know what comes before the first tensor; every process takes part in the gathers.
            self._metadata = [
                (weight.name, str(weight.tensor.dtype).removeprefix("torch."), list(weight.tensor.shape))
                for weight in hf_tensors(self.model, whole_experts=True)
            ]

    def connect(self, server: RolloutServer, fresh: bool) -> None:
        """On the first process, before `stream`; `fresh`: the server was started anew, and knows no other group."""
        if self._sender is None or fresh:
            if self._sender is not None:
                self._sender.close_communicator()
            self._sender = _Sender(server, self.group_port)
            self._sender.init_communicator(self.device)

    def stream(self, server: RolloutServer | None) -> None:
        """Collective: send the weights; the first process gives the server, and raises `ServerFault` alone."""
        weights = ((weight.name, weight.tensor) for weight in hf_tensors(self.model, whole_experts=True))
        try:
            if server is not None:
                assert self._sender is not None and self._metadata is not None
                self._sender.update_named_params(self._metadata, weights)
                server.reset_prefix_cache()
                server.call_workers("medgrpo_mark", stamp=self._stamp)
        finally:
            for _ in weights:  # keep step with the other processes
                pass

    def close(self) -> None:
        """On the first process: leave the group."""
        if self._sender is not None:
            self._sender.close_communicator()


class _Sender(VLLMClient):
    """TRL's weight transfer, its requests made by `RolloutServer`: with a time limit, a key and no blind repeats."""

    def __init__(self, server: RolloutServer, group_port: int) -> None:
        # Not TRL's, which opens a session that repeats requests and sends no key.
        self._server = server
        self.base_url, self.group_port = server.base_url, group_port
        self.communicator = None
        self._updating_weights = False

    def _get(self, url: str, **kwargs: Any) -> dict:
        return self._server.ask("GET", url.removeprefix(self.base_url))

    def _post(self, url: str, **kwargs: Any) -> dict:
        return self._server.ask("POST", url.removeprefix(self.base_url), kwargs.get("json"))

    def get_server_info(self) -> dict:
        return self._server.get_server_info()
