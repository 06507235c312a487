"""Learn from exports of earlier conversations: the user's own words, as of when they were written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from threadkeep.errors import OptedOutError
from threadkeep.ids import MessageId, ThreadId, short_digest
from threadkeep.models.base import Message

if TYPE_CHECKING:
    from datetime import datetime

    from threadkeep.identity import Owner
    from threadkeep.services import Services
    from threadkeep.transfer.conversation_exports import (
        Export,
        ExportedConversation,
        ExportedMessage,
        ExportFormat,
    )

ImportProgress: TypeAlias = Callable[[int, int], object]
"""Called with how many conversations are done and how many there are; must be quick."""

TURNS_OF_A_THREAD: Final = 100
"""A longer conversation becomes several threads, each from the same message on in every export."""

_TOMORROW: Final = timedelta(days=1)
_SETTLE: Final = timedelta(minutes=10)
"""How long it waits for turns that another process learns from."""

_NAME_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class SkippedConversation:
    """A conversation that was left out, and why."""

    conversation_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ConversationImport:
    """The result of an import.

    Attributes:
        program: Of which program the export is.
        conversations: How many conversations were read.
        messages: How many messages of the user they have.
        new: How many of these were not imported before.
        memories: How many memories they taught, changed or confirmed.
        proposals: How many statements wait for an approval.
        skipped: The conversations that were left out; the others are imported.
    """

    program: ExportFormat
    conversations: int
    messages: int
    new: int
    memories: int
    proposals: int
    skipped: tuple[SkippedConversation, ...]


async def learn_from_export(
    services: Services, export: Export, *, owner: Owner, accept: bool, progress: ImportProgress | None = None
) -> ConversationImport:
    """Learn from every conversation of *export* that is not imported yet, one after the other.

    An import that ended early is repeated: what is there is skipped.

    Args:
        services: Of the memory.
        export: The conversations.
        owner: The user who wrote the messages.
        accept: Keep what the policy keeps of the user's own words; otherwise every statement is proposed.
        progress: Called after each conversation.

    Raises:
        OptedOutError: The owner opted out of memory.
        StorageError: The storage failed; the import can be repeated.
    """
    if services.opt_outs.holds(owner, None):
        msg = "The owner has opted out of memory; tk.owners.opt_out(owner, out=False) opts in again."
        raise OptedOutError(msg)
    skipped: list[SkippedConversation] = []
    messages = new = 0
    memories: set[str] = set()
    proposals: set[str] = set()
    latest = services.clock.now() + _TOMORROW
    for number, conversation in enumerate(export.conversations, 1):
        if problem := conversation.problem or _problem(conversation, latest):
            skipped.append(SkippedConversation(conversation.conversation_id, problem))
            continue
        for thread_id, part in _threads(export.program, conversation):
            turns, moments = _turns(thread_id, part)
            receipt = await services.captures.learn_imported(
                turns, at=moments, ask=not accept, owner=owner, thread_id=thread_id
            )
            messages += len(part)
            if receipt.status == "queued":
                settled = await services.captures.settle(receipt, owner=owner, timeout=_SETTLE)
                new += len(receipt.turn_ids)
                memories.update(settled.memory_ids)
                proposals.update(settled.proposal_ids)
        if progress is not None:
            progress(number, len(export.conversations))
    await services.captures.drain(_SETTLE, others=True)  # what an import that was stopped had recorded
    read = len(export.conversations) - len(skipped)
    return ConversationImport(export.program, read, messages, new, len(memories), len(proposals), tuple(skipped))


def _problem(conversation: ExportedConversation, latest: datetime) -> str:
    """Return why a conversation cannot be imported; empty: it can."""
    future = next((message.at for message in conversation.messages if message.at > latest), None)
    return f"a message is dated {future:%Y-%m-%d}, in the future" if future else ""


def _threads(
    program: ExportFormat, conversation: ExportedConversation
) -> Iterator[tuple[ThreadId, Sequence[ExportedMessage]]]:
    """Yield the threads that a conversation becomes, each with its messages."""
    name = conversation.conversation_id
    name = name if len(name) <= _NAME_CHARACTERS else short_digest(name)
    messages = list({one.message_id: one for one in conversation.messages if one.text.strip()}.values())
    for start in range(0, len(messages), TURNS_OF_A_THREAD):
        part = messages[start : start + TURNS_OF_A_THREAD]
        yield ThreadId(f"import:{program}:{name}:{start // TURNS_OF_A_THREAD}"), part


def _turns(thread_id: ThreadId, messages: Sequence[ExportedMessage]) -> tuple[list[Message], dict[MessageId, datetime]]:
    """Return each message as a turn of its own, behind which an empty reply stands, and when it was written."""
    conversation = thread_id.rpartition(":")[0]
    moments = {MessageId(f"{conversation}:{message.message_id}"): message.at for message in messages}
    turns = [
        part
        for key, message in zip(moments, messages, strict=True)
        for part in (Message("user", message.text, key), Message("assistant", ""))
    ]
    return turns, moments
