"""Hybrid search over a partition, exact and current: its index is kept in RAM and follows the storage."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from threadkeep.errors import EmbedderUnavailableError
from threadkeep.memories.codec import memory_of
from threadkeep.models.base import Remembering
from threadkeep.search.cache import Held, HeldIndexes
from threadkeep.search.compatibility import stale
from threadkeep.search.hits import Hit, Method, Ranking
from threadkeep.search.index import PartitionIndex
from threadkeep.search.loading import without_collector
from threadkeep.search.matrix import unit
from threadkeep.search.query import Reading, named, read, without_names, without_people
from threadkeep.search.vectorstores.base import Space
from threadkeep.search.vectorstores.replicator import Follower, sample_of, spread_of
from threadkeep.storage.port import Embedding, Ref, Telling

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.clock import Clock
    from threadkeep.memories.models import Memory
    from threadkeep.models.base import Embedder
    from threadkeep.observability import Telemetry
    from threadkeep.search.matrix import Precision
    from threadkeep.search.scoring import Spread
    from threadkeep.search.vectorstores.base import Near, VectorEngine
    from threadkeep.storage.port import Changes, Namespace, Partition, Position, Storage
    from threadkeep.text.languages import Language

EMBEDDER: Final = "embedder"
"""What stands in ``degraded`` when only words were compared."""

VECTORS: Final = "vectors"
"""What is counted as degraded where stored vectors cannot be compared with the embedder's."""

DEFAULT_MAX_BYTES: Final = 512 * 1024 * 1024
EMBED_TIMEOUT: Final = timedelta(seconds=60)
"""An embedder that never answers must not stop learning for everybody; remote ones give up earlier themselves."""

_EMBED_SECONDS_A_TEXT: Final = 0.1

MAX_QUESTION_CHARACTERS: Final = 32_768
"""What comes after so many characters of a question is not looked at."""

CANDIDATES: Final = 256
"""So many of the nearest an engine is asked for at least; what is not among them stands at the partition's mean."""

_INLINE_CHANGES: Final = 64
"""More puts than these are read into an index off the loop (about 1 ms for 64)."""

_INLINE_ROWS: Final = 20_000
"""More rows than these are scored off the loop (about 2 ms for 20,000)."""


@dataclass(frozen=True, slots=True)
class IndexStats:
    """What search holds in RAM.

    Attributes:
        partitions: How many indexes.
        items: In all of them.
        nbytes: Held by all of them.
        max_bytes: From where on the longest unused are dropped.
    """

    partitions: int
    items: int
    nbytes: int
    max_bytes: int


class Search:
    """Finds items by meaning and by words; every method runs on one event loop, but for those that say otherwise.

    Args:
        storage: What is followed.
        embedder: Who makes vectors; ``None``: only words are compared.
        clock: Tests what has expired.
        max_bytes: How much RAM the indexes may hold together; the one in use is always kept.
        precision: How they hold vectors.
        telemetry: Counts and logs when the embedder is down.
        embed_timeout: From when on an embedder that does not answer counts as down.
        language: What all texts are in; ``None``: each in its own.
        follower: Who asks a vector engine about large partitions; ``None``: every one's are compared here, exactly.
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
        follower: Follower | None = None,
    ) -> None:
        self._storage = storage
        self._telling = storage if isinstance(storage, Telling) else None
        self._embedder = embedder
        self._remembering = embedder if isinstance(embedder, Remembering) else None
        self._clock = clock
        self._embed_seconds = embed_timeout.total_seconds()
        self._telemetry = telemetry
        self._language: Language | None = language
        self._follower = follower
        self._held = HeldIndexes(max_bytes)
        self._precision: Precision = precision
        self._tasks: set[asyncio.Task[None]] = set()
        self._ahead: dict[tuple[str, ...], asyncio.Future[NDArray[np.float32] | None]] = {}

    @property
    def engine(self) -> VectorEngine | None:
        """Where the vectors of large partitions are; ``None``: in RAM."""
        return self._follower.engine if self._follower is not None else None

    @property
    def semantic(self) -> bool:
        """Whether there is an embedder; then no vector for a text means that it failed."""
        return self._embedder is not None

    @property
    def embeds_here(self) -> bool:
        """Whether what is asked is embedded on this machine, so that nobody has to say that it may leave it."""
        return self._embedder is not None and not self._embedder.remote

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
            prefixes: Only items whose namespace begins with one of these.
            ranking: ``hybrid``: cosine and BM25; ``dense``: the raw cosine; ``lexical``: BM25.
            limit: How many; ``None``: all.
            vector: The query's, shape ``(dims,)``, if it is known already; nothing is embedded then.
            threads: The conversation that is going on, and those that it branched off.
            compared: So many of the first hits are compared with each other, too.

        Raises:
            StorageError: The storage could not be read.
        """
        query, asked = self._read(query)
        embeds = vector is None and ranking != "lexical" and self._embedder is not None
        if ranking == "lexical":
            vector = None
        known = self._held.get(partition)
        question = _Forms(query, asked, ranking, known.index.participants if known else ())
        held, vectors = await self._current_beside(partition, question.texts if embeds else (), _dims(vector))
        if vectors is not None and not question.serves(held.index.participants):
            # The first question about a conversation, or somebody new takes part: nothing is held meanwhile.
            question = _Forms(query, asked, ranking, held.index.participants)
            vectors = await self._embed(question.texts)
        degraded = (EMBEDDER,) if embeds and vectors is None else ()
        aspect: NDArray[np.float32] | None = None
        if vectors is not None:
            vector, aspect = _parts(vectors)
        near, spread = await self._near(held, [one for one in (vector, aspect) if one is not None], prefixes, limit)
        if held.sample is not None and vector is not None and near is None:
            degraded = (*degraded, VECTORS)
        async with self._held.changing(held):
            far = held.index.far(near, spread) if near is not None else None
            snapshot = held.index.snapshot(
                asked, vector, aspect=aspect, prefixes=prefixes, threads=threads, now=self._clock.now(), far=far
            )
        if held.index.rows > _INLINE_ROWS:
            found = await asyncio.to_thread(snapshot.search, ranking, limit, compared=compared)
        else:
            found = snapshot.search(ranking, limit, compared=compared)
        if compared and near is not None:
            found = replace(found, alike=await self._alike(partition, found.hits[:compared]))
        return replace(found, degraded=degraded) if degraded else found

    def ranking_at_hand(
        self,
        partition: Partition,
        query: str,
        *,
        prefixes: Sequence[Namespace],
        limit: int | None,
        threads: Sequence[str] = (),
        compared: int = 0,
    ) -> Ranking | None:
        """Return what :meth:`ranking` would, in any thread and without waiting; ``None``: it has to be waited for.

        It is at hand where the index of *partition* is held, as of now and not too large, nobody is at it, and the
        embedder remembers the question.
        """
        held = self._held.get(partition)
        remembering = self._remembering
        if held is None or (self.semantic and remembering is None) or held.index.rows > _INLINE_ROWS:
            return None
        position = self._stands(held, self._embedder.dims if self._embedder is not None else None)
        if position is None:
            return None
        query, asked = self._read(query)
        now = self._clock.now()
        with self._held.at_hand(held, position) as free:
            index = held.index
            if not free or held.sample is not None or not index.settled(now):
                return None
            vector: NDArray[np.float32] | None = None
            aspect: NDArray[np.float32] | None = None
            if remembering is not None:
                vectors = remembering.remembered(_Forms(query, asked, "hybrid", index.participants).texts)
                if vectors is None or _dims(vectors) != index.dims:
                    return None
                vector, aspect = _parts(vectors)
            snapshot = index.snapshot(asked, vector, aspect=aspect, prefixes=prefixes, threads=threads, now=now)
        return snapshot.search("hybrid", limit, compared=compared)

    def memories_at_hand(self, partition: Partition, hits: Sequence[Hit]) -> list[Memory | None] | None:
        """Return what :meth:`memories` would, in any thread; ``None``: it has to be waited for."""
        if self._held.busy:
            return None
        found = self._held.memories(partition, [(hit.namespace, hit.key) for hit in hits])
        return None if any(isinstance(one, Ref) for one in found) else cast("list[Memory | None]", found)

    async def memories(self, partition: Partition, hits: Sequence[Hit]) -> list[Memory | None]:
        """Return the memories that *hits* are, which :meth:`ranking` has just found in *partition*.

        They come out of the index, and only what is too long for it is read from the storage.
        ``None`` where one is gone by now, or says nothing.
        """
        found = self._held.memories(partition, [(hit.namespace, hit.key) for hit in hits])
        left = [place for place, one in enumerate(found) if isinstance(one, Ref)]
        if left:
            items = await self._storage.get([one for one in found if isinstance(one, Ref)])
            for place, item in zip(left, items, strict=True):
                found[place] = memory_of(item) if item is not None else None
        return cast("list[Memory | None]", found)

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

    def embed_ahead(self, question: str) -> None:
        """Begin to embed what will be asked, if that is done on this machine; runs on the event loop."""
        if not self.embeds_here:
            return  # nobody said yet that it may leave this machine
        query, asked = self._read(question)
        texts = tuple(_Forms(query, asked, "hybrid", ()).texts)
        if texts not in self._ahead and any(text.strip() for text in texts):
            embedding = asyncio.ensure_future(self._embedded(texts))
            self._ahead[texts] = embedding
            embedding.add_done_callback(lambda _: self._ahead.pop(texts))  # from now on the embedder has them at hand

    def refresh(self, partition: Partition) -> None:
        """Begin to read what is new in *partition*, if its index is held, so that the next question need not."""
        held = self._held.get(partition)
        if held is not None and held.position is not None:
            self._round(held)

    def forget(self, partition: Partition) -> None:
        """Drop the index of *partition*; the next search reads it anew."""
        if held := self._held.get(partition):
            self._held.drop(held)

    async def erase(self, partition: Partition) -> None:
        """Drop the index of *partition*, and remove what an engine holds of it.

        Raises:
            VectorEngineError: The engine cannot be used; nothing of it is known to be gone.
        """
        self.forget(partition)
        if self._follower is not None:
            await self._follower.erase(partition)

    async def forget_erased(self) -> int:
        """Drop every index of a partition that was erased since it was read; return how many."""
        dropped = 0
        for held in list(self._held):
            position = held.position
            if position is not None and (await self._storage.position(held.partition)).epoch != position.epoch:
                self._held.drop(held)
                dropped += 1
        return dropped

    def stats(self) -> IndexStats:
        """Return how much is held."""
        indexes = [held.index for held in self._held]
        return IndexStats(
            partitions=len(indexes),
            items=sum(map(len, indexes)),
            nbytes=self._held.nbytes,
            max_bytes=self._held.max_bytes,
        )

    async def close(self) -> None:
        """Wait for what is being loaded, and drop all indexes."""
        for embedding in tuple(self._ahead.values()):
            embedding.cancel()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._held.clear()
        if self._follower is not None:
            await self._follower.close()

    async def _near(
        self, held: Held, vectors: Sequence[NDArray[np.float32]], prefixes: Sequence[Namespace], limit: int | None
    ) -> tuple[list[list[Near]] | None, list[Spread]]:
        """Return what an engine finds near *vectors*, ``None`` where none tells, and how cosines are spread."""
        if self._follower is None or self._embedder is None or held.sample is None or held.position is None:
            return None, []
        asked = [unit(vector) for vector in vectors]
        if not asked:
            return None, []
        space, most = Space(self._embedder.name, len(asked[0])), max(limit or 0, CANDIDATES)
        near = await self._follower.near(held.partition, space, asked, at=held.position, prefixes=prefixes, limit=most)
        if near is not None and min(map(len, near)) < min(most, len(held.index)):
            self._follower.doubt(held.partition)
        return near, [spread_of(held.sample, one) for one in asked]

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

    async def _embed(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        ahead = self._ahead.get(tuple(texts))
        return await (self._embedded(texts) if ahead is None else asyncio.shield(ahead))

    async def _embedded(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        if self._embedder is None:
            return None
        try:
            async with asyncio.timeout(self._embed_seconds + _EMBED_SECONDS_A_TEXT * len(texts)):
                return np.asarray(await self._embedder.embed(texts), np.float32)
        except (EmbedderUnavailableError, TimeoutError) as error:
            if self._telemetry is not None:
                self._telemetry.degraded(EMBEDDER, error)
            return None

    def _read(self, query: str) -> tuple[str, Reading]:
        """Return as much of *query* as counts, and how it was read."""
        query = query[:MAX_QUESTION_CHARACTERS]
        return query, read(query, now=self._clock.now(), language=self._language)

    async def _current_beside(
        self, partition: Partition, texts: Sequence[str], dims: int | None
    ) -> tuple[Held, NDArray[np.float32] | None]:
        """Return the index of *partition* as of now, and the vectors of *texts*, which are made meanwhile."""
        if not texts or self._embedder is None:
            return await self._current(partition, dims), None
        dims = self._embedder.dims
        held = self._held.get(partition)
        if held is not None and dims and self._stands(held, dims) is not None:  # the common case: no task is worth it
            self._held.use(held)
            vectors = await self._embed(texts)
        else:
            embedding = asyncio.ensure_future(self._embed(texts))
            try:
                # Nothing says how long the first vectors of an embedder are but the vectors themselves.
                dims = dims or _dims(await embedding)
                held = await self._current(partition, dims)
                vectors = await embedding
            finally:
                embedding.cancel()
        if vectors is not None and _dims(vectors) != dims:
            held = await self._current(partition, _dims(vectors))
        return held, vectors

    def _stands(self, held: Held, dims: int | None) -> Position | None:
        """Return where *held* stands if that is as of now, where the storage tells that at once; from any thread.

        Args:
            held: What is asked.
            dims: The length of what will be compared with its vectors; ``None``: nothing will.
        """
        position = held.position
        if position is None or not held.idle or (dims and held.index.dims not in (None, dims)):
            return None
        return position if self._telling is not None and self._telling.stands_at(held.partition, position) else None

    async def _current(self, partition: Partition, dims: int | None) -> Held:
        """Return the index of *partition*, as of now or later."""
        held = self._held.get(partition)
        if held is not None and dims is not None and held.index.dims not in (None, dims):
            self._held.drop(held)  # the model gives vectors of another length than the ones that were read
            held = None
        if held is None:
            name = self._embedder.name if self._embedder is not None else None
            known_dims = dims or (self._embedder.dims if self._embedder is not None else None)
            index = PartitionIndex(model=name, dims=known_dims, precision=self._precision, language=self._language)
            held = Held(partition, index)
            self._held.add(held)
        self._held.use(held)
        if held.idle and held.position is not None and await self._nothing_new(held, held.position):
            return held  # the common case, and nothing has to go on should the caller give up
        # A round that has begun may have read before this call; the next one is shared by all who wait.
        await asyncio.shield(self._round(held))
        return held

    def _round(self, held: Held) -> asyncio.Task[None]:
        """Return the next round of reading what is new, which has not begun yet."""
        if held.waiting is None or held.waiting.done():
            held.waiting = asyncio.create_task(self._follow(held, held.running))
            self._tasks.add(held.waiting)
            held.waiting.add_done_callback(self._done)
        return held.waiting

    async def _nothing_new(self, held: Held, position: Position) -> bool:
        """Return whether *held*, which stands at *position*, is as of now."""
        if self._telling is not None:
            return self._telling.stands_at(held.partition, position)
        changes = await self._storage.changes(held.partition, position)
        return changes.position == position == held.position and not changes.reset

    async def _follow(self, held: Held, before: asyncio.Task[None] | None) -> None:
        """Bring *held* up to date, after the round *before* this one."""
        if before is not None and not before.done():
            await asyncio.wait([before])
        held.running, held.waiting = held.waiting, None
        if held.position is None:
            with without_collector():
                await self._catch_up(held)
        else:
            await self._catch_up(held)

    async def _catch_up(self, held: Held) -> None:
        changes = await self._storage.changes(held.partition, held.position)
        if changes.position == held.position and not changes.reset:
            return
        async with self._held.changing(held):
            if changes.reset:
                await self._decide(held, changes)
            before = len(held.index)
            await self._apply(held, changes)
            grown = self._follower is not None and before < self._follower.large_from <= len(held.index)
            if grown and not changes.reset:
                self._held.drop(held)  # it has become large: the next search reads its words, and leaves the rest

    async def _decide(self, held: Held, changes: Changes) -> None:
        """Leave the vectors to the engine, but for a sample, where there are many, or it has had them before."""
        if self._follower is None or self._embedder is None:
            return
        large = len(changes.puts) >= self._follower.large_from
        if large or await self._follower.knows(held.partition):
            held.index = PartitionIndex(model=None, language=self._language)
            held.sample = sample_of(changes.puts, self._embedder.name)

    async def _apply(self, held: Held, changes: Changes) -> None:
        try:
            if len(changes.puts) + len(changes.removed) > _INLINE_CHANGES:
                kinds = await asyncio.to_thread(held.index.apply, changes)
            else:
                kinds = held.index.apply(changes)
        except BaseException:
            # Half applied: nobody may see it.
            self._held.drop(held)
            raise
        self._held.changed(held, changes)
        if self._embedder is not None and self._telemetry is not None:
            found = stale(kinds, self._embedder.name, self._embedder.dims)
            if found is not None:
                self._telemetry.degraded(VECTORS, found)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited has raised it; nobody may be left who did


class _Forms:
    """The forms in which a question is embedded: without who takes part, and without any name.

    Args:
        query: As it was asked.
        asked: As it was read.
        ranking: Only a hybrid one leaves anything out.
        participants: Who takes part, as far as known.
    """

    def __init__(self, query: str, asked: Reading, ranking: Method, participants: Sequence[str]) -> None:
        self._query = query
        self._people = asked.people if ranking == "hybrid" else ()
        main = without_people(query, named(self._people, participants))
        rest = None
        if ranking == "hybrid":
            rest = asked.rest if main is query else without_names(main)
        self.texts = [main] if rest is None else [main, rest]

    def serves(self, participants: Sequence[str]) -> bool:
        """Whether the forms are the same for these *participants*."""
        return without_people(self._query, named(self._people, participants)) == self.texts[0]


def _parts(vectors: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32] | None]:
    """Return the vector of a question, and where there is one that of the question without its names."""
    return vectors[0], vectors[1] if len(vectors) > 1 else None


def _dims(vectors: NDArray[np.float32] | None) -> int | None:
    """Return how many numbers a vector has, or each of several."""
    return None if vectors is None else vectors.shape[-1]
