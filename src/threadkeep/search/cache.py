"""The indexes in use, the longest unused first, and the memories that were read out of them.

One event loop changes them; every thread may read, by the guard of :class:`HeldIndexes`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from threadkeep.memories.codec import memory_of
from threadkeep.storage.port import Ref

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Iterable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from threadkeep.memories.models import Memory
    from threadkeep.search.index import PartitionIndex
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
        changing: Whoever is at the index on the event loop has it; see :meth:`HeldIndexes.changing`.
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

    Which there are, their order and what was read out of them change under one guard, which nobody has for longer
    than it takes to read one answer's memories. The event loop is at an index only between the two ends of
    :meth:`changing`, other threads only inside :meth:`at_hand`: neither ever sees what the other is at.

    Args:
        max_bytes: How much they may hold together.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.nbytes = 0
        self._held: OrderedDict[bytes, Held] = OrderedDict()
        self._memories = 0
        self._guard = threading.Lock()

    def __iter__(self) -> Iterator[Held]:
        with self._guard:
            return iter(list(self._held.values()))

    @property
    def busy(self) -> bool:
        """Whether somebody has the guard; then a thread that must not wait goes to the event loop instead."""
        return self._guard.locked()

    @asynccontextmanager
    async def changing(self, held: Held) -> AsyncGenerator[None]:
        """Be alone with the index of *held*, on the event loop or for a worker that it waits for."""
        async with held.changing:
            with self._guard:
                pass  # whoever was reading it elsewhere is done, and whoever comes from now on sees that it is changed
            yield

    @contextmanager
    def at_hand(self, held: Held, position: Position) -> Generator[bool]:
        """Be alone with the index of *held* on any thread, for a moment; ``False``: it is not as of *position*.

        It waits for nobody who is at an index. There is no ``acquire`` that may fail, because Ctrl-C behind one leaves
        the guard taken for ever: where it is taken between the look and the ``with``, this waits for that reading.
        """
        if self.busy:
            yield False
            return
        with self._guard:
            there = self._held.get(held.partition.digest) is held
            free = there and held.position == position and not held.changing.locked()
            if free:
                self._held.move_to_end(held.partition.digest)
            yield free

    def get(self, partition: Partition) -> Held | None:
        """Return what is held of *partition*."""
        return self._held.get(partition.digest)

    def add(self, held: Held) -> None:
        """Hold another one, as the one that was used last."""
        with self._guard:
            self._held[held.partition.digest] = held

    def use(self, held: Held) -> None:
        """Count *held* as the one that was used last."""
        with self._guard:
            self._held.move_to_end(held.partition.digest)

    def drop(self, held: Held) -> None:
        """Let go of *held*, if it is held."""
        with self._guard:
            self._drop(held)

    def clear(self) -> None:
        """Let go of all."""
        with self._guard:
            self._held.clear()
            self.nbytes = self._memories = 0

    def changed(self, held: Held, changes: Changes) -> None:
        """Take note of what has become of *held*, and make room."""
        with self._guard:
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
        """Return the memories called *names* from RAM, as of the index's moment; from any thread.

        Returns:
            Each memory; where it is if only the storage can tell; ``None`` where it says nothing.
        """
        with self._guard:
            held = self._held.get(partition.digest)
            if held is None or held.changing.locked():
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

    def _drop(self, held: Held) -> None:
        if self._held.get(held.partition.digest) is held:
            del self._held[held.partition.digest]
            self.nbytes -= held.nbytes
            self._forget(held)

    def _evict(self) -> None:
        """Drop the longest unused indexes until the rest fits; never the last one, nor one that is being loaded."""
        if self.nbytes <= self.max_bytes:
            return
        for held in list(self._held.values())[:-1]:
            if not held.changing.locked():
                self._drop(held)
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
