"""CHORD's gradient against the formulas written out, in float64, for one process and for two."""

import json
from pathlib import Path

import pytest
import torch
from chord_run import BETA, EPSILON, MU, TEMPERATURE, TEXTS, load_double
from forked import run_forked
from small_model import build_model, build_tokenizer
from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

HERE = Path(__file__).parent
CASES = [
    {"accumulation": accumulation, "phi": phi, "checkpointing": checkpointing, "model": "dense"}
    for accumulation in (1, 2, 4, 8)
    for phi, checkpointing in ((False, False), (True, True))
]
CASES += [{"accumulation": 2, "phi": False, "checkpointing": checkpointing, "model": "moe"} for checkpointing in (0, 1)]
for case in CASES:
    case["name"] = "_".join(str(case[key]) for key in ("model", "accumulation", "phi", "checkpointing"))


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:

    base = tmp_path_factory.mktemp("models") / "base"
    tokenizer = build_tokenizer()
    dense = build_model(tokenizer)
    torch.manual_seed(8)
    shape = dense.config.to_dict()
    kept = {name: shape[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
            "num_key_value_heads", "head_dim", "eos_token_id", "pad_token_id")}  # fmt: skip
    moe = Qwen3MoeForCausalLM(
        Qwen3MoeConfig(**kept, moe_intermediate_size=16, num_experts=4, num_experts_per_tok=2, router_aux_loss_coef=0.5)
    )
    for name, model in (("dense", dense), ("moe", moe)):
        model.save_pretrained(f"{base}_{name}")
        tokenizer.save_pretrained(f"{base}_{name}")
    return base


@pytest.fixture(scope="module", params=[1, 2], ids=["one process", "two processes"])
def runs(request, models: Path, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    done = run_forked(HERE / "chord_run.py", str(folder), str(models), json.dumps(CASES), processes=request.param)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def load(folder: Path, case: dict) -> list[dict]:
    files = sorted(folder.glob(f"{case['name']}_?.pt"))
    return [torch.load(path, weights_only=True) for path in files]


def token_logps(model, ids: torch.Tensor, mask: torch.Tensor, temperature: float) -> torch.Tensor:
    logits = model(input_ids=ids, attention_mask=mask).logits[:, :-1] / temperature
    return logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]


def policy_loss(model, start, batch: dict) -> torch.Tensor:
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    length = batch["completion_ids"].shape[1]
    new = token_logps(model, ids, mask, TEMPERATURE)[:, -length:]
    with torch.no_grad():
        # The rollouts' policy and the reference are both the model that the run started from.
        old = token_logps(start, ids, mask, TEMPERATURE)[:, -length:]
    ratio = (new - old).exp()
    advantages = batch["advantages"][:, None]
    surrogate = torch.min(ratio * advantages, ratio.clamp(1 - EPSILON, 1 + EPSILON) * advantages)
    kl = ((old - new).exp() - (old - new) - 1) * ratio
    per_token = (-surrogate + BETA * kl) * batch["completion_mask"]
    return (per_token.sum(1) / batch["completion_mask"].sum(1)).mean()


def router_loss(model, batch: dict) -> torch.Tensor:
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    return model(input_ids=ids, attention_mask=mask, output_router_logits=True).aux_loss


def taught_loss(model, tokenizer, ids: list[str], phi: bool) -> torch.Tensor:
    """Sample by sample, so that there is no padding to go wrong."""
    terms = []
    for sample in ids:
        prompt, answer = TEXTS[int(sample)]
        prompt_ids = tokenizer(prompt)["input_ids"]
        row = torch.tensor([[*prompt_ids, *tokenizer(answer)["input_ids"], tokenizer.eos_token_id]])
        terms.append(token_logps(model, row, torch.ones_like(row), 1.0)[0, len(prompt_ids) - 1 :])
    logps = torch.cat(terms)
    p = logps.detach().exp()
    return -(logps * (p * (1 - p) if phi else 1)).sum() / len(logps)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_equals_the_formula(case: dict, runs: Path, models: Path) -> None:

    ranks = load(runs, case)
    path = f"{models}_{case['model']}"
    start, model = load_double(path), load_double(path)
    model.load_state_dict({**model.state_dict(), **ranks[0]["parameters"]})
    batches = [batch for rank in ranks for batch in rank["micro_batches"]]
    assert len(batches) == case["accumulation"] * len(ranks)
    ids = [sample for rank in ranks for batch in rank["sft_ids"] for sample in batch]
    assert len(ids) == 3 * len(batches)
    policy = sum(policy_loss(model, start, batch) for batch in batches) / len(batches)
    taught = taught_loss(model, build_tokenizer(), ids, case["phi"])
    loss = (1 - MU) * policy + MU * taught
    if case["model"] == "moe":
        loss = loss + 0.5 * sum(router_loss(model, batch) for batch in batches) / len(batches)
    loss.backward()
    expected = {name: p.grad for name, p in model.named_parameters()}
    assert max(grad.abs().max().item() for grad in expected.values()) > 1e-2
    for rank in ranks:
        assert rank["gradient"].keys() == expected.keys()
        worst = max((rank["gradient"][name] - expected[name]).abs().max().item() for name in expected)
        assert worst < 1e-6
    log = ranks[0]["log"]
    assert log["chord/sft_loss"] == pytest.approx(taught.item(), abs=1e-6)
    assert log["chord/policy_loss"] == pytest.approx(policy.item(), abs=1e-6)
    assert log["chord/mu"] == pytest.approx(MU)
