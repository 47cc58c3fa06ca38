"""What this project relies on inside TRL. A failure here says what to look at after an upgrade of TRL."""

import inspect

import pytest
import trl
from packaging.version import Version
from transformers import GenerationMixin
from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import add_fused_lm_head

from medgrpo.trainers.shared_prefix.mixers import CONVOLUTION, DELTA_RULE

# The private methods that are overridden, with the parameters that the overrides pass on.
OVERRIDDEN = {
    "_calculate_rewards": ["self", "inputs", "prompts", "completions", "completion_ids_list"],
    "_generate_and_score_completions": ["self", "inputs"],
    "_compute_loss": ["self", "model", "inputs"],
    "_push_from_checkpoint": ["self", "checkpoint_folder"],
    "_prepare_inputs": ["self", "generation_batch"],
    "log": ["self", "logs", "start_time"],
    "_get_train_sampler": ["self", "dataset"],
    "_generate_single_turn": [
        "self",
        "prompt_ids",
        "images",
        "multimodal_fields",
        "num_generations",
        "has_tool_images",
    ],
    # The Trainer's own: what a checkpoint holds beside TRL's part, and its return.
    "_save_rng_state": ["self", "output_dir"],
    "_load_optimizer_and_scheduler": ["self", "checkpoint"],
    "_save_optimizer_and_scheduler": ["self", "output_dir"],
    "save_model": ["self", "output_dir", "_internal_call"],
    # The Trainer's own: where a checkpoint is written, and the ends of a step, an epoch and a run.
    "_save_checkpoint": ["self", "model", "trial"],
    "_get_output_dir": ["self", "trial"],
    "_get_grad_norm": ["self", "model", "grad_norm"],
    "_maybe_log_save_evaluate": [
        "self",
        "tr_loss",
        "grad_norm",
        "model",
        "trial",
        "epoch",
        "ignore_keys_for_eval",
        "start_time",
        "learning_rate",
    ],
    "_evaluate": ["self", "trial", "ignore_keys_for_eval", "skip_scheduler"],
    "_finalize_training": ["self", "trial", "num_train_samples", "start_time"],
    "_run_epoch": [
        "self",
        "model",
        "epoch",
        "train_dataloader",
        "steps_in_epoch",
        "num_update_steps_per_epoch",
        "trial",
        "ignore_keys_for_eval",
        "start_time",
        "resume_from_checkpoint",
        "epochs_trained",
        "steps_trained_in_current_epoch",
    ],
}


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_signature_of_an_overridden_method(name: str) -> None:
    found = list(inspect.signature(getattr(GRPOTrainer, name)).parameters)
    assert found == OVERRIDDEN[name], (
        f"TRL {trl.__version__} changed GRPOTrainer.{name}{tuple(found)}, which medgrpo.trainers overrides "
        f"as {tuple(OVERRIDDEN[name])}: adapt the override, this table and the range of trl in setup.cfg"
    )


def test_scoring_begins_with_what_is_listened_to_and_packed() -> None:
    found = list(inspect.signature(GRPOTrainer._get_per_token_logps_and_entropies).parameters)
    first = ["self", "model", "input_ids", "attention_mask", "logits_to_keep"]
    assert found[:8] == [*first, "batch_size", "compute_entropy", "compute_aux_loss"], (
        f"TRL {trl.__version__} changed _get_per_token_logps_and_entropies{tuple(found)}: adapt "
        "trainers/diagnostics.py and trainers/shared_prefix/trainer.py"
    )
    # All that comes after describes images, and is passed by name.
    assert found[8] == "pixel_values"


@pytest.mark.parametrize(
    ("method", "needle", "why"),
    [
        ("_generate_and_score_completions", "self._calculate_rewards(", "the raw rewards are taken from it"),
        (
            "_generate_and_score_completions",
            '"advantages": advantages',
            "advantages are replaced in its output",
        ),
        (
            "_generate_and_score_completions",
            'self._logs["advantages"].extend(',
            "the table's are replaced, too",
        ),
        (
            "_generate_and_score_completions",
            "% generate_every != 0",
            "MedGRPOConfig.ratios_are_one mirrors it",
        ),
        (
            "_generate_and_score_completions",
            "old_per_token_logps, _, _ = self._get_per_token_logps_and_entropies(\n                    self.model,",
            "trainers.diagnostics takes the first scoring there as the old policy's",
        ),
        ("_compute_loss", "self._get_per_token_logps_and_entropies(", "trainers.diagnostics hears the ratios there"),
        ("_compute_loss", 'inputs.get("old_per_token_logps")', "trainers.diagnostics compares with them"),
        ("_compute_loss", 'inputs["tool_mask"]', "trainers.diagnostics masks as TRL does"),
        ("_prepare_inputs", "shuffle_sequence_dict(generation_batch)", "it moves routed_experts with their rows"),
        (
            "_get_per_token_logps_and_entropies",
            "outputs = model(**model_inputs, labels=labels, fused_lm_head=True)",
            "trainers.shared_prefix makes the same call with shift_labels",
        ),
        (
            "_get_per_token_logps_and_entropies",
            "labels = input_ids_batch.masked_fill(attention_mask_batch == 0, -100)",
            "trainers.shared_prefix scores the unmasked completion tokens, too, and leaves 0 elsewhere",
        ),
        (
            "_get_per_token_logps_and_entropies",
            "torch.stack(all_aux_losses).mean()",
            "trainers.shared_prefix averages over chunks likewise",
        ),
        (
            "_prepare_inputs",
            "split_tensor_dict(generation_batch, self.args.steps_per_generation)",
            "trainers.shared_prefix regroups the micro-batches that come of it",
        ),
        ("_compute_loss", 'self.loss_type == "bnpo"', "trainers.shared_prefix regroups unless a row's weight changes"),
        ("_compute_loss", "self._entropy_bonus_enabled", "likewise"),
        ("_compute_loss", "self.top_entropy_quantile < 1.0", "likewise"),
        ("log", "self._metrics[mode].items()", "trainers.diagnostics adds to them before"),
        (
            "_compute_loss",
            "loss + self.router_aux_loss_coef * aux_loss / normalizer",
            "CHORD takes it out again, because mu does not scale it",
        ),
        (
            "_prepare_inputs",
            "self._step % generate_every == 0",
            "trainers.resumable restores the place in a generation",
        ),
        ("_prepare_inputs", "self._buffered_inputs[self._step %", "trainers.resumable restores the rollouts"),
        ("_get_train_sampler", "shuffle=self.shuffle_dataset", "trainers.resumable passes over past epochs in it"),
        ("compute_loss", "self._compute_loss(", "the loss is extended in it"),
        ("_save_checkpoint", "self._get_output_dir(trial=trial)", "trainers.saving has it written elsewhere first"),
        ("_inner_training_loop", "self._tr_loss = torch.tensor(0.0", "trainers.resumable_log restores it after that"),
        ("_inner_training_loop", "skip_scheduler=True", "trainers.resumable_log knows eval_on_start by it"),
        ("_run_epoch", "grad_norm = self._get_grad_norm(", "trainers.nonfinite checks it before the optimizer steps"),
        ("__init__", "VLLMGeneration(\n", "trainers.server_rollouts puts its own in this name's place"),
        ("_generate_single_turn", "self.vllm_generation.sync_weights()", "a sync is noticed by _last_loaded_step"),
        ("log", 'self._logs["completion"]', "trainers.private has them printed without a terminal's commands"),
        ("log", "self.log_completions", "the table is made every completions_every steps by switching it"),
    ],
)
def test_what_the_overrides_count_on(method: str, needle: str, why: str) -> None:
    source = inspect.getsource(inspect.unwrap(getattr(GRPOTrainer, method)))
    assert needle in source, f"TRL {trl.__version__}: GRPOTrainer.{method} no longer holds {needle!r} ({why})"


def test_version_is_the_one_that_was_tried() -> None:
    assert Version("1.16") <= Version(trl.__version__) < Version("1.17")


def test_trls_default_loss_is_still_another_one() -> None:
    # MedGRPOConfig sets `grpo` because of this; if TRL changes its default, the docstring has to say so.
    assert GRPOConfig.__dataclass_fields__["loss_type"].default == "dapo"


def test_trls_head_takes_what_packed_rows_give_it() -> None:
    source = inspect.getsource(add_fused_lm_head)
    for needle in (
        "labels = shift_labels",
        'kwargs.get("attention_mask")',
        "getattr(self, backbone_attr)(*args, **kwargs)",
    ):
        assert needle in source, f"TRL {trl.__version__}: add_fused_lm_head no longer holds {needle!r}"


def test_gated_delta_net_mixes_tokens_by_the_two_functions_that_are_replaced() -> None:
    code = inspect.unwrap(Qwen3NextGatedDeltaNet.forward).__code__
    assert {CONVOLUTION, DELTA_RULE} < set(code.co_names)


def test_generation_begins_with_the_pass_that_shared_prefill_replaces() -> None:
    found = list(inspect.signature(GenerationMixin._prefill).parameters)
    assert found[:4] == ["self", "input_ids", "generation_config", "model_kwargs"]
    assert "self._prefill(" in inspect.getsource(GenerationMixin._sample)
    assert "unwrapped_model.generate(" in inspect.getsource(GRPOTrainer._generate_single_turn)
