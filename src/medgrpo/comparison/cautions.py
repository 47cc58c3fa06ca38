"""What a reader has to know before believing a difference, found in the runs themselves."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from medgrpo.comparison.outcomes import Outcomes
from medgrpo.comparison.result import Caution, RunFacts
from medgrpo.evaluation.samples import Run

# Unreadable answers above this share can make a difference of their own.
PARSE_FAILURE_SHARE = 0.01

# Below this a slice shows only differences of tens of points.
SMALL_SLICE = 30


def find_cautions(
    runs: Mapping[str, Run], facts: Sequence[RunFacts], outcomes: Outcomes, groups: Mapping[str, Sequence[str]]
) -> list[Caution]:
    """Everything found, the gravest first: other decoding, other prompt, format, seeds, small slices."""
    base, others = facts[0], facts[1:]
    return [
        *_decoding(base, others),
        *_prompt(runs, base.name),
        *_sampled(facts),
        *_parse_failures(facts),
        *_identical(runs, outcomes),
        *_ungrouped_seeds(facts, groups),
        *_small_slices(outcomes),
    ]


def _decoding(base: RunFacts, others: Sequence[RunFacts]) -> Iterator[Caution]:
    unknown = [facts.name for facts in (base, *others) if facts.sampling is None]
    if unknown:
        names = ", ".join(unknown)
        yield Caution(
            "decoding",
            f"It is not known how the answers of {names} were generated: the comparison may be one of decoding.",
            f"{names} の生成条件は記録されていない。差は復号条件の違いによる可能性がある。",
        )
    for facts in others:
        if base.sampling is None or facts.sampling is None:
            continue
        listed = ", ".join(f"{key} {was!s} / {now!s}" for key, was, now in _differences(base.sampling, facts.sampling))
        if listed:
            yield Caution(
                "decoding",
                f"{facts.name} was decoded differently from {base.name} ({listed}): "
                "the difference is not the training's alone.",
                f"{facts.name} と {base.name} は復号条件が異なる（{listed}）。差は学習だけによるものではない。",
            )


def _differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    keys = dict.fromkeys([*was, *now])
    return [(key, was.get(key), now.get(key)) for key in keys if was.get(key) != now.get(key)]


def _prompt(runs: Mapping[str, Run], base: str) -> Iterator[Caution]:
    template = runs[base].run_info.get("prompt_template")
    for name, run in runs.items():
        other = run.run_info.get("prompt_template")
        if template is not None and other is not None and other != template:
            yield Caution(
                "prompt",
                f"{name} was asked with another prompt than {base}: the difference is not the training's alone.",
                f"{name} と {base} はプロンプトが異なる。差は学習だけによるものではない。",
            )


def _sampled(facts: Sequence[RunFacts]) -> Iterator[Caution]:
    sampled = [run.name for run in facts if run.sampling is not None and (run.sampling.get("temperature") or 0) > 0]
    if sampled:
        names = ", ".join(sampled)
        yield Caution(
            "sampled",
            f"{names}: answers were sampled (temperature > 0), one draw a question; another draw would score "
            "differently, and no interval here holds that.",
            f"{names} は温度 0 より上で 1 回だけ生成された。再生成すれば点数は変わり、その変動は区間に含まれない。",
        )


def _parse_failures(facts: Sequence[RunFacts]) -> Iterator[Caution]:
    for run in facts:
        if run.parse_failures > PARSE_FAILURE_SHARE * run.n:
            share = f"{run.parse_failures}/{run.n} ({100 * run.parse_failures / run.n:.1f} %)"
            yield Caution(
                "parse_failures",
                f"{run.name}: {share} of the answers could not be read and count as wrong (unless credited to all); "
                "part of a difference may be format, not knowledge.",
                f"{run.name} の回答の {share} は読み取れず、不正解とした（全員正解の問題を除く）。"
                "差の一部は知識でなく書式による可能性がある。",
            )


def _identical(runs: Mapping[str, Run], outcomes: Outcomes) -> Iterator[Caution]:
    base = outcomes.names[0]
    texts = {sample.id: sample.completion for sample in runs[base].samples}
    for row, name in enumerate(outcomes.names[1:], 1):
        if not np.array_equal(outcomes.correct[0], outcomes.correct[row]):
            continue
        if all(texts[sample.id] == sample.completion for sample in runs[name].samples):
            yield Caution(
                "identical",
                f"{name} gave the very completions of {base}: is it the same model, or one that did not train?",
                f"{name} の出力は {base} と完全に一致する。同じモデルか、学習されていない可能性がある。",
            )


def _ungrouped_seeds(facts: Sequence[RunFacts], groups: Mapping[str, Sequence[str]]) -> Iterator[Caution]:
    grouped = {name for members in groups.values() for name in members}
    by_model: dict[str, list[RunFacts]] = {}
    for run in facts[1:]:
        if run.model is not None and run.name not in grouped:
            by_model.setdefault(run.model, []).append(run)
    for model, members in by_model.items():
        if len({run.seed for run in members}) > 1:
            names = ", ".join(run.name for run in members)
            # Cautions stand on pages that are shared: not where a model lies on one machine.
            model = Path(model).name if Path(model).is_absolute() else model
            yield Caution(
                "seeds",
                f"{names} look like seeds of one method ({model}): group them (--group NAME=DIR,DIR), so that they "
                "are not read as methods of their own.",
                f"{names} は同じ手法（{model}）のシード違いと思われる。--group NAME=DIR,DIR でまとめること。",
            )


def _small_slices(outcomes: Outcomes) -> Iterator[Caution]:
    small = [f"{name} ({len(members)})" for (_, name), members in outcomes.slices.items() if len(members) < SMALL_SLICE]
    if small:
        listed = ", ".join(small[:10]) + (f", ... ({len(small)})" if len(small) > 10 else "")
        yield Caution(
            "small_slices",
            f"Fewer than {SMALL_SLICE} questions in {listed}: only differences of tens of points could show there.",
            f"{listed} は {SMALL_SLICE} 問未満で、数十ポイントの差でなければ検出できない。",
        )
