"""What a vLLM server needs for training, inside its workers: `--worker-extension-cls` of `medgrpo serve`.

Runs in vLLM's environment, where neither TRL nor DeepSpeed need be: it imports what vLLM has with it.
"""

import json
import time
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.platforms import current_platform

STAMP = "sync.json"
"""Written last into a folder of weights: `{"id": ...}` says which weights these are."""

# A network file system may show a folder that another machine has just written only after a while.
FOLDER_WAIT_S = 15.0

_setup_kernel = UnquantizedFusedMoEMethod._setup_kernel


def _setup_kernel_again(self: Any, layer: Any, w13: Any, w2: Any) -> None:
    """Prepack the experts at every load: vLLM 0.31 on a CPU does at the first alone, and copies unpacked ones over it.

    The server would answer 200 and compute something else.
    """
    update = self.moe_kernel is not None
    _setup_kernel(self, layer, w13, w2)
    if update:
        self.moe_kernel.fused_experts.process_weights_after_loading(layer)


if current_platform.is_cpu():
    UnquantizedFusedMoEMethod._setup_kernel = _setup_kernel_again


@torch.inference_mode()
def _pack_head_again(model: torch.nn.Module) -> None:
    """A head tied to the embeddings is not loaded itself, so vLLM 0.31 goes on with the copy that it packed first."""
    for module in model.modules():
        if isinstance(module, ParallelLMHead):
            module.quant_method.process_weights_after_loading(module)


class TrainedWorker:
    """Mixed into vLLM's worker class; its methods are called through `POST /collective_rpc`.

    They answer a mistake as `{"error": ...}`: an exception in a worker can end the whole engine.
    """

    _medgrpo_loaded: str | None = None

    def medgrpo_loaded(self) -> dict[str, Any]:
        """Which weights this worker computes with (None: those it was started with), and of which model."""
        model_config = self.vllm_config.model_config  # type: ignore[attr-defined]
        return {
            "id": self._medgrpo_loaded,
            "model": str(model_config.served_model_name or model_config.model),
            "dtype": str(model_config.dtype).removeprefix("torch."),
            "config": json.loads(model_config.hf_text_config.to_json_string(use_diff=False)),
        }

    def medgrpo_load(self, folder: str) -> dict[str, Any]:
        """Load the Hugging Face weights of `folder`, and remember the id that its stamp holds."""
        try:
            stamp = _read_folder(Path(folder))
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            return {"error": f"{folder}: {error}"}
        # Until it is done the weights are neither the old ones nor the new.
        self._medgrpo_loaded = None
        self.reload_weights(weights_path=folder)  # type: ignore[attr-defined]
        if current_platform.is_cpu():
            _pack_head_again(self.model_runner.get_model())  # type: ignore[attr-defined]
        self._medgrpo_loaded = stamp
        return {"id": stamp}

    def medgrpo_mark(self, stamp: str) -> dict[str, Any]:
        """Remember the id of weights that came another way (NCCL)."""
        self._medgrpo_loaded = stamp
        return {"id": stamp}


def _read_folder(folder: Path) -> str:
    """The folder's id; raises where a file is missing or cut short, before anything is loaded."""
    deadline = time.monotonic() + FOLDER_WAIT_S
    while not (folder / STAMP).is_file():
        if time.monotonic() > deadline:
            raise FileNotFoundError(f"the server does not see {STAMP} there")
        time.sleep(0.2)
    shards = sorted(folder.glob("*.safetensors"))
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        shards = [folder / name for name in sorted(names)]
    if not shards:
        raise FileNotFoundError("holds no safetensors")
    for shard in shards:
        # Opening compares the header with the file's length.
        with safe_open(shard, framework="pt"):
            pass
    return str(json.loads((folder / STAMP).read_text(encoding="utf-8"))["id"])
