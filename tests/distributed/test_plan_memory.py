"""The plan's bytes against what two ranks really allocate, and against numbers worked out by hand."""

import json
from pathlib import Path

import pytest
import torch
from forked import run_forked
from plan_models import CONFIGS
from plan_ranks import REDUCE_BUCKET

from medgrpo.distributed.plan.batch import Batch
from medgrpo.distributed.plan.cluster import divide
from medgrpo.distributed.plan.hardware import HARDWARE
from medgrpo.distributed.plan.memory import (
    gather_bytes,
    kv_bytes_per_token,
    plan_memory,
    state_bytes,
    state_bytes_per_sequence,
)
from medgrpo.distributed.plan.model_shape import ModelShape, read_shape
from medgrpo.errors import MedgrpoError

MEASURED = [
    f"{placement}:{model}"
    for placement in ("ddp", "zero3", "zero3_ep")
    for model in ("qwen3_moe:float32", "qwen3_next:bfloat16")
]


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> list[dict[str, dict[str, int]]]:
    """What each of two ranks allocated, one launch for all placements."""
    out = tmp_path_factory.mktemp("plan") / "measured.json"
    done = run_forked(Path(__file__).with_name("plan_ranks.py"), str(out), *MEASURED, processes=2)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def big() -> ModelShape:
    return read_shape("qwen3_next_80b")


@pytest.mark.parametrize("name", MEASURED)
def test_states_are_what_two_ranks_allocate(name: str, measured) -> None:
    placement, kind, dtype = name.split(":")
    shape = ModelShape(kind, CONFIGS[kind](), getattr(torch, dtype))
    planned = state_bytes(shape, divide(shape, 1, 2, placement, 2), reference=False, reduce_bucket=REDUCE_BUCKET)
    for rank in measured:
        allocated = rank[name]
        assert set(allocated) >= {"weights", "gradients", "optimizer"}
        for part, number in allocated.items():
            assert getattr(planned, part) == pytest.approx(number, rel=0.01), part


def test_80b_has_its_published_size(big: ModelShape) -> None:
    # Experts: 48 layers x 512 experts x 3 matrices of 512 x 2048.
    assert big.expert_total == 48 * 512 * 3 * 512 * 2048
    assert big.total == 79_674_391_296
    assert big.active == pytest.approx(3.87e9, rel=0.01)
    assert big.layer_experts == 512 * 3 * 512 * 2048
    assert big.layer_types.count("full_attention") == 12


@pytest.mark.parametrize(("placement", "ep"), [("zero3", 1), ("zero3_ep", 8), ("zero3_ep", 64)])
def test_80b_on_64_gpus_takes_16_bytes_a_parameter_and_2_for_the_reference(big: ModelShape, placement, ep) -> None:
    states = state_bytes(big, divide(big, 8, 8, placement, ep), reference=True, reduce_bucket=0)
    assert states.total == pytest.approx(18 * big.total / 64, rel=1e-4)
    assert states.optimizer == pytest.approx(12 * big.total / 64, rel=1e-4)
    assert state_bytes(big, divide(big, 8, 8, placement, ep), reference=False).reference == 0


def test_expert_parallelism_gathers_less_at_once(big: ModelShape) -> None:
    # ZeRO-3: one layer's experts and their gradient, 2 x 2 x 1.61 GB; spread over 8 they are below DeepSpeed's limit
    # of a billion live elements, and the LM head's gradient is the largest.
    assert gather_bytes(big, divide(big, 8, 8, "zero3", 1)) == 4 * 512 * 3 * 512 * 2048
    head = big.vocab * big.hidden
    assert gather_bytes(big, divide(big, 8, 8, "zero3_ep", 8)) == 2 * (10**9 + head)


def test_cache_of_the_80b_by_hand(big: ModelShape) -> None:
    # 12 attention layers, 2 key-value heads of 256, keys and values, 2 bytes.
    assert kv_bytes_per_token(big) == 12 * 2 * 2 * 256 * 2
    # 36 layers: 32 states of 128 x 128 in float32, and a convolution of 4 over 2 x 16 x 128 + 32 x 128 channels.
    assert state_bytes_per_sequence(big) == 36 * (32 * 128 * 128 * 4 + 8192 * 4 * 2)


def test_offloading_moves_the_optimizer_and_nothing_else(big: ModelShape) -> None:
    cluster, batch = divide(big, 8, 8, "zero3", 1), Batch(steps_per_generation=16)
    here, there = (plan_memory(big, cluster, batch, HARDWARE["h100"], offload) for offload in (False, True))
    assert there.states.optimizer == 0
    assert there.host == here.states.optimizer > 0
    assert there.activations == here.activations


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((2, 8, "zero3_ep", 3), "--ep 3 does not divide the 512 experts"),
        ((3, 8, "zero3_ep", 16), "--ep 16 does not divide the 24 training GPUs"),
        ((1, 8, "fsdp", 1), "--placement fsdp"),
        ((0, 8, "zero3", 1), "--nodes"),
        ((2, 8, "zero3", 1, 2), "leaves none to train"),
        ((2, 8, "zero3", 1, -1), "leaves none to train"),
    ],
)
def test_impossible_division_is_refused(big: ModelShape, options, said) -> None:
    with pytest.raises(MedgrpoError, match=said):
        divide(big, *options)


def test_dense_model_with_expert_parallelism_is_refused() -> None:
    shape = ModelShape("small", CONFIGS["qwen3"]())
    with pytest.raises(MedgrpoError, match="dense"):
        divide(shape, 1, 8, "zero3_ep", 8)
