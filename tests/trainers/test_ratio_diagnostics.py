"""Ratios by hand: extremes, spikes and how many are exactly 1; and the first seed's example through the trainer."""

import math

import pytest
import torch
from accelerate import Accelerator
from example_rewards import share_of_vowels
from logged_rows import Listener
from trl import GRPOTrainer

from medgrpo import GSPOConfig, GSPOTrainer, MedGRPOConfig, MedGRPOTrainer
from medgrpo.trainers.ratio_diagnostics import RatioDiagnostics

# The seed's example: five tokens, the third's expert changed and its ratio jumped to 2.5.
RATIOS = (1.0, 1.1, 2.5, 0.9, 1.0)
CPU = {"use_cpu": True, "bf16": False, "report_to": "none", "log_completions": False}


def logps(*rows: tuple[float, ...]) -> torch.Tensor:
    return torch.tensor(rows).log()


@pytest.fixture(scope="module")
def accelerator() -> Accelerator:
    return Accelerator(cpu=True)


def test_by_hand(accelerator) -> None:
    ratios = RatioDiagnostics(spike_threshold=2.0)
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    old = torch.full((2, 3), -1.0)
    ratios.add(old + logps((2.5, 0.9, 9.0), (0.4, 9.0, 9.0)), old, mask)
    ratios.close_step(accelerator)
    ratios.add(torch.zeros(1, 4), None, torch.ones(1, 4))
    ratios.close_step(accelerator)
    found = ratios.take_metrics()
    assert found["ratio/token_max"] == pytest.approx(2.5)
    assert found["ratio/token_min"] == pytest.approx(0.4)
    assert found["ratio/seq_max"] == pytest.approx(math.sqrt(2.5 * 0.9))
    assert found["ratio/seq_min"] == pytest.approx(0.4)
    assert found["ratio/token_spikes"] == 1, "two spikes, up and down, in two steps"
    assert found["ratio/token_spike_share"] == pytest.approx(2 / 7)
    assert found["ratio/frac_exactly_one"] == pytest.approx(4 / 7)
    assert ratios.take_metrics() == {}, "what was logged is gone"


def test_sequences_without_tokens_and_ratios_beyond_a_float(accelerator) -> None:
    ratios = RatioDiagnostics(2.0)
    ratios.add(torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(2, 3))
    ratios.close_step(accelerator)
    assert ratios.take_metrics() == {}
    ratios.add(torch.tensor([[0.0, 0.0], [0.0, 5.0]]), torch.tensor([[-900.0, 0.0], [0.0, 0.0]]), torch.ones(2, 2))
    ratios.add(torch.zeros(1, 2), None, torch.zeros(1, 2))
    ratios.close_step(accelerator)
    found = ratios.take_metrics()
    assert found["ratio/token_max"] == math.inf
    assert found["ratio/seq_max"] == pytest.approx(math.exp(450))
    assert found["ratio/seq_min"] == pytest.approx(math.exp(2.5))


def test_a_mask_hides_even_what_is_no_number(accelerator) -> None:
    ratios = RatioDiagnostics(2.0)
    ratios.add(torch.tensor([[0.0, math.nan, -math.inf]]), torch.zeros(1, 3), torch.tensor([[1, 0, 0]]))
    ratios.close_step(accelerator)
    assert ratios.take_metrics()["ratio/token_max"] == 1


@pytest.mark.parametrize(
    ("trainer_class", "config_class"), [(MedGRPOTrainer, MedGRPOConfig), (GSPOTrainer, GSPOConfig)]
)
def test_the_seeds_example_through_the_trainer(
    tmp_path, make_model, tokenizer, dataset, monkeypatch, trainer_class, config_class
) -> None:
    trainer = trainer_class(
        model=make_model(),
        processing_class=tokenizer,
        reward_funcs=share_of_vowels,
        train_dataset=dataset,
        args=config_class(
            output_dir=str(tmp_path),
            per_device_train_batch_size=16,
            steps_per_generation=2,
            beta=0.0,
            shared_prefix=False,
            **CPU,
        ),
    )
    old = torch.full((1, 5), -2.0)
    new = (old + torch.tensor([RATIOS]).log()).requires_grad_()
    monkeypatch.setattr(
        GRPOTrainer,
        "_get_per_token_logps_and_entropies",
        lambda self, *args, **kwargs: (new, torch.zeros_like(new), None),
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    ids = torch.ones(1, 5, dtype=torch.long)
    inputs = {
        "prompt_ids": ids,
        "prompt_mask": ids,
        "completion_ids": ids,
        "completion_mask": ids,
        "advantages": torch.tensor([1.0]),
        "old_per_token_logps": old,
    }
    trainer.compute_loss(trainer.model, inputs)
    logged: list[dict[str, float]] = []
    trainer.add_callback(Listener(logged))
    trainer.log({})
    assert logged[0]["ratio/token_max"] == pytest.approx(2.5, abs=1e-5)
    assert logged[0]["ratio/token_min"] == pytest.approx(0.9, abs=1e-5)
    assert logged[0]["ratio/seq_max"] == pytest.approx(1.1987, abs=5e-5)
    assert logged[0]["ratio/token_spikes"] == 1
    assert logged[0]["ratio/token_spike_share"] == pytest.approx(0.2)
    assert logged[0]["ratio/frac_exactly_one"] == pytest.approx(0.4)


def test_a_threshold_of_one_or_less_is_refused(tmp_path) -> None:
    for threshold in (1.0, 0.5, -2.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="ratio_spike_threshold"):
            MedGRPOConfig(output_dir=str(tmp_path), ratio_spike_threshold=threshold, **CPU)
