"""Turns that ended without a reply, and what the user answers by ``Command(resume=…)``: no message says it for them.

A run that answers a question has the answer as its input. Earlier answers of the same turn are in the checkpoints:
LangGraph keeps them as writes of the task that asked.

A run that failed leaves no reply, and its message becomes a part of the next turn. A reply carries the mark of a turn
without memory; for a message without one, LangGraph notes in the metadata of each checkpoint whether its run had memory
(:data:`MEMORY_KEY`): the commit that keeps the message keeps that, too. Messages of which the checkpoints do not tell
count as without memory.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.types import RESUME
from langgraph.types import Command

from threadkeep.langgraph.history import answer_without_memory
from threadkeep.langgraph.identity import USER_KEYS, count_user_messages, is_root, names_owner, saver_of
from threadkeep.models.base import INPUT_ROLES, WITHOUT_MEMORY_KEY, Message, Role
from threadkeep.models.langchain import extras_of
from threadkeep.observability import log
from threadkeep.run_events import MEMORY_KEY, MemorySwitch, current_run
from threadkeep.text.requests import unwanted
from threadkeep.text.tokenizing import unspaced

if TYPE_CHECKING:
    from langchain.agents.middleware import ModelRequest, ModelResponse
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

    from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
    from threadkeep.identity import Owner
    from threadkeep.models.langchain import PlainMessages

_CHECKPOINTS_READ: Final = 100
"""So many of the newest checkpoints of a thread are looked at; a run that failed left one or two."""

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


def question_after_another(messages: PlainMessages) -> int:
    """Return the place of the user's newest message if the one before it is the user's, too; else 0."""
    newest = messages.newest_human[0]
    return newest if newest > 0 and isinstance(messages.given[newest - 1], HumanMessage) else 0


async def had_memory(messages: Sequence[BaseMessage], newest: int, config: Mapping[str, Any]) -> bool:
    """Return whether all messages right before the *newest* one of the user, which got no reply, had memory."""
    known, unanswered = _told_by_thread(messages, newest)
    saver = saver_of(config)
    if saver is None or not unanswered:
        return known
    try:
        found = [one async for one in saver.alist(_place(config), limit=_CHECKPOINTS_READ)]
    except NotImplementedError:  # a sync checkpointer
        found = await asyncio.to_thread(_listed, saver, config)
    except Exception as error:  # noqa: BLE001 - every checkpointer fails in its own way
        _warn(error)
        return False
    return _all_with_memory(unanswered, found, config)


def had_memory_sync(messages: Sequence[BaseMessage], newest: int, config: Mapping[str, Any]) -> bool:
    """Do what :func:`had_memory` does, blocking."""
    known, unanswered = _told_by_thread(messages, newest)
    saver = saver_of(config)
    if saver is None or not unanswered:
        return known
    try:
        return _all_with_memory(unanswered, _listed(saver, config), config)
    except Exception as error:  # noqa: BLE001 - every checkpointer fails in its own way
        _warn(error)
        return False


def own_unanswered(messages: PlainMessages, owner: Owner, config: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of the messages right before the newest one, without a reply, that runs of *owner* brought.

    In the thread of the application's checkpointer, others are attempts of users who were refused, perhaps. From any
    thread.
    """
    saver, newest = saver_of(config), messages.newest_human[0]
    first = newest
    while first > 0 and _is_question(messages.given[first - 1]):
        first -= 1
    unanswered = frozenset([one.id for one in messages.given[first:newest] if one.id])
    if saver is None or not unanswered:
        return frozenset()
    roots = {_id_in(one.config): one for one in _listed(saver, config) if is_root(one)}
    held = {key: unanswered & _message_ids(one) for key, one in roots.items()}
    own: set[str] = set()
    others: set[str] = set()
    for key, one in roots.items():
        parent = _id_in(one.parent_config)
        known = (not parent or parent in held) and names_owner(one, owner)
        (own if known else others).update(held[key] - held.get(parent, frozenset()))
    return frozenset(own - others)


def marking(
    handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
) -> Callable[[ModelRequest[Any]], ModelResponse[Any]]:
    """Return *handler* with marked replies."""
    return lambda request: answer_without_memory(handler(request))


def amarking(
    handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
) -> Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]:
    """Return *handler* with marked replies."""

    async def marked(request: ModelRequest[Any]) -> ModelResponse[Any]:
        return answer_without_memory(await handler(request))

    return marked


def _told_by_thread(messages: Sequence[BaseMessage], newest: int) -> tuple[bool, frozenset[str]]:
    """Return whether the turn has memory by its own marks, and the ids of messages of which they say nothing.

    The first reply of a turn tells of all of it. What this run was given has no mark, and needs none.
    """
    reply = next((one for one in messages[newest:] if isinstance(one, AIMessage)), None)
    if reply is not None:
        return WITHOUT_MEMORY_KEY not in extras_of(reply), frozenset()
    run = current_run()
    given = 0 if run is None else count_user_messages(run.root.inputs)
    first = newest
    while first > 0 and _is_question(messages[first - 1]):
        first -= 1
    earlier = messages[first : max(first, newest + 1 - max(given, 1))]
    marked = any(WITHOUT_MEMORY_KEY in extras_of(one) for one in earlier)
    return not marked, frozenset() if marked else frozenset([one.id for one in earlier if one.id])


def _is_question(message: BaseMessage) -> bool:
    return isinstance(message, HumanMessage) and not extras_of(message).get("lc_source")


def _all_with_memory(
    message_ids: frozenset[str], checkpoints: Sequence[CheckpointTuple], config: Mapping[str, Any]
) -> bool:
    """Return whether these messages came with runs with memory; *checkpoints* are the newest ones of the thread.

    A message came with the run of a checkpoint that has it while its parent has not. If the parent was pruned, or is
    older than what was read, that run is not known. A message that no checkpoint has may be one of any run.
    """
    roots = {_id_in(one.config): one for one in checkpoints if is_root(one)}
    held = {key: message_ids & _message_ids(one) for key, one in roots.items()}
    off = {key for key, one in roots.items() if _is_off(one, config)}
    if not message_ids <= frozenset[str]().union(*held.values()):
        return not off
    for key, one in roots.items():
        parent = _id_in(one.parent_config)
        if held[key] and parent and parent not in held:
            return False
        if key in off and held[key] - held.get(parent, frozenset()):
            return False
    return True


def _is_off(one: CheckpointTuple, config: Mapping[str, Any]) -> bool:
    """Return whether a checkpoint is of a run without memory, which was no refused attempt of another user."""
    metadata: Mapping[str, Any] = dict(one.metadata)
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    users = [(metadata.get(name), configurable.get(name)) for name in USER_KEYS]
    refused = any(theirs and own and theirs != own for theirs, own in users)
    return metadata.get(MEMORY_KEY) == MemorySwitch.OFF.value and not refused


def _id_in(config: Mapping[str, Any] | None) -> str:
    configurable: Mapping[str, Any] = (config or {}).get("configurable") or {}
    return str(configurable.get("checkpoint_id") or "")


def _message_ids(one: CheckpointTuple) -> frozenset[str]:
    """Return the ids of the messages in a checkpoint, whatever their channel is called."""
    ids: set[str] = set()
    for value in cast("Mapping[str, object]", one.checkpoint["channel_values"]).values():
        if isinstance(value, list):
            ids.update(part.id for part in cast("list[object]", value) if isinstance(part, BaseMessage) and part.id)
    return frozenset(ids)


def _listed(saver: BaseCheckpointSaver[Any], config: Mapping[str, Any]) -> list[CheckpointTuple]:
    return list(saver.list(_place(config), limit=_CHECKPOINTS_READ))


def _place(config: Mapping[str, Any]) -> RunnableConfig:
    configurable: Mapping[str, Any] = config.get("configurable") or {}
    kept = {key: value for key, value in configurable.items() if key not in ("checkpoint_id", "checkpoint_map")}
    return {"configurable": {**kept, "checkpoint_ns": ""}}


def _warn(error: Exception) -> None:
    log.warning(
        "The checkpoints of a thread could not be read (%s), so nothing is learnt from a turn that follows a message "
        "without a reply.",
        type(error).__name__,
    )
