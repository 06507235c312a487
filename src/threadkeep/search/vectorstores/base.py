"""The port of vector engines: the nearest items of one partition, kept beside the storage and repaired from it.

The storage stays the system of record, vectors included. An engine holds a copy of a partition's vectors and the
position of the storage's change feed that the copy is of, so whatever was missed, by a crash or an outage, is
what comes after that position. The docstrings here are the specification; ``threadkeep.testing.vectors_contract`` is
the suite that every engine passes unchanged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, runtime_checkable

import numpy as np

from threadkeep.errors import VectorEngineError
from threadkeep.event_loop import start_background
from threadkeep.storage.interface import Namespace, Partition, Position

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.observability import Telemetry
    from threadkeep.storage.interface import Changes, Item, Namespace, Partition, Storage

FENCE: Final = Position("erased", 0)
"""Where an engine stands after an erasure: no storage is ever there, so what follows is told everything anew."""


class VectorEntry(NamedTuple):
    """The vectors of one item.

    Attributes:
        namespace: Of the item; any labels.
        key: Of the item; any text.
        revision: At which its vectors were read.
        vectors: ``float32``, shape ``(texts, dims)``, at least one row, each of unit length.
    """

    namespace: Namespace
    key: str
    revision: int
    vectors: NDArray[np.float32]


class NearItem(NamedTuple):
    """An item that is near.

    Attributes:
        namespace: Of the item.
        key: Of the item.
        revision: Of the vectors that were compared; a caller that knows a newer one skips it.
        cosine: Of the question and the nearest of the item's texts, in [-1, 1].
    """

    namespace: Namespace
    key: str
    revision: int
    cosine: float


@dataclass(frozen=True, slots=True)
class Space:
    """What is compared with each other: the vectors that one model made, all of one length.

    Attributes:
        model: Name of the embedder.
        dims: Length of its vectors, 1–16,384.
    """

    model: str
    dims: int


@dataclass(frozen=True, slots=True)
class VectorUpdate:
    """What brings the copy of a partition from one position to the next.

    Attributes:
        partition: The owner's partition.
        space: Of the vectors.
        since: Where the copy has to stand for this; ``None``: there is none.
        position: Where it stands afterwards.
        reset: *puts* is everything there is, and nothing else stays.
        puts: What is kept from now on, each item at most once; what it was before is replaced. Read once.
        removed: What goes, before *puts* come.
    """

    partition: Partition
    space: Space
    since: Position | None
    position: Position
    reset: bool
    puts: Iterable[VectorEntry]
    removed: Sequence[tuple[Namespace, str]] = ()


class VectorEngine(Protocol):
    """Where vectors are searched.

    An engine is constructed without I/O; two with different key prefixes at one place share nothing. Every method but
    *close* raises :class:`~threadkeep.errors.VectorEngineError` for whatever its driver raises. Safe for concurrent use
    from one event loop, and several processes may share one place.
    """

    name: str
    """``pgvector``, ``faiss``, …"""

    location: str
    """Where it is, for people: without a password or a key."""

    async def connect(self) -> None:
        """Open or create what is needed; the second call does nothing."""
        ...

    async def close(self) -> None:
        """Let go of connections, threads and files; the second call does nothing."""
        ...

    async def position(self, partition: Partition, space: Space) -> Position | None:
        """Return how far the copy of *partition* has come; ``None``: there is none with vectors of *space*."""
        ...

    async def holds(self, partition: Partition) -> bool:
        """Return whether there is a copy of *partition*, of whichever space."""
        ...

    async def apply(self, update: VectorUpdate) -> bool:
        """Upsert, delete or, with ``reset``, rebuild; ``False``: it is elsewhere than *since*, and nothing was done.

        The position is moved last: an interrupted copy leaves the copy at *since*, with some of the update in it at
        most, and applying it or a later one from there gives what it would have given. After an update has been
        applied, a search sees it, at once or after the delay that the engine's class states.
        """
        ...

    async def search(
        self, partition: Partition, vector: NDArray[np.float32], *, prefixes: Sequence[Namespace] = ((),), limit: int
    ) -> list[NearItem]:
        """Return the *limit* items of *partition* that are nearest to *vector*, nearest first, each at most once.

        **Partition and prefixes are chosen before the nearest are**: what others keep, however near, never takes a
        place, so there are fewer than *limit* only where *partition* has fewer items below *prefixes*. A label
        matches whole. An approximate engine may give another item than the nearest; never another partition's, and
        none twice. Without a copy, or with one of another length, nothing is near.

        Args:
            partition: Where to look.
            vector: Shape ``(dims,)``, unit length.
            prefixes: Only items in namespaces that begin with one of these.
            limit: How many; 0: none.
        """
        ...

    async def erase(self, partition: Partition) -> None:
        """Remove the copy of *partition*, of every space, physically, and stand at :data:`FENCE`.

        An update that was on its way from before, its *since* being ``None`` included, is refused.
        """
        ...


@runtime_checkable
class Measuring(Protocol):
    """An engine that compares exactly up to a size that depends on its server."""

    async def exact_up_to(self, dims: int) -> int:
        """Measure, and return about how many vectors of *dims* numbers of one partition are compared exactly.

        Raises:
            VectorEngineError: The engine cannot be used.
        """
        ...


ENGINE_TIMEOUT: Final = timedelta(milliseconds=200)
"""How long a search waits for an engine; less than a turn waits for recall, so that words are still compared."""

LARGE_FROM: Final = 20_000
"""From so many items on a partition's vectors are an engine's, where there is one; below, RAM is quicker than any."""

SAMPLE: Final = 1_024
"""So many vectors tell how cosines with a question are spread in a partition: the standard error is a thirtieth."""

ROUNDS: Final = 3
"""So often others may be faster before it counts as a failure."""


class Replicator:
    """The only one who writes to an engine; every method runs on one event loop.

    Args:
        engine: The vector engine to keep current.
        storage: What is followed.
        telemetry: Counts and logs when the engine is down.
        timeout: How long a search waits; following goes on after it.
        large_from: From how many items on a partition's vectors are the engine's.
    """

    def __init__(
        self,
        engine: VectorEngine,
        storage: Storage,
        telemetry: Telemetry | None = None,
        *,
        timeout: timedelta = ENGINE_TIMEOUT,
        large_from: int = LARGE_FROM,
    ) -> None:
        self.engine = engine
        self._storage = storage
        self._telemetry = telemetry
        self.large_from = large_from
        self._seconds = timeout.total_seconds()
        self._at: dict[bytes, tuple[Space, Position]] = {}
        self._running: dict[bytes, asyncio.Task[None]] = {}
        self._connecting: asyncio.Task[None] | None = None

    async def near(
        self,
        partition: Partition,
        space: Space,
        vectors: Sequence[NDArray[np.float32]],
        *,
        at: Position,
        prefixes: Sequence[Namespace],
        limit: int,
    ) -> list[list[NearItem]] | None:
        """Return what is near to each of *vectors*; ``None`` where the engine cannot tell, which is counted and logged.

        An engine that is behind is waited for, for half of the time at most: what it does not know yet, a caller finds
        by its words.

        Args:
            partition: Where to look.
            space: Of *vectors*.
            vectors: Each of shape ``(dims,)``, unit length.
            at: Where the caller's own index stands.
            prefixes: See :meth:`VectorEngine.search`.
            limit: How many for each.
        """
        try:
            async with asyncio.timeout(self._seconds):
                await self._wait_until(partition, space, at)
                return list(
                    await asyncio.gather(
                        *(self.engine.search(partition, one, prefixes=prefixes, limit=limit) for one in vectors)
                    )
                )
        except (VectorEngineError, TimeoutError) as error:
            self._at.pop(partition.digest, None)
            self._degraded(error)
            return None

    async def follow(self, partition: Partition, space: Space, *, at: Position | None = None) -> None:
        """Bring the copy of *partition* to where the storage is, at least to *at*.

        Raises:
            VectorEngineError: The engine cannot be used; what it missed is applied when it can.
            StorageError: The storage could not be read.
        """
        for _ in range(ROUNDS):
            if at is not None and self._at.get(partition.digest) == (space, at):
                return
            running = self._running.get(partition.digest)
            fresh = running is None or running.done()
            if running is None or fresh:
                running = asyncio.create_task(self._round(partition, space))
                self._running[partition.digest] = running
                running.add_done_callback(lambda task: self._ended(partition, task))
            await asyncio.shield(running)
            if fresh:  # it began after this call, so it has seen everything from before
                return
        msg = f"{self.engine.name} changes faster than it is read; words are compared until it is current."
        raise VectorEngineError(msg, engine=self.engine.name)

    async def knows(self, partition: Partition) -> bool:
        """Whether the engine may hold anything of *partition*; ``False`` where it cannot be asked, which is counted."""
        try:
            async with asyncio.timeout(self._seconds):
                await self._connected()
                return await self.engine.holds(partition)
        except (VectorEngineError, TimeoutError) as error:
            self._degraded(error)
            return False

    def doubt(self, partition: Partition) -> None:
        """Look where the engine stands before the next search: it gave less than there is."""
        self._at.pop(partition.digest, None)

    async def erase(self, partition: Partition) -> None:
        """Remove what the engine holds of *partition*.

        Raises:
            VectorEngineError: It cannot be used; nothing of it is known to be gone.
        """
        running = self._running.get(partition.digest)
        if running is not None and not running.done():
            await asyncio.wait([running])
        self._at.pop(partition.digest, None)
        await self._connected()
        await self.engine.erase(partition)

    async def close(self) -> None:
        """Wait for what is under way, and close the engine."""
        while running := [task for task in (*self._running.values(), self._connecting) if task and not task.done()]:
            await asyncio.wait(running)
        await self.engine.close()

    async def _wait_until(self, partition: Partition, space: Space, at: Position) -> None:
        if self._at.get(partition.digest) == (space, at):
            return
        following = asyncio.ensure_future(self.follow(partition, space, at=at))
        following.add_done_callback(_retrieved)
        done, _ = await asyncio.wait([following], timeout=self._seconds / 2)
        if done:
            following.result()
        elif partition.digest not in self._at:
            await following  # there may be no copy at all, and then nothing would be near

    async def _round(self, partition: Partition, space: Space) -> None:
        """Read what the engine has missed, and apply it."""
        await self._connected()
        for _ in range(ROUNDS):
            since = await self.engine.position(partition, space)
            changes = await self._storage.changes(partition, since)
            if changes.position == since and not changes.reset:
                break
            if await self.engine.apply(update_of(partition, space, since, changes)):
                if self._telemetry is not None:
                    self._telemetry.count("vectors.followed")
                break
        else:  # other processes apply the same, one after the other
            return
        self._at[partition.digest] = (space, changes.position)

    async def _connected(self) -> None:
        if self._connecting is None or (
            self._connecting.done() and (self._connecting.cancelled() or self._connecting.exception() is not None)
        ):
            self._connecting = start_background(self.engine.connect())
        await asyncio.shield(self._connecting)

    def _ended(self, partition: Partition, task: asyncio.Task[None]) -> None:
        if self._running.get(partition.digest) is task:
            del self._running[partition.digest]
        _retrieved(task)

    def _degraded(self, error: BaseException) -> None:
        if self._telemetry is not None:
            self._telemetry.degraded("vectors", error)


def update_of(partition: Partition, space: Space, since: Position | None, changes: Changes) -> VectorUpdate:
    """Return what *changes* are to an engine: what has no vectors of *space* is no neighbour of anything."""
    if changes.reset:  # everything there is: made item by item, as it is read
        made = (entry for item in changes.puts if (entry := entry_of(item, space)) is not None)
        return VectorUpdate(partition, space, since, changes.position, reset=True, puts=made)
    puts = [(item.ref, entry_of(item, space)) for item in changes.puts]
    removed = (*changes.removed, *((ref.namespace, ref.key) for ref, entry in puts if entry is None))
    entries = [entry for _, entry in puts if entry is not None]
    return VectorUpdate(partition, space, since, changes.position, reset=False, puts=entries, removed=removed)


def entry_of(item: Item, space: Space) -> VectorEntry | None:
    """Return the vectors of *item* at unit length; ``None`` where they are not of *space*, or are no numbers."""
    embedding = item.embedding
    if embedding is None or (embedding.model, embedding.dims) != (space.model, space.dims):
        return None
    if not embedding.data or len(embedding.data) % (4 * space.dims):
        return None
    rows = np.frombuffer(embedding.data, "<f4").reshape(-1, space.dims)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    if not np.isfinite(lengths).all() or not lengths.all():
        return None
    return VectorEntry(item.ref.namespace, item.ref.key, item.revision, (rows / lengths).astype(np.float32, copy=False))


def sample_of(items: Sequence[Item], model: str) -> NDArray[np.float32]:
    """Return the vectors of some of *items* that *model* made, evenly spaced, shape ``(n, dims)``."""
    some = (items[place] for place in range(0, len(items), max(1, len(items) // SAMPLE)))
    embeddings = [item.embedding for item in some if item.embedding is not None and item.embedding.model == model]
    dims = max((one.dims for one in embeddings), default=0)
    rows = [
        np.frombuffer(one.data, "<f4", dims) for one in embeddings if one.dims == dims and len(one.data) >= 4 * dims
    ]
    sample = np.stack(rows) if dims and rows else np.zeros((0, dims), np.float32)
    return sample[np.isfinite(sample).all(axis=1)]


def spread_of(sample: NDArray[np.float32], vector: NDArray[np.float32]) -> tuple[float, float]:
    """Return mean and standard deviation of the cosines of *vector* with a *sample*; without one, 0 and 1."""
    if sample.shape[1] != len(vector) or not len(sample):
        return 0.0, 1.0
    cosines = sample @ vector
    return float(cosines.mean()), float(cosines.std())


def _retrieved(task: asyncio.Future[None]) -> None:
    if not task.cancelled():
        task.exception()  # a waiting caller has raised it; there may be none left
