"""What a user answers to the questions of a run, by ``Command(resume=…)``: no message of the thread says it for them.

A run that answers a question has the answer as its input. Earlier answers of the same turn are in the checkpoints:
LangGraph keeps them as writes of the task that asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast
from uuid import UUID

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.types import RESUME
from langgraph.types import Command

from threadkeep.models.base import INPUT_ROLES, MEMORY_KEY, MemorySwitch, Message, Role
from threadkeep.text.refusals import unwanted
from threadkeep.text.tokenizing import unspaced

if TYPE_CHECKING:
    from langgraph.checkpoint.base import CheckpointTuple

    from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
    from threadkeep.identity import Owner
    from threadkeep.models.langchain import PlainMessages

_CHECKPOINTS_READ: Final = 100
"""So many of the newest checkpoints are looked at for earlier answers of a turn."""

_MOST: Final = 50
"""So many answers of a turn are kept, the newest ones."""

_ROOT: Final = str(UUID(int=0))
"""LangGraph's id of the task that stands for the root graph."""

_INTERRUPT_ID: Final = re.compile(r"[0-9a-f]{32}")


def answers_of_input(inputs: object) -> list[str]:
    """Return the texts that the input of a run answers with; none where it is no ``Command``."""
    return [*_texts(inputs.resume)] if isinstance(inputs, Command) else []


async def earlier_answers(saver: ThreadkeepCheckpointer, owner: Owner, thread_id: str, *, turns: int) -> list[str]:
    """Return the texts that earlier runs of the thread's newest *turns* answered with, oldest first.

    Only our checkpointer's: in the thread of another one, a user who was refused may have answered. The checkpoint that
    follows an answer tells whether its run had memory; one that is not stored yet is of the run that asks. Where one
    task asked twice, the marks of what was written tell it. Of what a subgraph asked at one step of the root graph, the
    last answer is known.
    """
    view = saver.scoped(owner) if saver.is_scoped else saver
    found = await view.run(view.maintenance.way_back(thread_id, inputs=turns, limit=_CHECKPOINTS_READ))
    texts: list[str] = []
    then: CheckpointTuple | None = None
    for one, all_with_memory in found:
        if all_with_memory and (then is None or dict(then.metadata).get(MEMORY_KEY) != MemorySwitch.OFF.value):
            texts[:0] = [text for answers in _answered_at(one) for text in _texts(answers)]
        then = one
    return texts


@dataclass(frozen=True, slots=True)
class Answers:
    """What the user answered, oldest first.

    Attributes:
        newest: To questions of the newest turn's runs.
        overdue: To questions of the turn before, which ended without a reply.
    """

    newest: tuple[Message, ...] = ()
    overdue: tuple[Message, ...] = ()


NO_ANSWERS: Final = Answers()


def follows_unfinished_turn(messages: PlainMessages) -> bool:
    """Return whether the turn before the newest one ended after a tool, without a reply."""
    newest = messages.newest_human[0]
    return newest > 0 and isinstance(messages.given[newest - 1], ToolMessage)


def answers_from(texts: Iterable[str], messages: PlainMessages, *, resumed: bool) -> Answers:
    """Return *texts* as messages of the one who began the turn, each once, without those that such a message has in it.

    One word is a choice, and no statement. A result of a tool that contains the answer tells where the thread has it.

    Args:
        texts: The texts, oldest first.
        messages: The thread's.
        resumed: Whether the newest turn's run was asked; otherwise only answers of an unfinished turn before it count.
    """
    said = [one for one in messages if one.role in INPUT_ROLES]
    wanted = dict.fromkeys(
        text
        for text in texts
        if (len(text.split()) > 1 or unspaced(text)) and not any(text in one.text for one in said)
    )
    newest = messages.newest_human[0]
    overdue: tuple[Message, ...] = ()
    if follows_unfinished_turn(messages):
        begin = next((place for place in range(newest - 1, 0, -1) if messages[place].role in INPUT_ROLES), 0)
        before = messages[begin:newest]
        if all(one.memory and not (one.role in INPUT_ROLES and unwanted(one.text)) for one in before):
            overdue = tuple(one for one in _as_messages(wanted, before) if one.message_id)
    late = {one.text for one in overdue}
    answered = [text for text in wanted if text not in late] if resumed else []
    return Answers(_as_messages(answered, messages[max(0, newest) :]), overdue)


def _as_messages(texts: Iterable[str], turn: Sequence[Message]) -> tuple[Message, ...]:
    begun_by_agent = any(one.role == "agent" for one in turn[:1])  # which answers over A2A, too
    role: Role = "agent" if begun_by_agent else "user"
    results = [one for one in turn if one.role == "tool"]
    shown_in = {text: next((one.message_id for one in results if text in one.text), None) for text in texts}
    return tuple([Message(role, text, message_id) for text, message_id in shown_in.items()][-_MOST:])


def _texts(answer: object) -> Iterator[str]:
    """Return the texts of an answer: itself, several, one for each interrupt, or the words of decisions about tools."""
    match answer:
        case str():
            yield answer
        case list() | tuple():
            for one in cast("Sequence[object]", answer):
                yield from _texts(one)
        case Mapping():
            answered = cast("Mapping[str, object]", answer)
            if isinstance(decisions := answered.get("decisions"), list):
                yield from _texts([_message_of(one) for one in cast("list[object]", decisions)])
            elif all(_INTERRUPT_ID.fullmatch(str(key)) for key in answered):
                yield from _texts([*answered.values()])
        case _:
            pass


def _message_of(decision: object) -> object:
    return cast("Mapping[str, object]", decision).get("message") if isinstance(decision, Mapping) else None


def _answered_at(one: CheckpointTuple) -> list[list[object]]:
    """Return for each task of a checkpoint what it was answered, in order.

    A task that is a subgraph keeps its answers itself; then the last answer to the root graph stands for them.
    """
    writes = [(task, value) for task, channel, value in one.pending_writes or () if channel == RESUME]
    tasks = [cast("list[object]", value) for task, value in writes if task != _ROOT and isinstance(value, list)]
    return tasks or [[value] for task, value in writes if task == _ROOT]
