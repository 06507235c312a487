"""Vectors in an index of Pinecone's, each partition in a namespace of its own."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from pinecone import ApiError, AsyncIndex, NotFoundError, PineconeError, RateLimitError

from threadkeep.errors import VectorEngineError
from threadkeep.identity import owner_of_partition
from threadkeep.ids import digest, new_id, short_digest
from threadkeep.search.vectorstores.base import FENCE, NearItem, Space, VectorEntry, VectorUpdate
from threadkeep.storage.interface import Namespace, Partition, Position

if TYPE_CHECKING:
    from numpy.typing import NDArray

REQUEST_TIMEOUT: Final = timedelta(seconds=20)
"""How long one request may take; the caller of a search gives up earlier."""

VISIBLE_WITHIN: Final = timedelta(seconds=60)
"""So long what was written may stay unseen by searches until it counts as a failure."""

_FIRST_LOOK_SECONDS: Final = 0.02
_LAST_LOOK_SECONDS: Final = 1.0

_MOST: Final = 10_000
"""More the service returns for no question."""

_NAMES_AT_ONCE: Final = 1_000
_ROWS_AT_ONCE: Final = 1_000
_BYTES_AT_ONCE: Final = 1_800_000
_BYTES_OF_NUMBER: Final = 13
_BYTES_OF_NAMES: Final = 1_500
_DECIMALS: Final = 8
"""An upsert holds 1,000 vectors and 2 MB at most."""

_ITEM: Final = {"kind": {"$eq": "item"}}
_POSITION: Final = {"kind": {"$eq": "position"}}
_METRICS: Final = ("cosine", "dotproduct")

_OWN: Final = 0
"""Stands for the owner's label, so that no user's id is sent."""


class _Record(NamedTuple):
    """The vector of a namespace that says how far the copy has come.

    Attributes:
        token: Another one each time that it is written.
        space: Of the vectors; ``None`` after an erasure.
        position: How far the copy has come.
    """

    token: str
    space: Space | None
    position: Position


class PineconeEngine:
    """Keeps vectors in one index of Pinecone's: a namespace for each partition, named by a digest.

    The owner of the account creates the index, with the metric ``cosine`` (or ``dotproduct``) and at least as many
    dimensions as the embedder's vectors have; shorter ones are filled up with zeros, which changes no cosine.

    The service is eventually consistent and has no transactions, so :meth:`apply` returns when searches see what it
    has written: the position is written last, and looked for by a query. Vectors carry the sequence of the update that
    wrote them, and what an update replaces is deleted by name and lower sequence. If the position has moved while an
    update was applied, another process was at work on the same partition, and it is put back to where the update began.
    Applying the same changes once more gives the same vectors.

    Args:
        host: Of the index, as the console shows it.
        api_key: Of the project; stands in no message.
        key_prefix: Deployments with different ones share the index and nothing else.
        visible_within: See :data:`VISIBLE_WITHIN`.
    """

    name: str = "pinecone"

    def __init__(
        self, host: str, api_key: str, *, key_prefix: str = "", visible_within: timedelta = VISIBLE_WITHIN
    ) -> None:
        self.location: str = host
        self._api_key = api_key
        self._prefix = key_prefix
        self._visible_seconds = visible_within.total_seconds()
        self._opened: AsyncIndex | None = None
        self._dims = 0
        self._alone: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def connect(self) -> None:
        """See :meth:`VectorEngine.connect`."""
        if self._dims:
            return
        async with self._errors():
            if self._opened is None:
                seconds = REQUEST_TIMEOUT.total_seconds()
                self._opened = AsyncIndex(host=self.location, api_key=self._api_key, timeout=seconds)
            told = await self._opened.describe_index_stats()
        if not told.dimension or (told.metric or _METRICS[0]) not in _METRICS:
            msg = f"The index at {self.location} compares {told.metric or 'no'} vectors; make one for cosine."
            raise VectorEngineError(msg, engine=self.name)
        self._dims = told.dimension

    async def close(self) -> None:
        """See :meth:`VectorEngine.close`."""
        opened, self._opened, self._dims = self._opened, None, 0
        if opened is not None:
            await opened.close()

    async def position(self, partition: Partition, space: Space) -> Position | None:
        """See :meth:`VectorEngine.position`."""
        async with self._errors():
            return _position_in(await self._record(self._namespace(partition)), space)

    async def holds(self, partition: Partition) -> bool:
        """See :meth:`VectorEngine.holds`."""
        async with self._errors():
            record = await self._record(self._namespace(partition))
        return record is not None and record.space is not None

    async def apply(self, update: VectorUpdate) -> bool:
        """See :meth:`VectorEngine.apply`. When it returns, a search sees it."""
        if update.space.dims > self._dims:
            msg = (
                f"The embedder's vectors have {update.space.dims:,} numbers, and the index at {self.location} takes "
                f"{self._dims:,}; make an index of {update.space.dims:,} dimensions."
            )
            raise VectorEngineError(msg, engine=self.name)
        namespace = self._namespace(update.partition)
        async with self._errors(), self._alone[namespace]:
            before = await self._record(namespace)
            if _position_in(before, update.space) != update.since:
                return False
            names = await self._put(namespace, update)
            await self._sweep(namespace, update, names)
            meanwhile = await self._record(namespace)
            if meanwhile == before:
                await self._move(namespace, _Record(new_id(), update.space, update.position), over=before)
                return True
            await self._give_way(namespace, update, meanwhile)
            return False

    async def search(
        self, partition: Partition, vector: NDArray[np.float32], *, prefixes: Sequence[Namespace] = ((),), limit: int
    ) -> list[NearItem]:
        """See :meth:`VectorEngine.search`."""
        if limit <= 0 or not prefixes or len(vector) > self._dims:
            return []
        below = [short_digest(*prefix) for prefix in prefixes]
        wanted = {**_ITEM, "dims": {"$eq": len(vector)}, "prefixes": {"$in": below}}
        asked = min(limit, _MOST)
        async with self._errors():
            while True:
                found = await self._index.query(
                    vector=self._filled(vector[None])[0],
                    top_k=asked,
                    namespace=self._namespace(partition),
                    filter=wanted,
                    include_metadata=True,
                )
                nearest = _nearest(found.matches, _label(partition))
                if len(nearest) >= limit or len(found.matches) < asked or asked == _MOST:
                    return nearest[:limit]
                asked = min(4 * asked, _MOST)

    async def erase(self, partition: Partition) -> None:
        """See :meth:`VectorEngine.erase`. When it returns, no search finds anything of it."""
        namespace = self._namespace(partition)
        async with self._errors(), self._alone[namespace]:
            await self._clear(namespace)

    @property
    def _index(self) -> AsyncIndex:
        if self._opened is None:
            msg = "The vector store is not connected: search once, or call tk.ready()."
            raise VectorEngineError(msg, engine=self.name)
        return self._opened

    def _namespace(self, partition: Partition) -> str:
        return digest(self._prefix, partition.digest.hex()).hex()

    def _filled(self, rows: NDArray[np.float32]) -> list[list[float]]:
        """Return *rows* as long as the index has them, and in few digits."""
        short = np.round(rows.astype(np.float64), _DECIMALS)
        return np.pad(short, ((0, 0), (0, self._dims - rows.shape[1]))).tolist()

    async def _record(self, namespace: str) -> _Record | None:
        """Read how far the copy has come, as searches see it."""
        found = await self._index.query(
            vector=self._first, top_k=1, namespace=namespace, filter=_POSITION, include_metadata=True
        )
        if not found.matches:
            return None
        told: Mapping[str, Any] = found.matches[0].metadata or {}
        space = Space(json.loads(told["model"]), int(told["dims"])) if told["model"] else None
        return _Record(told["token"], space, Position(json.loads(told["epoch"]), int(told["sequence"])))

    @property
    def _first(self) -> list[float]:
        """The vector of what is no item: the service takes none without a number in it."""
        return [1.0] + [0.0] * (self._dims - 1)

    async def _move(self, namespace: str, record: _Record, *, over: _Record | None) -> None:
        """Write *record*, and wait until searches see it, or one that came after it."""
        metadata = {
            "kind": "position",
            "token": record.token,
            "model": json.dumps(record.space.model) if record.space else "",
            "dims": record.space.dims if record.space else 0,
            "epoch": json.dumps(record.position.epoch),
            "sequence": str(record.position.sequence),
        }
        await self._upsert(namespace, [{"id": "position", "values": self._first, "metadata": metadata}])
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + self._visible_seconds, _FIRST_LOOK_SECONDS
        while (await self._record(namespace)) in (None, over):
            if loop.time() > end:
                msg = f"What was written to {self.location} is not seen; it is applied once more with the next search."
                raise VectorEngineError(msg, engine=self.name)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_LOOK_SECONDS)

    async def _put(self, namespace: str, update: VectorUpdate) -> list[str]:
        """Upsert what *update* puts; return the names of what was there before and goes."""
        most = max(1, min(_ROWS_AT_ONCE, _BYTES_AT_ONCE // (self._dims * _BYTES_OF_NUMBER + _BYTES_OF_NAMES)))
        names = [] if update.reset else [short_digest(key, *labels) for labels, key in update.removed]
        left = iter(update.puts)
        while entries := list(islice(left, most)):
            if not update.reset:
                names += [short_digest(entry.key, *entry.namespace) for entry in entries]
            rows = await asyncio.to_thread(self._rows, entries, update)
            for start in range(0, len(rows), most):
                await self._upsert(namespace, rows[start : start + most])
        return names

    def _rows(self, entries: Iterable[VectorEntry], update: VectorUpdate) -> list[dict[str, Any]]:
        """Return the vectors of *entries* as they are sent."""
        rows: list[dict[str, Any]] = []
        space, own = _space_of(update), _label(update.partition)
        for labels, key, revision, vectors in entries:
            name = short_digest(key, *labels)
            metadata = {
                "kind": "item",
                "space": space,
                "at": update.position.sequence,
                "name": name,
                "dims": update.space.dims,
                "prefixes": [short_digest(*labels[:depth]) for depth in range(len(labels) + 1)],
                "namespace": json.dumps([_OWN if own and label == own else label for label in labels]),
                "key": json.dumps(key),
                "revision": revision,
            }
            rows += [
                {"id": f"{space}.{name}.{revision}.{part}", "values": row, "metadata": metadata}
                for part, row in enumerate(self._filled(vectors))
            ]
        return rows

    async def _upsert(self, namespace: str, rows: list[dict[str, Any]]) -> None:
        taken = await self._index.upsert(vectors=rows, namespace=namespace)
        if taken.upserted_count != len(rows):
            msg = f"{self.location} took {taken.upserted_count:,} of {len(rows):,} vectors; they are sent once more."
            raise VectorEngineError(msg, engine=self.name)

    async def _sweep(self, namespace: str, update: VectorUpdate, names: Sequence[str]) -> None:
        """Delete what *update* leaves nothing of: older vectors of *names*, or of everything."""
        older = {"at": {"$lt": update.position.sequence}}
        if update.reset:
            await self._delete(namespace, {**_ITEM, "space": {"$ne": _space_of(update)}})
            await self._delete(namespace, {**_ITEM, **older})
        for start in range(0, len(names), _NAMES_AT_ONCE):
            some = list(names[start : start + _NAMES_AT_ONCE])
            await self._delete(namespace, {**_ITEM, **older, "name": {"$in": some}})

    async def _delete(self, namespace: str, wanted: Mapping[str, Any] | None) -> None:
        try:
            if wanted is None:
                await self._index.delete(delete_all=True, namespace=namespace)
            else:
                await self._index.delete(filter=wanted, namespace=namespace)
        except NotFoundError:  # a namespace that nothing was ever written to
            return

    async def _clear(self, namespace: str) -> None:
        before = await self._record(namespace)
        await self._delete(namespace, None)
        await self._move(namespace, _Record(new_id(), None, FENCE), over=before)

    async def _give_way(self, namespace: str, update: VectorUpdate, meanwhile: _Record | None) -> None:
        """Go back to where both have been, so that what came since is applied once more; else begin anew."""
        at = update.position if update.since is None or update.reset else update.since
        if meanwhile is None or (meanwhile.space, meanwhile.position.epoch) != (update.space, at.epoch):
            await self._clear(namespace)
        else:
            lower = min(at, meanwhile.position, key=lambda one: one.sequence)
            await self._move(namespace, _Record(new_id(), update.space, lower), over=meanwhile)

    @asynccontextmanager
    async def _errors(self) -> AsyncGenerator[None]:
        """Say what went wrong without the service's own words, which may repeat the key."""
        try:
            yield
        except PineconeError as error:
            msg = f"Pinecone at {self.location} {_said(error)}"
            raise VectorEngineError(msg, engine=self.name) from None


def _said(error: PineconeError) -> str:
    status = error.status_code if isinstance(error, ApiError) else None
    if status in (401, 403):
        return f"refuses the key ({status}); check PINECONE_API_KEY."
    if status == 404:  # noqa: PLR2004 - as HTTP has it
        return "has no such index (404); check PINECONE_INDEX_HOST."
    if isinstance(error, RateLimitError):
        return f"takes no more requests at present (429{_later(error.retry_after)})."
    if status is not None:
        return f"answered {status}."
    return f"gave no answer ({type(error).__name__}); check PINECONE_INDEX_HOST."


def _later(seconds: float | None) -> str:
    return "" if seconds is None else f", again in {seconds:g} s"


def _position_in(record: _Record | None, space: Space) -> Position | None:
    return record.position if record is not None and record.space in (None, space) else None


def _space_of(update: VectorUpdate) -> str:
    """Return what stands for the model, and the storage's epoch, in ids and metadata."""
    return short_digest(update.space.model, str(update.space.dims), update.position.epoch)


def _label(partition: Partition) -> str:
    """Return the label by which namespaces of *partition* name its owner; empty: it has no owner."""
    owner = owner_of_partition(partition)
    return "" if owner is None else owner.label


def _nearest(matches: Iterable[Any], own: str) -> list[NearItem]:
    """Return each item once, as its newest revision says, nearest first."""
    newest: dict[tuple[Namespace, str], NearItem] = {}
    for match in matches:
        told = match.metadata
        labels = tuple(own if label == _OWN else label for label in json.loads(told["namespace"]))
        near = NearItem(labels, json.loads(told["key"]), int(told["revision"]), match.score)
        held = newest.get(near[:2])
        if held is None or (near.revision, near.cosine) > (held.revision, held.cosine):
            newest[near[:2]] = near
    return sorted(newest.values(), key=lambda near: -near.cosine)
