"""Rollouts from a vLLM server, for every method: the trainer's part."""

import functools
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from transformers.utils import logging
from trl.trainer import grpo_trainer

from medgrpo.distributed.server_key import read_key
from medgrpo.distributed.weight_sync import RolloutServerGone, StoppedWaiting, SyncedVLLMGeneration, SyncSettings
from medgrpo.trainers.resumable_log import ResumableLogGRPOTrainer
from medgrpo.trainers.resume_command import resume_command

logger = logging.get_logger(__name__)

# Enough tokens to meet most experts of a layer (10 of 512 a token), few enough to cost less than 1 % of a step.
PROBES, LONGEST_PROBE = 4, 32


class ServerRolloutsGRPOTrainer(ResumableLogGRPOTrainer):
    """TRL's `GRPOTrainer`, with `use_vllm` and `vllm_mode="server"` served by `SyncedVLLMGeneration`.

    After each sync of the weights the first prompts of the dataset are scored on both sides. The largest difference
    is logged as `sampling/sync_logp_difference` (nats). When the server stays away, a checkpoint is saved, and
    `RolloutServerGone` says how to resume.
    """

    _heard: int | None = None
    """The signal that asks the run to stop, as `InterruptibleGRPOTrainer` notes it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._probes: list[list[int]] | None = None
        self._saved_at: int | None = None
        # TRL has no other place to say which class generates.
        with patch.object(grpo_trainer, "VLLMGeneration", functools.partial(_build_generation, self)):
            super().__init__(*args, **kwargs)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """Train as TRL does; raises `RolloutServerGone` when the rollout server stays away, with the run saved."""
        try:
            return super().train(*args, **kwargs)
        except RolloutServerGone as gone:
            said = f"{gone}: {self._save_what_is_done()}"
            if isinstance(gone, StoppedWaiting):
                # As `InterruptibleGRPOTrainer` ends between two steps.
                self.accelerator.print(said, flush=True)
                raise SystemExit(0) from gone
            raise RolloutServerGone(said) from gone

    def _save_what_is_done(self) -> str:
        """Collective: a checkpoint of the last whole step; what to do next, in words."""
        step = self.state.global_step
        if step == 0:
            return "no step is done yet: start the run again"
        # Exactly as an uninterrupted run would have saved, where that can still be done.
        if self._saved_at != step and self.save_last_step() is None:
            # Micro-batches of the step that was cut are done again.
            self._step = step * self.args.gradient_accumulation_steps
            self.save_whole_checkpoint()
        folder = Path(self.args.output_dir) / f"checkpoint-{step}"
        return f"saved {folder}; start the server, then resume with\n{resume_command()}"

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        self._saved_at = self.state.global_step

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations, has_tool_images=False):
        synced = self._last_loaded_step if self.use_vllm else None
        output = super()._generate_single_turn(prompt_ids, images, multimodal_fields, num_generations, has_tool_images)
        if self.use_vllm and self._last_loaded_step != synced and self.vllm_generation.difference is not None:
            metrics = self._metrics["train" if self.model.training else "eval"]
            metrics["sampling/sync_logp_difference"].append(self.vllm_generation.difference)
            metrics["sampling/sync_seconds"].append(self.vllm_generation.sync_seconds)
        return output

    def _find_probes(self) -> list[list[int]]:
        """Token ids from the middle of the first prompts, where they differ; the same on every process."""
        if self._probes is None:
            prompts = [row["prompt"] for row in islice(self.train_dataset, PROBES)]
            ids = self._tokenize_prompts(prompts)[0]
            starts = [max(0, (len(row) - LONGEST_PROBE) // 2) for row in ids]
            self._probes = [list(row[i : i + LONGEST_PROBE]) for i, row in zip(starts, ids, strict=True)]
        return self._probes

    @torch.no_grad()
    def _score_probes(self, probes: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probabilities of the tokens after the first, by the present weights; collective under ZeRO-3."""
        device = self.accelerator.device
        shape = len(probes), max(len(probe) for probe in probes)
        input_ids = torch.full(shape, self._tokenizer.pad_token_id, device=device)
        mask = torch.zeros(shape, dtype=torch.long, device=device)
        for row, probe in enumerate(probes):
            input_ids[row, : len(probe)] = torch.tensor(probe, device=device)
            mask[row, : len(probe)] = 1
        # DeepSpeed gathers weights in its own forward only.
        model = self.model_wrapped
        training = model.training
        model.eval()
        try:
            logits = model(input_ids=input_ids, attention_mask=mask, use_cache=False).logits
        finally:
            model.train(training)
        logps = logits[:, :-1].float().log_softmax(dim=-1)
        logps = logps.gather(2, input_ids[:, 1:, None]).squeeze(2)  # (B, T - 1)
        return [logps[row, : len(probe) - 1].tolist() for row, probe in enumerate(probes)]


def _build_generation(trainer: ServerRolloutsGRPOTrainer, **kwargs: Any) -> SyncedVLLMGeneration:
    args = trainer.args
    folder = args.vllm_sync_dir or Path(args.output_dir) / "weight_sync"
    settings = SyncSettings(
        method=args.vllm_sync,
        folder=Path(folder),
        wait=args.vllm_server_wait,
        request_timeout=args.vllm_request_timeout,
        key=read_key(args.vllm_api_key_file),
        tolerance=args.vllm_sync_tolerance,
        probes=trainer._find_probes,
        asked_to_stop=lambda: trainer._heard,
        score=trainer._score_probes,
    )
    return SyncedVLLMGeneration(sync=settings, **kwargs)
