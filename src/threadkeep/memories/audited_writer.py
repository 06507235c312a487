"""Every change to what is kept about an owner is committed here, in one batch with the entry that tells of it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import RevisionConflictError
from threadkeep.memories.audit import AUDIT, Head, audited, head_of
from threadkeep.memories.codec import HEAD, head_ref
from threadkeep.storage.interface import Batch, Item, Operation, Position, Storage

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner

USER: Final = "user"
"""The author of changes where no other is named: the owner, or an application on their behalf."""

_HEADS: Final = 4096
_WRITTEN: Final = 10_000


def is_about(error: RevisionConflictError, operations: Sequence[Operation]) -> bool:
    """Return whether *error* is about the expected revision of one of *operations*."""
    at = (error.details.get("namespace"), error.details.get("key"))
    return any(at == (operation.namespace, operation.key) for operation in operations)


def _is_about_the_audit(error: RevisionConflictError) -> bool:
    namespace = error.details.get("namespace")
    return isinstance(namespace, tuple) and namespace[:1] in ((HEAD,), (AUDIT,))


class AuditedWriter:
    """Commits with an audit entry.

    The end of an owner's chain is remembered here, so that a change costs no further read; where another
    process has written since, the commit is refused by the storage and made again from what is there.
    """

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._heads: OrderedDict[bytes, Head] = OrderedDict()
        self._writing: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()
        self._written: dict[Owner, None] = {}

    def written(self) -> list[Owner]:
        """Return the owners with changes in this process since the last call; at most 10,000."""
        owners, self._written = list(self._written), {}
        return owners

    async def head(self, owner: Owner) -> Item | None:
        """Read the row by which two writers meet; read it before what you decide by."""
        (item,) = await self._storage.get([head_ref(owner)])
        return item

    async def commit_from(
        self,
        head: Item | None,
        owner: Owner,
        operations: Sequence[Operation],
        *,
        by: str,
        why: str = "",
        epoch: str | None = None,
    ) -> Position:
        """Commit what was decided by what was read since *head*.

        Raises:
            RevisionConflictError: Another writer changed something of the owner's since *head*, or an operation's
                expectation is not met; nothing was written.
            PartitionErasedError: The owner was erased since *epoch*.
        """
        return await self._commit(head_of(head), owner, operations, by=by, why=why, epoch=epoch)

    async def commit(
        self, owner: Owner, operations: Sequence[Operation], *, by: str, why: str = "", epoch: str | None = None
    ) -> Position:
        """Commit what does not depend on anything but what *operations* themselves expect.

        Raises:
            RevisionConflictError: An operation's expectation is not met; nothing was written.
            PartitionErasedError: The owner was erased since *epoch*.
        """
        key = owner.partition.digest

        async def commit() -> Position:
            head = self._heads.get(key) or head_of(await self.head(owner))
            try:
                return await self._commit(head, owner, operations, by=by, why=why, epoch=epoch)
            except RevisionConflictError:
                self._heads.pop(key, None)
                raise

        async with self._writing.setdefault(key, asyncio.Lock()):
            return await retry_conflicts(commit, retry_if=_is_about_the_audit)

    async def _commit(
        self, head: Head, owner: Owner, operations: Sequence[Operation], *, by: str, why: str, epoch: str | None
    ) -> Position:
        whole, after = audited(owner, head, operations, by=by, why=why, at=self._clock.now())
        position = await self._storage.commit(Batch(owner.partition, whole, epoch))
        key = owner.partition.digest
        self._heads[key] = Head(position.sequence, after.number, after.chain)
        self._heads.move_to_end(key)
        if len(self._written) < _WRITTEN:
            self._written[owner] = None
        while len(self._heads) > _HEADS:
            self._heads.popitem(last=False)
        return position
