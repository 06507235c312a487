"""Looking after what is kept: why it is, taking changes back, and merging what says the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from threadkeep.arguments import checked_count
from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import RevisionConflictError
from threadkeep.ids import MemoryId
from threadkeep.memories.audited_writer import (
    ADDED,
    REMOVED,
    USER,
    AuditedChange,
    AuditedWriter,
    AuditEntry,
    stands_for,
)
from threadkeep.memories.codec import memory_of, moment_of, put_of, rows_of
from threadkeep.memories.labels import MAX_METADATA, MAX_TAGS
from threadkeep.memories.models import Memory, Status, Undone, Why, least_trusted, recallable
from threadkeep.memories.reader import MemoryReader, Searcher
from threadkeep.storage.interface import Delete, Embedding, Operation, Ref, Storage
from threadkeep.text.semantics import gist_of, same_meaning, same_words

if TYPE_CHECKING:
    from threadkeep.identity import Owner
    from threadkeep.memories.repository import MemoryRepository
    from threadkeep.memories.retention import LastUsed


_COMPARED: Final = 2_000


class MemoryMaintenance:
    """Looks after the memories of all owners, one at a time.

    Args:
        storage: Where they are.
        memories: Reads them.
        searcher: Makes vectors.
        audited_writer: Commits with an audit entry.
        uses: Knows when they were used.
        ttl: How long a memory lives; ``None``: for ever.
    """

    def __init__(
        self,
        storage: Storage,
        memories: MemoryRepository,
        searcher: Searcher,
        audited_writer: AuditedWriter,
        uses: LastUsed,
        *,
        ttl: timedelta | None,
    ) -> None:
        self._storage = storage
        self._rows = MemoryReader(storage)
        self._memories = memories
        self._searcher = searcher
        self._audited_writer = audited_writer
        self._uses = uses
        self._ttl = ttl

    async def undo(self, entries: Sequence[AuditEntry], *, owner: Owner, last: int) -> Undone:
        """Undo the *last* changes of memories, in one commit; what was forgotten stays so.

        A memory that was added goes, one that was changed is as it was before: its statement, when it is true, its
        pin. Nothing is kept from being learnt again.

        Args:
            entries: The owner's audit, newest first, all of it.
            owner: The owner.
            last: How many changes; plan_undo is none.

        Raises:
            RevisionConflictError: Another writer changed something meanwhile; read the audit again.
        """
        last = checked_count(last, "last", least=1)
        head = await self._audited_writer.head(owner)
        if head.number != (entries[0].number if entries else 0):
            msg = "Another process changed the memories; nothing was undone. Read the audit again and repeat."
            raise RevisionConflictError(msg)
        plan = plan_undo(entries, last=last)
        left = dict(plan.left)
        operations: list[Operation] = []
        restored: list[tuple[Memory, Embedding | None]] = []
        removed: list[MemoryId] = []
        items = await self._rows.items(plan.before, owner)
        for key, state in plan.before.items():
            item = items.get(key)
            memory = memory_of(item) if item else None
            if item is None or memory is None:
                left[key] = "it is gone"
            elif state is None:
                operations.append(Delete(memory.namespace, memory.memory_id, memory.revision))
                removed.append(memory.memory_id)
            elif (before := as_it_was(memory, state)) is None:
                left[key] = "how it was before is not in its history"
            else:
                restored.append((before, item.embedding if before.text == memory.text else None))
        new = [before.text for before, vector in restored if vector is None]
        vectors = rows_of(await self._searcher.embed_memories(new) if new else None, new)
        operations += [
            put_of(before, embedding=vector or vectors.get(before.text), expect=before.revision, ttl=self._ttl)
            for before, vector in restored
        ]
        if operations:
            await self._audited_writer.commit_from(head, owner, operations, by=USER, why=why_undo(plan.numbers))
        return Undone(plan.numbers, tuple(before.memory_id for before, _ in restored), tuple(removed), left)

    async def why(self, memory_id: str, entries: Sequence[AuditEntry], *, owner: Owner) -> Why:
        """Tell why something is remembered: who said it where, who approved it, what it was made of.

        Args:
            memory_id: Which memory.
            entries: The owner's audit, newest first.
            owner: The owner.

        Raises:
            MemoryNotFoundError: The owner has no such memory.
        """
        memory = await self._memories.require(memory_id, owner=owner)
        told = [entry for entry in entries if any(stands_for(memory_id, [c.id]) for c in entry.changes)]
        parents = await self._rows.items(memory.derived_from, owner)
        merged = [one async for one in self._rows.walk(owner=owner) if one.merged_into == memory.memory_id]
        return Why(
            memory,
            tuple(one for key in memory.derived_from if key in parents and (one := memory_of(parents[key]))),
            tuple(merged),
            tuple(reversed(told)),
            await self._uses.last(memory_id, owner),
        )

    async def restore(self, memory_id: str, *, owner: Owner, by: str = USER) -> Memory:
        """Let a memory that was archived or merged be recalled again; one that is active stays as it is.

        Args:
            memory_id: Which one.
            owner: The owner.
            by: The author of the change, for the audit.

        Raises:
            MemoryNotFoundError: The owner has no such memory.
            RevisionConflictError: Other writers kept getting in the way.
        """

        async def commit() -> Memory:
            memory = await self._memories.require(memory_id, owner=owner)
            if memory.status not in ("archived", "merged"):
                return memory
            vectors = rows_of(await self._searcher.embed_memories([memory.text]), [memory.text])
            after = replace(memory, status="active", archived=None, merged_into=None)
            put = put_of(after, embedding=vectors.get(memory.text), expect=memory.revision, ttl=self._ttl)
            await self._audited_writer.commit(owner, [put], by=by)
            return await self._memories.require(memory_id, owner=owner)

        return await retry_conflicts(commit)

    async def consolidate(self, *, owner: Owner, dry: bool = False) -> tuple[Merge, ...]:
        """Merge memories that say the same in other words; nothing is removed in this step.

        The newest statement stays and takes over where the others were said. They are no longer recalled,
        can be had back by :meth:`undo`, and go after thirty days.

        Args:
            owner: The owner; the 2,000 memories that were changed last are compared.
            dry: Only return what would be merged.

        Raises:
            RevisionConflictError: Other writers kept getting in the way.
        """

        async def commit() -> tuple[Merge, ...]:
            head = await self._audited_writer.head(owner)
            newest: list[Memory] = []
            async for memory in self._rows.walk(owner=owner):
                newest.append(memory)
                if len(newest) == _COMPARED:
                    break
            merges = await asyncio.to_thread(merges_of, newest)
            if dry or not merges:
                return merges
            operations: list[Operation] = []
            refs = [Ref(owner.partition, merge.kept.namespace, merge.kept.memory_id) for merge in merges]
            for merge, item in zip(merges, await self._storage.get(refs), strict=True):
                vector = item.embedding if item else None
                operations.append(put_of(merge.after, embedding=vector, expect=merge.kept.revision, ttl=self._ttl))
                operations += [
                    put_of(
                        replace(one, status="merged", merged_into=merge.kept.memory_id, pinned=False, approval=None),
                        embedding=None,
                        expect=one.revision,
                        ttl=MERGED_KEPT,
                    )
                    for one in merge.gone
                ]
            await self._audited_writer.commit_from(head, owner, operations, by="consolidation")
            return merges

        return await retry_conflicts(commit)


MERGED_KEPT: Final = timedelta(days=30)
"""How long a memory that gave way to another can be had back."""

MOST_MERGES: Final = 500
"""So many at once; what is left is merged by the next call."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Memories that say the same.

    Attributes:
        kept: The one that stays, as it is.
        after: The same, as it is then: with the sources, tags and metadata of all; of one name, its own value stays.
        gone: Those that give way.
    """

    kept: Memory
    after: Memory
    gone: tuple[Memory, ...]


def merges_of(memories: Sequence[Memory]) -> tuple[Merge, ...]:
    """Return what can be merged: facts of one kind and trust that mean the same, by their words.

    Pinned and approved memories stay; of the others, the newest stays. Trust never falls: a statement of the user's is
    never merged with one of another speaker.
    """
    groups: list[list[Memory]] = []
    gists = {memory.memory_id: gist_of(memory.text) for memory in memories}
    for memory in sorted(memories, key=_standing, reverse=True):
        if not recallable(memory) or memory.kind == "episodic":
            continue
        for group in groups:
            first = group[0]
            if (first.kind, first.trust, first.namespace) != (memory.kind, memory.trust, memory.namespace):
                continue
            same = same_meaning(gists[first.memory_id], gists[memory.memory_id])
            if same or same_words(first.text) == same_words(memory.text):
                group.append(memory)
                break
        else:
            groups.append([memory])
    merges = [_merge(group) for group in groups if len(group) > 1]
    return tuple(merge for merge in merges if merge.gone)[:MOST_MERGES]


def _merge(group: Sequence[Memory]) -> Merge:
    kept, *rest = group
    gone = tuple(one for one in rest if not one.pinned and one.approval is None)
    sources = tuple(dict.fromkeys(source for one in (*gone, kept) for source in one.sources))
    tags = tuple(dict.fromkeys(tag for one in (kept, *gone) for tag in one.tags))[:MAX_TAGS]
    metadata = dict(kept.metadata)
    for name, value in (pair for one in gone for pair in one.metadata.items()):
        if len(metadata) < MAX_METADATA:
            metadata.setdefault(name, value)
    after = replace(kept, sources=sources, trust=least_trusted(sources), tags=tags, metadata=metadata)
    return Merge(kept, after, gone)


def _standing(memory: Memory) -> tuple[bool, bool, float, str]:
    return memory.pinned, memory.approval is not None, memory.created_at.timestamp(), memory.memory_id


UNDO: Final = "undo"
"""How the reason of an entry begins that undid others; their numbers follow."""


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What is to be done to undo entries.

    Attributes:
        numbers: The entries that are undone, newest first.
        before: How each memory stood before them; ``None``: it was not there.
        left: Ids of what cannot be undone, with the reason.
    """

    numbers: tuple[int, ...]
    before: Mapping[str, Mapping[str, Any] | None]
    left: Mapping[str, str]


def plan_undo(entries: Sequence[AuditEntry], *, last: int) -> UndoPlan:
    """Return how to undo the *last* entries that changed memories and were not undone yet.

    Args:
        entries: Everything, newest first.
        last: How many.
    """
    done = {number for entry in entries for number in undone_by(entry)}
    wanted = [
        entry
        for entry in entries
        if entry.number not in done
        and not undone_by(entry)
        and any(change.thing == "memory" for change in entry.changes)
    ][:last]
    before: dict[str, Mapping[str, Any] | None] = {}
    left: dict[str, str] = {}
    for entry in wanted:
        for change in entry.changes:
            if change.thing != "memory":
                continue
            if change.what == REMOVED:
                left[change.id] = "it was removed, and nothing of it is kept"
            elif change.what == ADDED:
                before[change.id] = None
            else:
                earlier = _earlier(change, entry, entries)
                if earlier is None:
                    left[change.id] = "how it was before is not in the audit"
                else:
                    before[change.id] = earlier.state or {}
    kept = {key: state for key, state in before.items() if key not in left}
    return UndoPlan(tuple(entry.number for entry in wanted), kept, left)


def undone_by(entry: AuditEntry) -> tuple[int, ...]:
    """Return the numbers of the entries that *entry* undid."""
    what, _, numbers = entry.why.partition(":")
    if what != UNDO:
        return ()
    found: list[int] = []
    for part in numbers.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found += range(int(first), int(last or first) + 1)
    return tuple(found)


def why_undo(numbers: Iterable[int]) -> str:
    """Return the reason of an entry that undoes those with these *numbers*, with runs joined: ``undo:3-5,8``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return f"{UNDO}:{','.join(f'{a}-{b}' if a < b else str(a) for a, b in runs)}"


def as_it_was(memory: Memory, state: Mapping[str, Any]) -> Memory | None:
    """Return *memory* as it stood at *state*; ``None`` where its history does not reach back to that."""
    versions = state.get("versions", 0)
    status: Status = "active"
    match state.get("status"):
        case "rejected" | "proposed" | "merged" | "archived" as other:
            status = other
        case _:
            pass
    memory = replace(
        memory, valid_to=moment_of(state.get("valid_to")), pinned=state.get("pinned") is True, status=status
    )
    if status != "merged":
        memory = replace(memory, merged_into=None)
    if status != "archived":
        memory = replace(memory, archived=None)
    if not isinstance(versions, int) or versions > len(memory.history):
        return None
    if versions == len(memory.history):
        return memory
    old = memory.history[versions]
    sources = old.sources or memory.sources
    return replace(
        memory,
        text=old.text,
        sources=sources,
        trust=least_trusted(sources),
        approval=old.approval,
        valid_from=old.valid_from,
        history=memory.history[:versions],
    )


def _earlier(change: AuditedChange, entry: AuditEntry, entries: Sequence[AuditEntry]) -> AuditedChange | None:
    """Return the change of the same memory before *entry*, if the audit goes back so far."""
    for other in entries:
        if other.number < entry.number:
            for one in other.changes:
                if (one.thing, one.id) == (change.thing, change.id):
                    return None if one.what == REMOVED else one
    return None
