"""The three collections of a MongoDB storage: reading entries, deciding one, folding it, clearing up behind it.

Three facts carry everything else. The newest entry of a partition is never removed, so a number that is
free above it is decided by one insert. An entry is inserted only once the one before it is folded, so
at most one is open. Entries that are no longer the newest stay for :data:`GRACE_SECONDS`, by the clock of
who removes them: whoever is done sooner, by a clock of its own, knows that nothing was missed.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Final, TypeVar

from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import ConnectionFailure, DuplicateKeyError

from threadkeep.errors import StorageUnavailableError
from threadkeep.storage.encoding import encode_text
from threadkeep.storage.mongodb.documents import (
    PART_CHARACTERS,
    Document,
    Entry,
    any_of,
    entries_of,
    entry_id,
    entry_of,
    everything_of,
    feed_key,
    part_of,
    size_of,
    token_of,
)
from threadkeep.storage.port import Partition

T = TypeVar("T")

GRACE_SECONDS: Final = 60.0
"""How long an entry stays when it is no longer the newest."""

MANY: Final = 1_000
"""How many ids one command names."""

_HEADS: Final = 10_000
_PRUNED_AT_ONCE: Final = 8
_INSERTED_BYTES: Final = 8 * 1024 * 1024
_LISTS: Final = {"wrote": False, "ended": False}


class MovedError(Exception):
    """What is read now cannot be joined to what was read before; begin again."""


@dataclass(slots=True)
class _Outdated:
    """Entries before *number* may be removed at *due*; those before *newest* a while after that."""

    number: int
    due: float
    newest: int


class MongoCollections:
    """The collections, as the deployment with *key_prefix* sees them.

    Args:
        database: Where they are.
        key_prefix: Of the deployment.
    """

    def __init__(self, database: AsyncDatabase[Document], *, key_prefix: str) -> None:
        self.prefix: Final = encode_text(key_prefix)
        self.birth = ""
        self.batches = database["threadkeep_batches"]
        self.items = database["threadkeep_items"]
        self.about = database["threadkeep_about"]
        self._heads: OrderedDict[str, Entry] = OrderedDict()
        self._outdated: OrderedDict[str, _Outdated] = OrderedDict()

    def part(self, partition: Partition) -> str:
        """Return the key of *partition*."""
        return part_of(self.prefix, partition.digest)

    def remembered(self, part: str) -> Entry | None:
        """Return the newest entry that this process knows of, if that was not long ago."""
        entry = self._heads.get(part)
        return entry if entry is not None and time.monotonic() - entry.as_of < GRACE_SECONDS / 4 else None

    def remember(self, entry: Entry) -> Entry:
        """Keep *entry* as the newest one known."""
        self._heads[entry.part] = entry
        self._heads.move_to_end(entry.part)
        while len(self._heads) > _HEADS:
            self._heads.popitem(last=False)
        return entry

    def forget(self, part: str) -> None:
        """Look again next time."""
        self._heads.pop(part, None)

    async def head(self, part: str) -> Entry:
        """Return the newest entry of a partition, as it is now; with its lists where it is open.

        Where this process knows which one it was a moment ago, it asks for that and the next number,
        which cannot have been taken and removed in the meantime.
        """
        as_of = time.monotonic()
        known = self._heads.get(part)
        if known is not None and as_of - known.as_of < GRACE_SECONDS / 2:
            numbers = [entry_id(part, number) for number in (known.number, known.number + 1)]
            cursor = self.batches.find({"partition": part, "_id": {"$in": numbers}}, _LISTS)
            found = [entry_of(document, as_of=as_of) for document in await cursor.to_list()]
            if [(entry.number, entry.token) for entry in found] == [(known.number, known.token)]:
                return self.remember(await self._with_lists(found[0]))
            if not found and known.number == 0:
                return self.remember(replace(known, as_of=as_of))
            as_of = time.monotonic()
        cursor = self.batches.find(entries_of(part), _LISTS).sort("_id", -1).limit(1)
        newest = [entry_of(document, as_of=as_of) for document in await cursor.to_list()]
        if not newest:
            return self.remember(Entry(part, 0, "", "", self.birth, 0, as_of=as_of))
        return self.remember(await self._with_lists(newest[0]))

    async def after(self, entry: Entry) -> list[Entry]:
        """Return the entries behind *entry*, with their lists; none where it is still the newest.

        Raises:
            MovedError: They do not join: some were removed, or the partition was erased.
        """
        as_of = time.monotonic()
        if as_of - entry.as_of < GRACE_SECONDS / 2:
            query = {"partition": entry.part, "_id": entry_id(entry.part, entry.number + 1)}
            if await self.batches.find_one(query, {"_id": True}) is None:
                return []
        cursor = self.batches.find(entries_of(entry.part, first=entry.number)).sort("_id", 1)
        found = [entry_of(document, as_of=as_of) for document in await cursor.to_list()]
        if entry.number == 0:
            found.insert(0, entry)
        joined = bool(found) and (found[0].number, found[0].token) == (entry.number, entry.token)
        joined = joined and all(
            (two.number, two.previous) == (one.number + 1, one.token) for one, two in pairwise(found)
        )
        if not joined or any(later.erased is not None for later in found[1:]):
            raise MovedError
        if len(found) > 1:
            self.remember(found[-1])
        return found[1:]

    async def prepare(self, documents: Iterable[Document]) -> None:
        """Insert versions and notes, which nobody sees before their entry is there."""
        for chunk in _by_bytes(documents):
            await self.items.insert_many(chunk, ordered=False)

    async def discard(self, entry: Entry) -> None:
        """Remove what was prepared for an entry that is not to be."""
        for ids in chunked(entry.prepared, MANY):
            await self.items.delete_many({"partition": entry.part, "_id": any_of(ids)})

    async def decide(self, entry: Entry, *, as_of: float) -> bool:
        """Insert *entry*; return whether it has its number, or another writer has.

        Args:
            entry: With a token that was never used.
            as_of: When the entry before it was known to be the newest.

        Raises:
            StorageUnavailableError: The server cannot tell any more; a reader may find it applied.
        """
        document = entry.document(self.prefix)
        try:
            won = await self._insert(document, again=False)
        except ConnectionFailure:  # it may have arrived; under its own token it can be sent again
            won = await self._insert(document, again=True)
        if won and time.monotonic() - as_of > GRACE_SECONDS / 2:
            won = await self._confirm(entry)
        return won

    async def fold(self, entry: Entry) -> None:
        """Make an open entry part of the items: by anybody, at any time, as often as one likes.

        What was prepared becomes visible before what it replaces is removed, so an item that is
        there is found by every search in between.
        """
        if entry.erased is not None:
            await self._wipe(entry)
        part = entry.part
        for ids in chunked(entry.prepared, MANY):
            await self.items.update_many({"partition": part, "_id": any_of(ids)}, {"$unset": {"pending": ""}})
        for ids in chunked(entry.replaced, MANY):
            await self.items.delete_many({"partition": part, "_id": any_of(ids)})
        if entry.trimmed:
            old = {"$gt": part, "$lte": feed_key(part, entry.floor)}
            await self.items.delete_many({"partition": part, "feed": old, "gone": {"$exists": True}})
        await self.batches.update_one(
            {"partition": part, "_id": entry_id(part, entry.number), "token": entry.token}, {"$unset": {"open": ""}}
        )
        known = self._heads.get(part)
        if known is not None and known.token == entry.token:
            self.remember(replace(known, is_open=False))
        self._outdate(part, entry.number)
        await self.prune(_PRUNED_AT_ONCE)

    async def fold_open(self) -> None:
        """Fold what other processes have left open, or are about to fold themselves."""
        left = await self.batches.find({"open": self.prefix}, {"_id": True}).to_list()
        for document in left:
            entry = await self.head(document["_id"][:PART_CHARACTERS])
            # One below the newest is of a writer that came much too late; it says so itself.
            if entry.is_open and entry_id(entry.part, entry.number) == document["_id"]:
                await self.fold(entry)

    async def prune(self, most: int) -> None:
        """Remove entries that have not been the newest for long enough, of *most* partitions."""
        for part, outdated in list(islice(self._outdated.items(), most)):
            if outdated.due > time.monotonic():
                return
            if self._outdated.get(part) is not outdated:  # another call removed it while this one waited
                continue
            del self._outdated[part]
            if outdated.newest > outdated.number:
                self._outdate(part, outdated.newest)
            old = {"$gte": part, "$lt": entry_id(part, outdated.number)}
            await self.batches.delete_many({"partition": part, "_id": old})

    def _outdate(self, part: str, number: int) -> None:
        """Remember that entries before *number* are no longer the newest."""
        known = self._outdated.get(part)
        if known is None:
            self._outdated[part] = _Outdated(number, time.monotonic() + GRACE_SECONDS, number)
        else:
            known.newest = max(known.newest, number)

    async def _with_lists(self, entry: Entry) -> Entry:
        if not entry.is_open:
            return entry
        query = {"partition": entry.part, "_id": entry_id(entry.part, entry.number), "token": entry.token}
        document = await self.batches.find_one(query)
        return entry if document is None else entry_of(document, as_of=entry.as_of)

    async def _insert(self, document: Document, *, again: bool) -> bool:
        try:
            await self.batches.insert_one(document)
        except DuplicateKeyError:
            query = {"partition": document["partition"], "_id": document["_id"]}
            there = await self.batches.find_one(query, {"token": True})
            if there is None and again:
                raise _untold() from None
            return there is not None and there["token"] == document["token"]
        return True

    async def _confirm(self, entry: Entry) -> bool:
        """Whether *entry*, which took long, is one of the partition's, and not under a number that was used before.

        Whoever inserts behind an entry has folded it, and nobody folds one that is not the newest. So
        one that others stand behind is either folded, or came when its number was long used and removed.
        """
        behind = await self.batches.find_one(entries_of(entry.part, first=entry.number + 1), {"_id": True})
        if behind is None:
            return True
        mine = {"partition": entry.part, "_id": entry_id(entry.part, entry.number), "token": entry.token}
        found = await self.batches.find_one(mine, {"open": True})
        if found is None:
            raise _untold()
        if "open" not in found:
            return True
        await self.batches.delete_one(mine)
        return False

    async def _wipe(self, entry: Entry) -> None:
        """Remove what was erased; of the entries before it only the numbers stay, and those not for long."""
        await self.items.delete_many({**everything_of(entry.part), "epoch": entry.erased})
        before = {"$gte": entry.part, "$lt": entry_id(entry.part, entry.number)}
        said = {"kind": "", "parts": "", "wrote": "", "ended": ""}
        await self.batches.update_many({"partition": entry.part, "_id": before}, {"$unset": said})


def shows(document: Document, entry: Entry, hidden: frozenset[str]) -> bool:
    """Whether a version or note is there, where *entry* is the newest and removes *hidden*.

    One that is later than *entry* may show, too; its revision tells.
    """
    return (
        document["epoch"] == entry.epoch
        and ("pending" not in document or token_of(document) == entry.token)
        and document["_id"] not in hidden
    )


def hidden_by(entry: Entry) -> frozenset[str]:
    """Return the ids of the versions that an open *entry* removes."""
    return frozenset(entry.replaced) if entry.is_open else frozenset()


def chunked(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """Cut *things* into lists of at most *size*."""
    waiting = iter(things)
    while chunk := list(islice(waiting, size)):
        yield chunk


def _by_bytes(documents: Iterable[Document]) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    size = 0
    for document in documents:
        chunk.append(document)
        size += size_of(document)
        if size > _INSERTED_BYTES or len(chunk) == MANY:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _untold() -> StorageUnavailableError:
    msg = "The commit took so long that MongoDB cannot tell any more whether it was made; read again and decide anew."
    return StorageUnavailableError(msg)
