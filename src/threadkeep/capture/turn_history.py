"""What is on record of a thread: which of its turns are missing, and the puts that record them.

It tells, too, which memories are from another branch of the thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from threadkeep.capture.models import ImportedTurns
from threadkeep.capture.turns import (
    THE_FIRST,
    TURN_SPACING,
    WITHOUT_MEMORY,
    Branch,
    SpokenTurn,
    TurnRecall,
    TurnRecord,
    branch_of,
    done,
    is_without_memory,
    message_trace,
    message_traces,
    missing_turns,
    names_of,
    newest_put,
    newest_trace,
    pending,
    put_of,
    record_of,
    split,
    trace_puts,
    traces_namespace,
    turns_namespace,
)
from threadkeep.ids import MemoryId, MessageId, ThreadId, TurnId
from threadkeep.models.base import INPUT_ROLES, Message
from threadkeep.observability import current_traceparent
from threadkeep.storage.interface import Put, Ref
from threadkeep.text.quoted import LONGEST_PLAY, in_play
from threadkeep.text.requests import unwanted

if TYPE_CHECKING:
    from threadkeep.identity import Owner
    from threadkeep.memories.models import Memory, Source
    from threadkeep.storage.interface import Item, Storage

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_BACK: Final = 2
"""How many turns are looked up at first: mostly the one before the newest is known. Then ever more, until one is."""

_LOOK_FURTHER: Final = 10
"""So many times as many are looked up each time."""

_MANY: Final = 200
"""More turns than this are parted off the loop: of an outage's thousands."""

_NEAR: Final = 20
"""How many of the newest turns tell which branch goes on."""

NOT_WANTED: Final = "not to be remembered"


@dataclass(frozen=True, slots=True)
class TurnLookup:
    """What is on record of the turns that a thread shows.

    Attributes:
        turns: Those that were looked up, oldest first: the one before the first missing one is among them.
        missing: Those that are newer than the newest known one, oldest first.
        known: Ids and traces that are on record, and of which turn each is.
        newest: The turn of the thread that was recorded last; ``None``: none was, or there is no thread.
        branch: That turn's branch.
        beside: The item that was asked for, too.
        without_memory: Those of *known* that are of turns without memory.
        taught_by: The turn of each of *known* that is learnt from, if it is an earlier record of the same messages.
    """

    turns: tuple[SpokenTurn, ...]
    missing: tuple[SpokenTurn, ...]
    known: Mapping[str, TurnId]
    newest: TurnId | None = None
    branch: Branch = THE_FIRST
    beside: Item | None = None
    without_memory: Collection[str] = ()
    taught_by: Mapping[str, TurnId] = field(default_factory=dict[str, TurnId])

    def is_without_memory(self, turn: SpokenTurn) -> bool:
        """Return whether what the user said in *turn*, or a part of it, was said without memory."""
        return not {turn.said or "", *message_traces(turn)}.isdisjoint(self.without_memory)

    @property
    def unknown(self) -> bool:
        """Whether nothing that the thread shows is on record."""
        return len(self.missing) == len(self.turns)


def _taught_by(trace: Item) -> TurnId:
    """Return the turn that is learnt from: the one of *trace*, or an earlier record of the same messages."""
    return TurnId(str(trace.value.get("taught_by") or trace.value.get("turn_id", trace.ref.key)))


class OnRecord:
    """Looks up turns of owners.

    Args:
        storage: Where they are recorded.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @staticmethod
    def newest_turns(messages: Sequence[Message], *, thread_id: ThreadId | None) -> tuple[SpokenTurn, ...]:
        """Return the turns of *messages* that :meth:`find` looks up first; none where no message is a user's."""
        return split(messages, thread_id=thread_id, newest=_LOOK_BACK + 1)

    async def find(
        self,
        turns: tuple[SpokenTurn, ...],
        messages: Sequence[Message],
        *,
        owner: Owner,
        thread_id: ThreadId | None,
        beside: Ref | None = None,
    ) -> TurnLookup:
        """Return which turns of *messages* are missing, however many an outage left.

        If the newest turns of a thread are on record, its older messages are not read, however many there are.

        Args:
            turns: The newest ones; see :meth:`newest_turns`.
            messages: The thread's messages.
            owner: The owner of the thread.
            thread_id: The thread.
            beside: An item that is read with the turns, in the same call.
        """
        known: dict[str, TurnId] = {}
        learnt: dict[str, TurnId] = {}
        without_memory: list[str] = []
        newest, branch, other = None, THE_FIRST, None
        looked, reach = 0, _LOOK_BACK
        newest_key = newest_trace(thread_id) if thread_id is not None else None
        also = [] if beside is None else [beside]
        if newest_key is not None:
            also.append(Ref(owner.partition, traces_namespace(owner), newest_key))
        while True:
            if looked:  # one more, which tells whether that is all
                turns = await off_loop_if(reach > _MANY, split, messages, thread_id=thread_id, newest=reach + 1)
            part = turns[-reach : len(turns) - looked]
            refs = self._refs(part, owner, traced=part if looked else part[:-1])
            for item in await self._storage.get([*refs, *also]):
                if item is None:
                    continue
                if item.ref == beside:
                    other = item
                elif item.ref.key == newest_key:
                    newest, branch = TurnId(str(item.value.get("turn_id"))), branch_of(item.value.get("branch"))
                else:
                    known[item.ref.key] = TurnId(str(item.value.get("turn_id", item.ref.key)))
                    learnt[item.ref.key] = _taught_by(item)
                    if is_without_memory(item):
                        without_memory.append(item.ref.key)
            missing = missing_turns(turns[-reach:], known)
            if len(missing) < reach or reach >= len(turns):
                return TurnLookup(turns, missing, known, newest, branch, other, without_memory, learnt)
            looked, reach, also = reach, _LOOK_FURTHER * reach, []

    async def branch(self, found: TurnLookup, *, owner: Owner, thread_id: ThreadId | None) -> Branch:
        """Return the branch that the missing turns are on.

        They are on the newest turn's, unless they go on from an older one: then they begin a branch of their own. What
        was there before and is not shown any more, or never was, is taken to have been gone on from; so is what is
        known by its words alone, because the user may have said them again.
        """
        first = found.missing[0]
        place = len(found.turns) - len(found.missing)
        before = names_of(found.turns[place - 1]) if place else ()
        goes_on_from = next((found.known[name] for name in (first.said or "", *before) if name in found.known), None)
        if found.newest is None or goes_on_from in (None, found.newest):
            return found.branch
        (record,) = await self.records([goes_on_from], owner=owner)
        if record is None:
            return found.branch
        return _branch_in(record, thread_id).left(at=record.turn.at, by=first.turn_id)

    def is_doubtful(self, memory: Memory, shown: Collection[str], *, thread_id: ThreadId) -> bool:
        """Return whether :meth:`elsewhere` has to look *memory* up: it was learnt in this thread alone.

        Args:
            memory: The memory.
            shown: The ids of the messages that the thread shows; none of them is the source of a doubtful memory.
            thread_id: The thread.
        """
        return bool(memory.sources) and _only_in(thread_id, memory.sources, shown)

    async def learnt_on_other_branches(
        self, memories: Sequence[Memory], messages: Sequence[Message], *, owner: Owner, thread_id: ThreadId
    ) -> Collection[MemoryId]:
        """Return which of *memories* were learnt in this thread alone, and not on the way to its newest turn.

        Args:
            memories: Of *owner*.
            messages: The thread as it goes on, the question included; what was learnt from one of them is on the way.
            owner: The owner of the thread.
            thread_id: Which.

        Raises:
            StorageError: The storage cannot be used.
        """
        in_doubt = doubtful(memories, messages, thread_id=thread_id)
        if not in_doubt:
            return ()
        turns = split(messages, thread_id=thread_id, newest=_NEAR)
        traces = {one: _traces_of(one) for memory in in_doubt for one in memory.sources}
        # A turn without ids is called as one of its traces; of the others only their names are asked for.
        refs = self._refs(turns, owner, traced=[turn for turn in turns[:-1] if turn.said is None])
        refs += [Ref(owner.partition, traces_namespace(owner), trace) for trace in set(traces.values()) if trace]
        known = {
            item.ref.key: TurnId(str(item.value.get("turn_id", item.ref.key)))
            for item in await self._storage.get(refs)
            if item is not None
        }
        goes_on_from = next(
            (known[name] for turn in reversed(turns) for name in names_of(turn) if name in known),
            None,
        )
        if goes_on_from is None:
            return ()
        of_source = {one: one.turn_id or known.get(trace or "") for one, trace in traces.items()}
        ids = list(dict.fromkeys([goes_on_from, *(turn for turn in of_source.values() if turn)]))
        records = dict(zip(ids, await self.records(ids, owner=owner), strict=True))
        newest = records[goes_on_from]
        if newest is None:
            return ()
        branch = _branch_in(newest, thread_id)

        def _is_on_branch(source: Source) -> bool:
            record = records.get(of_source[source] or TurnId(""))
            if record is None or record.turn.thread_id != thread_id:
                return True  # the record is gone
            return record.branch.led_to(branch, at=record.turn.at, until=newest.turn.at)

        return {one.memory_id for one in in_doubt if not any(_is_on_branch(source) for source in one.sources)}

    async def records(self, turn_ids: Sequence[TurnId], *, owner: Owner) -> list[TurnRecord | None]:
        """Return the records of these turns, in their order; ``None`` for what is not there."""
        namespace = turns_namespace(owner)
        items = await self._storage.get([Ref(owner.partition, namespace, turn_id) for turn_id in turn_ids])
        return [record_of(item) if item else None for item in items]

    async def of_messages(self, message_ids: Sequence[MessageId], *, owner: Owner) -> dict[MessageId, TurnRecord]:
        """Return the records of the turns with these messages of the user, in their order; those that are there.

        Where a turn was recorded again with another reply, it is the record that is learnt from, with what recall gave
        to the last reply.
        """
        refs = [Ref(owner.partition, traces_namespace(owner), message_trace(one)) for one in message_ids]
        traces = await self._storage.get(refs) if refs else ()
        turn_ids = {
            message_id: (TurnId(str(item.value.get("turn_id"))), _taught_by(item))
            for message_id, item in zip(message_ids, traces, strict=True)
            if item is not None
        }
        wanted = list(dict.fromkeys(turn_id for both in turn_ids.values() for turn_id in both))
        records = dict(zip(wanted, await self.records(wanted, owner=owner) if wanted else (), strict=True))
        found: dict[MessageId, TurnRecord] = {}
        for message_id, (turn_id, learnt_from) in turn_ids.items():
            last, learnt = records[turn_id], records[learnt_from]
            if learnt is not None and last is not None:
                found[message_id] = replace(learnt, given=last.given or learnt.given)
            elif (record := learnt or last) is not None:
                found[message_id] = record
        return found

    async def any_without_memory(self, message_ids: Sequence[MessageId], *, owner: Owner) -> bool:
        """Return whether one of these messages of the user was said without memory."""
        refs = [Ref(owner.partition, traces_namespace(owner), message_trace(one)) for one in message_ids]
        traces = await self._storage.get(refs) if refs else ()
        return any(trace is not None and is_without_memory(trace) for trace in traces)

    def _refs(self, turns: Sequence[SpokenTurn], owner: Owner, *, traced: Sequence[SpokenTurn]) -> list[Ref]:
        """Return where the ids of *turns* and the user's words in them are, and the traces of those that are *traced*.

        The newest turn of a thread may not be on record yet: then what others said in the same words does not count.
        """
        partition, records, traces = owner.partition, turns_namespace(owner), traces_namespace(owner)
        refs = [Ref(partition, records, turn.turn_id) for turn in turns]
        refs += [Ref(partition, traces, trace) for turn in traced for trace in turn.traces]
        refs += [Ref(partition, traces, turn.said) for turn in turns if turn.said]
        for turn in turns:  # of several messages without a reply between them, each may have been without memory
            if len(turn.messages) > 1 and turn.messages[1].role in INPUT_ROLES:
                refs += [Ref(partition, traces, trace) for trace in message_traces(turn)]
        return refs


def doubtful(memories: Sequence[Memory], messages: Sequence[Message], *, thread_id: ThreadId) -> list[Memory]:
    """Return those of *memories* that :meth:`OnRecord.elsewhere` has to look up.

    They were learnt in this thread alone, from none of *messages*.
    """
    shown = {message.message_id for message in messages if message.message_id}
    return [one for one in memories if one.sources and _only_in(thread_id, one.sources, shown)]


_THREAD_ID: Final[Callable[[Source], ThreadId | None]] = attrgetter("thread_id")
_MESSAGE_ID: Final[Callable[[Source], MessageId | None]] = attrgetter("message_id")


def _only_in(thread_id: ThreadId, sources: Sequence[Source], shown: Collection[str]) -> bool:
    in_thread = {thread_id}.issuperset(map(_THREAD_ID, sources))
    return in_thread and not any(map(shown.__contains__, map(_MESSAGE_ID, sources)))


async def off_loop_if(much: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:  # noqa: FBT001 - the condition in its name
    """Call *work*, in a thread where it is *much*."""
    return await asyncio.to_thread(work, *args, **kwargs) if much else work(*args, **kwargs)


def _traces_of(source: Source) -> str | None:
    """Return what a source that names no turn may be known by: what a tool kept came before the turn was recorded."""
    return message_trace(source.message_id) if source.turn_id is None and source.message_id else None


def _branch_in(record: TurnRecord, thread_id: ThreadId | None) -> Branch:
    """Return the branch of a turn as seen from a thread; what was copied from another one is the first one's."""
    return record.branch if record.turn.thread_id == thread_id else THE_FIRST


def played_turns(messages: Sequence[Message], turns: Sequence[SpokenTurn]) -> frozenset[TurnId]:
    """Return which of *turns*, the newest ones of *messages*, play a part that they or an earlier message began."""
    own = [message for turn in turns for message in turn.messages if message.role in INPUT_ROLES]
    inputs = (message for message in reversed(messages) if message.role in INPUT_ROLES)
    said = [*islice(inputs, len(own) + LONGEST_PLAY)][::-1]
    played = {id(one) for one, part in zip(said, in_play([one.text for one in said]), strict=True) if part}
    if not played:
        return frozenset()
    return frozenset([turn.turn_id for turn in turns if not played.isdisjoint(map(id, turn.messages))])


@dataclass(frozen=True, slots=True)
class NewestTurn:
    """What is known of the newest turn besides its messages.

    Attributes:
        texts: What recall had put in.
        given: What the record keeps of that.
        imported: When imported turns took place, and whether they are asked about.
        without_memory: Whether nothing is learnt from it.
        answers: What the user answered to questions of its run, oldest first; the thread does not show it as theirs.
        overdue: The same of the turn before, which ended without a reply.
    """

    texts: Sequence[str] = ()
    given: TurnRecall | None = None
    imported: ImportedTurns | None = None
    without_memory: bool = False
    answers: Sequence[Message] = ()
    overdue: Sequence[Message] = ()


def turn_puts(
    turns: Sequence[SpokenTurn],
    moments: Sequence[datetime],
    *,
    uses: Mapping[TurnId, bool | None],
    found: TurnLookup,
    owner: Owner,
    thread_id: ThreadId | None,
    newest: NewestTurn,
    due_at: datetime,
    worker: str | None,
    redact: Callable[[str], str],
) -> list[Put]:
    """Record *turns* at one of *moments*.

    *uses* says of those to learn from whether they may play a part, and ``None`` of those without memory. Others are
    only marked as seen, beside the record that is learnt from, if *found* has one of the same words.
    """
    puts: dict[tuple[str, str], Put] = {}
    for turn, at in zip(turns, moments, strict=True):
        before = newest if turn is turns[-1] else NewestTurn()
        messages = _with_answers(turn, before, learnt=turn.said in found.known)
        record = pending(
            turn if messages is turn.messages else replace(turn, messages=messages),
            thread_id=thread_id,
            at=at,
            recalled=before.texts,
            redact=redact,
            played=uses.get(turn.turn_id) or False,
        )
        record = replace(
            record,
            turn=replace(record.turn, turn_id=turn.turn_id),
            worker=worker,
            branch=found.branch,
            given=before.given,
            trace=current_traceparent(),
            ask=newest.imported is not None and newest.imported.ask,
        )
        without_memory = turn.turn_id in uses and uses[turn.turn_id] is None
        if without_memory or turn.turn_id not in uses:
            record = done(record, (), rejected=[WITHOUT_MEMORY] if without_memory else ())
        elif any(
            map(
                unwanted,
                [one.text for one in (*turn.messages, *before.answers, *before.overdue) if one.role in INPUT_ROLES],
            )
        ):
            record = done(record, (), rejected=[NOT_WANTED])
        left = [
            put_of(record, owner, due_at=due_at, expect="absent"),
            *trace_puts(
                turn,
                owner,
                memory=not without_memory,
                taught_by=None if turn.turn_id in uses else found.taught_by.get(turn.said or ""),
            ),
        ]
        if thread_id is not None:
            left.append(newest_put(thread_id, turn.turn_id, found.branch, owner))
        for put in left:
            puts[put.namespace[0], put.key] = put
    return [*puts.values()]


def _with_answers(turn: SpokenTurn, known: NewestTurn, *, learnt: bool) -> tuple[Message, ...]:
    """Return the messages of *turn* with the user's answers in the order said; not what was *learnt* already."""
    if not known.answers:
        return (*known.overdue, *turn.messages) if known.overdue else turn.messages
    said = [one for one in turn.messages if not learnt or one.role not in INPUT_ROLES]
    place = len(said) - 1 if said and said[-1].role == "assistant" else len(said)
    return (*known.overdue, *said[:place], *known.answers, *said[place:])


def imported_moments(turns: Sequence[SpokenTurn], imported: ImportedTurns) -> list[datetime]:
    """Return when each of *turns* took place; those of one moment keep their order."""
    moments: list[datetime] = []
    for turn in turns:
        at = min(
            imported.at[key] for one in turn.messages if (key := one.message_id) is not None and key in imported.at
        )
        moments.append(max(at, moments[-1] + TURN_SPACING) if moments else at)
    return moments
