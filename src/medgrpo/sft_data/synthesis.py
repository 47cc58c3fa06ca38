"""Exam questions become items in two stages, many at a time, resumably."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tqdm import tqdm

from medgrpo.errors import MedgrpoError
from medgrpo.exams.question import Question
from medgrpo.sft_data.endpoint import Endpoint, Reply, ReplyFault
from medgrpo.sft_data.filters import Item
from medgrpo.sft_data.journal import ReplyJournal
from medgrpo.sft_data.parts import QUESTION_FIELD, STAGES, schema
from medgrpo.sft_data.prompt_files import Prompts

FAULTS_IN_A_ROW = 20
"""So many replies that can't be used, without a good one between them, mean that something is wrong."""


@dataclass
class Progress:
    """What this start asked for, and what went wrong with it."""

    asked: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    unfinished: list[str] = field(default_factory=list)


async def synthesise(
    questions: Sequence[Question],
    prompts: Prompts,
    endpoint: Endpoint,
    journal: ReplyJournal,
    *,
    concurrency: int = 16,
    progress: bool = True,
) -> Progress:
    """Ask for what `journal` does not have yet, `concurrency` requests at a time.

    An item whose reply can't be used stays unfinished, is counted under its reason, and is asked for again at
    the next start. Raises `MedgrpoError` where the endpoint refuses or can't be reached, or where 20 replies
    in a row can't be used; what was finished by then is in the journal.
    """
    if concurrency < 1:
        raise MedgrpoError(f"concurrency has to be at least 1, got {concurrency}")
    state = Progress()
    todo = [question for question in questions if (question.id, STAGES[-1]) not in journal.replies]
    waiting, done = iter(todo), len(questions) - len(todo)
    in_a_row = 0
    with tqdm(total=len(questions), initial=done, unit="item", desc="synthesis", disable=not progress) as bar:

        async def ask(stage: str, question: Question, person_question: str) -> Reply:
            nonlocal in_a_row
            state.asked += 1
            try:
                reply = await endpoint.ask(
                    prompts.messages(stage, question, person_question), f"stage_{stage}", schema(stage)
                )
            except ReplyFault as fault:
                in_a_row += 1
                if in_a_row >= FAULTS_IN_A_ROW:
                    raise MedgrpoError(
                        f"{endpoint.server.base_url}: {in_a_row} replies in a row could not be used (last: {fault}): "
                        "look at the server's log; started again, the same command goes on from here"
                    ) from fault
                raise
            in_a_row = 0
            journal.add(question.id, stage, reply.value, reply.prompt_tokens, reply.completion_tokens)
            bar.set_postfix(tokens=f"{journal.prompt_tokens:,} in, {journal.completion_tokens:,} out")
            return reply

        async def work() -> None:
            for question in waiting:
                try:
                    first = journal.replies.get((question.id, "question"))
                    if first is None:
                        first = (await ask("question", question, "")).value
                    await ask("text", question, first[QUESTION_FIELD])
                    bar.update()
                except ReplyFault as fault:
                    state.faults[str(fault)] += 1
                    state.unfinished.append(question.id)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(work())
        except ExceptionGroup as failed:
            # The first failure stopped the others; it says what is wrong.
            raise failed.exceptions[0] from None
    return state


def finished_items(questions: Sequence[Question], journal: ReplyJournal) -> list[Item]:
    """The items that have both stages, in the order of the questions."""
    items = []
    for question in questions:
        first, second = (journal.replies.get((question.id, stage)) for stage in STAGES)
        if first is not None and second is not None:
            items.append(Item(question.id, first[QUESTION_FIELD], second))
    return items
