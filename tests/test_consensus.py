"""C-GRPO's reward: agreement with the rest of the group."""

import pytest
from sacrebleu.metrics import CHRF

from medgrpo.consensus import chrf, mean_utilities
from medgrpo.rewards import consensus, make_consensus


def overlap(text: str, other: str) -> float:
    """Not symmetric: the share of `other`'s letters that `text` has."""
    return sum(letter in text for letter in other) / len(other)


def test_mean_utility_of_the_others_by_hand() -> None:
    reward = make_consensus(overlap)
    # Group q: ab, a, cd. ab has all of a, none of cd: .5. a has half of ab, none of cd: .25. cd has nothing.
    # Group p stands between them and is scored by itself; r is alone and abstains.
    assert reward(prompts=["q", "p", "q", "q", "p", "r"], completions=["ab", "x", "a", "cd", "x", "ab"]) == [
        0.5, 1.0, 0.25, 0.0, 1.0, None,
    ]  # fmt: skip


def test_messages_count_by_their_text_and_prompts_by_their_content() -> None:
    prompts = [[{"role": "user", "content": "q"}], [{"role": "user", "content": "q"}]]
    completions = [[{"role": "assistant", "content": "ab"}], [{"role": "assistant", "content": None}]]
    assert make_consensus(lambda text, other: float(len(text)))(prompts=prompts, completions=completions) == [2.0, 0.0]


def test_the_default_is_sacrebleus_chrf() -> None:
    first, second, third = "心不全では浮腫がみられる。", "心不全では下腿に浮腫がみられる。", "胃癌である。"
    rewards = consensus(prompts=["q"] * 3, completions=[first, second, third])
    want = sum(CHRF().sentence_score(first, [other]).score for other in (second, third)) / 200
    assert rewards[0] == pytest.approx(want)
    assert rewards[0] > rewards[2]
    assert chrf("", "") == 1.0
    assert chrf("", "胃癌") == 0.0


def test_only_the_rows_asked_for_are_scored_against_all() -> None:
    # As on the second of two processes: its rows are 2 and 3, their group lies on both.
    calls = []

    def count(text: str, other: str) -> float:
        calls.append(text)
        return 1.0 if text == other else 0.0

    assert mean_utilities(["a", "b", "a", "c"], ["q"] * 4, range(2, 4), count) == [1 / 3, 0.0]
    assert set(calls) == {"a", "c"}
