"""The MO-GRPO paper's experiments run, repeat themselves, and push the policy the right way."""

import importlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from medgrpo.errors import MedgrpoError

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "mo_grpo_paper"
SCRIPTS = ("bandit", "mo_reacher", "policy_gradient", "results")
QUICK = ["--seeds", "0", "1", "--steps", "4", "--every", "2"]


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """The folder's files, importing each other by bare name as they do when launched; forgotten afterwards."""
    monkeypatch.syspath_prepend(str(FOLDER))
    threads = torch.get_num_threads()
    yield {name: importlib.import_module(name) for name in SCRIPTS}
    torch.set_num_threads(threads)
    for name in SCRIPTS:
        del sys.modules[name]


def runs_of(folder: Path) -> list[dict]:
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))["runs"]


def test_the_bandit_repeats_itself_and_the_methods_differ(
    scripts: dict[str, ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bandit = scripts["bandit"]
    bandit.main([*QUICK, "--out", str(tmp_path)])
    first = runs_of(tmp_path)
    assert bandit.train("MO-GRPO", bandit.arguments(QUICK))[1].curve == first[-1]["curve"]
    assert len(first) == 6 and [point["step"] for point in first[0]["curve"]] == [0, 2, 4]
    starts = {(run["seed"], run["curve"][0]["R1"]) for run in first}
    assert len(starts) == 2, "every method starts from the same policy and the same arms"
    ends = {run["method"]: run["curve"][-1]["R1"] for run in first if run["seed"] == 0}
    assert len(set(ends.values())) == 3
    assert "| MO-GRPO | 2 |" in capsys.readouterr().out
    assert (tmp_path / "curves.png").stat().st_size < 200_000


def test_what_an_arm_is_expected_to_pay_is_what_it_pays(scripts: dict[str, ModuleType]) -> None:
    bandit, generator = scripts["bandit"], torch.Generator().manual_seed(3)
    means = bandit.draw_means(4, separate=True, generator=generator)
    noise = torch.randn(40_000, 3, generator=generator, dtype=torch.float64) * bandit.NOISE
    pulled = bandit.against_first(means[2] + noise)
    stds = torch.tensor([10.0, math.sqrt(2), 0.1], dtype=torch.float64)  # R2: 1 and 0.1 x 10
    assert ((pulled.mean(0) - bandit.against_first(means)[2]).abs() < 5 * stds / 200).all()
    torch.testing.assert_close(pulled.std(0), stds, rtol=0.02, atol=0.0)
    assert torch.equal(*bandit.draw_means(4, separate=False, generator=generator)[:, :2].unbind(1))


def test_actions_are_drawn_as_often_as_the_policy_says(scripts: dict[str, ModuleType]) -> None:
    logits = torch.tensor([0.1, 0.2, 0.0, 0.7]).log()
    uniform = torch.rand(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = scripts["policy_gradient"].sample(logits.expand(20_000, 4), uniform)
    counts = torch.bincount(drawn, minlength=4) / 20_000
    torch.testing.assert_close(counts, logits.exp(), atol=0.02, rtol=0.0)
    assert scripts["policy_gradient"].sample(logits, torch.tensor(1 - 2**-53, dtype=torch.float64)) == 3


def test_an_update_raises_what_was_better_than_its_group_and_leaves_other_seeds(
    scripts: dict[str, ModuleType],
) -> None:
    shared = scripts["policy_gradient"]
    rewards = torch.tensor([[0.0, 3.0], [1.0, 0.0], [0.5, 1.0], [0.5, 2.0]])
    actions, context = torch.arange(4).expand(2, 4), torch.ones(2, 4, 1)
    for advantages in shared.METHODS.values():
        policies = shared.Policies([0, 1], inputs=1, actions=5, width=8, hidden_layers=3)
        before = policies.logits(context).log_softmax(-1).detach()[:, 0]
        gained = advantages(rewards, 4)
        both = torch.stack([gained, torch.zeros(4)])
        optimizer = torch.optim.SGD(policies.parameters, lr=1e-2)
        shared.update(optimizer, policies.logits(context), actions, both)
        change = policies.logits(context).log_softmax(-1).detach()[:, 0] - before
        assert (change[0, :4] * gained > 0).all()
        assert torch.equal(change[1], torch.zeros(5))


def test_a_large_reward_decides_under_grpo_and_not_under_mo_grpo(scripts: dict[str, ModuleType]) -> None:
    """Arm 0 gains 1 on the noisy reward and loses 1 on each quiet one: against its interest in two of three."""
    shared = scripts["policy_gradient"]
    rewards = torch.tensor([[100.0, 0.0, 0.0], [0.0, 1.0, 1.0], [100.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    first = {name: advantages(rewards, 4)[0].item() for name, advantages in shared.METHODS.items()}
    assert first["GRPO"] > 0 and first["Dr. GRPO"] > 0 and first["MO-GRPO"] < 0


def test_a_loss_that_is_no_longer_finite_stops_the_run(scripts: dict[str, ModuleType]) -> None:
    logits = torch.full((2, 3), math.nan, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=1.0)
    with pytest.raises(MedgrpoError, match="--learning-rate"):
        scripts["policy_gradient"].update(optimizer, logits, torch.tensor([0, 1]), torch.ones(2))


def test_the_table_gives_mean_and_std_over_seeds(scripts: dict[str, ModuleType]) -> None:
    run = scripts["results"].Run
    runs = [run("GRPO", 0, [{"step": 9, "a": 1.0, "b": 2.0}]), run("GRPO", 1, [{"step": 9, "a": 3.0, "b": 2.0}])]
    assert scripts["results"].table(runs, ("a", "b")).splitlines()[-1] == (
        "| GRPO | 2 | 2.00 ± 1.41 | 2.00 ± 0.00 | 4.00 ± 1.41 |"
    )


def test_mo_reacher_trains_and_repeats_itself(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    for package in ("mo_gymnasium", "mujoco", "imageio"):
        pytest.importorskip(package, reason=f'{package} is not installed: pip install "medgrpo[paper]"')
    reacher = scripts["mo_reacher"]
    options = ["--seeds", "0", "--steps", "2", "--every", "1", "--group-size", "3", "--noise", "2"]
    reacher.main([*options, "--out", str(tmp_path)])
    first = runs_of(tmp_path)
    again = reacher.train("MO-GRPO", reacher.make_environments(3), reacher.arguments(options))
    assert again[0].curve == first[-1]["curve"]
    for run in first:
        assert [point["step"] for point in run["curve"]] == [1, 2]
        assert all(0 < sum(point[name] for name in reacher.NAMES) < 1.77 for point in run["curve"])
    untrained = {tuple(run["curve"][0].values()) for run in first}
    assert len(untrained) == 1, "every method starts from the same policy and the same states"


def test_arms_of_one_group_start_in_one_state(scripts: dict[str, ModuleType]) -> None:
    for package in ("mo_gymnasium", "mujoco", "imageio"):
        pytest.importorskip(package, reason=f'{package} is not installed: pip install "medgrpo[paper]"')
    arms = scripts["mo_reacher"].make_environments(4)
    policies = scripts["policy_gradient"].Policies([0, 1], inputs=6, actions=9, width=4, hidden_layers=1)
    uniform = torch.rand(2, 50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    batch = scripts["mo_reacher"].rollout(policies, arms, torch.tensor([[5, 5], [6, 6]]), uniform)
    first, second = batch.inputs[:, 0]
    assert torch.equal(first[0], first[1]) and torch.equal(second[0], second[1]) and not torch.equal(first, second)
    assert batch.rewards.shape == (2, 50, 2, 4) and not torch.equal(batch.rewards[0, :, 0], batch.rewards[0, :, 1])


def test_without_mo_gymnasium_it_names_the_extra(
    scripts: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mo_gymnasium", None)
    monkeypatch.setitem(sys.modules, "imageio", None)
    with pytest.raises(MedgrpoError, match=r'pip install "medgrpo\[paper\]"'):
        scripts["mo_reacher"].make_environments(1)
