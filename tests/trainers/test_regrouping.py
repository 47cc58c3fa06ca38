"""Rows of a prompt meet in micro-batches, and every row keeps its chance of being in each."""

from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from medgrpo.trainers.shared_prefix.layout import number_prompts
from medgrpo.trainers.shared_prefix.regroup import regroup


def shuffled(sizes: list[int], micro_batch: int, seed: int) -> list[dict]:
    """What TRL buffers: rows of groups of these sizes, in an order of its own, cut into micro-batches."""
    owners = torch.cat([torch.full((size,), prompt) for prompt, size in enumerate(sizes)])
    owners = owners[torch.randperm(len(owners), generator=torch.Generator().manual_seed(seed))]
    rows = torch.arange(len(owners))
    columns = {
        "prompt_ids": torch.stack([owners * 0 + 5, owners + 10], dim=1),
        "prompt_mask": torch.ones(len(owners), 2, dtype=torch.long),
        "completion_ids": rows.unsqueeze(1),
        "advantages": rows.float(),
        "texts": [f"row {row}" for row in rows],
    }
    return [
        {
            **{key: value[start : start + micro_batch] for key, value in columns.items()},
            "num_items_in_batch": torch.tensor(77),
            "ref_per_token_logps": None,
        }
        for start in range(0, len(owners), micro_batch)
    ]


@st.composite
def generations(draw: st.DrawFn) -> tuple[list[int], int]:
    micro_batch = draw(st.integers(1, 6))
    count = draw(st.integers(1, 5))
    sizes: list[int] = []
    while sum(sizes) < micro_batch * count:
        sizes.append(draw(st.integers(1, micro_batch * count - sum(sizes))))
    return sizes, micro_batch


@settings(max_examples=60, deadline=None)
@given(generation=generations(), seed=st.integers(0, 10**6))
def test_every_row_stays_whole_and_groups_are_cut_no_more_than_needed(generation, seed: int) -> None:
    sizes, micro_batch = generation
    before = shuffled(sizes, micro_batch, seed)
    after = regroup(before, torch.Generator().manual_seed(seed))
    assert [len(batch["texts"]) for batch in after] == [micro_batch] * len(before)
    seen = {}
    for batch in after:
        assert batch["num_items_in_batch"].item() == 77 and batch["ref_per_token_logps"] is None
        for row in range(micro_batch):
            number = int(batch["completion_ids"][row, 0])
            assert batch["texts"][row] == f"row {number}" and batch["advantages"][row] == number
            seen[number] = batch["prompt_ids"][row].tolist()
    assert seen == {
        int(batch["completion_ids"][row, 0]): batch["prompt_ids"][row].tolist()
        for batch in before
        for row in range(micro_batch)
    }
    # A prompt is run once in each micro-batch that has it: one more than one for each cut, at most.
    runs = sum(int(number_prompts(batch["prompt_ids"], batch["prompt_mask"]).max()) + 1 for batch in after)
    assert runs <= len(sizes) + len(after) - 1


def test_groups_as_large_as_a_micro_batch_each_have_one() -> None:
    after = regroup(shuffled([4, 4, 4], 4, seed=1), torch.Generator().manual_seed(2))
    assert sorted(batch["prompt_ids"][:, 1].unique().tolist() for batch in after) == [[10], [11], [12]]


@pytest.mark.parametrize("sizes", [[4, 4, 4], [6, 6], [1, 2, 5, 4], [11, 1]])
def test_expected_gradient_of_each_micro_batch_is_that_of_all_rows(sizes: list[int], monkeypatch) -> None:
    # Each row's gradient is a vector of its own; the mean is over all draws that regroup can make, none left out.
    before = shuffled(sizes, 4, seed=3)
    gradients = torch.randn(12, 5, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    mean, count = torch.zeros(3, 5, dtype=torch.float64), 0
    for turns in permutations(range(len(sizes))):
        for places in permutations(range(3)):
            draws = iter([torch.tensor(turns), torch.tensor(places)])
            monkeypatch.setattr(torch, "randperm", lambda size, generator, draws=draws: next(draws))
            after = regroup(before, torch.Generator())
            mean += torch.stack([gradients[batch["completion_ids"][:, 0]].mean(dim=0) for batch in after])
            count += 1
    torch.testing.assert_close(mean / count, gradients.mean(dim=0).expand(3, 5))


def test_rollouts_of_the_global_generator_stay_the_same() -> None:
    torch.manual_seed(9)
    expected = torch.rand(3)
    torch.manual_seed(9)
    regroup(shuffled([4, 4, 4], 4, seed=1), torch.Generator().manual_seed(2))
    # `shuffled` draws from a generator of its own, too.
    assert torch.equal(torch.rand(3), expected)
