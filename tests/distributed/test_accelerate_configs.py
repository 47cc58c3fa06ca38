"""Every file of accelerate_configs/ is read as the installed accelerate and DeepSpeed read it."""

import importlib.util
import json
from pathlib import Path

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file

from medgrpo.distributed.placement import placement_of

CONFIGS = Path(__file__).resolve().parents[2] / "accelerate_configs"
YAMLS = sorted(CONFIGS.glob("*.yaml"))
PLACES = {
    "cpu": "1 process without DeepSpeed",
    "single_gpu": "1 process without DeepSpeed",
    "zero3": "8 processes with ZeRO-3",
    "zero3_ep_8x8": "64 processes with ZeRO-3 and expert parallelism of 8",
    "zero3_ep_12x8": "96 processes with ZeRO-3 and expert parallelism of 8",
    "cpu_zero3": "2 processes with ZeRO-3",
    "cpu_zero3_ep": "2 processes with ZeRO-3 and expert parallelism of 2",
}


def deepspeed_json(path: Path) -> Path | None:
    named = yaml.safe_load(path.read_text(encoding="utf-8")).get("deepspeed_config", {}).get("deepspeed_config_file")
    # The paths are relative to the project's root, from where a person launches.
    return None if named is None else CONFIGS.parent / named


def test_the_places_are_the_ones_that_the_house_promises() -> None:
    assert {path.stem for path in YAMLS} == set(PLACES)


@pytest.mark.parametrize("path", YAMLS, ids=lambda path: path.stem)
def test_accelerate_reads_it(path: Path) -> None:
    config = load_config_from_file(str(path))  # raises for a key that it does not know
    assert config.num_processes % config.num_machines == 0
    found = deepspeed_json(path)
    assert (config.distributed_type == "DEEPSPEED") == (found is not None)
    deepspeed = None if found is None else json.loads(found.read_text(encoding="utf-8"))
    assert str(placement_of(config.num_processes, deepspeed)) == PLACES[path.stem]


def test_no_json_is_left_over() -> None:
    used = {found for path in YAMLS if (found := deepspeed_json(path)) is not None}
    assert used == set(CONFIGS.glob("*.json"))


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="needs the extra `deepspeed`")
@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_deepspeed_reads_it(path: Path) -> None:
    from deepspeed.module_inject.auto_ep_config import parse_autoep_config, validate_autoep_config
    from deepspeed.runtime.config import DeepSpeedConfig

    config = json.loads(path.read_text(encoding="utf-8"))
    # What the Trainer fills in.
    filled = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 1}
    read = DeepSpeedConfig({key: filled.get(key, 1.0 if value == "auto" else value) for key, value in config.items()})
    assert read.zero_optimization_stage == 3
    # A misspelt key of ZeRO's is an extra field there.
    assert not read.zero_config.model_extra
    if "expert_parallel" in config:
        experts = parse_autoep_config(config["expert_parallel"])
        validate_autoep_config(
            experts, world_size=96 if experts.autoep_size == 8 else 2, pp_size=1, tp_size=1, sp_size=1
        )
