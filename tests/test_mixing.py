import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from medgrpo.mixing import mu_schedule, phi_weights, sft_loss

SHARES = st.floats(0, 1)
STEPS = st.integers(0, 1000)


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, 0.0), (1, 0.09), (5, 0.45), (10, 0.9), (60, 0.05 + 0.85 * (1 + math.cos(math.pi / 4)) / 2)]
    + [(110, 0.475), (209, 0.05 + 0.85 * (1 + math.cos(math.pi * 199 / 200)) / 2), (210, 0.05), (10_000, 0.05)],
)
def test_warm_up_decay_valley(step: int, expected: float) -> None:
    assert mu_schedule(step, warmup_steps=10, decay_steps=200, peak=0.9, valley=0.05) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("warmup", "decay", "expected"),
    [
        (0, 0, [0.1, 0.1, 0.1, 0.1]),  # valley from the first step on; the peak plays no part
        (2, 0, [0.0, 0.25, 0.1, 0.1]),  # the warm-up towards the peak, then the valley at once
        (0, 2, [0.5, 0.3, 0.1, 0.1]),  # the first step is at the peak
    ],
)
def test_without_warm_up_or_without_decay(warmup: int, decay: int, expected: list[float]) -> None:
    found = [mu_schedule(step, warmup, decay, peak=0.5, valley=0.1) for step in range(4)]
    assert found == pytest.approx(expected)


@settings(deadline=None)
@given(STEPS, STEPS, STEPS, SHARES, SHARES)
def test_mu_stays_between_nothing_and_the_peak_and_falls_after_the_warm_up(step, warmup, decay, first, second) -> None:
    valley, peak = sorted((first, second))
    mu = mu_schedule(step, warmup, decay, peak, valley)
    assert -1e-12 <= mu <= peak + 1e-12
    after = mu_schedule(step + 1, warmup, decay, peak, valley)
    if step >= warmup:
        assert after <= mu + 1e-12
        assert mu >= valley - 1e-12
    elif step + 1 < warmup:
        assert after >= mu


@settings(deadline=None)
@given(st.floats(1e-9, 1))
def test_phi_is_p_times_one_minus_p(p: float) -> None:
    weights = phi_weights(torch.tensor([p], dtype=torch.float64).log())
    assert weights.item() == pytest.approx(p * (1 - p), abs=1e-12)


def test_no_gradient_runs_through_phi() -> None:
    logps = torch.tensor([-0.2, -1.5], requires_grad=True)
    weights = phi_weights(logps)
    assert not weights.requires_grad
    sft_loss(logps, 2, weights).backward()
    # d/dlogp of -phi logp / 2 with phi held fixed; p (1 - p) by hand.
    p = torch.tensor([-0.2, -1.5]).exp()
    torch.testing.assert_close(logps.grad, -p * (1 - p) / 2)


def test_contributions_add_up_to_the_mean_over_all_tokens() -> None:
    logps = -torch.arange(1.0, 8.0)  # seven tokens with losses 1 to 7, mean 4
    parts = [sft_loss(part, 7) for part in (logps[:1], logps[1:2], logps[2:])]
    assert sum(parts).item() == pytest.approx(4.0)
