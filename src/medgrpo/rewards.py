"""Reward functions by name, as TRL's GRPOTrainer calls them.

A reward takes `completions` (strings, or message lists whose last message is the completion) and the
dataset's columns as keywords, and returns one float a completion, None where it abstains. Adding a reward is a
function, its entry in `REWARDS`, its weight in `REWARD_WEIGHTS`, and a row in the tests.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from medgrpo.answers import is_correct, parse_answer
from medgrpo.consensus import Utility, chrf, gather_rows, mean_utilities
from medgrpo.errors import MedgrpoError
from medgrpo.japanese import chinese_rule, is_japanese

Completion = str | Sequence[Mapping[str, Any]]
RewardFunc = Callable[..., list[float] | list[float | None]]


def ophtho(
    completions: Sequence[Completion],
    answer: Sequence[Sequence[Sequence[str]]] | None = None,
    **columns: Any,
) -> list[float]:
    """Return 1.0 for each completion whose `[ans]...[/ans]` is exactly an accepted answer, else 0.0.

    The answer is read by `medgrpo.answers`, as in the evaluation; a parse failure earns 0.0. `answer` is the
    dataset's column: for each completion the list of accepted answers, each a list of letters or a list
    with one number string. The name comes from the recipe that this reproduces (its first exam was
    ophthalmology); nothing in it is specific to that.

    Raises:
        MedgrpoError: the dataset has no column `answer`, or a row of it is empty.

    """
    if answer is None:
        raise MedgrpoError(
            "reward 'ophtho': the dataset has no column 'answer' (for each question a list of accepted "
            'answers, such as [["a", "c"]]); add it or leave this reward out'
        )
    return [
        float(is_correct(parse_answer(completion_text(completion)), _check_key(key, row)))
        for row, (completion, key) in enumerate(zip(completions, answer, strict=True))
    ]


def chinese(completions: Sequence[Completion], **columns: Any) -> list[float]:
    """Return 0.0 for each completion with two consecutive sentences without kana, else 1.0.

    The first recipe's rule exactly (「。」 ends a sentence; see `medgrpo.japanese.chinese_rule` for its known
    mistakes), kept so that its runs can be repeated. It reads the whole completion, tags included.
    """
    return [float(chinese_rule(completion_text(completion))) for completion in completions]


def japanese(completions: Sequence[Completion], **columns: Any) -> list[float]:
    """Return 1.0 for each completion that says something and is Japanese all through, else 0.0.

    The intent of `chinese` without its mistakes; the rules and their reasons stand in
    `medgrpo.japanese.is_japanese`. A bare `[ans]a[/ans]` says nothing in Japanese and earns 0.0.
    """
    return [float(is_japanese(completion_text(completion))) for completion in completions]


def length(completions: Sequence[Completion], **columns: Any) -> list[float]:
    """Return each completion's number of characters, tags included.

    Its spread is many times that of a reward between 0 and 1, so next to another reward it wants MO-GRPO or a
    small weight.
    """
    return [float(len(completion_text(completion))) for completion in completions]


def make_consensus(utility: Utility) -> RewardFunc:
    """Build C-GRPO's reward from a utility of two texts: `utility(completion, other)`, higher where they agree.

    A completion earns its mean utility against the other completions of its group, itself left out, wherever
    those are: the processes of a distributed run exchange theirs. One that has no others abstains (None).
    """

    def consensus(completions: Sequence[Completion], prompts: Sequence[Any], **columns: Any) -> list[float | None]:
        """Return each completion's mean utility against the others to the same prompt, None where there are none."""
        rows, mine = gather_rows(
            [(repr(prompt), completion_text(text)) for prompt, text in zip(prompts, completions, strict=True)]
        )
        return mean_utilities([text for _, text in rows], [prompt for prompt, _ in rows], mine, utility)

    return consensus


consensus = make_consensus(chrf)

REWARDS: dict[str, RewardFunc] = {
    "ophtho": ophtho,
    "chinese": chinese,
    "japanese": japanese,
    "length": length,
    "consensus": consensus,
}

# The first recipe's weights; `japanese` stands in for `chinese` and takes its weight. The others are ours.
REWARD_WEIGHTS: dict[str, float] = {"ophtho": 1.5, "chinese": 1.0, "japanese": 1.0, "length": 1.0, "consensus": 1.0}


def get_reward_funcs(names: Iterable[str]) -> list[RewardFunc]:
    """Return the reward functions called `names`, in that order.

    Raises:
        MedgrpoError: a name is unknown (the message lists the known ones and the closest), is given twice,
            or no name is given.

    """
    names = [names] if isinstance(names, str) else list(names)
    known = ", ".join(REWARDS)
    if not names:
        raise MedgrpoError(f"no reward is given: name at least one of {known}")
    for position, name in enumerate(names):
        if name not in REWARDS:
            closest = difflib.get_close_matches(str(name).lower(), REWARDS, n=1, cutoff=0.5)
            hint = f" (did you mean {closest[0]!r}?)" if closest else ""
            raise MedgrpoError(f"unknown reward {name!r}{hint}: the known ones are {known}")
        if name in names[:position]:
            raise MedgrpoError(f"reward {name!r} is given twice: name it once and raise its weight instead")
    return [REWARDS[name] for name in names]


def completion_text(completion: Completion) -> str:
    """The completion's text: itself, or its last message's content (empty where a message has none)."""
    if isinstance(completion, str):
        return completion
    return (completion[-1].get("content") or "") if completion else ""


def _check_key(key: Any, row: int) -> Sequence[Sequence[str]]:
    if isinstance(key, str) or not key or any(isinstance(accepted, str) for accepted in key):
        raise MedgrpoError(
            f"reward 'ophtho': column 'answer' holds {key!r} (completion {row}), not a list of accepted "
            'answers such as [["a", "c"]]'
        )
    return key
