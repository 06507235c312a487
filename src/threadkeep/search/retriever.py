"""Search a partition by meaning and by words, exactly: its index is in RAM and follows the storage's changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from threadkeep.concurrency import SharedTask
from threadkeep.memories.codec import memory_of, text_to_embed
from threadkeep.models.base import EMBEDDER, ImmediateEmbedder
from threadkeep.models.embedding import EMBED_TIMEOUT, EmbedderCalls, no_vectors
from threadkeep.search.index import CachedIndex, IndexCache, IndexStats, PartitionIndex
from threadkeep.search.query import Query, parse_query
from threadkeep.search.ranking import EngineHits, IndexSnapshot, Method, Ranking
from threadkeep.search.scoring import Hit
from threadkeep.search.vectors import stale, unit
from threadkeep.search.vectorstores.base import Replicator, Space, sample_of, spread_of
from threadkeep.storage.interface import Embedding, ImmediateReads, Ref

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.clock import Clock
    from threadkeep.memories.models import Memory
    from threadkeep.models.base import Embedder
    from threadkeep.observability import Telemetry
    from threadkeep.search.scoring import Spread
    from threadkeep.search.vectors import Precision
    from threadkeep.search.vectorstores.base import NearItem, VectorEngine
    from threadkeep.storage.interface import Changes, Namespace, Partition, Position, Storage
    from threadkeep.text.tokenizing import Language


VECTORS: Final = "vectors"
"""What is counted as degraded where stored vectors cannot be compared with the embedder's."""

DEFAULT_MAX_BYTES: Final = 512 * 1024 * 1024
CANDIDATES: Final = 256
"""So many of the nearest an engine is asked for at least; what is not among them stands at the partition's mean."""

_INLINE_CHANGES: Final = 64
"""More puts than these are read into an index off the loop (about 1 ms for 64)."""

_INLINE_ROWS: Final = 20_000
"""More rows than these are scored off the loop (about 2 ms for 20,000)."""


@dataclass(frozen=True, slots=True)
class PreparedSearch:
    """Everything that ranking needs: an immutable snapshot of a current index, and the query's vectors.

    Attributes:
        index: The snapshot.
        query: The query.
        vector: Of the query without its participants' names; ``None``: only words are compared.
        aspect: Of the query without any name; ``None``: it has none.
        far: The nearest items by a vector engine; ``None``: all vectors are in the index.
        degraded: The parts that were missing: ``embedder``, ``vectors``.
    """

    index: IndexSnapshot
    query: Query
    vector: NDArray[np.float32] | None = None
    aspect: NDArray[np.float32] | None = None
    far: EngineHits | None = None
    degraded: tuple[str, ...] = ()

    def rank(
        self,
        *,
        prefixes: Sequence[Namespace] = ((),),
        method: Method = "hybrid",
        limit: int | None,
        threads: Sequence[str] = (),
        compared: int = 0,
    ) -> Ranking:
        """Rank the items of the snapshot, without I/O, on the calling thread; see :meth:`IndexSnapshot.search`."""
        ranking = self.index.search(
            self.query,
            self.vector,
            aspect=self.aspect,
            prefixes=prefixes,
            threads=threads,
            method=method,
            limit=limit,
            compared=compared,
            far=self.far,
        )
        return replace(ranking, degraded=self.degraded) if self.degraded else ranking


class Retriever:
    """Finds items by meaning and by words. Methods run on one event loop, except those that say otherwise.

    Args:
        storage: What is followed.
        embedder: Who makes vectors; ``None``: only words are compared.
        clock: Tests what has expired.
        max_bytes: How much RAM the indexes may hold together; the one in use is always kept.
        precision: How they hold vectors.
        telemetry: Counts and logs when the embedder is down.
        embed_timeout: How long a call waits for an embedder that does not answer; see :class:`EmbedderCalls`.
        language: What all texts are in; ``None``: each in its own.
        replicator: Who asks a vector engine about large partitions; ``None``: every one's are compared here, exactly.
    """

    def __init__(
        self,
        storage: Storage,
        embedder: Embedder | None,
        clock: Clock,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        precision: Precision = "float32",
        telemetry: Telemetry | None = None,
        embed_timeout: timedelta = EMBED_TIMEOUT,
        language: Language | None = None,
        replicator: Replicator | None = None,
    ) -> None:
        self._storage = storage
        self._telling = storage if isinstance(storage, ImmediateReads) else None
        self._embedder = embedder
        self._immediate = embedder if isinstance(embedder, ImmediateEmbedder) else None
        self._clock = clock
        self._calls: EmbedderCalls | None = None
        if embedder is not None:
            self._calls = EmbedderCalls(embedder, timeout=embed_timeout, telemetry=telemetry)
        self._embed = self._calls.vectors if self._calls else no_vectors
        self._telemetry = telemetry
        self._language: Language | None = language
        self._replicator = replicator
        self._cache = IndexCache(max_bytes)
        self._precision: Precision = precision
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def engine(self) -> VectorEngine | None:
        """Where the vectors of large partitions are; ``None``: in RAM."""
        return self._replicator.engine if self._replicator is not None else None

    @property
    def semantic(self) -> bool:
        """Whether there is an embedder; then no vector for a text means that it failed."""
        return self._embedder is not None

    @property
    def recovered(self) -> asyncio.Event:
        """Set when the embedder answers after a call for writing failed."""
        return self._calls.recovered if self._calls is not None else asyncio.Event()

    async def ranking(
        self,
        partition: Partition,
        query: str,
        *,
        prefixes: Sequence[Namespace] = ((),),
        ranking: Method = "hybrid",
        limit: int | None,
        vector: NDArray[np.float32] | None = None,
        threads: Sequence[str] = (),
        compared: int = 0,
    ) -> Ranking:
        """Return the *limit* items of *partition* that are closest to *query*, best first.

        It sees every commit that had returned when this was called, and gives fewer than *limit* only
        where there are fewer below *prefixes*. What loading the index has begun goes on when the
        caller gives up, and the next call finds it.

        Args:
            partition: Where to look; nothing outside it is read.
            query: Any text; the first 32,768 characters count.
            prefixes: Only items in namespaces that begin with one of these.
            ranking: ``hybrid``: cosine and BM25; ``dense``: the raw cosine; ``lexical``: BM25.
            limit: How many; ``None``: all.
            vector: The query's, shape ``(dims,)``, if it is known already; nothing is embedded then.
            threads: The conversation that is going on, and those that it branched off.
            compared: So many of the first hits are compared with each other, too.

        Raises:
            StorageError: The storage could not be read.
        """
        prepared = await self.prepare(
            partition, self.parse(query), prefixes=prefixes, method=ranking, limit=limit, vector=vector
        )
        return await self.rank(
            partition, prepared, prefixes=prefixes, method=ranking, limit=limit, threads=threads, compared=compared
        )

    def parse(self, query: str) -> Query:
        """Parse *query*, from any thread."""
        return parse_query(query, now=self._clock.now(), language=self._language)

    def try_prepare(self, partition: Partition, parse: Callable[[], Query]) -> PreparedSearch | None:
        """Return what :meth:`prepare` would, from any thread and without I/O; ``None``: something is stale or slow.

        It needs a current index in the cache, of at most 20,000 texts and without a vector engine, a storage that
        tells its position at once, and an embedder that embeds the query at once.

        Args:
            partition: The partition to search.
            parse: Returns the query; called if the index is current.
        """
        entry = self._cache.get(partition)
        if entry is None or entry.sample is not None or (snapshot := self._current_snapshot(entry)) is None:
            return None
        if snapshot.rows > _INLINE_ROWS:
            return None
        query = parse()
        if self._embedder is None:
            return PreparedSearch(snapshot, query)
        if self._immediate is None:
            return None
        vectors = self._immediate.embed_now(query.texts_to_embed(snapshot.participants))
        if vectors is None or _dims(vectors) != snapshot.dims:
            return None
        return PreparedSearch(snapshot, query, *_parts(vectors))

    async def prepare(
        self,
        partition: Partition,
        query: Query,
        *,
        prefixes: Sequence[Namespace] = ((),),
        method: Method = "hybrid",
        limit: int | None,
        vector: NDArray[np.float32] | None = None,
        embed_seconds: float | None = None,
    ) -> PreparedSearch:
        """Bring the index of *partition* up to date and embed *query*; see :meth:`ranking`.

        Args:
            partition: The partition to search.
            query: The parsed query.
            prefixes: As there.
            method: As *ranking* there.
            limit: As there.
            vector: As there.
            embed_seconds: From then on words alone are compared, if the embedder is slower; ``None``: its own timeout.

        Raises:
            StorageError: The storage could not be read.
        """
        if method == "lexical":
            vector = None
        embedder = self._embedder if vector is None and method != "lexical" else None
        if embedder is None:
            entry, vectors = await self._current(partition, _dims(vector)), None
        else:
            entry, vectors = await self._current_beside(partition, query, method, embedder, seconds=embed_seconds)
        if entry.published is None:
            msg = "An index has no snapshot after it was loaded."
            raise AssertionError(msg)
        position, snapshot = entry.published
        degraded = (EMBEDDER,) if embedder is not None and vectors is None else ()
        aspect: NDArray[np.float32] | None = None
        if vectors is not None:
            vector, aspect = _parts(vectors)
        if entry.sample is None:
            return PreparedSearch(snapshot, query, vector, aspect, degraded=degraded)
        near, spread = await self._near(
            entry, position, [one for one in (vector, aspect) if one is not None], prefixes, limit
        )
        if vector is not None and near is None:
            degraded = (*degraded, VECTORS)
        far = snapshot.far(near, spread) if near is not None else None
        return PreparedSearch(snapshot, query, vector, aspect, far, degraded)

    async def rank(
        self,
        partition: Partition,
        prepared: PreparedSearch,
        *,
        prefixes: Sequence[Namespace] = ((),),
        method: Method = "hybrid",
        limit: int | None,
        threads: Sequence[str] = (),
        compared: int = 0,
    ) -> Ranking:
        """Call :meth:`PreparedSearch.rank`; in a worker thread, if the index is large."""
        rank = partial(prepared.rank, prefixes=prefixes, method=method, limit=limit, threads=threads, compared=compared)
        ranking = await asyncio.to_thread(rank) if prepared.index.rows > _INLINE_ROWS else rank()
        if compared and prepared.far is not None:
            ranking = replace(ranking, alike=await self._alike(partition, ranking.hits[:compared]))
        return ranking

    async def memories(self, partition: Partition, ranking: Ranking, places: Sequence[int]) -> list[Memory | None]:
        """Return the memories at these places of *ranking*; ``None`` for one that is gone, or is no memory.

        Only values that the index does not hold are read from the storage.
        """
        memories = ranking.memories(places)
        if missing := [place for place in places if place not in memories]:
            hits = [ranking.hits[place] for place in missing]
            items = await self._storage.get([Ref(partition, hit.namespace, hit.key) for hit in hits])
            for place, item in zip(missing, items, strict=True):
                memories[place] = memory_of(item) if item is not None else None
        return [memories[place] for place in places]

    async def statements(self, partition: Partition, texts: Sequence[str]) -> frozenset[tuple[Namespace, str]]:
        """Return where the memories are that may say the same as one of *texts*, or answer the same question.

        It finds duplicates and conflicts, whatever else is alike. It sees every commit that had returned when this
        was called.

        Raises:
            StorageError: The storage could not be read.
        """
        entry = await self._current(partition, None)
        snapshot = entry.index.snapshot if entry.published is None else entry.published.snapshot
        async with entry.keying:
            slots, keyed_to = snapshot.unkeyed(), len(snapshot.alive)
            large = len(slots) > _INLINE_CHANGES
            missing = await asyncio.to_thread(snapshot.key, slots) if large else snapshot.key(slots)
            items = (
                await self._storage.get([Ref(partition, *snapshot.names[slot]) for slot in missing]) if missing else ()
            )
            for slot, item in zip(missing, items, strict=True):
                if item is not None and (memory := memory_of(item)) is not None:
                    snapshot.statements.add(slot, memory)
            snapshot.statements.keyed_to = max(snapshot.statements.keyed_to, keyed_to)
        return frozenset(snapshot.find_statements(texts))

    async def embed_put(self, texts: Sequence[str]) -> Embedding | None:
        """Return the vectors of *texts*, for writing; ``None`` without texts or embedder, or when it failed.

        A failure is counted; a caller that finds ``None`` while :attr:`semantic` is true says so
        with :data:`EMBEDDER` in its own ``degraded``.
        """
        if not texts or self._embedder is None:
            return None
        vectors = await self._embed(texts)
        if vectors is None:
            return None
        return Embedding(self._embedder.name, int(vectors.shape[1]), vectors.astype("<f4", copy=False).tobytes())

    def embed_memories(self, texts: Sequence[str]) -> Coroutine[Any, Any, Embedding | None]:
        """Return what :meth:`embed_put` does, of memories with these *texts*."""
        return self.embed_put(list(map(text_to_embed, texts)))

    def refresh(self, partition: Partition) -> None:
        """Begin to read what is new in *partition*, if its index is held, so that the next question need not."""
        entry = self._cache.get(partition)
        if entry is not None and entry.published is not None:
            self._round(entry)

    def drop_index(self, partition: Partition) -> None:
        """Drop the index of *partition*; the next search reads it anew."""
        if entry := self._cache.get(partition):
            self._cache.drop(entry)

    async def erase(self, partition: Partition) -> None:
        """Drop the index of *partition*, and remove what an engine holds of it.

        Raises:
            VectorEngineError: The engine cannot be used; nothing of it is known to be gone.
        """
        self.drop_index(partition)
        if self._replicator is not None:
            await self._replicator.erase(partition)

    async def drop_erased_indexes(self) -> int:
        """Drop every index of a partition that was erased since it was read; return how many."""
        dropped = 0
        for entry in self._cache:
            position = entry.position
            if position is not None and (await self._storage.position(entry.partition)).epoch != position.epoch:
                self._cache.drop(entry)
                dropped += 1
        return dropped

    def stats(self) -> IndexStats:
        """Return how much is held."""
        return self._cache.stats()

    async def close(self) -> None:
        """Wait for what is being loaded, and drop all indexes."""
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._cache.clear()
        if self._calls is not None:
            self._calls.close()
        if self._replicator is not None:
            await self._replicator.close()

    async def _near(
        self,
        entry: CachedIndex,
        position: Position,
        vectors: Sequence[NDArray[np.float32]],
        prefixes: Sequence[Namespace],
        limit: int | None,
    ) -> tuple[list[list[NearItem]] | None, list[Spread]]:
        """Return what an engine finds near *vectors*, ``None`` where none tells, and how cosines are spread."""
        if self._replicator is None or self._embedder is None or entry.sample is None:
            return None, []
        asked = [unit(vector) for vector in vectors]
        if not asked:
            return None, []
        space, most = Space(self._embedder.name, len(asked[0])), max(limit or 0, CANDIDATES)
        near = await self._replicator.near(entry.partition, space, asked, at=position, prefixes=prefixes, limit=most)
        if near is not None and min(map(len, near)) < min(most, len(entry.index)):
            self._replicator.doubt(entry.partition)
        return near, [spread_of(entry.sample, one) for one in asked]

    async def _alike(self, partition: Partition, hits: Sequence[Hit]) -> NDArray[np.float32] | None:
        """Return the cosines of *hits* with each other, by the first vector of each, read from the storage."""
        if not hits or self._embedder is None:
            return None
        items = await self._storage.get([Ref(partition, hit.namespace, hit.key) for hit in hits])
        found = [None if item is None or item.embedding is None else item.embedding for item in items]
        dims = max((one.dims for one in found if one is not None), default=0)
        rows = np.zeros((len(hits), dims), np.float32)
        for row, one in zip(rows, found, strict=True):
            if one is not None and one.model == self._embedder.name and one.dims == dims:
                row[:] = np.frombuffer(one.data, "<f4", dims)
        return rows @ rows.T

    async def _current_beside(
        self,
        partition: Partition,
        query: Query,
        method: Method,
        embedder: Embedder,
        *,
        seconds: float | None,
    ) -> tuple[CachedIndex, NDArray[np.float32] | None]:
        """Return the current index of *partition*, and the vectors of *query*, which are computed meanwhile."""
        embed = partial(self._embed, questions=True, within=seconds)
        known, whole = self._cache.get(partition), method != "hybrid"
        texts = query.texts_to_embed(known.index.snapshot.participants if known else (), whole=whole)
        dims = embedder.dims
        if known is not None and self._fits(known, dims) and self._current_snapshot(known) is not None:
            entry, vectors = known, await embed(texts)  # the common case: a task would be a waste
        else:
            embedding = asyncio.ensure_future(embed(texts))
            try:
                # The first vectors of some embedders are the only source of their length.
                dims = dims or _dims(await embedding)
                entry = await self._current(partition, dims)
                vectors = await embedding
            finally:
                embedding.cancel()
        participants = entry.index.snapshot.participants
        if vectors is not None and (forms := query.texts_to_embed(participants, whole=whole)) != texts:
            vectors = await embed(forms)  # the first query about a conversation, or it has new participants
        if vectors is not None and _dims(vectors) != dims:
            entry = await self._current(partition, _dims(vectors))
        return entry, vectors

    def _fits(self, entry: CachedIndex, dims: int | None) -> bool:
        """Return whether vectors of *dims* numbers can be compared with those of *entry*; ``None``: not asked."""
        return dims is None or entry.index.dims in (None, dims)

    def _current_snapshot(self, entry: CachedIndex) -> IndexSnapshot | None:
        """Return the snapshot of *entry* if it is current, from any thread; ``None`` if only I/O can tell."""
        published = entry.published
        if published is None or self._telling is None or self._expired(published.snapshot):
            return None
        return published.snapshot if self._telling.is_at(entry.partition, published.position) else None

    def _expired(self, snapshot: IndexSnapshot) -> bool:
        """Return whether an item of *snapshot* has expired."""
        return self._clock.now().timestamp() >= snapshot.next_expiry

    async def _current(self, partition: Partition, dims: int | None) -> CachedIndex:
        """Return the index of *partition*, as of now or later."""
        entry = self._cache.get(partition)
        if entry is not None and not self._fits(entry, dims):
            self._cache.drop(entry)  # the model gives vectors of another length than the ones in the index
            entry = None
        if entry is None:
            name = self._embedder.name if self._embedder is not None else None
            known_dims = dims or (self._embedder.dims if self._embedder is not None else None)
            index = PartitionIndex(model=name, dims=known_dims, precision=self._precision, language=self._language)
            entry = CachedIndex(partition, index)
            self._cache.add(entry)
            if self._telemetry is not None:
                self._telemetry.count("index.loaded")
        if entry.idle and self._current_snapshot(entry) is not None:
            return entry  # the common case of a storage that tells without I/O
        # A round that has begun may have read before this call; the next one is shared by all waiting callers,
        # and goes on if this caller gives up.
        await self._round(entry).wait()
        return entry

    def _round(self, entry: CachedIndex) -> SharedTask[None]:
        """Return the next round of reading changes, which has not begun yet."""
        if entry.waiting is None or entry.waiting.task.done():
            entry.waiting = SharedTask(self._follow(entry, entry.running))
            self._tasks.add(entry.waiting.task)
            entry.waiting.task.add_done_callback(self._done)
        return entry.waiting

    async def _follow(self, entry: CachedIndex, before: SharedTask[None] | None) -> None:
        """Bring *entry* up to date, after the round *before* this one."""
        if before is not None and not before.task.done():
            await before.until_ended()
        entry.running, entry.waiting = entry.waiting, None
        try:
            await self._catch_up(entry)
        finally:
            entry.running = None  # a task refers to the run that began it, and the index is cached for long

    async def _catch_up(self, entry: CachedIndex) -> None:
        changes = await self._storage.changes(entry.partition, entry.position)
        if changes.reset or changes.puts or changes.removed:
            if changes.reset:
                await self._decide(entry, changes)
            before = len(entry.index)
            await self._apply(entry, changes)
            grown = self._replicator is not None and before < self._replicator.large_from <= len(entry.index)
            if grown and not changes.reset:
                self._cache.drop(entry)  # it has become large: the next search loads it without its vectors
        entry.index.expire(self._clock.now())
        self._cache.publish(entry, changes.position)

    async def _decide(self, entry: CachedIndex, changes: Changes) -> None:
        """Leave the vectors to the engine, except a sample, if they are many, or the engine has them already."""
        if self._replicator is None or self._embedder is None:
            return
        large = len(changes.puts) >= self._replicator.large_from
        if large or await self._replicator.knows(entry.partition):
            entry.index = PartitionIndex(model=None, language=self._language)
            entry.sample = sample_of(changes.puts, self._embedder.name)

    async def _apply(self, entry: CachedIndex, changes: Changes) -> None:
        try:
            if len(changes.puts) + len(changes.removed) > _INLINE_CHANGES:
                kinds = await asyncio.to_thread(entry.index.apply, changes)
            else:
                kinds = entry.index.apply(changes)
        except BaseException:
            self._cache.drop(entry)  # half applied
            raise
        if self._embedder is not None and self._telemetry is not None:
            error = stale(kinds, self._embedder.name, self._embedder.dims)
            if error is not None:
                self._telemetry.degraded(VECTORS, error)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # raised in the callers that wait; there may be none left


def _parts(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Return the vector of a question, and where there is one that of the question without its names."""
    return vectors[0], vectors[1] if len(vectors) > 1 else None


def _dims(vectors: NDArray[np.float32] | None) -> int | None:
    """Return how many numbers a vector has, or each of several."""
    return None if vectors is None else vectors.shape[-1]
