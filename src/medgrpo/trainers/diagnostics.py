"""The log that explains a strange run: what every trainer measures beside TRL's own metrics.

docs/metrics.md lists the keys. Everything goes through TRL's `_metrics`, so that every `report_to` backend and
`metrics.jsonl` get it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from transformers.utils import logging

from medgrpo.answers import parse_answer
from medgrpo.rewards import completion_text
from medgrpo.trainers.expert_diagnostics import EXPERTS, ExpertRecorder, count_flips, experts_of_completions
from medgrpo.trainers.ratio_diagnostics import RatioDiagnostics
from medgrpo.trainers.reward_diagnostics import learning_slope, reward_metrics
from medgrpo.trainers.shared_prefix import SharedPrefixGRPOTrainer

logger = logging.get_logger(__name__)


@dataclass(frozen=True)
class Scored:
    """One call of TRL's scoring of completions: their log-probabilities `(B, T)`, and the experts routed to."""

    logps: torch.Tensor
    experts: torch.Tensor | None
    """`(B, T, layers, k)`; None for a dense model."""


class Diagnostics:
    """What a trainer measures of its rollouts and updates; it changes nothing that is trained.

    `enabled=False` measures nothing. Processes call all of this together.
    """

    def __init__(self, trainer: SharedPrefixGRPOTrainer, enabled: bool, spike_threshold: float) -> None:
        self.trainer = trainer
        self.enabled = enabled
        self.ratios = {mode: RatioDiagnostics(spike_threshold) for mode in ("train", "eval")}
        self._experts: ExpertRecorder | None = None
        self._answers: torch.Tensor | None = None

    @property
    def mode(self) -> str:
        """`train` or `eval`, as TRL tells them apart."""
        return "train" if self.trainer.model.training else "eval"

    def state(self) -> dict[str, Any]:
        """What is counted and not yet logged between two optimizer steps, as JSON."""
        return {mode: ratios.steps for mode, ratios in self.ratios.items()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` returned."""
        for mode, steps in state.items():
            self.ratios[mode].steps = [list(step) for step in steps]

    def read_answers(self, inputs: Sequence[Mapping[str, Any]], completions: Sequence[Any]) -> None:
        """Count completions whose answer can't be read, where the dataset has the exam column `answer`."""
        if not self.enabled:
            return
        rows = [
            parse_answer(completion_text(completion)) is None
            for row, completion in zip(inputs, completions, strict=True)
            if _is_key(row.get("answer"))
        ]
        # Every process has this column or none has: the sum over processes comes with the rewards' metrics.
        self._answers = torch.tensor([sum(rows), len(rows)]) if "answer" in inputs[0] else None

    @contextmanager
    def watch(self, once: bool = False) -> Iterator[list[Scored]]:
        """Listen to TRL's scoring inside: what each call returned, or with `once` the first call alone.

        The method is wrapped on the instance, so that one a subclass puts in its place is heard, too.
        """
        scored: list[Scored] = []
        if not self.enabled:
            yield scored
            return
        if self._experts is None:  # not before the first use: wrapping and sharding may have replaced modules
            self._experts = ExpertRecorder(self.trainer.accelerator.unwrap_model(self.trainer.model))
        recorder, score = self._experts, self.trainer._get_per_token_logps_and_entropies

        def listen(
            model: torch.nn.Module,
            input_ids: torch.Tensor,
            attention_mask: torch.Tensor,
            logits_to_keep: int,
            *args: Any,
            **kwargs: Any,
        ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
            if once and scored:
                return score(model, input_ids, attention_mask, logits_to_keep, *args, **kwargs)
            with recorder.listening() as choices:
                found = score(model, input_ids, attention_mask, logits_to_keep, *args, **kwargs)
            experts = None
            if choices:
                packed = self.trainer.packed_passes
                experts = experts_of_completions(choices, *input_ids.shape, logits_to_keep, packed)
            scored.append(Scored(found[0].detach(), experts))
            return found

        self.trainer._get_per_token_logps_and_entropies = listen
        try:
            yield scored
        finally:
            del self.trainer._get_per_token_logps_and_entropies

    def keep_experts(self, output: dict[str, Any], scored: Sequence[Scored]) -> None:
        """Put the experts of the rollout policy beside its log-probabilities, from where the updates get both.

        TRL scores with the old policy first, and only where updates will need it: where none is scored, the
        policy of the update is the rollout's, and there is nothing to compare.
        """
        if scored and "old_per_token_logps" in output and scored[0].experts is not None:
            # Not on the device: 2 bytes for each token, layer and chosen expert, until the last update has had them.
            output[EXPERTS] = scored[0].experts.cpu()

    def add_rewards(
        self,
        rewards_per_func: torch.Tensor,
        contributions: torch.Tensor,
        advantages: torch.Tensor | None,
        num_generations: int,
    ) -> None:
        """Log what each reward did to the advantages of a batch of rollouts: of all processes, as TRL's rewards."""
        if not self.enabled:
            return
        metrics = self.trainer._metrics[self.mode]
        names = self.trainer.reward_func_names
        if advantages is None:  # TRL's own
            advantages = contributions.sum(dim=1)
        adds_up = _adds_up(contributions, advantages)
        if not adds_up:
            logger.warning_once(
                f"{type(self.trainer).__name__}: advantage_contributions don't add up to compute_advantages, so "
                "advantage shares are not logged; override both together"
            )
        parts = contributions if adds_up else None
        for key, value in reward_metrics(names, rewards_per_func, parts, advantages, num_generations).items():
            metrics[key].append(value)
        if self._answers is not None:
            accelerator = self.trainer.accelerator
            failures, count = accelerator.reduce(self._answers.to(accelerator.device), reduction="sum").tolist()
            if count:
                metrics["answers/parse_failure_rate"].append(failures / count)

    def add_update(self, inputs: Mapping[str, Any], scored: Sequence[Scored]) -> None:
        """Measure one micro-batch of an update: its ratios, and its experts against the rollout's."""
        if not self.enabled:
            return
        now = scored[0]
        mask = inputs["completion_mask"]
        if "tool_mask" in inputs:
            mask = mask * inputs["tool_mask"]
        routed = None
        if now.experts is not None and EXPERTS in inputs:
            routed = count_flips(now.experts, inputs[EXPERTS].to(now.experts.device), mask)
        ratios = self.ratios[self.mode]
        ratios.add(now.logps, inputs.get("old_per_token_logps"), mask, routed)
        if self.trainer.accelerator.sync_gradients:
            ratios.close_step(self.trainer.accelerator)

    def before_log(self) -> None:
        """Complete the metrics of a line that is about to be logged."""
        if not self.enabled:
            return
        trainer = self.trainer
        metrics = trainer._metrics[self.mode]
        for key, value in self.ratios[self.mode].take_metrics().items():
            metrics[key].append(value)
        if self.mode == "eval":
            return
        for name in trainer.reward_func_names:
            key = f"rewards/{name}/mean"
            means = [value for value in metrics.get(key, ()) if value == value]
            if means:
                value = sum(means) / len(means)
                slope = learning_slope(trainer.state.log_history, key, trainer.state.global_step, value)
                metrics[f"rewards/{name}/slope"].append(slope)


def _adds_up(contributions: torch.Tensor, advantages: torch.Tensor) -> bool:
    total = contributions.double().sum(dim=1)
    largest = advantages.abs().max().item()
    return torch.allclose(total, advantages.to(total), rtol=1e-3, atol=1e-3 * largest)


def _is_key(answer: Any) -> bool:
    """Whether it is an exam's key, such as [["a", "c"]], and not another dataset's answer."""
    return isinstance(answer, list) and bool(answer) and all(isinstance(accepted, list) for accepted in answer)
