"""NCCL's part of the weight sync with a communicator that hands tensors over in memory: there is no GPU here."""

import threading
from pathlib import Path

import pytest
import torch
from served_training import AfterStep, build, differences, make_model_folder
from transformers import AutoModelForCausalLM
from transformers_server import TransformersServer

from medgrpo.distributed import weight_sync
from medgrpo.distributed.weight_carriers import NCCLCarrier
from medgrpo.errors import MedgrpoError


class OnAGPU(NCCLCarrier):
    def __init__(self, model, group_port, device, first) -> None:
        super().__init__(model, group_port, torch.device("cuda"), first)


class NCCLServer(TransformersServer):
    """vLLM's weight transfer: tensors that were announced, in their order, from the group that was opened last."""

    def __init__(self, model: Path) -> None:
        super().__init__(model)
        self.groups = 0
        self.announced: dict | None = None
        self.sent: list[tuple[str, torch.Tensor]] = []
        self.arrived = threading.Event()
        info = self.answers["/server_info"](None)
        info["vllm_config"]["weight_transfer_config"] = {"backend": "nccl"}
        self.answers |= {
            "/server_info": lambda body: info,
            "/get_world_size": lambda body: {"world_size": 2},
            "/init_weight_transfer_engine": self.open,
            "/start_weight_update": lambda body: {},
            "/update_weights": self.update,
            "/finish_weight_update": lambda body: {},
        }

    def open(self, body) -> dict:
        assert body["init_info"]["world_size"] == 3
        self.groups += 1
        return {}

    def update(self, body) -> dict:
        info = body["update_info"]
        assert self.arrived.wait(20)
        self.arrived.clear()
        assert [name for name, _ in self.sent] == info["names"]
        assert [str(tensor.dtype) for _, tensor in self.sent] == [f"torch.{name}" for name in info["dtype_names"]]
        assert [list(tensor.shape) for _, tensor in self.sent] == info["shapes"]
        self.model.load_state_dict(dict(self.sent))
        return {}

    def call(self, method, kwargs):
        if method == "medgrpo_mark":
            self.loaded = kwargs["stamp"]
            self.loads += 1
        return super().call(method, kwargs)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory) -> Path:
    return make_model_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture
def server(model_folder, monkeypatch):
    from trl.generation import vllm_client

    server = NCCLServer(model_folder)

    def broadcast(iterator, group, src, post_iter_func) -> None:
        assert group is not None and src == 0
        server.sent = [(item[0], post_iter_func(item).clone()) for item in iterator]
        server.arrived.set()

    monkeypatch.setattr(weight_sync, "RETRY_S", 0.1)
    monkeypatch.setattr(weight_sync, "NCCLCarrier", OnAGPU)
    monkeypatch.setattr("medgrpo.distributed.weight_carriers.find_spec", lambda name: name)
    # TRL has these names only where there is vLLM.
    monkeypatch.setattr(vllm_client, "_HAS_STATEFUL_TRAINER_ENGINE", True)
    monkeypatch.setattr(vllm_client, "get_ip", lambda: "127.0.0.1", raising=False)
    monkeypatch.setattr(vllm_client, "open_trainer_endpoint", lambda info: Endpoint(), raising=False)
    monkeypatch.setattr(vllm_client, "packed_nccl_broadcast_producer", broadcast, raising=False)
    yield server
    server.close()


class Endpoint:
    """As far as `close_communicator` looks at it."""

    def __init__(self) -> None:
        self.group = self


def test_weights_arrive_by_their_hugging_face_names(server, model_folder, tmp_path) -> None:
    trainer = build(server, model_folder, tmp_path, vllm_sync="nccl", max_steps=3)
    trainer.train()
    assert max(differences(tmp_path)) < 1e-4 and server.loads == 3 and server.groups == 1
    saved = tmp_path / "saved"
    trainer.save_model(str(saved))
    names = {name for name, _ in server.sent}
    assert names == set(AutoModelForCausalLM.from_pretrained(saved).state_dict())
    assert not (tmp_path / "weight_sync").exists()


def test_a_server_started_anew_gets_a_new_group_and_the_weights(server, model_folder, tmp_path) -> None:
    trainer = build(server, model_folder, tmp_path, vllm_sync="nccl", max_steps=3)
    trainer.add_callback(AfterStep(1, server.restart))
    trainer.train()
    assert max(differences(tmp_path)) < 1e-4
    assert server.groups == 2


def test_a_fault_inside_a_transfer_is_waited_for(server, model_folder, tmp_path) -> None:
    trainer = build(server, model_folder, tmp_path, vllm_sync="nccl", max_steps=3)
    update, failed = server.update, []

    def fail_once(body):
        answer = update(body)
        if len(failed) < 1 and trainer.state.global_step == 1:
            failed.append(body)
            return 500, b""
        return answer

    server.answers["/update_weights"] = fail_once
    trainer.train()
    assert failed and len(differences(tmp_path)) == 3 and max(differences(tmp_path)) < 1e-4


def test_a_server_without_weight_transfer_is_refused(server, model_folder, tmp_path) -> None:
    server.answers["/server_info"](None)["vllm_config"]["weight_transfer_config"] = None
    with pytest.raises(MedgrpoError, match="no weight-transfer engine: start it with `medgrpo serve --sync nccl`"):
        build(server, model_folder, tmp_path, vllm_sync="nccl")
