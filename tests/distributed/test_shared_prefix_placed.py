"""Prompts run once on two processes: DDP, ZeRO-3, and ZeRO-3 with sharded experts end where TRL's own passes end."""

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from forked import run_forked

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "trainers"))  # the tokenizer and the rollouts of the trainers' tests

from small_model import build_tokenizer  # noqa: E402
from small_moe import build_moe  # noqa: E402

TRAININGS = [("next", "plain"), ("next", "zero3"), ("next", "zero3_ep"), ("moe", "zero3_ep")]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str, bool], dict[str, torch.Tensor]]:
    """The weights of every training, by model, place and whether prompts were shared."""
    folder = tmp_path_factory.mktemp("placed")
    tokenizer = build_tokenizer()
    for kind in ("moe", "next"):
        build_moe(tokenizer, kind).save_pretrained(folder / kind)
        tokenizer.save_pretrained(folder / kind)
    # AdamW would enlarge the rounding of gradients near 0.
    settings = {"optim": "sgd", "learning_rate": 0.3, "max_grad_norm": 100.0, "beta": 0.1}
    specs = [
        {
            "place": place,
            "model": str(folder / kind),
            "folder": str(folder / f"{kind}_{place}_{shared}"),
            "settings": {**settings, "shared_prefix": shared},
        }
        for kind, place in TRAININGS
        for shared in (False, True)
    ]
    (folder / "specs.json").write_text(json.dumps(specs))
    paths = os.pathsep.join([str(HERE), str(HERE.parent / "trainers"), os.environ.get("PYTHONPATH", "")])
    done = run_forked(HERE / "placed_run.py", str(folder / "specs.json"), processes=2, env={"PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr[-4000:]
    assert "shared_prefix: each row runs its own prompt" not in done.stderr
    return {
        (kind, place, shared): torch.load(folder / f"{kind}_{place}_{shared}" / "weights.pt")
        for kind, place in TRAININGS
        for shared in (False, True)
    }


@pytest.mark.parametrize(("kind", "place"), TRAININGS)
def test_parameters_after_training_are_those_of_trls_passes(weights, kind: str, place: str, tmp_path: Path) -> None:
    ours, theirs = weights[kind, place, True], weights[kind, place, False]
    assert ours.keys() == theirs.keys() and ours
    assert max((ours[name] - theirs[name]).abs().max().item() for name in ours) < 1e-5
    start = build_moe(build_tokenizer(), kind).state_dict()
    assert max((ours[name] - start[name]).abs().max().item() for name in ours if name in start) > 1e-2
