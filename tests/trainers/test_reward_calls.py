"""A bad reward function is named, with the sample; NumPy and torch scalars are rewards like any other."""

import asyncio
import math
from decimal import Decimal

import numpy as np
import pytest
import torch

from medgrpo.errors import MedgrpoError
from medgrpo.trainers.reward_calls import RewardError, checked, refuse_infinite

COLUMNS = {
    "prompts": ["q"] * 3,
    "completions": ["one", "two", "three"],
    "completion_ids": [[1], [2], [3]],
    "id": ["116A1", "116A2", "116A3"],
    "trainer_state": None,
}


def call(returned, **changes):
    return checked(lambda **columns: returned, "tone")(**{**COLUMNS, **changes})


@pytest.mark.parametrize(
    "returned",
    [
        [1, 0.5, False],
        (1.0, 0.5, 0.0),
        np.array([1, 0.5, 0]),
        np.array([1, 0.5, 0], dtype=np.float16),
        torch.tensor([1, 0.5, 0]),
        torch.tensor([1, 0.5, 0], dtype=torch.bfloat16, requires_grad=True),
        [np.float32(1), np.float64(0.5), np.int64(0)],
        [np.bool_(True), np.array(0.5), torch.tensor(False)],
        [torch.tensor(1), torch.tensor(0.5, dtype=torch.bfloat16), torch.tensor(0.0, requires_grad=True)],
        (value for value in (1, 0.5, 0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_numbers_of_every_kind_are_accepted(returned) -> None:
    rewards = call(returned)
    assert rewards == [1.0, 0.5, 0.0]
    assert all(type(reward) is float for reward in rewards)


def test_none_and_nan_abstain() -> None:
    none, nan, array = call([None, float("nan"), np.float32("nan")])
    assert none is None
    assert math.isnan(nan)
    assert math.isnan(array)


@pytest.mark.parametrize(
    ("returned", "reasons"),
    [
        ([1.0, 2.0], ["2 rewards for 3 completions"]),
        ([], ["0 rewards for 3 completions"]),
        (np.zeros((3, 1)), ["completion 0 of 3", "ndarray"]),
        ([1.0, "0.5", 0.0], ["'0.5'", "completion 1 of 3", "116A2", "'two'"]),
        ([1.0, 2.0, math.inf], ["inf", "completion 2 of 3", "116A3", "finite"]),
        ([-math.inf, 2.0, 0.0], ["-inf", "completion 0 of 3"]),
        ([1.0, np.float32(np.inf), 0.0], ["inf", "completion 1 of 3"]),
        ([1.0, 1e39, 0.0], ["1e+39", "completion 1 of 3", "finite"]),
        ([10**400, 1.0, 0.0], ["completion 0 of 3", "finite"]),
        ([1.0, [0.5], 0.0], ["[0.5]", "completion 1 of 3"]),
        ([1.0, torch.tensor([0.5]), 0.0], ["completion 1 of 3", "Tensor"]),
        ([1.0, 1j, 0.0], ["1j", "completion 1 of 3"]),
        ([1.0, Decimal("0.5"), 0.0], ["Decimal", "completion 1 of 3"]),
        ("abc", ["'abc'", "a list with one number for each of the 3"]),
        (None, ["returned None"]),
        (1.0, ["returned 1.0"]),
        ({"one": 1.0, "two": 2.0, "three": 3.0}, ["dict"]),
        ({1.0, 2.0, 3.0}, ["set"]),
    ],
    ids=str,
)
def test_what_is_no_reward_is_named(returned, reasons) -> None:
    with pytest.raises(RewardError) as refused:
        call(returned)
    message = str(refused.value)
    assert "\n" not in message
    for reason in ["reward 'tone'", *reasons]:
        assert reason in message
    assert len(message) < 250


def test_a_raise_is_traced_to_the_completion_and_the_line() -> None:
    def tone(completions, id, trainer_state, **columns):
        return [1 / (len(text) - len("three")) for text in completions]

    with pytest.raises(RewardError) as refused:
        checked(tone, "tone")(**COLUMNS)
    for reason in ("'tone' raised ZeroDivisionError", "test_reward_calls.py, line", "completion 2 of 3", "116A3"):
        assert reason in str(refused.value)
    assert isinstance(refused.value.__cause__, ZeroDivisionError)


def test_a_raise_that_no_single_completion_explains_names_the_batch() -> None:
    def tone(completions, **columns):
        if len(completions) > 1:
            raise KeyError("answer")
        return [0.0]

    with pytest.raises(RewardError, match="raised KeyError: 'answer' .* on a batch of 3 completions"):
        checked(tone, "tone")(**COLUMNS)


def test_our_own_errors_pass_as_they_are() -> None:
    def tone(**columns):
        raise MedgrpoError("the dataset has no column 'answer'")

    with pytest.raises(MedgrpoError, match="^the dataset has no column") as refused:
        checked(tone, "tone")(**COLUMNS)
    assert not isinstance(refused.value, RewardError)


class Judge:
    """A reward with state and no `__name__`, called asynchronously."""

    def __init__(self, answers):
        self.answers = answers

    async def __call__(self, completions, **columns):
        await asyncio.sleep(0)
        if self.answers is None:
            raise TimeoutError("judge is gone")
        return self.answers


def test_async_rewards_are_checked_as_well() -> None:
    assert asyncio.run(checked(Judge([1, np.float32(0.5), None]), "judge")(**COLUMNS)) == [1.0, 0.5, None]
    with pytest.raises(RewardError, match="'judge' returned 1 rewards for 3"):
        asyncio.run(checked(Judge([1.0]), "judge")(**COLUMNS))
    with pytest.raises(RewardError, match="'judge' raised TimeoutError: judge is gone"):
        asyncio.run(checked(Judge(None), "judge")(**COLUMNS))


def test_an_infinite_reward_model_is_named() -> None:
    refuse_infinite(torch.tensor([[1.0, math.nan]]), ["a", "b"])
    with pytest.raises(RewardError, match="'b' is infinite on completion 1 of 2"):
        refuse_infinite(torch.tensor([[1.0, math.nan], [0.0, -math.inf]]), ["a", "b"])
