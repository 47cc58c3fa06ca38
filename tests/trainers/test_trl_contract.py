"""What this project relies on inside TRL. A failure here says what to look at after an upgrade of TRL."""

import inspect

import pytest
import trl
from packaging.version import Version
from trl import GRPOConfig, GRPOTrainer

# The private methods that are overridden, with the parameters that the overrides pass on.
OVERRIDDEN = {
    "_calculate_rewards": ["self", "inputs", "prompts", "completions", "completion_ids_list"],
    "_generate_and_score_completions": ["self", "inputs"],
    "_compute_loss": ["self", "model", "inputs"],
    "log": ["self", "logs", "start_time"],
    "_get_train_sampler": ["self", "dataset"],
    # The Trainer's own: what a checkpoint holds beside TRL's part, and its return.
    "_save_rng_state": ["self", "output_dir"],
    "_load_optimizer_and_scheduler": ["self", "checkpoint"],
}


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_signature_of_an_overridden_method(name: str) -> None:
    found = list(inspect.signature(getattr(GRPOTrainer, name)).parameters)
    assert found == OVERRIDDEN[name], (
        f"TRL {trl.__version__} changed GRPOTrainer.{name}{tuple(found)}, which medgrpo.trainers overrides "
        f"as {tuple(OVERRIDDEN[name])}: adapt the override, this table and the range of trl in setup.cfg"
    )


def test_scoring_begins_with_what_is_listened_to() -> None:
    found = list(inspect.signature(GRPOTrainer._get_per_token_logps_and_entropies).parameters)
    assert found[:5] == ["self", "model", "input_ids", "attention_mask", "logits_to_keep"], (
        f"TRL {trl.__version__} changed _get_per_token_logps_and_entropies{tuple(found)}: adapt trainers/diagnostics.py"
    )


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
