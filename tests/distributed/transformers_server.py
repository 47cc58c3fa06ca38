"""A rollout server in seconds: vLLM's protocol over real HTTP, computed by transformers from the weights it is sent."""

import json
from pathlib import Path
from typing import Any

import torch
from faulty_server import FaultyServer
from transformers import AutoModelForCausalLM, AutoTokenizer

from medgrpo.distributed.vllm_server import EXTENSION


class TransformersServer(FaultyServer):
    """Serves one model; `restart` puts its first weights back, `loads` counts what it was sent."""

    def __init__(self, model: Path) -> None:
        super().__init__()
        self.first = model
        self.loads = 0
        self.tokenizer = AutoTokenizer.from_pretrained(model)
        self.restart()
        self.answers |= {
            "/health": lambda body: (200, b""),
            "/v1/models": lambda body: {"data": [{"id": str(model)}]},
            "/server_info": lambda body: {
                "vllm_config": {
                    "parallel_config": {"worker_extension_cls": EXTENSION},
                    "model_config": {"max_model_len": 512, "logprobs_mode": "processed_logprobs"},
                    "weight_transfer_config": None,
                }
            },
            "/tokenize": lambda body: {"tokens": self.tokenizer(body["prompt"], add_special_tokens=False)["input_ids"]},
            "/reset_prefix_cache": lambda body: {"success": True},
            "/collective_rpc": lambda body: {"results": [self.call(body["method"], body["kwargs"])]},
            "/v1/completions": self.complete,
        }

    def restart(self) -> None:
        """As a server that died and was started again: with the weights of its start."""
        self.model = AutoModelForCausalLM.from_pretrained(self.first, dtype=torch.float32).eval()
        self.loaded: str | None = None

    def call(self, method: str, kwargs: dict[str, str]) -> dict[str, Any]:
        if method == "medgrpo_load":
            folder = Path(kwargs["folder"])
            self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
            self.loaded = json.loads((folder / "sync.json").read_text())["id"]
            self.loads += 1
        config = json.loads(self.model.config.to_json_string(use_diff=False))
        return {"id": self.loaded, "dtype": "float32", "config": config}

    @torch.no_grad()
    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        if body.get("prompt_logprobs") is not None:
            return {"choices": [{"prompt_logprobs": self.score(prompt)} for prompt in body["prompt"]]}
        choices = []
        for prompt in body["prompt"]:
            for _ in range(body["n"]):
                ids, logprobs = list(prompt), []
                for _ in range(body["max_tokens"]):
                    logps = (self.model(torch.tensor([ids])).logits[0, -1] / body["temperature"]).log_softmax(-1)
                    token = int(torch.multinomial(logps.exp(), 1))
                    ids.append(token)
                    logprobs.append(logps[token].item())
                new = ids[len(prompt) :]
                names = [f"token_id:{token}" for token in new]
                choices.append(
                    {
                        "token_ids": new,
                        "logprobs": {"tokens": names, "token_logprobs": logprobs, "top_logprobs": [None] * len(new)},
                    }
                )
        return {"choices": choices}

    def score(self, prompt: list[int]) -> list[dict[str, Any] | None]:
        logps = self.model(torch.tensor([prompt])).logits[0].log_softmax(-1)
        following = [{str(b): {"logprob": logps[a, b].item()}} for a, b in enumerate(prompt[1:])]
        return [None, *following]
