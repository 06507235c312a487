"""Look at every item of a storage for what is not as it must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from threadkeep.identity import partition_of
from threadkeep.memories.codec import is_memory_namespace, memory_of
from threadkeep.storage.interface import Embedding, Item, Namespace, Partition, iterate_pages
from threadkeep.text.tokenizing import texts_of
from threadkeep.transfer.embedding import rows_of
from threadkeep.transfer.models import Checked, Tally, Wrong, entry_of
from threadkeep.transfer.sources import partitions_of

if TYPE_CHECKING:
    from threadkeep.models.base import Embedder
    from threadkeep.storage.interface import Storage

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
            detail = f"{searchable} items are searchable, and the index is told of {len(changes.puts)}"
            self._wrong("index", (partition.kind, *partition.parts), "", detail)

    def _item(self, item: Item) -> None:
        self.tally.add(entry_of(item).spelled())
        namespace, key = item.ref.namespace, item.ref.key
        internal = "".join(namespace[:1]).startswith(".")
        if not internal and item.ref.partition.kind != "collection" and partition_of(namespace) != item.ref.partition:
            detail = "it lies in another partition than its namespace belongs to, so nobody finds it there"
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
            self.found.wrong.append(Wrong(what, namespace, key, f"{detail}."))


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
    """Say what is found by words only, with this *embedder*, whose dimensions may not be known yet."""
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
