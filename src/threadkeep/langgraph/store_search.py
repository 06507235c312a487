"""How a LangGraph search is answered: by query or newest first, in one partition or across them."""

from __future__ import annotations

import heapq
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from threadkeep.identity import Owner, partition_of
from threadkeep.langgraph.operations import cut, is_shared, one_partition, own_prefixes
from threadkeep.memories.codec import is_memory_namespace
from threadkeep.search.query import MAX_QUERY_CHARACTERS
from threadkeep.storage.encoding import meets
from threadkeep.storage.interface import Filter, Item, Namespace, NamespaceMatch, Partition, Ref, Storage

if TYPE_CHECKING:
    from langgraph.store.base import SearchOp
    from numpy.typing import NDArray

    from threadkeep.langgraph.operations import NamespaceListing
    from threadkeep.search.ranking import Method
    from threadkeep.services import Services

StoreRanking: TypeAlias = Literal["hybrid", "dense"]
_Name: TypeAlias = tuple[Partition, Namespace, str]

_PAGE: Final = 500
_NAMESPACES: Final = 1000
_LEAST: Final = -2.0  # below any cosine
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class StoreMatch:
    """An item, and how close it is to the query; ``None`` where nothing was asked or compared."""

    item: Item
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look: a partition, and which namespaces of it, with everything below them."""

    partition: Partition
    prefixes: tuple[Namespace, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes:
        text: In words.
        vector: Shape ``(dims,)``; ``None``: only words are compared.
        method: How answers are ordered.
    """

    text: str
    vector: NDArray[np.float32] | None
    method: Method


class _Hit(NamedTuple):
    partition: Partition
    namespace: Namespace
    key: str
    score: float | None
    cosine: float | None


async def find(services: Services, op: SearchOp, *, ranking: StoreRanking) -> list[StoreMatch]:
    """Answer *op*: the filter applies first, then the order, then offset and limit.

    Without a query, newest first. With one, best first; what cannot be compared follows without a
    score, as in LangGraph's InMemoryStore, so that paging reaches everything.
    """
    if not op.limit:
        return []
    places = await _places(services.storage, op.namespace_prefix)
    if op.query and op.query.strip():
        return await _closest(services, places, op, ranking=ranking)
    return [StoreMatch(item) for item in await _newest(services.storage, places, op)]


async def list_namespaces(
    storage: Storage, listing: NamespaceListing, owner: Owner | None, *, shared: bool = False
) -> list[Namespace]:
    """Answer a ListNamespaces; with an *owner*, only that owner's are listed, and no owner's if *shared*."""
    if owner is None:
        page = await storage.namespaces(
            match=listing.match, max_depth=listing.max_depth, limit=listing.limit, offset=listing.offset
        )
        return list(page)
    # Whole namespaces are compared here: an owner with the label "*" would match all owners.
    own = [
        namespace
        for prefix in own_prefixes(owner)
        async for namespace in _all_namespaces(storage, (*listing.match, NamespaceMatch("prefix", prefix)))
        if namespace[:2] == prefix
    ]
    if shared:
        own += [namespace async for namespace in _all_namespaces(storage, listing.match) if is_shared(namespace)]
    return cut(own, max_depth=listing.max_depth, limit=listing.limit, offset=listing.offset)


async def _places(storage: Storage, prefix: Namespace) -> list[Place]:
    """Return everywhere that items below *prefix* may be."""
    partition = one_partition(prefix)
    if partition is not None:
        return [Place(partition, (prefix,))]
    found: dict[Partition, dict[Namespace, None]] = {}
    match = (NamespaceMatch("prefix", prefix),) if prefix else ()
    async for namespace in _all_namespaces(storage, match, max_depth=2):
        partition = partition_of(namespace)
        # An owner's partition holds internal rows, too: only what LangGraph can name is looked at.
        below = namespace if partition.kind == "owner" else namespace[:1]
        found.setdefault(partition, {})[below] = None
    return [Place(partition, tuple(prefixes)) for partition, prefixes in found.items()]


async def _all_namespaces(
    storage: Storage, match: Sequence[NamespaceMatch], *, max_depth: int | None = None
) -> AsyncIterator[Namespace]:
    offset = 0
    while True:
        page = await storage.namespaces(match=match, max_depth=max_depth, limit=_NAMESPACES, offset=offset)
        for namespace in page:
            yield namespace
        if len(page) < _NAMESPACES:
            return
        offset += len(page)


async def _closest(
    services: Services, places: Sequence[Place], op: SearchOp, *, ranking: StoreRanking
) -> list[StoreMatch]:
    """Return the page of answers to the query that *op* asks for, best first."""
    wanted = op.offset + op.limit
    question = await _question(services, op.query or "", ranking=ranking)
    if op.filter:
        # Some more than are wanted are looked at first, and all of them only if need be.
        at_once = 4 * wanted + 100
        hits = await _hits(services, places, question, at_once)
        found = await _matching(services.storage, hits, op.filter, wanted)
        if len(found) < wanted and len(hits) >= at_once:
            hits = await _hits(services, places, question, None)
            found = await _matching(services.storage, hits, op.filter, wanted)
        ranked, page = len(found), found[op.offset :]
    else:
        hits = await _hits(services, places, question, wanted)
        ranked, page = len(hits), await _fetched(services.storage, hits[op.offset :])
    if ranked < wanted:
        seen = {(hit.partition, hit.namespace, hit.key) for hit in hits}
        skip = max(0, op.offset - ranked)
        page += await _unranked(services.storage, places, op, seen, skip=skip, limit=op.limit - len(page))
    return page


async def _question(services: Services, query: str, *, ranking: StoreRanking) -> Question:
    """Embed the query, once for all partitions; where that is not possible, words decide."""
    query = query[:MAX_QUERY_CHARACTERS]
    embedding = await services.search.embed_put([query])
    if embedding is None:
        return Question(query, None, "lexical")
    return Question(query, np.frombuffer(embedding.data, "<f4"), ranking)


async def _hits(services: Services, places: Sequence[Place], question: Question, limit: int | None) -> list[_Hit]:
    """Return where the best *limit* answers are."""
    hits: list[_Hit] = []
    for place in places:
        ranked = await services.search.ranking(
            place.partition,
            question.text,
            prefixes=place.prefixes,
            ranking=question.method,
            limit=limit,
            vector=question.vector,
        )
        partition, dense = place.partition, question.method == "dense"
        hits += [
            _Hit(partition, hit.namespace, hit.key, hit.cosine if dense else hit.score, hit.cosine)
            for hit in ranked.hits
        ]
    if len(places) > 1:
        hits.sort(key=lambda hit: (-_LEAST if hit.score is None else -hit.score, hit.namespace, hit.key))
        hits = hits[:limit]
    return _to_cosine_scores(hits) if question.method == "hybrid" else hits


def _to_cosine_scores(hits: Iterable[_Hit]) -> list[_Hit]:
    """Give hybrid answers the scores that callers of a LangGraph store expect: cosines.

    The order is by words and meaning, so a cosine may be higher than one before it: then it is told as that.
    """
    least = math.inf
    scaled: list[_Hit] = []
    for hit in hits:
        least = min(least, (hit.score or 0.0) if hit.cosine is None else hit.cosine)
        scaled.append(hit._replace(score=least))
    return scaled


async def _matching(storage: Storage, hits: Sequence[_Hit], conditions: Filter, wanted: int) -> list[StoreMatch]:
    """Fetch the items of *hits*, in chunks, until *wanted* of them meet the filter."""
    found: list[StoreMatch] = []
    start, size = 0, 2 * wanted
    while len(found) < wanted and start < len(hits):
        chunk = await _fetched(storage, hits[start : start + size])
        found += [one for one in chunk if meets(one.item.value, conditions)]
        start, size = start + size, min(2 * size, _PAGE)
    return found[:wanted]


async def _unranked(
    storage: Storage, places: Sequence[Place], op: SearchOp, seen: set[_Name], *, skip: int, limit: int
) -> list[StoreMatch]:
    """Return items that no query finds, newest first: those that were put with ``index=False``.

    A memory that may not be recalled is left out: it is not found by asking, not even as the last one.
    """
    found: list[StoreMatch] = []
    async with aclosing(_below(storage, places, op, _PAGE)) as items:
        async for item in items:
            if len(found) >= limit:
                break
            if (item.ref.partition, item.ref.namespace, item.ref.key) in seen:
                continue
            if not item.index and is_memory_namespace(item.ref.namespace):
                continue
            if skip:
                skip -= 1
            else:
                found.append(StoreMatch(item))
    return found


async def _fetched(storage: Storage, hits: Sequence[_Hit]) -> list[StoreMatch]:
    items = await storage.get([Ref(hit.partition, hit.namespace, hit.key) for hit in hits])
    return [StoreMatch(item, hit.score) for item, hit in zip(items, hits, strict=True) if item is not None]


async def _newest(storage: Storage, places: Sequence[Place], op: SearchOp) -> list[Item]:
    """Return the page that *op* asks for of the items that meet its filter, newest first."""
    wanted = op.offset + op.limit
    if wanted <= _PAGE and len(places) == 1 and len(places[0].prefixes) == 1:
        (place,) = places
        page = await storage.scan(place.partition, prefix=place.prefixes[0], filter=op.filter or None, limit=wanted)
        return list(page.items[op.offset :])
    found: list[Item] = []
    place_in_order = 0
    async with aclosing(_below(storage, places, op, min(wanted, _PAGE))) as items:
        async for item in items:
            place_in_order += 1
            if place_in_order > op.offset:
                found.append(item)
            if place_in_order >= wanted:
                break
    return found


def _below(storage: Storage, places: Sequence[Place], op: SearchOp, at_once: int) -> AsyncGenerator[Item]:
    """Return the items of *places* that meet the filter, newest first."""
    if len(places) == 1 and len(places[0].prefixes) == 1:
        return _pages(storage, places[0].partition, places[0].prefixes[0], op, at_once)
    return _merged(storage, places, op, at_once)


async def _merged(storage: Storage, places: Sequence[Place], op: SearchOp, at_once: int) -> AsyncGenerator[Item]:
    """Yield the items of several *places* that meet the filter, newest first."""
    streams = [_pages(storage, place.partition, prefix, op, at_once) for place in places for prefix in place.prefixes]
    heads: list[tuple[int, int, int, Item]] = []

    async def advance(number: int) -> None:
        item = await anext(streams[number], None)
        if item is not None:
            # The number of the stream decides between equals, so items are never compared.
            age = (_EPOCH - item.updated_at) // _MICROSECOND
            heapq.heappush(heads, (age, -item.revision, number, item))

    try:
        for number in range(len(streams)):
            await advance(number)
        while heads:
            *_, number, item = heapq.heappop(heads)
            yield item
            await advance(number)
    finally:
        for stream in streams:
            await stream.aclose()


async def _pages(
    storage: Storage, partition: Partition, prefix: Namespace, op: SearchOp, at_once: int
) -> AsyncGenerator[Item]:
    after: str | None = None
    while True:
        page = await storage.scan(partition, prefix=prefix, filter=op.filter or None, after=after, limit=at_once)
        for item in page.items:
            yield item
        if page.after is None:
            return
        after = page.after
