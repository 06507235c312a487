"""What a MongoDB storage does across partitions: for the service, not for one owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pymongo.errors import OperationFailure

from threadkeep.storage.encoding import encode_text, prefix_range
from threadkeep.storage.matching import WILDCARD
from threadkeep.storage.mongodb.collections import MANY, MongoCollections, chunked
from threadkeep.storage.mongodb.commits import MongoCommits
from threadkeep.storage.mongodb.documents import PART_CHARACTERS, Document, partition_of, row_of
from threadkeep.storage.port import MAX_BATCH_OPERATIONS, Item, NamespaceMatch, Partition, Stats
from threadkeep.storage.row import items_of

_ALL: Final = 1 << 62


class MongoService:
    """The service's methods of one deployment.

    They read items only, so each first folds what is still open: of crashed writers, and of those
    that are about to do it themselves.
    """

    def __init__(self, collections: MongoCollections, commits: MongoCommits) -> None:
        self._collections = collections
        self._commits = commits

    async def namespaces(self, match: Sequence[NamespaceMatch], now: int) -> set[str]:
        """Return encoded namespaces that hold an unexpired item, all that can meet *match* among them."""
        collections = self._collections
        await collections.fold_open()
        query = self._there(now)
        query["namespace"] = _namespace_condition(match)
        steps = [{"$match": query}, {"$group": {"_id": "$namespace"}}]
        found = [group["_id"] async for group in await collections.items.aggregate(steps)]
        return {text for text in found if text is not None}

    async def partitions(self, after: Partition | None, limit: int) -> tuple[Partition, ...]:
        """Return the partitions behind *after*, in the order of their keys."""
        collections = self._collections
        found: list[Partition] = []
        behind = "" if after is None else collections.part(after) + "~"
        query = {"prefix": collections.prefix, "_id": {"$gt": behind}}
        part, newest = "", None
        async for entry in collections.batches.find(query, {"kind": True, "parts": True}).sort("_id", 1):
            if entry["_id"][:PART_CHARACTERS] != part:
                if newest is not None:
                    found.append(newest)
                if len(found) >= limit:
                    return tuple(found[:limit])
                part = entry["_id"][:PART_CHARACTERS]
            newest = partition_of(entry.get("kind"), entry.get("parts"))  # the last one of a partition counts
        if newest is not None:
            found.append(newest)
        return tuple(found[:limit])

    async def due(self, kind: str, now: int, limit: int) -> tuple[Item, ...]:
        """Return the unexpired items whose work waits since *now*, longest first."""
        if limit == 0:
            return ()
        collections = self._collections
        await collections.fold_open()
        query = {**self._there(now), "due_kind": encode_text(kind), "due_at": {"$lte": now}}
        order = [("due_at", 1), ("namespace", 1), ("key", 1)]
        found = await collections.items.find(query).sort(order).limit(min(limit, _ALL)).to_list()
        return tuple(
            item
            for version in found
            if (partition := partition_of(version.get("kind"), version.get("parts"))) is not None
            for item in items_of([row_of(version)], partition)
        )

    async def sweep(self, now: int, *, orphaned: int) -> int:
        """Remove what expired by *now* and what was left behind before *orphaned*; return how many expired."""
        collections = self._collections
        await collections.fold_open()
        swept = 0
        while True:
            query = {"prefix": collections.prefix, "expires_at": {"$lte": now}, "pending": None}
            cursor = collections.items.find(query, {"partition": True}).limit(MAX_BATCH_OPERATIONS)
            expired: dict[str, list[str]] = {}
            read = 0
            async for version in cursor:
                read += 1
                expired.setdefault(version["partition"], []).append(version["_id"])
            before = swept
            for part, versions in expired.items():
                for some in chunked(versions, MAX_BATCH_OPERATIONS):
                    swept += await self._commits.expire(part, some, now=now)
            await self._commits.drain()
            if read < MAX_BATCH_OPERATIONS or swept == before:
                break
        await self._commits.clear_up(before=orphaned)
        await collections.prune(MANY)
        return swept

    async def stats(self) -> Stats:
        """Return how much there is, the partitions' entries included in the size."""
        collections = self._collections
        await collections.fold_open()
        there = {"prefix": collections.prefix, "namespace": {"$exists": True}, "pending": None}
        items = await collections.items.count_documents(there)
        steps = [
            {"$match": {"prefix": collections.prefix}},
            {"$sort": {"_id": 1}},
            {"$group": {"_id": "$partition", "kind": {"$last": "$kind"}}},
        ]
        groups = [group async for group in await collections.batches.aggregate(steps)]
        return Stats(sum(group.get("kind") is not None for group in groups), items, await self._size_bytes())

    async def _size_bytes(self) -> int | None:
        size = 0
        for collection in (self._collections.items, self._collections.batches):
            try:
                told = await collection.database.command("collStats", collection.name)
            except OperationFailure:  # the user's role may not ask, and not every server answers
                return None
            size += int(told.get("storageSize", 0)) + int(told.get("totalIndexSize", 0))
        return size

    def _there(self, now: int) -> Document:
        return {
            "prefix": self._collections.prefix,
            "pending": None,
            "$or": [{"expires_at": None}, {"expires_at": {"$gt": now}}],
        }


def _namespace_condition(match: Sequence[NamespaceMatch]) -> Document:
    """Return what the index can leave out: namespaces that do not begin as the conditions say, to the first ``*``."""
    for condition in match:
        if condition.where == "prefix":
            path = condition.path
            labels = path[: path.index(WILDCARD)] if WILDCARD in path else path
            if labels:
                first, last = prefix_range(labels)
                return {"$gte": first, "$lte": last}
    return {"$exists": True}
