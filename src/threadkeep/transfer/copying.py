"""Copy from a source into a storage, and read back what is there: resumable, and never over what was there before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from threadkeep.concurrency import retry_conflicts
from threadkeep.errors import EmbedderUnavailableError, InvalidInputError
from threadkeep.ids import short_digest
from threadkeep.proposals.codec import PROPOSALS
from threadkeep.storage.interface import Batch, Delete, Expectation, Item, Put, Ref
from threadkeep.text.tokenizing import texts_of
from threadkeep.transfer.embedding import embedded
from threadkeep.transfer.models import Copied, Entry, Tally, entry_of
from threadkeep.transfer.sources import MARKS, Source

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.models.base import Embedder
    from threadkeep.storage.interface import Storage

Progress: TypeAlias = Callable[[int, int], object]
"""Told how many are done, and of how many."""

_COMMIT_BYTES: Final = 16 * 1024 * 1024
_ATTEMPTS: Final = 3


class Copying:
    """One copy of *source* into *target*, both connected.

    An entry whose item is in the target already, and the same, is left alone: so a copy that was
    interrupted goes on where it was. A target that holds anything else is refused unless *merge*; what
    differs there is then kept, unless *overwrite*.

    Args:
        source: Where from.
        target: Where to. Nobody else should write to it meanwhile; where somebody does, they win.
        clock: When the copy began.
        embedder: Makes the vectors of foreign entries; ``None``: they come without.
        merge: Whether the target may hold something.
        overwrite: Whether what differs in the target is replaced.
        progress: Told how far it is: entries read and read back, of twice as many.
    """

    def __init__(
        self,
        source: Source,
        target: Storage,
        clock: Clock,
        *,
        embedder: Embedder | None = None,
        merge: bool = False,
        overwrite: bool = False,
        progress: Progress = lambda _done, _all: None,
    ) -> None:
        self._source = source
        self._target = target
        self._clock = clock
        self._embedder = embedder if source.foreign else None
        self._merge = merge
        self._overwrite = overwrite
        self._progress = progress
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
            if not self._copied.unequal:
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
                    f"{self._target.location} holds {held:,} items already; give an empty place, or --into-existing "
                    "to add to what is there."
                )
                raise InvalidInputError(msg, items=held)
        if mark is None:
            began = {"source": self._source.name, "began_at": self._clock.now().isoformat()}
            await self._target.commit(Batch(MARKS, [Put(MARKS.parts, self._key, began)]))
        elif not self._merge:
            self._overwrite = True  # what differs is our own, from before the source was written to

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
        async for page in self._source.pages():
            for entry in page:
                tally.add(entry.spelled(vectors=not self._source.foreign))
                partitions.add(entry.partition.digest)
            if write:
                await self._write(page)
            self._advance(len(page), passes=2 if write else 1)
        self._copied.read, self._copied.checksum = tally.count, tally.checksum
        self._copied.partitions = len(partitions)
        self._copied.shapes = dict(self._source.shapes)
        self._copied.left_out = list(self._source.left_out)

    async def _write(self, page: Sequence[Entry]) -> None:
        """Bring one page into the target; where somebody else writes there meanwhile, look again."""

        async def write() -> None:
            found = await self._target.get([entry.ref for entry in page])
            puts = self._wanted(page, found)
            for part in await self._parts(puts):
                await self._target.commit(Batch(page[0].partition, part))
            self._count(page, found, len(puts))

        await retry_conflicts(write, attempts=_ATTEMPTS)

    def _wanted(self, page: Sequence[Entry], found: Sequence[Item | None]) -> list[Entry]:
        wanted: list[Entry] = []
        for entry, item in zip(page, found, strict=True):
            expect: Expectation = "absent"
            if item is not None:
                if self._same(entry, item) or not self._overwrite:
                    continue
                expect = item.revision
            wanted.append(Entry(entry.partition, replace(entry.put, expect=expect)))
        return wanted

    def _count(self, page: Sequence[Entry], found: Sequence[Item | None], written: int) -> None:
        same = sum(item is not None and self._same(entry, item) for entry, item in zip(page, found, strict=True))
        self._copied.written += written
        self._copied.present += same
        self._copied.differing += len(page) - written - same

    def _same(self, entry: Entry, item: Item) -> bool:
        vectors = not self._source.foreign
        if self._source.foreign and entry.put.namespace[0] == PROPOSALS:  # what was decided there stands
            return item.value.get("text") == entry.put.value["text"]
        return entry_of(item).spelled(vectors=vectors) == entry.spelled(vectors=vectors)

    async def _parts(self, entries: Sequence[Entry]) -> list[list[Put]]:
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
        async for page in self._source.pages():
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
