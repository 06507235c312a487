"""Who wants no memory, or none in a thread: known in RAM, so that a turn of theirs reads and writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from threadkeep.errors import OptedOutError
from threadkeep.ids import short_digest
from threadkeep.storage.interface import Batch, Delete, Operation, Partition, Put, Storage, iterate_items

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.identity import Owner

OPT_OUTS: Final = ".opt-outs"
PARTITION: Final = Partition("root", (OPT_OUTS,))

_BATCH: Final = 5_000


class OptOuts:
    """All opt-outs, in a partition of their own: an owner's would have to be read to know that it must not be."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock
        self._known: set[str] = set()
        self._noticed: tuple[str, int] | None = None

    def holds(self, owner: Owner, thread_id: str | None = None) -> bool:
        """Whether nothing may be recalled or learnt: for *owner* at all, or in this thread. It reads nothing."""
        if not self._known:
            return False
        return _key(owner) in self._known or (thread_id is not None and _key(owner, thread_id) in self._known)

    def require_wanted(self, owner: Owner, thread_id: str | None = None) -> None:
        """Refuse to remember anything about an owner who wants no memory, at all or in this thread.

        Raises:
            OptedOutError: The owner has opted out.
        """
        if self.holds(owner, thread_id):
            raise opted_out_error()

    async def set(self, owner: Owner, *, thread_id: str | None = None, out: bool = True) -> None:
        """Opt out, or in again; it holds in this process from now on, and in others within seconds."""
        key = _key(owner, thread_id)
        operation: Operation = Delete((OPT_OUTS,), key)
        if out:
            operation = Put((OPT_OUTS,), key, {"at": self._clock.now().isoformat()})
        await self._storage.commit(Batch(PARTITION, [operation]))
        (self._known.add if out else self._known.discard)(key)

    async def forget(self, owner: Owner) -> None:
        """Remove every opt-out of an owner who is erased."""
        gone = sorted(key for key in await self._read() if key.startswith(_key(owner)))
        for start in range(0, len(gone), _BATCH):
            deletes = [Delete((OPT_OUTS,), key) for key in gone[start : start + _BATCH]]
            await self._storage.commit(Batch(PARTITION, deletes))
        self._known.difference_update(gone)

    async def notice(self) -> None:
        """Read what was changed, by whichever process; one small read where nothing was."""
        position = await self._storage.position(PARTITION)
        seen = (position.epoch, position.sequence)
        if seen != self._noticed:
            self._known = await self._read()
            self._noticed = seen

    async def _read(self) -> set[str]:
        return {item.ref.key async for item in iterate_items(self._storage, PARTITION)}


def _key(owner: Owner, thread_id: str | None = None) -> str:
    key = owner.partition.digest.hex()
    return key if thread_id is None else f"{key}-{short_digest('thread', thread_id)}"


def opted_out_error() -> OptedOutError:
    """Return the error for an owner who wants no memory."""
    return OptedOutError("The owner has opted out of memory; tk.owners.opt_out(owner, out=False) opts in again.")
