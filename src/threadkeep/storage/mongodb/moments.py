"""Reading one partition as it is at one moment, while others write to it.

MongoDB does not promise that a long read is of one moment, so this does: read the newest entry, read
the items, and ask which entries came meanwhile. Where there are some, what they name is read again, as
it is with the last of them; that is little, so it comes to an end however much is written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from threadkeep.errors import StorageUnavailableError
from threadkeep.storage.encoding import Cursor
from threadkeep.storage.matching import meets
from threadkeep.storage.mongodb.collections import MANY, MongoCollections, MovedError, chunked, hidden_by, shows
from threadkeep.storage.mongodb.documents import (
    Document,
    Entry,
    any_of,
    feed_after,
    order_key,
    order_range,
    row_of,
)
from threadkeep.storage.port import Changes, Item, Partition, Position
from threadkeep.storage.row import Place, Row, changed_of, items_of, spelled
from threadkeep.storage.scan import Scan, cursor_of

T = TypeVar("T")

_ATTEMPTS: Final = 5
_FIRST_PART: Final = 64
_LONGEST_PART: Final = 5_000


@dataclass(slots=True)
class _Page:
    """What a scan has found so far, of what is not expired *now*: every match up to *edge*; ``None``: up to the end."""

    now: int
    edge: str | None
    found: dict[str, tuple[Cursor, Item]] = field(default_factory=dict[str, tuple[Cursor, Item]])


class MongoMoments:
    """Reads of one deployment, each of one moment."""

    def __init__(self, collections: MongoCollections) -> None:
        self._collections = collections

    async def rows(self, part: str, places: Sequence[str]) -> dict[str, Row]:
        """Return the rows at the places with the keys *places*, expired ones included, by their keys."""
        return await _again(lambda: self._rows(part, places))

    async def changes(self, partition: Partition, since: Position | None, now: int) -> Changes:
        """Return what happened to the searchable items after *since*."""
        return await _again(lambda: self._changes(partition, since, now))

    async def scan(self, scan: Scan, now: int) -> list[tuple[Cursor, Item]]:
        """Return up to ``scan.wanted`` items with their places in the order."""
        return await _again(lambda: self._scan(scan, now))

    async def _rows(self, part: str, places: Sequence[str]) -> dict[str, Row]:
        entry = await self._collections.head(part)
        if entry.number == 0:
            return {}
        if len(places) == 1:  # one version is of one moment, whichever it is
            versions = [version async for version in self._at(places, entry, later=True)]
            newest = max(versions, key=lambda version: version["revision"], default=None)
            return {} if newest is None else {places[0]: row_of(newest)}
        found = {version["place"]: version async for version in self._at(places, entry)}
        while len(found) < len(places) and (later := await self._collections.after(entry)):
            entry = later[-1]
            await self._renew(found, changed_by(later).intersection(places), entry)
        return {place: row_of(version) for place, version in found.items()}

    async def _changes(self, partition: Partition, since: Position | None, now: int) -> Changes:
        collections = self._collections
        part = collections.part(partition)
        entry = await collections.head(part)
        if since == entry.position:
            return Changes(entry.position, reset=False, puts=(), removed=())
        reset = since is None or since.epoch != entry.epoch or not entry.floor <= since.sequence <= entry.sequence
        told = -1 if since is None or reset else since.sequence
        versions: dict[str, Document] = {}
        gone: dict[Place, None] = {}
        after, later = told, [entry]
        while later:
            entry = later[-1]
            if not reset and entry.floor > told:
                raise MovedError
            for place in changed_by(later):
                versions.pop(place, None)
            async for document in self._feed(part, after, entry, notes=not reset):
                if "gone" in document:
                    gone.update(((namespace, key), None) for namespace, key in document["gone"])
                else:
                    versions[document["place"]] = document
            after, later = entry.sequence, await collections.after(entry)
        rows = sorted((row_of(version) for version in versions.values()), key=lambda row: row.revision)
        alive = [row for row in rows if _is_alive(row, now)]
        if not reset:
            # What a follower holds of an expired item may be an older version, which did not expire.
            gone.update((row.place, None) for row in rows if not _is_alive(row, now))
        return Changes(entry.position, reset, changed_of(alive, partition), tuple(map(spelled, gone)))

    async def _scan(self, scan: Scan, now: int) -> list[tuple[Cursor, Item]]:
        collections = self._collections
        part = collections.part(scan.partition)
        entry = await collections.head(part)
        if entry.number == 0:
            return []
        start = None if scan.after is None else order_key(part, scan.after)
        page, size = _Page(now, start), _FIRST_PART if scan.filter else scan.wanted
        longest = _LONGEST_PART
        while True:
            await self._read_on(page, scan, entry, min(size, longest))
            while later := await collections.after(entry):
                entry = later[-1]
                longest *= 2  # what is written moves ahead of an oldest-first scan, which must overtake it
                await self._renew_page(page, scan, start, changed_by(later), entry)
            if page.edge is None or len(page.found) >= scan.wanted:
                break
            size *= 2
        ordered = sorted(page.found.values(), key=lambda found: found[0], reverse=scan.direction == "newest")
        return ordered[: scan.wanted]

    async def _read_on(self, page: _Page, scan: Scan, entry: Entry, size: int) -> None:
        """Read *size* more versions into *page*."""
        newest = scan.direction == "newest"
        query = self._scanned(page, scan, entry.part)
        query["order"] = order_range(entry.part, page.edge, newest=newest)
        cursor = self._collections.items.find(query, batch_size=MANY).sort("order", -1 if newest else 1).limit(size)
        read = await cursor.to_list()
        _add(page, scan, _shown(read, entry))
        page.edge = read[-1]["order"] if len(read) == size else None

    async def _renew_page(self, page: _Page, scan: Scan, start: str | None, changed: set[str], entry: Entry) -> None:
        """Read again what *changed* among what *page* has gone over."""
        newest = scan.direction == "newest"
        for place in changed:
            page.found.pop(place, None)
        query = self._scanned(page, scan, entry.part)
        first, last = (page.edge, start) if newest else (start, page.edge)
        bounds = {"$gt": first or entry.part, "$lt": last or entry.part + "~"}
        if page.edge is not None:
            bounds = {"$gte" if newest else "$gt": bounds["$gt"], "$lt" if newest else "$lte": bounds["$lt"]}
        query["order"] = bounds
        for places in chunked(changed, MANY):
            query["place"] = any_of(places)
            _add(page, scan, _shown(await self._collections.items.find(query, batch_size=MANY).to_list(), entry))

    def _scanned(self, page: _Page, scan: Scan, part: str) -> Document:
        first, last = scan.namespaces
        query: Document = {"partition": part, "$or": [{"expires_at": None}, {"expires_at": {"$gt": page.now}}]}
        if scan.prefix:
            query["namespace"] = {"$gte": first, "$lte": last}
        return query

    async def _feed(self, part: str, after: int, entry: Entry, *, notes: bool) -> AsyncIterator[Document]:
        """Yield what followers are told of after the revision *after*, up to *entry*."""
        query: Document = {"partition": part, "feed": feed_after(part, after)}
        if not notes:
            query["gone"] = None
        hidden = hidden_by(entry)
        async for document in self._collections.items.find(query, batch_size=MANY).sort("feed", 1):
            if shows(document, entry, hidden) and document["revision"] <= entry.sequence:
                yield document

    async def _at(self, places: Collection[str], entry: Entry, *, later: bool = False) -> AsyncIterator[Document]:
        """Yield the versions at *places* that are there with *entry*; *later*: or with one behind it."""
        hidden = hidden_by(entry)
        for keys in chunked(places, MANY):
            query = {"partition": entry.part, "place": any_of(keys)}
            for version in await self._collections.items.find(query, batch_size=MANY).to_list():
                if shows(version, entry, hidden) and (later or version["revision"] <= entry.sequence):
                    yield version

    async def _renew(self, found: dict[str, Document], changed: Collection[str], entry: Entry) -> None:
        for place in changed:
            found.pop(place, None)
        async for version in self._at(changed, entry):
            found[version["place"]] = version


def changed_by(entries: Iterable[Entry]) -> set[str]:
    """Return the keys of the places that *entries* write or remove."""
    changed: set[str] = set()
    for entry in entries:
        changed |= entry.changed
    return changed


async def _again(read: Callable[[], Awaitable[T]]) -> T:
    for _ in range(_ATTEMPTS):
        try:
            return await read()
        except MovedError:  # erased meanwhile, or it took so long that what came in between is gone
            continue
    msg = "This owner is written to faster than it can be read; try again, or read less at once."
    raise StorageUnavailableError(msg)


def _shown(read: Sequence[Document], entry: Entry) -> list[Document]:
    hidden = hidden_by(entry)
    return [version for version in read if shows(version, entry, hidden) and version["revision"] <= entry.sequence]


def _add(page: _Page, scan: Scan, versions: Sequence[Document]) -> None:
    rows = [row_of(version) for version in versions]
    for version, row, item in zip(versions, rows, items_of(rows, scan.partition), strict=True):
        if not scan.filter or meets(item.value, scan.filter):
            page.found[version["place"]] = (cursor_of(row), item)


def _is_alive(row: Row, now: int) -> bool:
    return row.expires_at is None or row.expires_at > now
