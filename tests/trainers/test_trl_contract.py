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
}


@pytest.mark.parametrize("name", OVERRIDDEN)
def test_signature_of_an_overridden_method(name: str) -> None:
    found = list(inspect.signature(getattr(GRPOTrainer, name)).parameters)
    assert found == OVERRIDDEN[name], (
        f"TRL {trl.__version__} changed GRPOTrainer.{name}{tuple(found)}, which medgrpo.trainers.base overrides "
        f"as {tuple(OVERRIDDEN[name])}: adapt the override, this table and the range of trl in setup.cfg"
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
