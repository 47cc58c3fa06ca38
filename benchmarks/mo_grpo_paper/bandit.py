"""The multi-armed bandit of the MO-GRPO paper (arXiv 2509.22047): three rewards whose noise differs 100 times.

    python benchmarks/mo_grpo_paper/bandit.py --seeds 0 1 2 3 4 --steps 5000 --out runs/bandit

A policy picks one of 50 arms. Reward 1 has std 10, reward 2 std 1 and a term against reward 1, reward 3 std 0.1.
Of one seed, every method sees the same arms and the same noise and starts from the same policy; what is reported is
the exact expectation of each reward under the policy, not the noisy samples.
"""

import argparse
import sys
from pathlib import Path

import torch
from policy_gradient import METHODS, OPTIMIZERS, Policies, sample, update
from results import Run, report, save
from torch import Tensor

from medgrpo.errors import MedgrpoError

NOISE = torch.tensor([10.0, 1.0, 0.1], dtype=torch.float64)
AGAINST_FIRST = 0.1
NAMES = ("R1", "R2", "R3")


def draw_means(arms: int, separate: bool, generator: torch.Generator) -> Tensor:
    """Means (arms, 3) from N(0, 1): one an arm, shared by its three rewards, or with `separate` one a reward."""
    return torch.randn(arms, 3 if separate else 1, generator=generator, dtype=torch.float64).expand(arms, 3)


def against_first(rewards: Tensor) -> Tensor:
    """R2 - 0.1 R1 in R2's place, in (..., 3): raising reward 1 costs reward 2. Of means it makes expectations."""
    first, second, third = rewards.unbind(-1)
    return torch.stack([first, second - AGAINST_FIRST * first, third], -1)


def train(method: str, options: argparse.Namespace) -> list[Run]:
    """Train one policy a seed; the curves hold the expectation of each reward every `options.every` steps."""
    generators = [torch.Generator().manual_seed(seed) for seed in options.seeds]
    means = torch.stack([draw_means(options.arms, options.separate_means, each) for each in generators])
    policies = Policies(options.seeds, inputs=1, actions=options.arms, width=options.width, hidden_layers=3)
    context = torch.ones(len(means), 1, 1)  # a bandit has no state
    optimizer = OPTIMIZERS[options.optimizer](policies.parameters, lr=options.learning_rate)
    expected, size = against_first(means), options.group_size
    points: list[tuple[int, Tensor]] = []
    for step in range(options.steps + 1):
        logits = policies.logits(context)  # (S, 1, arms)
        if step % options.every == 0 or step == options.steps:
            probabilities = logits.detach().double().softmax(-1)
            points.append((step, (probabilities @ expected).squeeze(1)))
        if step == options.steps:
            break
        uniform = torch.stack([torch.rand(size, generator=each, dtype=torch.float64) for each in generators])
        noise = torch.stack([torch.randn(size, 3, generator=each, dtype=torch.float64) for each in generators])
        logits = logits.expand(-1, size, -1)
        arms = sample(logits, uniform)  # (S, G)
        pulled = means.gather(1, arms.unsqueeze(-1).expand(-1, -1, 3)) + noise * NOISE
        advantages = METHODS[method](against_first(pulled).flatten(0, 1), size).view(arms.shape)
        update(optimizer, logits, arms, advantages.float())
    best = expected[range(len(means)), expected.sum(-1).argmax(-1)]
    runs = []
    for index, seed in enumerate(options.seeds):
        curve = [{"step": step, **named(values[index])} for step, values in points]
        runs.append(Run(method, seed, curve, best=named(best[index])))
    return runs


def named(values: Tensor) -> dict[str, float]:
    """The three numbers of one policy or arm, by reward."""
    return dict(zip(NAMES, values.tolist(), strict=True))


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(20)))
    parser.add_argument("--steps", type=int, default=5000, help="updates; each pulls one group of arms")
    parser.add_argument("--out", type=Path, default=Path("runs/mo_grpo_paper/bandit"))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--arms", type=int, default=50)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--separate-means", action="store_true", help="an arm's three rewards have means of their own")
    parser.add_argument("--width", type=int, default=64, help="not given in the paper")
    parser.add_argument("--learning-rate", type=float, default=1e-3, help="not given in the paper")
    parser.add_argument("--optimizer", choices=list(OPTIMIZERS), default="adam", help="not given in the paper")
    parser.add_argument("--every", type=int, default=50, help="steps between two points of the curve")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Every method and seed, then the table, the figure and results.json."""
    options = arguments(argv)
    torch.set_num_threads(1)
    runs: list[Run] = []
    for method in options.methods:
        runs += train(method, options)
        save(runs, options)
    print(report(runs, NAMES, options, "Expected reward"))


if __name__ == "__main__":
    try:
        main()
    except MedgrpoError as error:
        print(f"bandit.py: {error}", file=sys.stderr)
        sys.exit(2)
