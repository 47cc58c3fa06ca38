"""mo-reacher-v5 of the MO-GRPO paper (arXiv 2509.22047): an arm with two joints, four targets, a reward each.

    pip install "medgrpo[paper]"
    python benchmarks/mo_grpo_paper/mo_reacher.py --seeds 0 1 2 3 4 --steps 100 --noise 2 --out runs/reacher

A reward is 1 - 4 x distance from fingertip to target, and the four targets surround the arm's base, so the total is
largest (1.76 a step) above the base, where no single reward is. A group is G trajectories of 50 steps from one
initial state (one seeded reset); a trajectory's reward is its sum over the steps, and every action of it gets the
trajectory's advantage. `--noise` adds N(0, noise^2) to reward 1 at every step that the methods learn from; what is
reported is always the reward without it, per step.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from policy_gradient import METHODS, OPTIMIZERS, Policies, sample, update
from results import Run, report, save
from torch import Tensor

from medgrpo.errors import MedgrpoError

NAMES = ("R1", "R2", "R3", "R4")
HORIZON = 50  # mo-gymnasium's own time limit for this environment


@dataclass(frozen=True)
class Rollout:
    """S seeds, N trajectories each: `inputs` (S, T, N, 6), `actions` (S, T, N), `rewards` (S, T, N, 4), no noise."""

    inputs: Tensor
    actions: Tensor
    rewards: Tensor


def make_environments(count: int) -> list[Any]:
    """`count` arms without gymnasium's wrappers; the time limit is kept by `rollout`."""
    try:
        import imageio  # noqa: F401 - gymnasium's MuJoCo environments import it, but do not require it
        import mo_gymnasium
        import mujoco  # noqa: F401
    except ModuleNotFoundError as error:
        raise MedgrpoError(f'mo-reacher-v5 needs {error.name}: pip install "medgrpo[paper]"') from error
    return [mo_gymnasium.make("mo-reacher-v5", disable_env_checker=True).unwrapped for _ in range(count)]


@torch.no_grad()
def rollout(policies: Policies, arms: list[Any], resets: Tensor, uniform: Tensor) -> Rollout:
    """S x N trajectories in lockstep, one an arm, seeds one after another.

    `resets` (S, N): arms with the same number start in the same state; `uniform` (S, T, N) draws the actions.
    """
    states = [arm.reset(seed=seed)[0] for arm, seed in zip(arms, resets.flatten().tolist(), strict=True)]
    inputs, actions, rewards = [], [], []
    for drawn in uniform.unbind(1):
        state = torch.from_numpy(np.stack(states)).float().view(*resets.shape, -1)
        action = sample(policies.logits(state), drawn)
        taken = [arm.step(choice) for arm, choice in zip(arms, action.flatten().tolist(), strict=True)]
        inputs.append(state)
        actions.append(action)
        rewards.append(torch.from_numpy(np.stack([each[1] for each in taken])).double().view(*resets.shape, -1))
        states = [each[0] for each in taken]
    return Rollout(torch.stack(inputs, 1), torch.stack(actions, 1), torch.stack(rewards, 1))


def train(method: str, arms: list[Any], options: argparse.Namespace) -> list[Run]:
    """Train one policy a seed; a point of a curve is the reward per step over the `options.every` updates before it."""
    generators = [torch.Generator().manual_seed(seed) for seed in options.seeds]
    policies = Policies(options.seeds, inputs=6, actions=9, width=options.width, hidden_layers=2)
    optimizer = OPTIMIZERS[options.optimizer](policies.parameters, lr=options.learning_rate)
    size, trajectories = options.group_size, options.groups * options.group_size
    points: list[tuple[int, Tensor]] = []
    recent: list[Tensor] = []
    for step in range(1, options.steps + 1):
        draws = [draw(options.groups, size, generator) for generator in generators]
        resets, uniform, noise = (torch.stack(each) for each in zip(*draws, strict=True))
        batch = rollout(policies, arms, resets, uniform)
        learned = batch.rewards.sum(1)  # (S, N, 4)
        learned[..., 0] = options.first_scale * learned[..., 0] + options.noise * noise.sum(1)
        advantages = METHODS[method](learned.flatten(0, 1), size).float().view(-1, 1, trajectories)
        weights = advantages.expand_as(batch.actions) / HORIZON
        update(optimizer, policies.logits(batch.inputs), batch.actions, weights)
        recent.append(batch.rewards.mean((1, 2)))
        if step % options.every == 0 or step == options.steps:
            points.append((step, torch.stack(recent).mean(0)))
            recent.clear()
    return [
        Run(method, seed, [{"step": at, **dict(zip(NAMES, means[i].tolist(), strict=True))} for at, means in points])
        for i, seed in enumerate(options.seeds)
    ]


def draw(groups: int, size: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """One update's chance of one seed: resets (N,), one a group, and (T, N) of U(0, 1) and of N(0, 1)."""
    resets = torch.randint(2**31 - 1, (groups,), generator=generator).repeat_interleave(size)
    uniform = torch.rand(HORIZON, groups * size, generator=generator, dtype=torch.float64)
    return resets, uniform, torch.randn(HORIZON, groups * size, generator=generator, dtype=torch.float64)


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--steps", type=int, default=100, help="updates; each plays groups x group-size trajectories")
    parser.add_argument("--out", type=Path, default=Path("runs/mo_grpo_paper/mo_reacher"))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--groups", type=int, default=1, help="groups in one update")
    parser.add_argument("--noise", type=float, default=0.0, help="std of the noise on reward 1, per step")
    parser.add_argument("--first-scale", type=float, default=1.0, help="factor on reward 1 in training")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--optimizer", choices=list(OPTIMIZERS), default="adam")
    parser.add_argument("--every", type=int, default=5, help="updates that one point of the curve averages")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Every method and seed, then the table, the figure and results.json."""
    options = arguments(argv)
    torch.set_num_threads(1)
    arms = make_environments(len(options.seeds) * options.groups * options.group_size)
    runs: list[Run] = []
    for method in options.methods:
        runs += train(method, arms, options)
        save(runs, options)
    print(report(runs, NAMES, options, "Reward per step"))


if __name__ == "__main__":
    try:
        main()
    except MedgrpoError as error:
        print(f"mo_reacher.py: {error}", file=sys.stderr)
        sys.exit(2)
