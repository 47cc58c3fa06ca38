"""How far the importance ratios of an update went from 1: extremes, spikes, and how many did not move at all."""

import math

import torch
from accelerate import Accelerator

# Places in the two vectors that a micro-batch adds to.
TOKENS, SPIKES, ONES, FLIPS, ROUTED = range(5)
TOKEN_MAX, TOKEN_MIN, SEQ_MAX, SEQ_MIN = range(4)


class RatioDiagnostics:
    """Collects the ratios of the updates between two logged lines.

    Micro-batches add to two small vectors on the device, and one gather an optimizer step brings them together,
    so that several processes log what one would: shares are weighted by tokens, extremes are the extremes of
    all tokens and sequences. Ratios are `exp(logp - old logp)` of a token, and the geometric mean over a
    completion's tokens of a sequence.
    """

    def __init__(self, spike_threshold: float) -> None:
        self.log_threshold = math.log(spike_threshold)
        self._sums: torch.Tensor | None = None
        self._extremes: torch.Tensor | None = None
        # Of each step closed and not yet logged: the sums, then the extremes.
        self.steps: list[list[float]] = []

    def add(
        self,
        logps: torch.Tensor,
        old_logps: torch.Tensor | None,
        mask: torch.Tensor,
        routed: torch.Tensor | None = None,
    ) -> None:
        """Add one micro-batch: log-probabilities `(B, T)` now and at the rollout, and the mask of its tokens.

        `old_logps` of `None` means that TRL takes the current policy as the old one: every ratio is exactly 1.
        `routed` `(2,)`: experts that differ from the rollout's, and all experts that were routed to.
        """
        mask = mask.bool()
        log_ratio = torch.zeros_like(logps) if old_logps is None else logps.detach() - old_logps
        log_ratio = log_ratio.float().masked_fill(~mask, 0.0)
        lengths = mask.sum(dim=1)
        sequence = log_ratio.sum(dim=1) / lengths.clamp(min=1)
        empty = lengths == 0
        spikes = (log_ratio.abs() > self.log_threshold).sum()
        ones = ((log_ratio == 0) & mask).sum()
        sums = torch.stack([lengths.sum(), spikes, ones])
        sums = torch.cat([sums, sums.new_zeros(2) if routed is None else routed.to(sums)])
        extremes = torch.stack(
            [
                log_ratio.masked_fill(~mask, -math.inf).amax(),
                -log_ratio.masked_fill(~mask, math.inf).amin(),
                sequence.masked_fill(empty, -math.inf).amax(),
                -sequence.masked_fill(empty, math.inf).amin(),
            ]
        )
        self._sums = sums if self._sums is None else self._sums + sums
        self._extremes = extremes if self._extremes is None else torch.maximum(self._extremes, extremes)

    def close_step(self, accelerator: Accelerator) -> None:
        """Bring together what all processes added since the last call; they have to call it together."""
        if self._sums is None or self._extremes is None:
            return
        # Counts as whole numbers, since not every accelerator has float64. (processes, 5) and (processes, 4)
        sums = accelerator.gather(self._sums.unsqueeze(0)).sum(dim=0)
        extremes = accelerator.gather(self._extremes.unsqueeze(0)).amax(dim=0)
        self.steps.append([*sums.tolist(), *extremes.tolist()])
        self._sums = self._extremes = None

    def take_metrics(self) -> dict[str, float]:
        """The metrics of the steps closed since the last call, by their key; empty where there were no tokens."""
        steps, self.steps = self.steps, []
        sums = [sum(column) for column in list(zip(*steps, strict=True))[: ROUTED + 1]]
        if not steps or sums[TOKENS] == 0:
            return {}
        token_max, token_min, seq_max, seq_min = (
            max(column) for column in list(zip(*steps, strict=True))[ROUTED + 1 :]
        )
        metrics = {
            "ratio/token_max": _exp(token_max),
            "ratio/token_min": _exp(-token_min),
            "ratio/seq_max": _exp(seq_max),
            "ratio/seq_min": _exp(-seq_min),
            "ratio/token_spikes": sums[SPIKES] / len(steps),
            "ratio/token_spike_share": sums[SPIKES] / sums[TOKENS],
            "ratio/frac_exactly_one": sums[ONES] / sums[TOKENS],
        }
        if sums[ROUTED]:
            metrics["moe/expert_flip_rate"] = sums[FLIPS] / sums[ROUTED]
        return metrics


def _exp(log_ratio: float) -> float:
    """A ratio beyond every float is inf, as TRL's own would be."""
    return math.exp(log_ratio) if log_ratio < 700 else math.inf
