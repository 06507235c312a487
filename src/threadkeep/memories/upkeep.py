"""Looking after what is kept: why it is, taking changes back, and merging what says the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from threadkeep.errors import InvalidInputError, RevisionConflictError
from threadkeep.ids import MemoryId
from threadkeep.memories.audit import Entry, head_of, stands_for
from threadkeep.memories.ledger import TRIES, USER, Ledger, give_way
from threadkeep.memories.merging import MERGED_KEPT, Merge, merges_of
from threadkeep.memories.port import Searcher
from threadkeep.memories.record import Memory, Undone, Why
from threadkeep.memories.rows import MemoryRows
from threadkeep.memories.shapes import memory_of, put_of
from threadkeep.memories.undo import as_it_was, undoing, why_undo
from threadkeep.memories.vectors import rows_of
from threadkeep.storage.port import Delete, Embedding, Operation, Ref, Storage

if TYPE_CHECKING:
    from threadkeep.memories.service import Memories
    from threadkeep.memories.uses import Uses
    from threadkeep.owners.owner import Owner

_COMPARED: Final = 2_000


class Upkeep:
    """Looks after the memories of all owners, one at a time.

    Args:
        storage: Where they are.
        memories: Reads them.
        searcher: Makes vectors.
        ledger: Commits with an audit entry.
        uses: Knows when they were used.
        ttl: How long a memory lives; ``None``: for ever.
    """

    def __init__(
        self,
        storage: Storage,
        memories: Memories,
        searcher: Searcher,
        ledger: Ledger,
        uses: Uses,
        *,
        ttl: timedelta | None,
    ) -> None:
        self._storage = storage
        self._rows = MemoryRows(storage)
        self._memories = memories
        self._searcher = searcher
        self._ledger = ledger
        self._uses = uses
        self._ttl = ttl

    async def undo(self, entries: Sequence[Entry], *, owner: Owner, last: int) -> Undone:
        """Undo the *last* changes of memories, in one commit; what was forgotten stays so.

        A memory that was added goes, one that was changed is as it was before: its statement, when it is true, its
        pin. Nothing is kept from being learnt again.

        Args:
            entries: The owner's audit, newest first, all of it.
            owner: Whose.
            last: How many changes; undoing is none.

        Raises:
            RevisionConflictError: Somebody changed something meanwhile; read the audit again.
        """
        if last < 1:
            msg = "Say how many changes to undo, 1 or more."
            raise InvalidInputError(msg)
        head = await self._ledger.head(owner)
        if head_of(head).number != (entries[0].number if entries else 0):
            msg = "Something was changed meanwhile; look at the audit again and repeat."
            raise RevisionConflictError(msg)
        plan = undoing(entries, last=last)
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
        vectors = rows_of(await self._searcher.embed_put(new) if new else None, new)
        operations += [
            put_of(before, embedding=vector or vectors.get(before.text), expect=before.revision, ttl=self._ttl)
            for before, vector in restored
        ]
        if operations:
            await self._ledger.commit_from(head, owner, operations, by=USER, why=why_undo(plan.numbers))
        return Undone(plan.numbers, tuple(before.memory_id for before, _ in restored), tuple(removed), left)

    async def why(self, memory_id: str, entries: Sequence[Entry], *, owner: Owner) -> Why:
        """Tell why something is remembered: who said it where, who approved it, what it was made of.

        Args:
            memory_id: Which memory.
            entries: The owner's audit, newest first.
            owner: Whose.

        Raises:
            MemoryNotFoundError: The owner has no such memory.
        """
        memory = await self._memories.require(memory_id, owner=owner)
        told = [entry for entry in entries if any(stands_for(memory_id, [c.id]) for c in entry.changes)]
        parents = await self._rows.items(memory.derived_from, owner)
        merged = [one async for one in self._rows.walk(owner) if one.merged_into == memory.memory_id]
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
            owner: Whose.
            by: Who wants it, as the audit tells it.

        Raises:
            MemoryNotFoundError: The owner has no such memory.
            RevisionConflictError: Other writers kept getting in the way.
        """
        for attempt in range(TRIES):
            memory = await self._memories.require(memory_id, owner=owner)
            if memory.status not in ("archived", "merged"):
                return memory
            vectors = rows_of(await self._searcher.embed_put([memory.text]), [memory.text])
            after = replace(memory, status="active", archived=None, merged_into=None)
            put = put_of(after, embedding=vectors.get(memory.text), expect=memory.revision, ttl=self._ttl)
            try:
                await self._ledger.commit(owner, [put], by=by)
            except RevisionConflictError:
                await give_way(attempt)
                continue
            return await self._memories.require(memory_id, owner=owner)
        msg = "Other writers kept getting in the way; try again."
        raise RevisionConflictError(msg)

    async def consolidate(self, *, owner: Owner, dry: bool = False) -> tuple[Merge, ...]:
        """Merge memories that say the same in other words; nothing is removed in this step.

        The newest statement stays and takes over where the others were said. They are no longer recalled,
        can be had back by :meth:`undo`, and go after thirty days.

        Args:
            owner: Whose; the 2,000 memories that were changed last are compared.
            dry: Only tell what would be merged.

        Raises:
            RevisionConflictError: Other writers kept getting in the way.
        """
        for attempt in range(TRIES):
            head = await self._ledger.head(owner)
            newest: list[Memory] = []
            async for memory in self._rows.walk(owner):
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
            try:
                await self._ledger.commit_from(head, owner, operations, by="consolidation")
            except RevisionConflictError:
                await give_way(attempt)
                continue
            return merges
        msg = "Other writers kept getting in the way; try again."
        raise RevisionConflictError(msg)
