"""The service of collections: ingest, search, similar, list, delete and erase."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from threadkeep.collections.models import COLLECTION, Document, Ingested, Passage, Passages, Similar
from threadkeep.errors import DocumentNotFoundError, InvalidInputError, SettingsError, TooLargeError
from threadkeep.ids import short_digest
from threadkeep.search.retriever import EMBEDDER
from threadkeep.storage.interface import Batch, Delete, Embedding, Item, Put, Ref

if TYPE_CHECKING:
    from threadkeep.clock import Clock
    from threadkeep.search.ranking import Hit, Ranking
    from threadkeep.search.retriever import Retriever
    from threadkeep.storage.interface import Partition, Storage

PART_CHARACTERS: Final = 1_000
OVERLAP_CHARACTERS: Final = 100
"""A part is a paragraph or two; the model of the local embedder reads 256 tokens, about as much."""

MAX_PARTS: Final = 4_000

_DOCUMENTS: Final = ("documents",)
_PARTS: Final = "parts"
_EMBEDDED_AT_ONCE: Final = 64
_PARTITIONS_AT_ONCE: Final = 1_000
_MORE: Final = 10
"""So many passages are looked at for each similar document that is asked for."""


def parts_of(text: str) -> list[str]:
    """Split *text* into parts of at most 1,000 characters, at paragraphs, lines or words as far as it can be.

    Raises:
        SettingsError: The splitter is not installed.
    """
    try:
        from langchain_text_splitters import RecursiveCharacterTextSplitter
    except ImportError as error:
        msg = f"The splitter of documents is not installed ({error}); run: pip install threadkeep[collections]"
        raise SettingsError(msg) from error
    splitter = RecursiveCharacterTextSplitter(chunk_size=PART_CHARACTERS, chunk_overlap=OVERLAP_CHARACTERS)
    return splitter.split_text(text)


class Collections:
    """Documents in parts; every method runs on the home loop."""

    def __init__(self, storage: Storage, search: Retriever, clock: Clock) -> None:
        self._storage = storage
        self._search = search
        self._clock = clock

    async def ingest(
        self, partition: Partition, text: str, *, document_id: str, title: str, metadata: Mapping[str, Any]
    ) -> Ingested:
        """Keep a document, in one commit; one with this id is replaced.

        Raises:
            InvalidInputError: There is no text or no id, or the metadata are no JSON.
            TooLargeError: It has more than 4,000 parts; split it.
            RevisionConflictError: Somebody else wrote the same document meanwhile.
        """
        if not isinstance(text, str) or not text.strip():
            msg = "A document needs a text."
            raise InvalidInputError(msg)
        if not document_id:
            msg = "A document needs an id, such as its path or address."
            raise InvalidInputError(msg)
        parts = await asyncio.to_thread(parts_of, text)
        if len(parts) > MAX_PARTS:
            msg = f"The document has {len(parts):,} parts, and {MAX_PARTS:,} are the most; split it."
            raise TooLargeError(msg)
        before = await self._header(partition, document_id)
        given = short_digest(text, title, json.dumps(dict(metadata), sort_keys=True))
        if before is not None and before.value["digest"] == given:
            return Ingested(document_id, len(parts), changed=False)
        embeddings = await self._embedded(parts)
        head = {"title": title, "parts": len(parts), "metadata": dict(metadata), "digest": given}
        expect = "absent" if before is None else before.revision
        surplus = range(len(parts), 0 if before is None else int(before.value["parts"]))
        operations = [
            Put(_DOCUMENTS, document_id, head, expect=expect),
            *(
                Put((_PARTS, document_id), _key(place), self._part(part, document_id, title, place), ("text",), vectors)
                for place, (part, vectors) in enumerate(zip(parts, embeddings, strict=True))
            ),
            *(Delete((_PARTS, document_id), _key(place)) for place in surplus),
        ]
        await self._storage.commit(Batch(partition, operations))
        missing = self._search.semantic and None in embeddings
        return Ingested(document_id, len(parts), changed=True, degraded=(EMBEDDER,) if missing else ())

    async def search(self, partition: Partition, query: str, *, limit: int) -> Passages:
        """Return the *limit* passages that are closest to *query*, ranked as memories are.

        Raises:
            InvalidInputError: *query* is no text, or *limit* is negative.
        """
        if not isinstance(query, str) or limit < 0:
            msg = "A search needs a text, and a limit of 0 or more."
            raise InvalidInputError(msg)
        found = await self._search.ranking(partition, query, prefixes=[(_PARTS,)], limit=limit)
        return Passages(await self._passages(partition, found.hits), found.degraded)

    async def similar(self, partition: Partition, document_id: str, *, limit: int) -> list[Similar]:
        """Return the *limit* documents that are most like one: by the mean of its vectors, else by its first words.

        Raises:
            DocumentNotFoundError: The collection has none with this id.
        """
        header = await self._require(partition, document_id)
        refs = [Ref(partition, (_PARTS, document_id), _key(place)) for place in range(int(header.value["parts"]))]
        own = [item for item in await self._storage.get(refs) if item is not None]
        first = str(own[0].value["text"]) if own else ""
        mean = _mean([item.embedding for item in own])
        best: dict[str, Similar] = {}
        for passage in await self._passages(partition, (await self._near(partition, first, mean, own, limit)).hits):
            if passage.document_id != document_id and passage.document_id not in best:
                score = min(1.0, max(0.0, passage.score))
                best[passage.document_id] = Similar(passage.document_id, passage.title, score)
        return list(best.values())[:limit]

    async def names(self, tenant: str) -> tuple[str, ...]:
        """Return the names of a tenant's collections that hold a document, in order."""
        found: list[str] = []
        after: Partition | None = None
        while page := await self._storage.partitions(after=after, limit=_PARTITIONS_AT_ONCE):
            after = page[-1]
            for partition in page:
                if partition.kind == COLLECTION and partition.parts[0] == tenant:
                    first = await self._storage.scan(partition, prefix=_DOCUMENTS, limit=1)
                    found += partition.parts[1:] if first.items else ()
        return tuple(sorted(found))

    async def list(self, partition: Partition) -> list[Document]:
        """Return all documents of a collection, the newest first."""
        documents: list[Document] = []
        after: str | None = None
        while True:
            page = await self._storage.scan(partition, prefix=_DOCUMENTS, after=after)
            documents += [_document(item) for item in page.items]
            after = page.after
            if after is None:
                return documents

    async def delete(self, partition: Partition, document_id: str) -> None:
        """Remove a document with all its parts.

        Raises:
            DocumentNotFoundError: The collection has none with this id.
            RevisionConflictError: Somebody else wrote it meanwhile.
        """
        header = await self._require(partition, document_id)
        parts = [Delete((_PARTS, document_id), _key(place)) for place in range(int(header.value["parts"]))]
        head = Delete(_DOCUMENTS, document_id, expect=header.revision)
        await self._storage.commit(Batch(partition, [head, *parts]))

    async def erase(self, partition: Partition) -> int:
        """Remove a collection with everything in it, vectors in an engine included; return how many documents."""
        documents = len(await self.list(partition))
        await self._search.erase(partition)
        await self._storage.erase(partition)
        await self._search.erase(partition)
        return documents

    async def _near(
        self, partition: Partition, text: str, mean: np.ndarray[Any, Any] | None, own: Sequence[Item], limit: int
    ) -> Ranking:
        most = len(own) + limit * _MORE
        if mean is None:
            return await self._search.ranking(partition, text, prefixes=[(_PARTS,)], ranking="lexical", limit=most)
        return await self._search.ranking(
            partition, text, prefixes=[(_PARTS,)], ranking="dense", vector=mean, limit=most
        )

    async def _passages(self, partition: Partition, hits: Sequence[Hit]) -> tuple[Passage, ...]:
        items = await self._storage.get([Ref(partition, hit.namespace, hit.key) for hit in hits])
        return tuple(
            Passage(
                str(item.value["document"]),
                str(item.value["title"]),
                int(item.value["place"]),
                str(item.value["text"]),
                hit.score,
            )
            for hit, item in zip(hits, items, strict=True)
            if item is not None
        )

    async def _embedded(self, parts: Sequence[str]) -> list[Embedding | None]:
        """Return the vectors of each part, some at a time, so that turns are embedded in between."""
        found: list[Embedding | None] = []
        for start in range(0, len(parts), _EMBEDDED_AT_ONCE):
            some = parts[start : start + _EMBEDDED_AT_ONCE]
            made = await self._search.embed_put(some)
            if made is None:
                found += [None] * len(some)
                continue
            width = 4 * made.dims
            rows = [made.data[place * width : (place + 1) * width] for place in range(len(some))]
            found += [Embedding(made.model, made.dims, row) for row in rows]
        return found

    def _part(self, text: str, document_id: str, title: str, place: int) -> dict[str, Any]:
        source = {"speaker": "document", "at": self._clock.now().isoformat()}
        return {
            "text": text,
            "document": document_id,
            "title": title,
            "place": place,
            "trust": "document",
            "sources": [source],
        }

    async def _header(self, partition: Partition, document_id: str) -> Item | None:
        (item,) = await self._storage.get([Ref(partition, _DOCUMENTS, document_id)])
        return item

    async def _require(self, partition: Partition, document_id: str) -> Item:
        item = await self._header(partition, document_id)
        if item is None:
            msg = "The collection has no such document; list its documents to see which there are."
            raise DocumentNotFoundError(msg, document_id=document_id)
        return item


def _key(place: int) -> str:
    return f"{place:06}"


def _document(item: Item) -> Document:
    value = item.value
    return Document(item.ref.key, str(value["title"]), int(value["parts"]), dict(value["metadata"]), item.updated_at)


def _mean(embeddings: Sequence[Embedding | None]) -> np.ndarray[Any, Any] | None:
    """Return the mean direction of *embeddings*, of the first one's model; ``None``: there are none."""
    there = [one for one in embeddings if one is not None]
    rows = [np.frombuffer(one.data, "<f4", one.dims) for one in there if one.dims == there[0].dims]
    if not rows:
        return None
    mean = np.mean(rows, axis=0)
    length = float(np.linalg.norm(mean))
    return (mean / length).astype(np.float32) if length else None
