"""The consensus reward of C-GRPO: how well a completion agrees with the others to the same prompt."""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import Any

from medgrpo.errors import MedgrpoError

Utility = Callable[[str, str], float]


def chrf(candidate: str, other: str) -> float:
    """chrF2 of `candidate` against `other` (character n-grams up to 6), by sacrebleu, between 0 and 1.

    Two empty texts agree (1.0), where sacrebleu says 0. Raises `MedgrpoError` where sacrebleu isn't installed.
    """
    metric = _chrf_metric()
    if candidate == other:
        return 1.0
    return metric.sentence_score(candidate, [other]).score / 100


@lru_cache(maxsize=1)
def _chrf_metric() -> Any:
    try:
        from sacrebleu.metrics import CHRF
    except ImportError as error:
        raise MedgrpoError("the consensus reward needs sacrebleu: pip install 'medgrpo[consensus]'") from error
    return CHRF()


def mean_utilities(
    texts: Sequence[str], prompts: Sequence[Hashable], rows: range, utility: Utility
) -> list[float | None]:
    """For each of `rows` the mean of `utility(text, other)` over the other texts to an equal prompt.

    C-GRPO (arXiv 2602.03102) without the text itself, as its code has it: agreeing with oneself says nothing. None
    (abstains) for a text that has no other.
    """
    groups: dict[Hashable, list[int]] = {}
    for row, prompt in enumerate(prompts):
        groups.setdefault(prompt, []).append(row)
    scored: dict[tuple[str, str], float] = {}
    means: list[float | None] = []
    for row in rows:
        others = [texts[other] for other in groups[prompts[row]] if other != row]
        for other in others:
            if (texts[row], other) not in scored:
                scored[texts[row], other] = utility(texts[row], other)
        means.append(sum(scored[texts[row], other] for other in others) / len(others) if others else None)
    return means


def gather_rows(rows: Sequence[tuple[Hashable, str]]) -> tuple[list[tuple[Hashable, str]], range]:
    """The rows of all processes, and where this one's stand among them: a group may lie on several processes.

    Every process of a distributed run has to call it.
    """
    import torch.distributed as dist  # `medgrpo` verbs that score nothing needn't wait for torch

    if not (dist.is_available() and dist.is_initialized()):
        return list(rows), range(len(rows))
    gathered: list[list[tuple[Hashable, str]]] = [[] for _ in range(dist.get_world_size())]
    dist.all_gather_object(gathered, list(rows))
    start = sum(len(part) for part in gathered[: dist.get_rank()])
    return [row for part in gathered for row in part], range(start, start + len(rows))
