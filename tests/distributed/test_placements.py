"""Two gloo processes: ZeRO-3, and ZeRO-3 with the experts spread over both, against one plain process.

Everything is trained in two launches, one of one process and one of two; the tests read what they left.
"""

import importlib.util
import json
import os
from pathlib import Path

import pytest
import torch
from forked import run_forked
from safetensors.torch import load_file
from small_moe import build_moe
from transformers import AutoModelForCausalLM

from medgrpo.trainers.run_log import read_metrics

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="needs the extra `deepspeed`")
KINDS = ("moe", "next")
# Adam divides by the size of a gradient: with its epsilon of 1e-8 the rounding of one near 0 would decide its step.
OPTIMIZERS = {
    "sgd": {"optim": "sgd", "learning_rate": 5e-2},
    "adamw": {"optim": "adamw_torch", "learning_rate": 1e-2, "adam_epsilon": 1e-5},
}
# How even the load is, is a property of a batch: two halves of it have another balance. So compared apart.
NO_AUX = {"router_aux_loss_coef": 0.0}
PLACES = ("zero3", "zero3_ep")


def specs(root: Path) -> tuple[list[dict], list[dict]]:
    """What one process trains, and what two do."""
    alone, two = [], []

    def add(places, kind: str, name: str, settings: dict, **options) -> None:
        for place in places:
            spec = {"place": place, "model": str(root / kind), "folder": str(root / f"{name}_{place}")}
            (alone if place == "plain" else two).append({**spec, "settings": settings, **options})

    for kind in KINDS:
        for optimizer, settings in OPTIMIZERS.items():
            # One of each kind with a reference model, whose experts are spread, too.
            beta = {"beta": 0.1} if (kind, optimizer) in (("moe", "adamw"), ("next", "sgd")) else {}
            first = {"export_at_start": True, "score_at_end": True} if optimizer == "adamw" else {}
            add(("plain", *PLACES), kind, f"{kind}_{optimizer}", {**settings, **NO_AUX, **beta}, **first)
        add(PLACES, kind, f"{kind}_aux", {**OPTIMIZERS["sgd"], "max_steps": 2})
    ddp = {**OPTIMIZERS["sgd"], **NO_AUX}
    two.append(
        {
            "place": "plain",
            "model": str(root / "moe"),
            "folder": str(root / "ddp"),
            "settings": ddp,
            "export_at_start": True,
        }
    )
    lora = {**OPTIMIZERS["sgd"], **NO_AUX, "gradient_checkpointing": False}
    add(("plain", *PLACES), "moe", "lora", lora, lora=True)
    combined = {
        **OPTIMIZERS["sgd"],
        **NO_AUX,
        "importance_sampling_level": "sequence",
        "epsilon": 0.01,
        "epsilon_high": 0.02,
        "use_bias_correction_kl": False,
        "beta": 0.1,
        "max_steps": 4,
        "chord_mu_warmup_steps": 1,
        "chord_mu_peak": 0.6,
        "chord_mu_decay_steps": 10,
    }
    add(("plain", "zero3_ep"), "moe", "combined", combined, combined=True)
    # The third step learns from rollouts of the second: the cut is in the middle of a generation.
    long = {**OPTIMIZERS["adamw"], "max_steps": 5, "num_iterations": 3, "save_strategy": "steps", "save_steps": 2}
    add(("zero3_ep",), "next", "whole", long)
    checkpoint = str(root / "whole_zero3_ep" / "checkpoint-2")
    add(("zero3_ep",), "next", "resumed", {**long, "save_strategy": "no"}, resume=checkpoint)
    add(("zero3",), "next", "elsewhere", {**long, "save_strategy": "no"}, resume=checkpoint)
    return alone, two


def launch(processes: int, todo: list[dict], root: Path) -> None:
    path = root / f"specs_{processes}.json"
    path.write_text(json.dumps(todo))
    python_path = [str(HERE.parent / "trainers"), os.environ.get("PYTHONPATH", "")]
    done = run_forked(
        HERE / "placed_run.py",
        str(path),
        processes=processes,
        env={"TRL_EXPERIMENTAL_SILENCE": "1", "PYTHONPATH": os.pathsep.join(python_path)},
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def root(tmp_path_factory, tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("placements")
    for kind in KINDS:
        build_moe(tokenizer, kind).save_pretrained(folder / kind)
        tokenizer.save_pretrained(folder / kind)
    alone, two = specs(folder)
    launch(1, alone, folder)
    launch(2, two, folder)
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "weights.pt")


def folder_weights(folder: Path) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for path in folder.glob("model*.safetensors"):
        part = load_file(path)
        assert not part.keys() & found.keys()
        found |= part
    return found


def apart(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max((one[name] - other[name]).abs().max().item() for name in one)


def losses(folder: Path, key: str = "loss") -> list[float]:
    return [row[key] for row in read_metrics(folder) if key in row]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_three_steps_are_the_same_wherever_the_model_lies(kind: str, optimizer: str, root: Path) -> None:
    start = load_file(root / kind / "model.safetensors")
    alone, zero3, spread = (weights(root / f"{kind}_{optimizer}_{place}") for place in ("plain", *PLACES))
    assert apart(alone, zero3) < 1e-5
    assert apart(alone, spread) < 1e-5
    assert apart(zero3, spread) < 1e-5
    if optimizer == "adamw":  # plain steps of some biases are below the resolution of float32
        still = [name for name in start if (spread[name] - start[name]).abs().max() == 0]
        # An expert that no token was sent to does not move.
        assert all(".experts." in name for name in still)
        assert len(still) < len(start) / 2
    assert apart(alone, start) > 5e-3


@pytest.mark.parametrize("kind", KINDS)
def test_each_run_lay_as_it_was_meant_to(kind: str, root: Path) -> None:
    blocks = 2 if kind == "moe" else 4
    read = {
        place: json.loads((root / f"{kind}_sgd_{place}" / "facts.json").read_text()) for place in ("plain", *PLACES)
    }
    assert read["plain"] == {"zero3": False, "autoep": [], "leaves": 0}
    assert read["zero3"] == {"zero3": True, "autoep": [], "leaves": blocks}
    assert read["zero3_ep"]["zero3"]
    assert read["zero3_ep"]["autoep"] == [4] * blocks  # of 8 experts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_an_export_before_any_step_is_the_original_bit_for_bit(kind: str, place: str, root: Path) -> None:
    start = load_file(root / kind / "model.safetensors")
    exported = folder_weights(root / f"{kind}_adamw_{place}" / "start")
    assert exported.keys() == start.keys()
    assert all(torch.equal(exported[name], start[name]) for name in start)
    assert len(list((root / f"{kind}_adamw_{place}" / "start").glob("*.safetensors"))) > 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ("plain", *PLACES))
def test_what_is_saved_gives_the_trainers_log_probabilities(kind: str, place: str, root: Path) -> None:
    folder = root / f"{kind}_adamw_{place}"
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values())
    assert apart(folder_weights(folder), weights(folder)) == 0
    ids = torch.arange(2, 14).view(1, 12)
    with torch.no_grad():
        logps = torch.log_softmax(model(ids).logits[:, 3:11] / 0.9, -1)  # MedGRPOConfig's temperature
    logps = logps.gather(-1, ids[:, 4:, None])[..., 0]
    for process in range(1 if place == "plain" else 2):
        torch.testing.assert_close(torch.load(folder / f"logps_{process}.pt"), logps, rtol=0, atol=2e-5)


def test_whole_models_on_two_processes_are_shared_out_for_writing(root: Path) -> None:
    start = load_file(root / "moe" / "model.safetensors")
    exported = folder_weights(root / "ddp" / "start")
    assert exported.keys() == start.keys()
    assert all(torch.equal(exported[name], start[name]) for name in start)
    assert apart(weights(root / "ddp"), weights(root / "moe_sgd_plain")) < 1e-5


@pytest.mark.parametrize(("kind", "optimizer"), [("moe", "adamw"), ("next", "sgd")])
def test_the_reference_model_lies_right_under_each_placement(kind: str, optimizer: str, root: Path) -> None:
    alone, zero3, spread = (losses(root / f"{kind}_{optimizer}_{place}", "kl") for place in ("plain", *PLACES))
    assert alone[0] == pytest.approx(0, abs=1e-6)
    assert min(alone[1:]) > 1e-4
    assert zero3 == pytest.approx(alone, rel=1e-3, abs=1e-6)
    assert spread == pytest.approx(alone, rel=1e-3, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_routers_auxiliary_loss_is_right_where_experts_are_spread(kind: str, root: Path) -> None:
    zero3, spread = (root / f"{kind}_aux_{place}" for place in PLACES)
    assert apart(weights(zero3), weights(spread)) < 1e-5
    assert losses(spread, "aux_loss") == pytest.approx(losses(zero3, "aux_loss"), abs=1e-5)
    assert losses(spread, "grad_norm") == pytest.approx(losses(zero3, "grad_norm"), rel=1e-5)
    # It is at least the number of chosen experts, and it is trained: without it the first step is another one.
    assert min(losses(spread, "aux_loss")) > 1
    assert abs(losses(spread, "grad_norm")[0] - losses(root / f"{kind}_sgd_zero3_ep", "grad_norm")[0]) > 1e-4


def test_the_log_sees_the_routers_where_experts_are_spread(root: Path) -> None:
    key = "moe/expert_flip_rate"
    alone, spread = (losses(root / f"moe_adamw_{place}", key) for place in ("plain", "zero3_ep"))
    assert alone
    assert spread == pytest.approx(alone, abs=0.02)


def test_lora_is_the_same_and_leaves_an_adapter(root: Path) -> None:
    alone, zero3, spread = (root / f"lora_{place}" for place in ("plain", *PLACES))
    assert apart(weights(alone), weights(zero3)) < 1e-5
    assert apart(weights(alone), weights(spread)) < 1e-5
    adapters = [load_file(folder / "adapter_model.safetensors") for folder in (alone, zero3, spread)]
    assert apart(adapters[0], adapters[1]) < 1e-5
    assert apart(adapters[0], adapters[2]) < 1e-5
    # weights.pt is the merged model, and PEFT merges the saved adapter into the same.
    from peft import PeftModel

    base = AutoModelForCausalLM.from_pretrained(root / "moe")
    merged = PeftModel.from_pretrained(base, spread).merge_and_unload()
    merged.save_pretrained(spread / "merged")
    assert apart(folder_weights(spread / "merged"), weights(spread)) < 1e-6
    assert apart(weights(spread), load_file(root / "moe" / "model.safetensors")) > 1e-3


def test_gspo_chord_and_mo_grpo_together_run_on_spread_experts(root: Path) -> None:
    alone, spread = (root / f"combined_{place}" for place in ("plain", "zero3_ep"))
    assert apart(weights(alone), weights(spread)) < 1e-4
    assert losses(spread) == pytest.approx(losses(alone), abs=1e-4)
    assert losses(spread, "chord/mu")[0] == 0
    assert losses(spread, "chord/mu")[-1] > 0


def test_a_checkpoint_of_two_processes_resumes_on_two(root: Path) -> None:
    whole, resumed = (root / f"{name}_zero3_ep" for name in ("whole", "resumed"))
    assert apart(weights(whole), weights(resumed)) == 0
    assert losses(whole)[2:] == losses(resumed)


def test_a_checkpoint_is_a_model_that_one_process_loads(root: Path) -> None:
    checkpoint = root / "whole_zero3_ep" / "checkpoint-2"
    model, info = AutoModelForCausalLM.from_pretrained(checkpoint, output_loading_info=True)
    assert not any(info.values())
    assert apart(dict(model.state_dict()), dict(AutoModelForCausalLM.from_pretrained(root / "next").state_dict())) > 0


def test_a_checkpoint_of_another_placement_is_refused_in_one_line(root: Path) -> None:
    said = (root / "elsewhere_zero3" / "refused.txt").read_text()
    assert "taken on 2 processes with ZeRO-3 and expert parallelism of 2" in said
    assert "can't be resumed on 2 processes with ZeRO-3:" in said
    assert "\n" not in said
