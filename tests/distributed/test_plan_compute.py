"""FLOPs against torch's own counter, activations against what autograd saves, traffic against numbers by hand."""

from dataclasses import replace

import pytest
import torch
from plan_models import CONFIGS
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoModelForCausalLM

from medgrpo.distributed.plan.activations import activation_bytes
from medgrpo.distributed.plan.batch import Batch
from medgrpo.distributed.plan.cluster import divide
from medgrpo.distributed.plan.compute import backbone_flops, head_flops, step_flops
from medgrpo.distributed.plan.model_shape import ModelShape, read_shape
from medgrpo.distributed.plan.traffic import plan_traffic

TOKENS = 128
GB = 1e9


def run(kind: str, attention: str = "eager", checkpointing: bool = False) -> tuple[ModelShape, int, int, int]:
    """The shape, the FLOPs of forward and of forward and backward, and the bytes that autograd saves, all counted."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        CONFIGS[kind](), attn_implementation=attention, experts_implementation="eager"
    )
    if checkpointing:
        model.train()
        model.gradient_checkpointing_enable({"use_reentrant": False})
    ids = torch.randint(0, model.config.vocab_size, (1, TOKENS))
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        model(input_ids=ids)
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor.untyped_storage()
        return tensor

    with FlopCounterMode(display=False) as both:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            hidden = model.get_decoder()(input_ids=ids).last_hidden_state
        model.lm_head(hidden).sum().backward()
    for tensor in (*model.parameters(), *model.buffers(), ids):
        kept.pop(tensor.untyped_storage()._cdata, None)
    saved = sum(storage.nbytes() for storage in kept.values())
    shape = ModelShape(kind, CONFIGS[kind](), torch.float32)
    # Its formula for the backward pass of a convolution takes each channel to be joined with all others.
    wrong = both.get_flop_counts()["Global"].get(torch.ops.aten.convolution_backward, 0)
    return shape, forward.get_total_flops(), both.get_total_flops() - wrong, saved


@pytest.mark.parametrize("kind", list(CONFIGS))
def test_flops_are_the_counters(kind: str) -> None:
    shape, forward, both, _ = run(kind)
    # The counter takes attention's whole square; kernels and the plan's batches take the causal half.
    planned = backbone_flops(shape, TOKENS, TOKENS**2) + head_flops(shape, TOKENS)
    assert planned == pytest.approx(forward, rel=0.005)
    # Not planned: that fused attention multiplies once more in its backward pass, and GatedDeltaNet's solve, too.
    assert 3 * planned == pytest.approx(both, rel=0.025)


@pytest.mark.parametrize("kind", list(CONFIGS))
def test_activations_are_what_autograd_saves(kind: str) -> None:
    shape, _, _, saved = run(kind, "sdpa")
    # Counted besides by the run: the last norm, rotations and masks, shared by all layers. The trace has fused experts.
    assert activation_bytes(shape, TOKENS, checkpointing=False) == pytest.approx(saved, rel=0.1)


def test_checkpointed_layers_keep_their_inputs_alone() -> None:
    shape, _, _, saved = run("qwen3_moe", "sdpa", checkpointing=True)
    inputs = shape.layers * TOKENS * shape.hidden * 4
    # Beside them the last norm's input, result and a number a token, in float32.
    assert saved == inputs + TOKENS * (2 * shape.hidden + 1) * 4
    planned = activation_bytes(shape, TOKENS, checkpointing=True)
    one_layer = activation_bytes(shape, TOKENS, checkpointing=False) / shape.layers
    assert planned == pytest.approx(inputs + one_layer)


# Entire step of 512 x 4096 tokens on 8 x 8 GPUs with a reference model: GB into a GPU, and over the network.
@pytest.mark.parametrize(
    ("micro", "placement", "ep", "received", "network"),
    [
        (1, "zero3", 1, 6274, 697),
        (1, "zero3_ep", 8, 1426, 697),
        (1, "zero3_ep", 16, 1080, 633),
        (4, "zero3", 1, 1569, 174),
        (4, "zero3_ep", 8, 779, 174),
        (4, "zero3_ep", 64, 681, 569),
    ],
)
def test_traffic_of_the_80b_by_hand(micro: int, placement: str, ep: int, received: float, network: float) -> None:
    shape = read_shape("qwen3_next_80b")
    traffic = plan_traffic(shape, divide(shape, 8, 8, placement, ep), Batch(per_device=micro, accumulation=8 // micro))
    assert (traffic.all_gather.received + traffic.all_to_all.received) / GB == pytest.approx(received, abs=1)
    assert traffic.network / GB == pytest.approx(network, abs=1)


def test_one_node_uses_no_network_and_one_gpu_nothing() -> None:
    shape = ModelShape("moe", CONFIGS["qwen3_moe"]())
    assert plan_traffic(shape, divide(shape, 1, 8, "zero3_ep", 8), Batch()).network == 0
    for placement in ("ddp", "zero3"):
        alone = plan_traffic(shape, divide(shape, 1, 1, placement, 1), Batch())
        assert alone.nvlink == alone.network == 0


def test_shared_prefix_runs_a_prompt_once_for_its_group() -> None:
    plain = Batch(per_device=16, num_generations=16, prompt=1000, completion=200)
    shared = replace(plain, shared_prefix=True)
    assert plain.tokens == 16 * 1200
    assert shared.tokens == 1000 + 16 * 200
    assert replace(shared, per_device=4).tokens == 1000 + 4 * 200  # a quarter of a group still has its prompt
    # Completions attend to the prompt as before; only the prompt's own pairs are formed once.
    assert plain.attended_pairs - shared.attended_pairs == 15 * 1000**2 / 2
    shape = ModelShape("moe", CONFIGS["qwen3_moe"]())
    assert step_flops(shape, shared).total < 0.5 * step_flops(shape, plain).total


def test_passes_that_a_setting_saves() -> None:
    shape = ModelShape("moe", CONFIGS["qwen3_moe"]())
    whole = step_flops(shape, Batch())
    assert step_flops(shape, Batch(reference=False)).scoring == whole.scoring / 2
    assert step_flops(shape, Batch(reference=False, old_logps=False)).scoring == 0
    assert step_flops(shape, Batch(checkpointing=False)).recompute == 0
    assert step_flops(shape, Batch(accumulation=3)).total == 3 * whole.total
