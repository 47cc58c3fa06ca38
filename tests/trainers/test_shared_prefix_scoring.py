"""A prompt run once gives the numbers that TRL gets by running it for each of its completions."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prefix_models import MODELS, VOCABULARY, build
from small_model import build_tokenizer
from trl import GRPOTrainer

from medgrpo.trainers.config import MedGRPOConfig
from medgrpo.trainers.shared_prefix import SharedPrefixGRPOTrainer
from medgrpo.trainers.shared_prefix.layout import pack_rows

Rows = tuple[torch.Tensor, torch.Tensor, int]


def make_trainer(name: str, folder: Path, **settings) -> SharedPrefixGRPOTrainer:
    model, tokenizer = build(name), build_tokenizer()
    model.save_pretrained(folder)
    return SharedPrefixGRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=[lambda completions, **kwargs: [0.0] * len(completions)],
        train_dataset=Dataset.from_dict({"prompt": ["a", "b"]}),
        args=MedGRPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=2,
            num_generations=2,
            temperature=0.7,
            beta=0.0,
            report_to="none",
            log_completions=False,
            gradient_checkpointing=False,
            **settings,
        ),
    )


@pytest.fixture(scope="module", params=MODELS)
def trainer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SharedPrefixGRPOTrainer:
    return make_trainer(request.param, tmp_path_factory.mktemp(request.param))


def lay_out(groups: list[tuple[int, list[int]]], left: int, right: int, seed: int) -> Rows:
    """Rows of groups (prompt length, completion lengths) in a random order, `left` and `right` columns of padding."""
    generator = torch.Generator().manual_seed(seed)

    def tokens(count: int) -> list[int]:
        return torch.randint(2, VOCABULARY, (count,), generator=generator).tolist()

    width = left + max(prompt for prompt, _ in groups)
    completion_length = right + max(1, *(length for _, lengths in groups for length in lengths))
    rows = []
    for prompt_length, lengths in groups:
        prompt = tokens(prompt_length)
        for length in lengths:
            padding = width - prompt_length, completion_length - length
            ids = [0] * padding[0] + prompt + tokens(length) + [0] * padding[1]
            rows.append((ids, [0] * padding[0] + [1] * (prompt_length + length) + [0] * padding[1]))
    order = torch.randperm(len(rows), generator=generator)
    ids, mask = (torch.tensor(column)[order] for column in zip(*rows, strict=True))
    return ids, mask, completion_length


@st.composite
def micro_batches(draw: st.DrawFn) -> Rows:
    group = st.tuples(st.integers(1, 11), st.lists(st.integers(0, 8), min_size=1, max_size=4))
    groups = draw(st.lists(group, min_size=1, max_size=3))
    groups.append((draw(st.integers(1, 80)), draw(st.lists(st.integers(1, 9), min_size=2, max_size=4))))
    return lay_out(groups, draw(st.integers(0, 3)), draw(st.integers(0, 3)), draw(st.integers(0, 10**6)))


def score_and_differentiate(
    trainer: SharedPrefixGRPOTrainer, score: Callable, rows: Rows, batch_size: int | None
) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """What scoring returns, and the gradients of a loss that needs all of it."""
    ids, mask, completion_length = rows
    experts = trainer.aux_loss_enabled
    trainer.model.zero_grad()
    found = score(
        trainer.model, ids, mask, completion_length, batch_size, compute_entropy=True, compute_aux_loss=experts
    )
    logps, entropies, aux_loss = found
    weights = torch.randn(logps.shape, generator=torch.Generator().manual_seed(1))
    loss = (weights * logps).sum() + 0.3 * (weights * entropies).sum()
    (loss + aux_loss if experts else loss).backward()
    gradients = {name: parameter.grad.clone() for name, parameter in trainer.model.named_parameters()}
    return [part.detach() for part in found if part is not None], gradients


def trl_score(trainer: SharedPrefixGRPOTrainer) -> Callable:
    return lambda *args, **kwargs: GRPOTrainer._get_per_token_logps_and_entropies(trainer, *args, **kwargs)


def compare(trainer: SharedPrefixGRPOTrainer, rows: Rows, batch_size: int | None) -> None:
    expected, expected_gradients = score_and_differentiate(trainer, trl_score(trainer), rows, batch_size)
    found, gradients = score_and_differentiate(trainer, trainer._get_per_token_logps_and_entropies, rows, batch_size)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    total = torch.stack([gradient.norm() for gradient in expected_gradients.values()]).norm()
    for name, theirs in expected_gradients.items():
        # GatedDeltaNet's decay has gradients so small that only their part in the whole gradient can be told.
        scale = total if name.endswith(("A_log", "dt_bias")) else torch.maximum(theirs.norm(), 1e-3 * total)
        assert (gradients[name] - theirs).norm() <= 1e-4 * scale, name


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=micro_batches(), batch_size=st.sampled_from([None, 3]))
def test_numbers_and_gradients_are_trls(trainer: SharedPrefixGRPOTrainer, rows: Rows, batch_size: int | None) -> None:
    compare(trainer, rows, batch_size)
    if batch_size is None:
        packed = trainer.packed_passes[0]
        unpadded = rows[1].sum().item()
        assert packed.input_ids.shape[1] < unpadded and packed.weights.sum().item() == unpadded


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=micro_batches())
def test_numbers_and_gradients_are_trls_with_checkpointing(trainer: SharedPrefixGRPOTrainer, rows: Rows) -> None:
    trainer.model.gradient_checkpointing_enable({"use_reentrant": False})
    try:
        compare(trainer, rows, None)
    finally:
        trainer.model.gradient_checkpointing_disable()


def test_padding_of_all_rows_changes_nothing(trainer: SharedPrefixGRPOTrainer) -> None:
    groups = [(9, [4, 2, 0]), (5, [6, 3])]
    tight, wide = lay_out(groups, 0, 0, seed=3), lay_out(groups, 6, 5, seed=3)
    with torch.no_grad():
        narrow, *_ = trainer._get_per_token_logps_and_entropies(trainer.model, *tight)
        packed = trainer.packed_passes[0]
        padded, *_ = trainer._get_per_token_logps_and_entropies(trainer.model, *wide)
    assert trainer.packed_passes[0].input_ids.tolist() == packed.input_ids.tolist()
    torch.testing.assert_close(padded[:, :6], narrow, rtol=0, atol=1e-5)
    assert not padded[:, 6:].any()


def test_one_token_prompts_and_completions(trainer: SharedPrefixGRPOTrainer) -> None:
    compare(trainer, lay_out([(1, [1, 1, 1])], 0, 0, seed=4), None)
    assert trainer.packed_passes[0].input_ids.shape == (1, 4)


@pytest.mark.parametrize("autocast", [False, True])
def test_bfloat16_rounds_no_more_than_trls_own_pass(trainer: SharedPrefixGRPOTrainer, autocast: bool) -> None:
    rows = lay_out([(40, [12, 9, 7]), (33, [11, 12])], 2, 1, seed=6)
    with torch.no_grad():
        exact, *_ = trl_score(trainer)(trainer.model, *rows)
        weights = {name: parameter.clone() for name, parameter in trainer.model.named_parameters()}
        if not autocast:
            trainer.model.to(torch.bfloat16)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            theirs, *_ = trl_score(trainer)(trainer.model, *rows)
            ours, *_ = trainer._get_per_token_logps_and_entropies(trainer.model, *rows)
        trainer.model.to(torch.float32)
        for name, parameter in trainer.model.named_parameters():
            parameter.copy_(weights[name])
    assert trainer.packed_passes[0] is not None and ours.dtype == theirs.dtype
    off, theirs_off = ((found.float() - exact).abs().mean() for found in (ours, theirs))
    assert 0 < off < 1.5 * theirs_off


def test_packed_row_by_hand() -> None:
    ids = torch.tensor([[0, 5, 6, 7, 8], [0, 5, 6, 9, 0], [3, 4, 5, 7, 0], [0, 5, 6, 0, 0]])
    mask = torch.tensor([[0, 1, 1, 1, 1], [0, 1, 1, 1, 0], [1, 1, 1, 1, 0], [0, 1, 1, 0, 0]])
    rows = pack_rows(ids, mask, 2)
    assert rows.input_ids.tolist() == [[5, 6, 3, 4, 5, 7, 8, 9, 7]]
    assert rows.position_ids.tolist() == [[1, 2, 0, 1, 2, 3, 4, 3, 3]]
    assert rows.weights.tolist() == [[3, 3, 1, 1, 1, 1, 1, 1, 1]]
    assert rows.targets.tolist() == [[7, 8, 9, 7]]
    assert rows.predicting.tolist() == [1, 5, 1, 4]
    assert rows.unpack(torch.arange(1, 5)).tolist() == [[1, 2], [3, 0], [4, 0], [0, 0]]


@pytest.mark.parametrize(
    "mask",
    [
        [[1, 1, 0, 1, 1], [1, 1, 1, 1, 0]],  # a hole in a prompt
        [[1, 1, 1, 0, 1], [1, 1, 1, 1, 0]],  # a hole in a completion
        [[0, 0, 0, 1, 1], [1, 1, 1, 1, 0]],  # no prompt
        [[1, 1, 1, 0, 0], [1, 1, 1, 0, 0]],  # no completion at all
    ],
)
def test_rows_that_are_not_packed(mask: list[list[int]]) -> None:
    assert pack_rows(torch.full((2, 5), 7), torch.tensor(mask), 2) is None
