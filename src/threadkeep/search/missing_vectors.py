"""Embeds what was written while the embedder failed, once it answers again.

The commit that writes an item without its vectors schedules the work with the item. So the storage lists these items
without a walk over any partition, also after the process was killed. Whatever replaces or deletes the item ends the
work with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from threadkeep.errors import PartitionErasedError, RevisionConflictError
from threadkeep.ids import new_id
from threadkeep.memories.codec import row_of, text_to_embed
from threadkeep.storage.interface import Batch, Due, Embedding, Put, same_put
from threadkeep.text.tokenizing import texts_of

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.observability import Telemetry
    from threadkeep.search.retriever import Retriever
    from threadkeep.storage.interface import Item, Operation, Partition, Storage

log: Final = logging.getLogger("threadkeep")

UNEMBEDDED: Final = "unembedded"
"""The kind of work that is due for an item without its vectors."""

_AT_ONCE: Final = 64
_REFUSED_FOR: Final = timedelta(hours=1)
"""How long an item waits that the embedder refuses while it answers for others."""


class MissingVectors:
    """Schedules items without vectors, and embeds them later.

    Args:
        storage: Keeps the items.
        search: Makes the vectors.
        clock: Tells the time.
        telemetry: Counts the items that were embedded later.
    """

    def __init__(self, storage: Storage, search: Retriever, clock: Clock, telemetry: Telemetry) -> None:
        self._storage = storage
        self._search = search
        self._clock = clock
        self._telemetry = telemetry

    @property
    def recovered(self) -> asyncio.Event:
        """Set when the embedder answers after a call for writing failed in this process."""
        return self._search.recovered

    def schedule(self, operations: Sequence[Operation]) -> Sequence[Operation]:
        """Return *operations*, with work for the puts that lack their vectors; without an embedder, as they are."""
        if not self._search.semantic:
            return operations
        return [
            replace(one, due=Due(UNEMBEDDED, self._clock.now())) if isinstance(one, Put) and _lacks(one) else one
            for one in operations
        ]

    async def round(self) -> int:
        """Embed items that lack their vectors, longest waiting first; return how many.

        It ends when none is left, when the embedder does not answer, or when another process embeds the same items.
        A text that the embedder refuses keeps no other item waiting.

        Raises:
            StorageError: The storage does not answer; the rest stays scheduled.
        """
        embedded = singly = 0
        while self._search.semantic:
            most = 1 if singly else _AT_ONCE
            found = await self._storage.due(UNEMBEDDED, now=self._clock.now(), limit=most)
            epochs, items = await self._unchanged(found)
            if not items:
                break
            texts = [texts_of(item.value, item.index) for item in items]
            rows = {text: row for row, text in enumerate(dict.fromkeys(text for own in texts for text in own))}
            vectors = await self._search.embed_put(list(map(text_to_embed, rows)))
            if vectors is not None:
                puts = [
                    replace(same_put(item), embedding=_rows(vectors, [rows[text] for text in own]), due=None)
                    for item, own in zip(items, texts, strict=True)
                ]
                done = await self._commit(items, puts, epochs)
                self._telemetry.count("vectors.restored", done)
                embedded, singly = embedded + done, max(0, singly - 1)
            elif await self._search.embed_put([new_id()]) is None:  # a new text: no cache has its vector
                break
            elif len(items) > 1:
                done = singly = len(items)
            else:
                later = Due(UNEMBEDDED, self._clock.now() + _REFUSED_FOR)
                done = await self._commit(items, [replace(same_put(items[0]), due=later)], epochs)
            if not done:
                break
        if embedded:
            log.info("%d items that were written without vectors have them now", embedded)
        return embedded

    async def _unchanged(self, items: Sequence[Item]) -> tuple[dict[Partition, str], list[Item]]:
        """Return those of *items* that are as they were read, and the epochs of their partitions.

        The epochs are read first: so none of them is one that began after an item was erased.
        """
        partitions = dict.fromkeys(item.ref.partition for item in items)
        epochs = {partition: (await self._storage.position(partition)).epoch for partition in partitions}
        now = await self._storage.get([item.ref for item in items]) if items else ()
        return epochs, [item for item, at in zip(items, now, strict=True) if at and at.revision == item.revision]

    async def _commit(self, items: Sequence[Item], puts: Sequence[Put], epochs: dict[Partition, str]) -> int:
        """Write *puts* of *items*, a commit for each partition; return how many were not changed meanwhile."""
        put_at = {item.ref: put for item, put in zip(items, puts, strict=True)}
        written = 0
        for partition, epoch in epochs.items():
            left = [item for item in items if item.ref.partition == partition]
            before = len(left) + 1
            while 0 < len(left) < before:
                try:
                    await self._storage.commit(Batch(partition, [put_at[item.ref] for item in left], epoch))
                except PartitionErasedError:
                    break
                except RevisionConflictError:
                    before, (_, left) = len(left), await self._unchanged(left)
                else:
                    written += len(left)
                    break
        return written


def lacks_vectors(item: Item) -> bool:
    """Return whether *item* waits for its vectors."""
    return item.due is not None and item.due.kind == UNEMBEDDED


def _lacks(put: Put) -> bool:
    """Return whether *put* is searchable and has no vectors."""
    return bool(put.index) and put.embedding is None and put.due is None and bool(texts_of(put.value, put.index))


def _rows(vectors: Embedding, rows: Sequence[int]) -> Embedding:
    """Return *rows* of *vectors*."""
    return replace(vectors, data=b"".join([row_of(vectors, row).data for row in rows]))
