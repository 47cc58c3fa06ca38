from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medgrpo.errors import MedgrpoError
from medgrpo.trainers.sft_samples import IGNORED, SFTSample
from medgrpo.trainers.sft_stream import SFTStream

PAD = 0


def sample(number: int, prompt: int = 2, answer: int = 3) -> SFTSample:
    ids = [10 + number] * (prompt + answer)
    return SFTSample(str(number), ids, [IGNORED] * prompt + ids[prompt:])


def stream(count: int = 7, **changes) -> SFTStream:
    samples = [sample(number, prompt=1 + number % 3, answer=1 + number) for number in range(count)]
    return SFTStream(samples, **{"batch_size": 2, "pad_token_id": PAD, "seed": 5, **changes})


def ids_of(windows) -> list[str]:
    return [name for window in windows for batch in window.batches for name in batch.ids]


def test_rows_are_samples_padded_on_the_right_and_prompts_are_not_taught() -> None:
    samples = [sample(1, prompt=2, answer=1), sample(2, prompt=1, answer=4)]
    (batch,) = SFTStream(samples, batch_size=2, pad_token_id=PAD, seed=0).draw(1).batches
    rows = dict(zip(batch.ids, range(2), strict=True))
    assert batch.input_ids[rows["1"]].tolist() == [11, 11, 11, PAD, PAD]
    assert batch.attention_mask[rows["1"]].tolist() == [1, 1, 1, 0, 0]
    assert batch.labels[rows["1"]].tolist() == [IGNORED, IGNORED, 11, IGNORED, IGNORED]
    assert batch.labels[rows["2"]].tolist() == [IGNORED, 12, 12, 12, 12]


def test_each_epoch_holds_every_sample_once_in_another_order() -> None:
    one = stream(batch_size=1)
    epochs = [ids_of([one.draw(7)]) for _ in range(6)]
    assert all(sorted(epoch) == list("0123456") for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 6


def test_the_seed_decides_the_order() -> None:
    assert ids_of([stream().draw(10)]) == ids_of([stream().draw(10)])
    assert ids_of([stream().draw(10)]) != ids_of([stream(seed=6).draw(10)])


@settings(max_examples=30, deadline=None)
@given(
    count=st.integers(1, 12),
    batch=st.integers(1, 4),
    processes=st.integers(1, 4),
    windows=st.lists(st.integers(1, 4), min_size=1, max_size=5),
)
def test_processes_share_the_stream_of_one(count: int, batch: int, processes: int, windows: list[int]) -> None:
    alone = stream(count, batch_size=batch * processes)
    shares = [stream(count, batch_size=batch, num_processes=processes, process_index=rank) for rank in range(processes)]
    for micro_batches in windows:
        whole, parts = alone.draw(micro_batches), [share.draw(micro_batches) for share in shares]
        # The same number of forward passes everywhere, the same samples in all, and a total that everyone knows.
        assert {len(part.batches) for part in parts} == {micro_batches}
        for step in range(micro_batches):
            assert [name for part in parts for name in part.batches[step].ids] == whole.batches[step].ids
        taught = sum((b.labels[:, 1:] != IGNORED).sum().item() for part in parts for b in part.batches)
        assert {part.total_tokens for part in parts} == {whole.total_tokens} == {taught}
    assert {share.position for share in shares} == {alone.position}


def test_no_sample_is_on_two_processes_within_an_epoch() -> None:
    shares = [stream(12, num_processes=3, process_index=rank) for rank in range(3)]
    seen = Counter(name for share in shares for name in ids_of([share.draw(2)]))
    assert seen == Counter({str(number): 1 for number in range(12)})


@pytest.mark.parametrize("before", [0, 1, 3, 5])
def test_goes_on_from_a_saved_position(before: int) -> None:
    whole, first, second = stream(), stream(), stream()
    expected = [whole.draw(2) for _ in range(9)]
    done = [first.draw(2) for _ in range(before)]
    second.load_state_dict(first.state_dict())
    assert ids_of(done) + ids_of([second.draw(2) for _ in range(9 - before)]) == ids_of(expected)
    assert second.tokens_seen == whole.tokens_seen == sum(window.total_tokens for window in expected)


def test_position_outlives_a_change_of_the_number_of_processes() -> None:
    two = [stream(num_processes=2, process_index=rank, batch_size=1) for rank in range(2)]
    for share in two:
        share.draw(3)
    alone, expected = stream(), stream()
    alone.load_state_dict(two[0].state_dict())
    expected.draw(3)
    assert ids_of([alone.draw(4)]) == ids_of([expected.draw(4)])


@pytest.mark.parametrize("other", [stream(8), stream(seed=6)], ids=["samples", "seed"])
def test_position_in_another_stream_is_refused(other: SFTStream) -> None:
    with pytest.raises(MedgrpoError, match="other SFT data"):
        other.load_state_dict(stream().state_dict())
