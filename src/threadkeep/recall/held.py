"""The indexes in use, the longest unused first, and the memories that were read out of them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from threadkeep.memories.shapes import memory_of
from threadkeep.storage.port import Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from threadkeep.memories.record import Memory
    from threadkeep.recall.index import PartitionIndex
    from threadkeep.storage.port import Changes, Namespace, Partition, Position

MEMORIES_KEPT: Final = 32_768
"""So many memories that were read are kept for the next turn, of all owners together: at most about 40 MB."""


@dataclass(eq=False, slots=True)
class Held:
    """The index of one partition and how far it has come.

    Attributes:
        partition: Whose.
        index: Its index.
        nbytes: What the index held when it last changed.
        position: How far it has come; ``None``: nothing was read yet.
        running: The round of reading what is new that is under way.
        waiting: The round after it, which is shared by all who came since.
        changing: Whoever changes or copies the index has it.
        memories: Those that were read out of the index and have not changed since.
        sample: Some of the vectors, shape ``(n, dims)``, where an engine has them all; ``None``: the index has them.
    """

    partition: Partition
    index: PartitionIndex
    nbytes: int = 0
    position: Position | None = None
    running: asyncio.Task[None] | None = None
    waiting: asyncio.Task[None] | None = None
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)
    memories: dict[tuple[Namespace, str], Memory] = field(default_factory=dict)
    sample: NDArray[np.float32] | None = None

    @property
    def idle(self) -> bool:
        """Whether nothing new is being read, nor about to be."""
        return self.waiting is None and (self.running is None or self.running.done())


class HeldIndexes:
    """The indexes of the partitions in use, bounded in bytes; the one that is used is always kept.

    Args:
        max_bytes: How much they may hold together.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._held: OrderedDict[bytes, Held] = OrderedDict()
        self._memories = 0

    def __iter__(self) -> Iterator[Held]:
        return iter(self._held.values())

    def get(self, partition: Partition) -> Held | None:
        """Return what is held of *partition*."""
        return self._held.get(partition.digest)

    def add(self, held: Held) -> None:
        """Hold another one, as the one that was used last."""
        self._held[held.partition.digest] = held

    def use(self, held: Held) -> None:
        """Count *held* as the one that was used last."""
        self._held.move_to_end(held.partition.digest)

    def drop(self, held: Held) -> None:
        """Let go of *held*, if it is held."""
        if self._held.get(held.partition.digest) is held:
            del self._held[held.partition.digest]
            self.nbytes -= held.nbytes
            self._forget(held)

    def clear(self) -> None:
        """Let go of all."""
        self._held.clear()
        self.nbytes = self._memories = 0

    def changed(self, held: Held, changes: Changes) -> None:
        """Take note of what has become of *held*, and make room."""
        if changes.reset:
            self._forget(held)
        if held.memories:
            for name in (*((item.ref.namespace, item.ref.key) for item in changes.puts), *changes.removed):
                if held.memories.pop(name, None) is not None:
                    self._memories -= 1
        held.position = changes.position
        if self._held.get(held.partition.digest) is held:
            self.nbytes -= held.nbytes
            held.nbytes = held.index.nbytes
            self.nbytes += held.nbytes
            self._evict()

    def memories(self, partition: Partition, names: Iterable[tuple[Namespace, str]]) -> list[Memory | Ref | None]:
        """Return the memories called *names* from RAM, as of the index's moment.

        Returns:
            Each memory; where it is if only the storage can tell; ``None`` where it says nothing.
        """
        held = self._held.get(partition.digest)
        if held is None:
            return [Ref(partition, *name) for name in names]
        return [held.memories.get(name) or self._unpacked(held, Ref(partition, *name)) for name in names]

    def _unpacked(self, held: Held, ref: Ref) -> Memory | Ref | None:
        item = held.index.item(ref)
        if item is None:
            return ref
        memory = memory_of(item)
        if memory is not None:
            held.memories[ref.namespace, ref.key] = memory
            self._memories += 1
            if self._memories > MEMORIES_KEPT:
                self._forget_some(self._held.values())
        return memory

    def _evict(self) -> None:
        """Drop the longest unused indexes until the rest fits; never the last one, nor one that is being loaded."""
        if self.nbytes <= self.max_bytes:
            return
        for held in list(self._held.values())[:-1]:
            if not held.changing.locked():
                self.drop(held)
            if self.nbytes <= self.max_bytes:
                return

    def _forget_some(self, longest_unused: Iterable[Held]) -> None:
        for held in longest_unused:
            if self._memories <= MEMORIES_KEPT // 2:
                return
            self._forget(held)

    def _forget(self, held: Held) -> None:
        self._memories -= len(held.memories)
        held.memories = {}
