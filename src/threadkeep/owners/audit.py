"""The audit of an owner, read and checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import InvalidInputError, RevisionConflictError
from threadkeep.memories.audited_writer import (
    AuditEntry,
    AuditHead,
    audit_namespace,
    entry_of,
    fault_in,
    head_of,
    stands_for,
)
from threadkeep.memories.codec import head_ref
from threadkeep.memories.reader import MemoryReader
from threadkeep.owners.models import Verified
from threadkeep.storage.interface import Item, Storage, iterate_items

if TYPE_CHECKING:
    from threadkeep.identity import Owner


class AuditReader:
    """The audits of all owners; it writes nothing."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._rows = MemoryReader(storage)

    async def list(self, owner: Owner, *, limit: int | None = None) -> list[AuditEntry]:
        """Return what was changed, newest first: the *limit* newest, or everything."""
        if limit is not None and limit < 0:
            msg = "limit must be 0 or more."
            raise InvalidInputError(msg)
        found = [entry for item in await self._items(owner) if (entry := entry_of(item)) is not None]
        return sorted(found, key=lambda entry: entry.number, reverse=True)[:limit]

    async def verify(self, owner: Owner, *, anchor: str | None = None) -> Verified:
        """Check that nothing of the audit was changed, taken out or put in.

        A writer with access to the database can compute a whole new chain. Compare with the ``anchor`` of an earlier
        check, noted elsewhere, to detect that.

        Args:
            owner: The owner.
            anchor: What an earlier check gave as its ``anchor``.

        Raises:
            InvalidInputError: *anchor* is none.
        """
        number, chain = _anchor_of(anchor) if anchor is not None else (0, "")
        items, head = await self._read(owner)
        fault = fault_in(items, head)
        entries = [entry for item in items if (entry := entry_of(item)) is not None]
        if fault is None and number and (number, chain) not in ((entry.number, entry.chain) for entry in entries):
            fault = f"entry {number} is not the one that was noted"
        told = {change.id for entry in entries for change in entry.changes}
        untold = [
            memory.memory_id async for memory in self._rows.walk(owner=owner) if not stands_for(memory.memory_id, told)
        ]
        return Verified(head.number, f"{head.number}:{head.chain}", fault, tuple(untold))

    async def _read(self, owner: Owner) -> tuple[Sequence[Item], AuditHead]:
        """Read the whole chain, of one moment."""
        message = "Other writers kept changing the audit while it was read; try again."

        async def read() -> tuple[Sequence[Item], AuditHead]:
            (before,) = await self._storage.get([head_ref(owner)])
            items = await self._items(owner)
            (after,) = await self._storage.get([head_ref(owner)])
            if (before and before.revision) != (after and after.revision):
                raise RevisionConflictError(message)
            return items, head_of(after)

        return await retry_conflicts(read, message=message)

    async def _items(self, owner: Owner) -> Sequence[Item]:
        return [item async for item in iterate_items(self._storage, owner.partition, prefix=audit_namespace(owner))]


def _anchor_of(text: str) -> tuple[int, str]:
    number, _, chain = text.partition(":")
    if not number.isdecimal() or not (chain or number == "0"):
        msg = "An anchor is what an earlier check printed, such as 12:5f0c…; give all of it."
        raise InvalidInputError(msg)
    return int(number), chain
