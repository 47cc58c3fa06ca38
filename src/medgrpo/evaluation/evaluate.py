"""A model becomes a scored run: prompt, generate (going on where it was stopped), score, write."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tqdm import tqdm

from medgrpo.errors import MedgrpoError
from medgrpo.evaluation.backend import Backend, Prompt
from medgrpo.evaluation.journal import PARTIAL_FILE, CompletionJournal, read_finished
from medgrpo.evaluation.load import ModelIdentity
from medgrpo.evaluation.run_info import build_run_info
from medgrpo.evaluation.samples import RUN_FILE, Run, check_writable, list_ids, write_run
from medgrpo.evaluation.score import Policy, apply_policy, score_completions
from medgrpo.exams.prompts import CHOICE_INSTRUCTION, NUMBER_INSTRUCTION, SYSTEM_PROMPT, build_prompt
from medgrpo.exams.question import Question
from medgrpo.owner import without_owner


@dataclass(frozen=True)
class Share:
    """Which of several processes this is, and how their lists come together (each gets them all)."""

    index: int = 0
    count: int = 1
    gather: Callable[[list[Any]], list[Any]] = list


ALONE = Share()


def evaluate(
    backend: Backend,
    questions: Sequence[Question],
    out_dir: str | Path,
    *,
    model: ModelIdentity,
    policy: Policy = "board",
    overwrite: bool = False,
    progress: bool = True,
) -> Run:
    """Let `backend` answer the questions, score the answers and write the run into `out_dir`.

    Completions are kept in `completions.partial.jsonl` as they come: stopped, and started again with the same
    settings, nothing is asked twice. A finished run in `out_dir` with these settings is only scored again
    (under another `policy`, say). `overwrite` begins anew instead.

    Raises `MedgrpoError` for no questions, a doubled id, a folder that cannot be written or holds completions
    of other settings, and for what the backend raises, telling what was kept.
    """
    questions = apply_policy(questions, policy)
    prompts = _build_prompts(questions)
    check_writable(out_dir)
    settings = _settings(backend, prompts, model)
    if overwrite:
        for name in (PARTIAL_FILE, RUN_FILE):
            (Path(out_dir) / name).unlink(missing_ok=True)
    finished = read_finished(out_dir, settings)
    if finished is not None:
        return _conclude(questions, finished, out_dir, policy, backend, settings)
    journal = CompletionJournal(out_dir, settings)
    try:
        todo = {name: prompt for name, prompt in prompts.items() if name not in journal.done}
        try:
            for name, text in _complete(backend, todo, len(prompts), progress):
                journal.add(name, text)
        except MedgrpoError as error:
            raise MedgrpoError(
                f"{error} ({len(journal.done)} of {len(prompts)} completions are kept in {journal.path}: "
                "the same command goes on from there)"
            ) from error
        run = _conclude(questions, journal.done, out_dir, policy, backend, settings)
        journal.remove()
    finally:
        journal.close()
    return run


def evaluate_in_memory(
    backend: Backend,
    questions: Sequence[Question],
    out_dir: str | Path,
    *,
    model: ModelIdentity,
    policy: Policy = "board",
    share: Share = ALONE,
    progress: bool = True,
) -> Run | None:
    """The same for a model that is only in memory, as one in training: nothing would say that it is still that
    model after a restart, so nothing is kept until the end, and an earlier run in `out_dir` is overwritten.

    The processes of `share` part the questions; the run is returned on the first one, None on the others.
    """
    questions = apply_policy(questions, policy)
    prompts = _build_prompts(questions)
    check_writable(out_dir)
    mine = dict(islice(prompts.items(), share.index, None, share.count))
    completions = dict(share.gather(list(_complete(backend, mine, len(mine), progress and share.index == 0))))
    if share.index > 0:
        return None
    return _conclude(questions, completions, out_dir, policy, backend, _settings(backend, prompts, model))


def _complete(backend: Backend, prompts: Mapping[str, Prompt], total: int, progress: bool) -> Iterator[tuple[str, str]]:
    if not prompts:
        return
    with tqdm(
        total=total, initial=total - len(prompts), unit="question", desc="generating", disable=not progress
    ) as bar:
        for name, text in backend.complete(prompts):
            yield name, text
            bar.update()


def _build_prompts(questions: Sequence[Question]) -> dict[str, Prompt]:
    if not questions:
        raise MedgrpoError("no questions to evaluate on")
    prompts = {question.id: build_prompt(question) for question in questions}
    if len(prompts) < len(questions):
        ids = [question.id for question in questions]
        doubled = sorted({name for name in ids if ids.count(name) > 1})
        raise MedgrpoError(f"more than one question with the id {list_ids(doubled)}: ids are unique")
    return prompts


def _settings(backend: Backend, prompts: Mapping[str, Prompt], model: ModelIdentity) -> dict[str, Any]:
    """What decides the completions: a run goes on, or is scored again, only where all of it is the same."""
    asked = json.dumps(sorted(prompts.items()), ensure_ascii=False).encode()
    settings = {
        "model": model.name,
        "revision": model.revision,
        "files": model.files,
        "seed": backend.sampling.seed,
        "sampling": dict(backend.settings),
        "prompts_sha256": hashlib.sha256(asked).hexdigest(),
    }
    return without_owner(settings)


def _conclude(
    questions: Sequence[Question],
    completions: Mapping[str, str],
    out_dir: str | Path,
    policy: Policy,
    backend: Backend,
    settings: Mapping[str, Any],
) -> Run:
    first = build_prompt(questions[0])
    template = {
        "system": SYSTEM_PROMPT,
        "choice_instruction": CHOICE_INSTRUCTION,
        "number_instruction": NUMBER_INSTRUCTION,
        # As the model sees it, chat template and all; as messages where a server applies the template.
        "first_prompt": backend.render(first) or first,
    }
    samples = score_completions(questions, completions)
    run_info = build_run_info(prompt_template=template, placement=dict(backend.placement), policy=policy, **settings)
    return write_run(out_dir, samples, run_info)
