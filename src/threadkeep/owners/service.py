"""Everything that is held about an owner: show it, export it, erase it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from threadkeep.capture.accounts import ACCOUNTS
from threadkeep.memories.audit import AUDIT
from threadkeep.memories.shapes import HEAD, SUMMARIES, is_memory_namespace, memory_of
from threadkeep.owners.record import Erased, Holdings
from threadkeep.proposals.shapes import DIGEST_KEY, PROPOSALS, TOMBSTONES
from threadkeep.storage.port import Item, Partition, Storage

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.owners.owner import Owner

FORMAT: Final = 1
"""Version of the export's lines."""

_PAGE: Final = 500
_PLACES: Final = {
    SUMMARIES: "summary",
    ".threads": "thread",
    PROPOSALS: "proposal",
    TOMBSTONES: "tombstone",
    ACCOUNTS: "account",
    AUDIT: "audit",
}


class Indexes(Protocol):
    """What this room needs of search."""

    def forget(self, partition: Partition) -> None:
        """Drop the index of *partition*."""
        ...


class Threads(Protocol):
    """What this room needs of threads."""

    async def of_owner(self, owner: Owner) -> Sequence[str]:
        """Return the threads that are bound to *owner*."""
        ...

    async def release(self, owner: Owner) -> None:
        """Forget which threads were bound to *owner*."""
        ...


class Owners:
    """Everything about one owner at a time."""

    def __init__(
        self,
        storage: Storage,
        indexes: Indexes,
        threads: Threads,
        clock: Clock,
        *,
        delete_thread: Callable[[Owner, str], Awaitable[None]],
    ) -> None:
        self._storage = storage
        self._indexes = indexes
        self._threads = threads
        self._clock = clock
        self._delete_thread = delete_thread

    async def show(self, owner: Owner) -> Holdings:
        """Count what is held about *owner*."""
        account: dict[str, float] = {}
        kinds: Counter[str] = Counter()
        rest: Counter[str] = Counter()
        async for item in self._items(owner):
            place = _place(item)
            if place == "memory":
                memory = memory_of(item)
                kinds[memory.kind if memory else "unreadable"] += 1
            else:
                rest[place] += 1
            if place == "account":
                account = {name: number for name, number in item.value.items() if isinstance(number, int | float)}
        return Holdings(
            owner=owner,
            memories=dict(kinds),
            summaries=rest["summary"],
            turns_waiting=rest["turn"],
            turns_seen=rest["turn_seen"],
            proposals=rest["proposal"],
            tombstones=rest["tombstone"],
            extraction=account,
            threads=tuple(await self._threads.of_owner(owner)),
            other=rest["item"],
        )

    async def export(self, owner: Owner) -> AsyncIterator[dict[str, Any]]:
        """Yield everything that is held about *owner*, one JSON object a line; the first says whose it is."""
        yield {
            "type": "owner",
            "format": FORMAT,
            "user_id": owner.user_id,
            "tenant": owner.tenant,
            "exported_at": self._clock.now().isoformat(),
            "threads": list(await self._threads.of_owner(owner)),
        }
        async for item in self._items(owner):
            if _says_nothing(item):
                continue
            yield {
                "type": _place(item),
                "namespace": list(item.ref.namespace),
                "key": item.ref.key,
                "value": item.value,
                "created_at": item.created_at.isoformat(),
                "updated_at": item.updated_at.isoformat(),
                "expires_at": item.expires_at.isoformat() if item.expires_at else None,
            }

    async def erase(self, owner: Owner) -> Erased:
        """Remove everything that is held about *owner*: threads first, then every row, physically.

        Interrupted, it is repeated from the start; what is gone stays gone. Writes of work that
        was in flight are refused afterwards.
        """
        threads = tuple(await self._threads.of_owner(owner))
        for thread_id in threads:
            await self._delete_thread(owner, thread_id)
        await self._threads.release(owner)
        items = await self._storage.erase(owner.partition)
        self._indexes.forget(owner.partition)
        return Erased(items, threads)

    async def _items(self, owner: Owner) -> AsyncIterator[Item]:
        after: str | None = None
        while True:
            page = await self._storage.scan(owner.partition, direction="oldest", after=after, limit=_PAGE)
            for item in page.items:
                yield item
            if page.after is None:
                return
            after = page.after


def _says_nothing(item: Item) -> bool:
    """Whether a row says nothing of anybody: where writers meet, and the key that digests are made with."""
    root = item.ref.namespace[:1]
    return root == (HEAD,) or (root == (TOMBSTONES,) and item.ref.key == DIGEST_KEY)


def _place(item: Item) -> str:
    namespace = item.ref.namespace
    if is_memory_namespace(namespace):
        return "memory"
    root = namespace[0] if namespace else ""
    if root == ".turns":
        return "turn" if item.value.get("state") != "done" else "turn_seen"
    return _PLACES.get(root, "internal" if root.startswith(".") else "item")
