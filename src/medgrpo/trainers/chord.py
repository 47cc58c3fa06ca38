"""CHORD: GRPO that is taught from worked answers while it explores."""

import json
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from torch.nn import functional

from medgrpo.errors import MedgrpoError
from medgrpo.mixing import mu_schedule, phi_weights, sft_loss
from medgrpo.trainers.base import MedGRPOTrainer
from medgrpo.trainers.chord_config import CHORDConfig
from medgrpo.trainers.sft_samples import IGNORED, load_sft_samples
from medgrpo.trainers.sft_stream import SFTBatch, SFTStream, SFTWindow

STREAM_FILE = "sft_stream.json"


class CHORDTrainer(MedGRPOTrainer):
    """L = (1 - mu) L_GRPO + mu L_SFT (Zhang et al., arXiv 2508.11408), mu following the schedule of `CHORDConfig`.

    L_GRPO is the policy loss with its KL term, whatever the other settings make of it. L_SFT is the negative
    log-likelihood of the taught tokens under the model's own distribution at temperature 1, averaged over all of
    them in the accumulation window on all processes. The router's auxiliary loss belongs to neither and keeps its
    coefficient. While mu is 0 no process runs the model on SFT data; evaluation never does.

    What to learn from is `args.chord_sft_dataset` (a JSONL file) or the parameter `chord_sft_dataset` (a
    `datasets.Dataset` or a path), in the form that `load_sft_samples` takes. The position in it is saved in each
    checkpoint, and a resumed run goes on with the very next sample.

    Raises `MedgrpoError` for SFT data that is missing or can't be learnt from.
    """

    _tag_names = ["trl", "chord", "medgrpo"]

    def __init__(self, *args: Any, chord_sft_dataset: Dataset | str | Path | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not isinstance(self.args, CHORDConfig):
            raise TypeError(f"args has to be a CHORDConfig, got {type(self.args).__name__}")
        # TRL turns reentrant checkpointing on by itself for an adapter under ZeRO-3.
        self.args.refuse_reentrant()
        samples = load_sft_samples(
            self._choose_source(chord_sft_dataset),
            self._tokenizer,
            max_length=self.args.chord_sft_max_length,
            eos_token_ids=self.eos_token_ids,
            template_options=self.chat_template_kwargs,
        )
        self.sft_stream = SFTStream(
            samples,
            batch_size=self.args.chord_sft_per_device_train_batch_size,
            pad_token_id=self._tokenizer.pad_token_id,
            seed=self.args.seed,
            process_index=self.accelerator.process_index,
            num_processes=self.accelerator.num_processes,
        )
        if len(set(gather_object([self.sft_stream.fingerprint]))) > 1:
            raise MedgrpoError("the processes read different SFT data: give all of them the same file")
        self._sft_window: SFTWindow | None = None
        self._aux_loss: torch.Tensor | None = None

    def _choose_source(self, given: Dataset | str | Path | None) -> Dataset | str | Path:
        named = self.args.chord_sft_dataset
        if (given is None) == (named is None):
            how = "is missing, and without it CHORD is GRPO" if given is None else "is given twice"
            raise MedgrpoError(f"chord_sft_dataset {how}: name a JSONL file, or give the trainer a dataset")
        return named if given is None else given

    def extend_loss(self, loss: torch.Tensor, model: torch.nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
        """Mix the SFT loss of this micro-batch into its policy loss (train mode only)."""
        loss = super().extend_loss(loss, model, inputs)
        aux_loss, self._aux_loss = self._aux_loss, None
        if not self.model.training:
            return loss
        accumulated = self.current_gradient_accumulation_steps
        # TRL has added this to the policy loss already, divided like it.
        router = 0.0 if aux_loss is None else self.router_aux_loss_coef * aux_loss / accumulated
        policy = loss - router
        mu = mu_schedule(
            self.state.global_step,
            self.args.chord_mu_warmup_steps,
            self.args.chord_mu_decay_steps,
            self.args.chord_mu_peak,
            self.args.chord_mu_valley,
        )
        self._metrics["train"]["chord/mu"].append(mu)
        self._log_mean("chord/policy_loss", policy * accumulated)
        self._metrics["train"]["chord/sft_tokens"] = [self.sft_stream.tokens_seen]
        if mu == 0:
            return loss
        return (1 - mu) * policy + mu * self._taught_loss(model) + router

    def _taught_loss(self, model: torch.nn.Module) -> torch.Tensor:
        """This micro-batch's part of L_SFT, such that the mean of its gradient over the processes is right."""
        accumulated = self.current_gradient_accumulation_steps
        if self._sft_window is None or not self._sft_window.batches:
            self._sft_window = self.sft_stream.draw(accumulated)
        total = self._sft_window.total_tokens
        logps = self._taught_logps(model, self._sft_window.batches.pop(0))
        phi = phi_weights(logps)
        part = sft_loss(logps, total, phi if self.args.chord_enable_phi_function else None)
        # The mean over processes of what each sums up, times their number, is the sum over all of them.
        processes = self.accelerator.num_processes
        self._log_mean("chord/sft_loss", part * processes * accumulated)
        self._log_mean("chord/phi_mean", phi.sum() / total * processes * accumulated)
        self._metrics["train"]["chord/sft_tokens"] = [self.sft_stream.tokens_seen]
        return part * processes

    def _taught_logps(self, model: torch.nn.Module, batch: SFTBatch) -> torch.Tensor:
        """Log-probabilities (n,) of the taught tokens, without the rollouts' temperature that TRL's own pass has."""
        device = self.accelerator.device
        targets = batch.labels[:, 1:].to(device)
        first = int((targets != IGNORED).any(dim=0).nonzero()[0])
        targets = targets[:, first:]
        taught = targets != IGNORED
        with self.accelerator.autocast():
            logits = model(
                input_ids=batch.input_ids.to(device),
                attention_mask=batch.attention_mask.to(device),
                logits_to_keep=targets.shape[1] + 1,
                use_cache=False,
            ).logits[:, :-1]
        logits = logits[taught]
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return -functional.cross_entropy(logits, targets[taught], reduction="none")

    def _log_mean(self, name: str, value: torch.Tensor) -> None:
        """Note the mean of a scalar over the processes; the log shows the mean over micro-batches."""
        value = value.detach().to(self.accelerator.device)
        self._metrics["train"][name].append(self.accelerator.reduce(value, reduction="mean").item())

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any):
        logps, entropies, aux_loss = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        self._aux_loss = aux_loss
        return logps, entropies, aux_loss

    def _save_rng_state(self, output_dir: str) -> None:
        super()._save_rng_state(output_dir)
        if self.args.should_save:
            (Path(output_dir) / STREAM_FILE).write_text(json.dumps(self.sft_stream.state_dict()) + "\n")

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        path = Path(checkpoint) / STREAM_FILE
        if not path.is_file():
            raise MedgrpoError(
                f"{checkpoint}: no {STREAM_FILE} in it, so it is no checkpoint to resume CHORD from: start a new run "
                "from its weights (model_name_or_path)"
            )
        self.sft_stream.load_state_dict(json.loads(path.read_text()))
        self._sft_window = None
