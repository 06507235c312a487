"""The indexes in use, in a least-recently-used cache bounded in bytes."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from cachetools import LRUCache

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from threadkeep.search.index import PartitionIndex
    from threadkeep.search.ranking import IndexSnapshot
    from threadkeep.storage.port import Partition, Position


class Published(NamedTuple):
    """A snapshot of an index, and the position of the change feed that it shows."""

    position: Position
    snapshot: IndexSnapshot


@dataclass(eq=False, slots=True)
class CachedIndex:
    """The index of one partition. One task at a time changes it; any thread may read :attr:`published`.

    Attributes:
        partition: Its partition.
        index: The index.
        published: Its latest snapshot; ``None`` before the first load.
        nbytes: The size of the index after its last change.
        running: The task that reads new changes now.
        waiting: The task after it, shared by all callers that came since.
        sample: Some of the vectors, shape ``(n, dims)``, if a vector engine has all of them; else ``None``.
    """

    partition: Partition
    index: PartitionIndex
    published: Published | None = None
    nbytes: int = 0
    running: asyncio.Task[None] | None = None
    waiting: asyncio.Task[None] | None = None
    sample: NDArray[np.float32] | None = None

    @property
    def position(self) -> Position | None:
        """The position of the latest snapshot; ``None`` before the first load."""
        return self.published.position if self.published is not None else None

    @property
    def idle(self) -> bool:
        """Whether no task reads new changes, or is about to."""
        return self.waiting is None and (self.running is None or self.running.done())


class IndexCache:
    """The indexes of the partitions in use; safe in threads. The one in use always stays.

    Args:
        max_bytes: Upper bound for all of them together.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._guard = threading.Lock()
        # An index larger than the bound evicts all others, and stays.
        self._entries: LRUCache[bytes, CachedIndex] = LRUCache(max_bytes, lambda entry: min(entry.nbytes, max_bytes))

    def __iter__(self) -> Iterator[CachedIndex]:
        with self._guard:
            return iter(list(self._entries.values()))

    @property
    def nbytes(self) -> int:
        """Bytes in RAM."""
        return sum(entry.nbytes for entry in self)

    def get(self, partition: Partition) -> CachedIndex | None:
        """Return the index of *partition*, and mark it as the last used."""
        with self._guard:
            return self._entries.get(partition.digest)

    def add(self, entry: CachedIndex) -> None:
        """Add *entry* as the last used."""
        with self._guard:
            self._entries[entry.partition.digest] = entry

    def drop(self, entry: CachedIndex) -> None:
        """Remove *entry*, if it is in the cache, and the values of its memories from RAM."""
        with self._guard:
            if self._entries.get(entry.partition.digest) is entry:
                del self._entries[entry.partition.digest]
                entry.index.forget_values()

    def clear(self) -> None:
        """Remove all."""
        with self._guard:
            self._entries.clear()

    def publish(self, entry: CachedIndex, position: Position) -> None:
        """Let callers see the index of *entry* as it is now, at *position*; evict others if it has grown."""
        entry.published = Published(position, entry.index.snapshot)
        with self._guard:
            if self._entries.pop(entry.partition.digest, None) is entry:
                entry.nbytes = entry.index.nbytes
                self._entries[entry.partition.digest] = entry
