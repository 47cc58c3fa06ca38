"""GRPO whose passes over rollouts run each prompt once for all completions of a micro-batch that share it."""

from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from weakref import WeakKeyDictionary

import torch
from accelerate.utils import is_peft_model
from transformers.utils import logging
from trl import GRPOTrainer

from medgrpo.trainers.shared_prefix.check import check_packed_pass
from medgrpo.trainers.shared_prefix.layout import PackedRows, pack_rows
from medgrpo.trainers.shared_prefix.models import dropouts, prepare, reason_against
from medgrpo.trainers.shared_prefix.regroup import regroup

logger = logging.get_logger(__name__)


class SharedPrefixGRPOTrainer(GRPOTrainer):
    """TRL's `GRPOTrainer`, with the same numbers from fewer tokens: P + G T for a group instead of G (P + T).

    The passes of the old policy, the reference and the update pack the rows of a micro-batch that share a prompt into
    one row, prompts first and each once; padding is dropped. Exact, gradients included; bfloat16 rounds otherwise.
    The first pass of each model is checked against TRL's (raises `MedgrpoError`). What can't be packed takes TRL's
    own pass, and a warning says why, once: another model, dropout in train mode, images, reentrant checkpointing.

    Rows of a prompt are brought together in micro-batches (`regroup`) where that leaves the expected gradient alone.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.packed_passes: list[PackedRows | None] = []
        """How each pass of the last scoring packed its rows; None for TRL's own pass; empty where all were TRL's."""
        # By the model as it was given, wrapped or not.
        self._packable: WeakKeyDictionary[torch.nn.Module, _Packable | None] = WeakKeyDictionary()

    def _get_per_token_logps_and_entropies(
        self,
        model: torch.nn.Module,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **multimodal: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        ordinary = super()._get_per_token_logps_and_entropies
        self.packed_passes = []
        if any(value is not None for value in multimodal.values()):
            _say_once("the rollouts have images")
            pack = False
        else:
            pack = self._packs(model, input_ids, attention_mask, logits_to_keep)
        if not pack:
            return ordinary(
                model,
                input_ids,
                attention_mask,
                logits_to_keep,
                batch_size,
                compute_entropy,
                compute_aux_loss,
                **multimodal,
            )
        size = batch_size or len(input_ids)
        passes = []
        for ids, mask in zip(input_ids.split(size), attention_mask.split(size), strict=True):
            rows = pack_rows(ids, mask, logits_to_keep)
            if rows is not None and len(rows.groups) == len(ids):
                _say_once("a micro-batch has no two completions of the same prompt")
                rows = None
            self.packed_passes.append(rows)
            if rows is None:
                passes.append(ordinary(model, ids, mask, logits_to_keep, None, compute_entropy, compute_aux_loss))
            else:
                passes.append(self._score_packed(model, rows, compute_entropy, compute_aux_loss))
        logps, entropies, aux_losses = zip(*passes, strict=True)
        return (
            torch.cat(logps),
            torch.cat(entropies) if compute_entropy else None,
            torch.stack(aux_losses).mean() if compute_aux_loss else None,
        )

    def _score_packed(
        self, model: torch.nn.Module, rows: PackedRows, compute_entropy: bool = False, compute_aux_loss: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        options = {"output_router_logits": True} if compute_aux_loss else {}
        with self.accelerator.autocast():
            # TRL's head takes the mask as the weights of the load-balancing loss, the backbone makes its own.
            output = model(
                input_ids=rows.input_ids,
                attention_mask=rows.weights,
                shift_labels=rows.targets,
                fused_lm_head=True,
                shared_prefix=rows,
                **options,
            )
        return (
            rows.unpack(output.log_probs[0]),
            rows.unpack(output.entropy[0]) if compute_entropy else None,
            output.aux_loss if compute_aux_loss else None,
        )

    def _packs(
        self, model: torch.nn.Module, input_ids: torch.Tensor, attention_mask: torch.Tensor, completion_length: int
    ) -> bool:
        """Whether this pass may be packed; checks a model's first one, in all processes at once."""
        packable = self._prepared(model)
        if packable is None:
            return False
        if any(module.training for module in packable.dropouts):
            _say_once("dropout is on (disable_dropout: true turns it off)")
            return False
        if torch.is_grad_enabled() and self._reentrant and packable.model.is_gradient_checkpointing:
            _say_once("gradient checkpointing is reentrant")
            return False
        if not packable.checked:
            plain = self.accelerator.unwrap_model(model)
            ordinary = super()._get_per_token_logps_and_entropies
            check_packed_pass(
                lambda rows: self._score_packed(plain, rows)[0],
                lambda ids, mask: ordinary(plain, ids, mask, completion_length)[0],
                input_ids,
                attention_mask,
                completion_length,
                self.accelerator,
                exact=self._is_exact(packable.model),
            )
            packable.checked = True
        return True

    def _prepared(self, model: torch.nn.Module) -> "_Packable | None":
        """The causal language model inside `model`, made ready at its first use; None where it can't be packed."""
        if not self.args.shared_prefix:
            return None
        # Unwrapping looks at all modules, and each pass comes here.
        if model not in self._packable:
            plain = self.accelerator.unwrap_model(model)
            if plain not in self._packable:
                causal = plain.get_base_model() if is_peft_model(plain) else plain
                reason = self._reason_against_run(plain) or reason_against(causal)
                if reason is None:
                    prepare(causal)
                    self._packable[plain] = _Packable(causal, dropouts(plain))
                else:
                    _say_once(reason)
                    self._packable[plain] = None
            self._packable[model] = self._packable[plain]
        return self._packable[model]

    def _reason_against_run(self, model: torch.nn.Module) -> str | None:
        if is_peft_model(model) and model.active_peft_config.is_prompt_learning:
            return "prompt learning puts tokens of its own before the prompt"
        if self.args.torch_compile:
            return "torch_compile is on"
        if self.is_fsdp_enabled:
            return "it was not tried under FSDP"
        if self.accelerator.parallelism_config is not None:
            return "it was not tried with a parallelism_config"
        return None

    @property
    def _reentrant(self) -> bool:
        options = [self.args.activation_checkpointing_kwargs, self.args.gradient_checkpointing_kwargs]
        return any((given or {}).get("use_reentrant") for given in options)

    def _is_exact(self, model: torch.nn.Module) -> bool:
        rounds = self.accelerator.mixed_precision != "no" or self.accelerator.device.type != "cpu"
        return not rounds and model.dtype in (torch.float32, torch.float64)

    def _prepare_inputs(self, generation_batch: dict[str, Any]) -> dict[str, Any]:
        before = self._buffered_inputs
        inputs = super()._prepare_inputs(generation_batch)
        if not self.model.training or self._buffered_inputs is before or not self._regroups:
            return inputs
        # The same draw in a resumed run, and another one for each process and generation.
        place = self.args.seed, self.accelerator.process_index, self._step
        generator = torch.Generator().manual_seed(int.from_bytes(sha256(repr(place).encode()).digest()[:7]))
        self._buffered_inputs = regroup(self._buffered_inputs, generator)
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    @property
    def _regroups(self) -> bool:
        """Whether rows of a prompt are to meet: not where a row's weight depends on its micro-batch."""
        weighed_in_micro_batch = (
            self.loss_type == "bnpo" or self.top_entropy_quantile < 1.0 or self._entropy_bonus_enabled
        )
        return (
            len(self._buffered_inputs) > 1
            and "num_images" not in self._buffered_inputs[0]
            and not weighed_in_micro_batch
            and self._prepared(self.model) is not None
        )


@dataclass
class _Packable:
    """A model that was made ready for packed rows."""

    model: torch.nn.Module
    dropouts: list[torch.nn.Module]
    checked: bool = False


def _say_once(reason: str) -> None:
    logger.warning_once(f"shared_prefix: each row runs its own prompt, as in TRL: {reason}")
