"""A model folder that one process writes: the same as `save_pretrained`'s, whole or not at all."""

import json
import threading
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from small_moe import build_moe
from transformers import (
    AutoModelForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from medgrpo.distributed.hf_folder import write_hf_folder
from medgrpo.distributed.hf_weights import expected_weights, full_state_dict
from medgrpo.errors import MedgrpoError

SMALL = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}


def build(kind: str, tokenizer: PreTrainedTokenizerFast):
    if kind in ("moe", "next"):
        return build_moe(tokenizer, kind)
    torch.manual_seed(1)
    if kind == "mixtral":
        return MixtralForCausalLM(MixtralConfig(**SMALL, vocab_size=30, num_hidden_layers=1, num_local_experts=4))
    return Qwen3ForCausalLM(Qwen3Config(**SMALL, vocab_size=30, num_hidden_layers=1, tie_word_embeddings=True))


def read(folder: Path) -> dict[str, torch.Tensor]:
    """What a loader finds: by the index, or in the one file."""
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return load_file(folder / "model.safetensors")
    found = json.loads(index.read_text())["weight_map"]
    weights = {}
    for name, file in found.items():
        with safe_open(folder / file, "pt") as shard:
            weights[name] = shard.get_tensor(name)
    return weights


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(one[name], other[name]) and one[name].dtype == other[name].dtype for name in one
    )


@pytest.mark.parametrize("kind", ["moe", "next", "mixtral", "dense"])
@pytest.mark.parametrize("loaded", [False, True], ids=["built", "loaded"])
def test_it_is_what_save_pretrained_writes(kind: str, loaded: bool, tokenizer, tmp_path) -> None:
    model = build(kind, tokenizer)
    model.save_pretrained(tmp_path / "theirs")
    if loaded:
        model = AutoModelForCausalLM.from_pretrained(tmp_path / "theirs")
    written = write_hf_folder(model, tmp_path / "ours", tokenizer, max_shard_bytes=5000)
    theirs, ours = read(tmp_path / "theirs"), read(tmp_path / "ours")
    assert same(theirs, ours)
    assert written == sum(tensor.nbytes for tensor in theirs.values())
    shards = list((tmp_path / "ours").glob("*.safetensors"))
    assert len(shards) > 2
    # One parameter may be larger than a shard is meant to be; it then has one of its own.
    largest = max(tensor.nbytes for tensor in theirs.values())
    assert all(sum(tensor.nbytes for tensor in load_file(path).values()) <= max(5000, largest) for path in shards)
    configs = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("theirs", "ours")]
    assert configs[0] == configs[1]
    assert same(full_state_dict(model), theirs)
    assert expected_weights(model) == {name: tensor.shape for name, tensor in theirs.items()}


def test_another_dtype_is_what_loading_in_it_gives(tokenizer, tmp_path) -> None:
    model = build("moe", tokenizer)
    model.save_pretrained(tmp_path / "theirs")
    write_hf_folder(model, tmp_path / "ours", dtype=torch.bfloat16)
    halved = AutoModelForCausalLM.from_pretrained(tmp_path / "theirs", dtype=torch.bfloat16)
    assert same(read(tmp_path / "ours"), full_state_dict(halved))
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "ours").dtype == torch.bfloat16
    assert model.dtype == torch.float32
    assert model.config.dtype != torch.bfloat16


def test_one_shard_has_the_plain_name_and_replaces_many(tokenizer, tmp_path) -> None:
    model = build("moe", tokenizer)
    folder = tmp_path / "out"
    write_hf_folder(model, folder, max_shard_bytes=5000)
    (folder / "metrics.jsonl").write_text("mine\n")
    with torch.no_grad():
        model.model.norm.weight.fill_(2)
    write_hf_folder(model, folder)
    assert {path.name for path in folder.glob("*.safetensors*")} == {"model.safetensors"}
    assert (folder / "metrics.jsonl").read_text() == "mine\n"
    assert read(folder)["model.norm.weight"].eq(2).all()
    write_hf_folder(model, folder, max_shard_bytes=5000)
    assert not (folder / "model.safetensors").exists()
    assert same(read(folder), full_state_dict(model))


def test_a_reader_never_sees_half_a_folder(tokenizer, tmp_path) -> None:
    """While one thread writes over the folder again and again, whoever reads it finds weights of one writing."""
    model = build("moe", tokenizer)
    folder = tmp_path / "out"
    failures: list[str] = []
    write_hf_folder(model, folder, max_shard_bytes=5000)
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            index = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
            opened = {}
            try:
                opened = {name: safe_open(folder / name, "pt") for name in set(index.values())}
            except FileNotFoundError:
                continue  # replaced in between: the next index has other names, and no weights were mixed
            values = {opened[file].get_tensor(name).flatten()[0].item() for name, file in index.items()}
            if len(values) > 1:
                failures.append(f"weights of several writings: {values}")

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0)
    write_hf_folder(model, folder, max_shard_bytes=5000)
    watcher = threading.Thread(target=watch)
    watcher.start()
    for value in range(1, 8):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(value)
        write_hf_folder(model, folder, max_shard_bytes=5000)
    done.set()
    watcher.join()
    assert not failures
    assert not list(tmp_path.glob(".*"))


def test_a_weight_too_many_or_too_few_is_told(tokenizer, tmp_path) -> None:
    model = build("dense", tokenizer)
    model.extra = torch.nn.Linear(2, 2, bias=False)
    with pytest.raises(MedgrpoError, match=r"are too many in the export.*extra\.weight"):
        write_hf_folder(model, tmp_path / "out")
    del model.extra, model.model.norm
    with pytest.raises(MedgrpoError, match=r"are missing from the export.*model\.norm\.weight"):
        write_hf_folder(model, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_place_that_can_not_be_written_is_told(tokenizer, tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MedgrpoError, match="can't be written"):
        write_hf_folder(build("dense", tokenizer), tmp_path / "file" / "out")


def test_lora_comes_merged_and_the_live_weights_stay(tokenizer, tmp_path) -> None:
    from peft import LoraConfig, get_peft_model

    model = build("dense", tokenizer)
    options = {"target_modules": ["q_proj", "v_proj"], "init_lora_weights": False, "modules_to_save": ["norm"]}
    adapted = get_peft_model(model, LoraConfig(r=2, **options))
    with torch.no_grad():
        adapted.base_model.model.model.norm.modules_to_save["default"].weight.fill_(3)
    before = {name: parameter.clone() for name, parameter in adapted.named_parameters()}
    write_hf_folder(adapted, tmp_path / "out")
    assert all(torch.equal(before[name], parameter) for name, parameter in adapted.named_parameters())
    ids = torch.arange(2, 12).view(1, 10)
    expected = adapted(ids).logits
    assert same(read(tmp_path / "out"), full_state_dict(adapted.merge_and_unload()))
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    torch.testing.assert_close(loaded(ids).logits, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target_modules": ["q_proj"], "use_dora": True}, "DoRA"),
        ({"target_parameters": ["experts.gate_up_proj"], "target_modules": []}, "ParamWrapper"),
    ],
)
def test_an_adapter_with_another_merge_is_refused(options, said, tokenizer, tmp_path) -> None:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(build("moe", tokenizer), LoraConfig(r=2, **options))
    with pytest.raises(MedgrpoError, match=said):
        write_hf_folder(model, tmp_path / "out")
    assert not list(tmp_path.iterdir())
