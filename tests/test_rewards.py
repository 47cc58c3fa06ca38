"""Rewards as TRL calls them: strings and message lists, columns as keywords, one float a completion."""

import inspect
import math

import pytest

from medgrpo.errors import MedgrpoError
from medgrpo.rewards import REWARD_WEIGHTS, REWARDS, chinese, get_reward_funcs, japanese, length, ophtho


def as_messages(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


# One row a reward: completion, key, what each reward gives.
ROWS = [
    (
        "発熱がある。答えはaとc。[ans]c, a[/ans]",
        [["a", "c"]],
        {"ophtho": 1.0, "chinese": 1.0, "japanese": 1.0},
    ),
    ("発熱がある。答えはa。[ans]a[/ans]", [["a", "c"]], {"ophtho": 0.0, "chinese": 1.0, "japanese": 1.0}),
    ("発熱。咳嗽。[ans]d[/ans]", [["a"], ["d"]], {"ophtho": 1.0, "chinese": 0.0, "japanese": 1.0}),
    ("容量は7.20となる。[ans]7.20[/ans]", [["7.2"]], {"ophtho": 1.0, "chinese": 1.0, "japanese": 1.0}),
    ("首先看選項「むくみ」。[ans]a[/ans]", [["a"]], {"ophtho": 1.0, "chinese": 1.0, "japanese": 0.0}),
    ("The answer is a. [ans]a[/ans]", [["a"]], {"ophtho": 1.0, "chinese": 1.0, "japanese": 0.0}),
    ("[ans]a[/ans]", [["a"]], {"ophtho": 1.0, "chinese": 1.0, "japanese": 0.0}),
    ("答えはaである。", [["a"]], {"ophtho": 0.0, "chinese": 1.0, "japanese": 1.0}),
    ("", [["a"]], {"ophtho": 0.0, "chinese": 1.0, "japanese": 0.0}),
]


@pytest.mark.parametrize("shape", [str, as_messages])
# `length` and `consensus` follow from the texts alone: test_length_counts_characters, test_consensus.py.
@pytest.mark.parametrize("name", ["ophtho", "chinese", "japanese"])
def test_values(name: str, shape) -> None:
    rewards = REWARDS[name](
        prompts=["質問"] * len(ROWS),
        completions=[shape(completion) for completion, _, _ in ROWS],
        completion_ids=[[1]] * len(ROWS),
        answer=[key for _, key, _ in ROWS],
        answer_type=["choice"] * len(ROWS),
        trainer_state=None,
    )
    assert rewards == [row[2][name] for row in ROWS]
    assert all(type(reward) is float and math.isfinite(reward) for reward in rewards)


def test_the_last_message_counts_and_an_empty_one_says_nothing() -> None:
    talk = [*as_messages("首先看選項。[ans]b[/ans]"), *as_messages("答えはa。[ans]a[/ans]")]
    silent = [{"role": "assistant", "content": None}]
    assert ophtho(completions=[talk, silent, []], answer=[[["a"]]] * 3) == [1.0, 0.0, 0.0]
    assert japanese(completions=[talk, silent, []]) == [1.0, 0.0, 0.0]
    assert chinese(completions=[]) == []


def test_length_counts_characters() -> None:
    assert length(completions=["答えはa。[ans]a[/ans]", "", as_messages("発熱")]) == [17.0, 0.0, 2.0]


def test_a_missing_column_is_named() -> None:
    with pytest.raises(MedgrpoError, match="no column 'answer'"):
        ophtho(prompts=["質問"], completions=["[ans]a[/ans]"], id=["116A1"])


@pytest.mark.parametrize("key", ["a", ["a"], [], None])
def test_a_key_of_the_wrong_shape_is_not_silently_wrong(key) -> None:
    with pytest.raises(MedgrpoError, match="list of accepted answers"):
        ophtho(completions=["[ans]a[/ans]"], answer=[key])


def test_get_reward_funcs() -> None:
    assert get_reward_funcs(["japanese", "ophtho"]) == [japanese, ophtho]
    assert get_reward_funcs("chinese") == [chinese]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["ophto"], "unknown reward 'ophto' .did you mean 'ophtho'.*ophtho, chinese, japanese"),
        (["Japanese"], "did you mean 'japanese'"),
        (["zzz"], "unknown reward 'zzz': the known ones are ophtho, chinese, japanese"),
        ([], "no reward is given"),
        (["ophtho", "ophtho"], "given twice"),
    ],
)
def test_bad_names_say_what_is_known(names: list[str], message: str) -> None:
    with pytest.raises(MedgrpoError, match=message):
        get_reward_funcs(names)


def test_registry_is_whole() -> None:
    assert REWARD_WEIGHTS == {"ophtho": 1.5, "chinese": 1.0, "japanese": 1.0, "length": 1.0, "consensus": 1.0}
    for name, reward in REWARDS.items():
        assert reward.__name__ == name  # TRL logs rewards/{__name__}/mean
        assert inspect.getdoc(reward)
        assert name in ROWS[0][2] or name in ("length", "consensus")
