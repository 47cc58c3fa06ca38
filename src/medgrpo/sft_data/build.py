"""From questions and an endpoint to a file of SFT samples, with an account of what was left out and why."""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medgrpo.errors import MedgrpoError
from medgrpo.exams.jsonl import write_objects
from medgrpo.exams.leakage import refuse_leaks
from medgrpo.exams.question import Question
from medgrpo.sft_data.endpoint import Endpoint
from medgrpo.sft_data.filters import Item, filter_items
from medgrpo.sft_data.journal import ReplyJournal
from medgrpo.sft_data.parts import PARTS, STAGES, render_text, schema
from medgrpo.sft_data.prompt_files import Prompts
from medgrpo.sft_data.synthesis import finished_items, synthesise
from medgrpo.versions import collect_versions, find_commit


@dataclass(frozen=True)
class Account:
    """What became of the questions; the ids of those left out stand in the file beside the samples."""

    questions: int
    kept: int
    dropped: Mapping[str, Sequence[str]]
    """Reason -> ids of items that were made and are not fit to learn from."""
    unfinished: Mapping[str, int]
    """Reason -> replies of this start that could not be used; the items are asked for at the next start."""
    requests: int
    """Requests of this start."""
    prompt_tokens: int
    completion_tokens: int
    """Tokens over all starts, as the endpoint counted them."""

    def describe(self) -> str:
        """The account in a few lines."""
        lines = [f"{self.kept} of {self.questions} questions became samples"]
        lines += [f"  left out: {reason}: {len(ids)}" for reason, ids in sorted(self.dropped.items())]
        lines += [
            f"  unfinished: {reason}: {count} (the same command asks again)"
            for reason, count in sorted(self.unfinished.items())
        ]
        lines.append(
            f"{self.requests} requests now; {self.prompt_tokens:,} tokens in and {self.completion_tokens:,} out in all"
        )
        return "\n".join(lines)


def build_sft_data(
    questions: Sequence[Question],
    evaluation: Sequence[Question],
    prompts: Prompts,
    endpoint: Endpoint,
    out: str | Path,
    *,
    concurrency: int = 16,
    progress: bool = True,
) -> Account:
    """Write SFT samples (`id`, `prompt`, `completion` as chat messages, `parts`) into `out`, a JSONL file.

    `evaluation` are the questions that a model will be scored on. Beside `out` stand `.journal.jsonl` (every
    reply, from which the same call goes on after a kill) and `.account.json`. Raises `MedgrpoError` naming
    the ids where questions leak into the evaluation, and whatever `synthesise` raises.
    """
    refuse_leaks(questions, evaluation, "the questions for SFT data", "the evaluation")
    out = Path(out)
    settings = {
        "model": endpoint.model,
        **endpoint.options,
        "prompts": prompts.digest,
        "schemas": hashlib.sha256(json.dumps([schema(stage) for stage in STAGES]).encode()).hexdigest()[:16],
    }
    with ReplyJournal(out.with_suffix(".journal.jsonl"), settings) as journal:
        state = asyncio.run(_run(questions, prompts, endpoint, journal, concurrency, progress))
        kept, dropped = filter_items(finished_items(questions, journal), evaluation)
        account = Account(
            questions=len(questions),
            kept=len(kept),
            dropped=dropped,
            unfinished=dict(state.faults),
            requests=state.asked,
            prompt_tokens=journal.prompt_tokens,
            completion_tokens=journal.completion_tokens,
        )
        if not kept:
            raise MedgrpoError(f"{out}: no item is fit to learn from, so no file is written\n{account.describe()}")
        write_objects(out, map(to_sample, kept))
        write_objects(out.with_suffix(".account.json"), [_record(account, settings)])
    return account


def to_sample(item: Item) -> dict[str, Any]:
    """One line of the SFT file, as `CHORDTrainer` and TRL's `SFTTrainer` read it."""
    return {
        "id": item.id,
        "prompt": [{"role": "user", "content": item.question.strip()}],
        "completion": [{"role": "assistant", "content": render_text(item.parts)}],
        "parts": {part.field: item.parts[part.field].strip() for part in PARTS},
    }


async def _run(
    questions: Sequence[Question],
    prompts: Prompts,
    endpoint: Endpoint,
    journal: ReplyJournal,
    concurrency: int,
    progress: bool,
) -> Any:
    try:
        return await synthesise(questions, prompts, endpoint, journal, concurrency=concurrency, progress=progress)
    finally:
        await endpoint.close()


def _record(account: Account, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: getattr(account, name) for name in account.__dataclass_fields__},
        "settings": dict(settings),
        "versions": collect_versions(),
        "commit": find_commit(),
    }
