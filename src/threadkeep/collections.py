"""Collections: documents of a user or a team that the user searches by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from threadkeep.errors import (
    DocumentNotFoundError,
    InvalidInputError,
    OwnerMismatchError,
    TooLargeError,
    optional_import,
)
from threadkeep.ids import short_digest
from threadkeep.models.base import EMBEDDER
from threadkeep.service import Service, operation
from threadkeep.storage.encoding import encode_value
from threadkeep.storage.interface import Batch, Delete, Embedding, Item, Partition, Put, Ref

if TYPE_CHECKING:
    from threadkeep.search.ranking import Ranking
    from threadkeep.search.scoring import Hit

COLLECTION: Final = "collection"
"""The kind of their partitions."""

MAX_NAME_CHARACTERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Ingested:
    """What became of a document that was given.

    Attributes:
        document_id: Its id.
        parts: How many parts it has.
        changed: Whether anything was written: the same text with the same title and metadata writes nothing.
        degraded: ``("embedder",)`` where its parts have no vectors, and are found by words only until
            ``threadkeep storage re-embed`` has run.
    """

    document_id: str
    parts: int
    changed: bool
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """A document that is kept.

    Attributes:
        document_id: Its id.
        title: What it is called; may be empty.
        parts: How many parts it has.
        metadata: The metadata that it was ingested with.
        updated_at: When it was last written.
    """

    document_id: str
    title: str
    parts: int
    metadata: Mapping[str, Any]
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document that was found. Its text is data: a document may say anything.

    Attributes:
        document_id: Of which document.
        title: What that is called.
        place: Which of its parts, from 0.
        text: What it says, at most some 1,000 characters.
        score: In [0, 1], higher is closer.
    """

    document_id: str
    title: str
    place: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Passages:
    """What was found in a collection.

    Attributes:
        passages: Best first.
        degraded: What could not be used: ``embedder``, ``vectors``.
    """

    passages: tuple[Passage, ...]
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Similar:
    """A document that is like another.

    Attributes:
        document_id: Its id.
        title: What it is called.
        score: Of its part that is closest, in [0, 1].
    """

    document_id: str
    title: str
    score: float


def collection(name: str, tenant: str) -> Partition:
    """Return the partition of a collection.

    Raises:
        InvalidInputError: The name is empty, or too long.
    """
    if not isinstance(name, str) or not name or len(name) > MAX_NAME_CHARACTERS:
        msg = f"A collection's name has 1 to {MAX_NAME_CHARACTERS:,} characters."
        raise InvalidInputError(msg)
    return Partition(COLLECTION, (tenant, name))


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
    with optional_import("The splitter of documents", extra="collections"):
        from langchain_text_splitters import RecursiveCharacterTextSplitter
    splitter = RecursiveCharacterTextSplitter(chunk_size=PART_CHARACTERS, chunk_overlap=OVERLAP_CHARACTERS)
    return splitter.split_text(text)


class CollectionService(Service):
    """Documents that a tenant shares, in parts: ingest, search, similar, list, delete, erase.

    A client that is locked to an owner reads the collections of that owner's tenant and writes none.
    """

    @operation
    async def ingest(
        self,
        name: str,
        text: str,
        *,
        document_id: str,
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        tenant: str = "",
    ) -> Ingested:
        """Keep a document in the collection *name*, in one commit; replace the document with this id.

        Args:
            name: The collection; the first document creates it.
            text: Plain text or Markdown, at most some 4 million characters.
            document_id: Any text, such as a path or an address.
            title: Shown with its passages.
            metadata: JSON values; returned, never searched.
            tenant: The owner of the collection.

        Raises:
            OwnerMismatchError: The client is locked to an owner.
            InvalidInputError: The text or the id is empty, or the metadata are not JSON.
            TooLargeError: The document has more than 4,000 parts.
            RevisionConflictError: Another writer changed the same document.
            SettingsError: The splitter is not installed.
        """
        partition = self._writable(name, tenant)
        metadata = dict(metadata or {})
        if not isinstance(text, str) or not text.strip():
            msg = "The text of the document is empty; pass its content."
            raise InvalidInputError(msg)
        if not document_id:
            msg = "A document needs an id, such as its path or address."
            raise InvalidInputError(msg)
        parts = await asyncio.to_thread(parts_of, text)
        if len(parts) > MAX_PARTS:
            msg = f"The document has {len(parts):,} parts, and {MAX_PARTS:,} are the most; split it."
            raise TooLargeError(msg)
        before = await self._header(partition, document_id)
        encode_value(metadata)  # raises if it is not JSON
        given = short_digest(text, title, json.dumps(metadata, sort_keys=True))
        if before is not None and before.value["digest"] == given:
            return Ingested(document_id, len(parts), changed=False)
        embeddings = await self._embedded(parts)
        head = {"title": title, "parts": len(parts), "metadata": metadata, "digest": given}
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
        await self._services.storage.commit(Batch(partition, operations))
        missing = self._services.search.semantic and None in embeddings
        return Ingested(document_id, len(parts), changed=True, degraded=(EMBEDDER,) if missing else ())

    @operation
    async def search(self, name: str, query: str, *, limit: int = 10, tenant: str | None = None) -> Passages:
        """Return the passages of the collection *name* that are most like *query*, best first."""
        partition = self._readable(name, tenant)
        if not isinstance(query, str) or limit < 0:
            msg = "The search is invalid: pass a text, and a limit of 0 or more."
            raise InvalidInputError(msg)
        found = await self._services.search.ranking(partition, query, prefixes=[(_PARTS,)], limit=limit)
        return Passages(await self._passages(partition, found.hits), found.degraded)

    @operation
    async def similar(self, name: str, document_id: str, *, limit: int = 5, tenant: str | None = None) -> list[Similar]:
        """Return the documents of the collection *name* that are most like one of them.

        They are compared by the mean of their vectors, or by words if the document has none.

        Raises:
            DocumentNotFoundError: The collection has none with this id.
        """
        partition = self._readable(name, tenant)
        header = await self._require(partition, document_id)
        refs = [Ref(partition, (_PARTS, document_id), _key(place)) for place in range(int(header.value["parts"]))]
        own = [item for item in await self._services.storage.get(refs) if item is not None]
        first = str(own[0].value["text"]) if own else ""
        mean = _mean([item.embedding for item in own])
        best: dict[str, Similar] = {}
        for passage in await self._passages(partition, (await self._near(partition, first, mean, own, limit)).hits):
            if passage.document_id != document_id and passage.document_id not in best:
                score = min(1.0, max(0.0, passage.score))
                best[passage.document_id] = Similar(passage.document_id, passage.title, score)
        return list(best.values())[:limit]

    @operation
    async def names(self, *, tenant: str | None = None) -> tuple[str, ...]:
        """Return the names of a tenant's collections, in order. Reads every partition."""
        tenant = self._readable_tenant(tenant)
        found: list[str] = []
        after: Partition | None = None
        while page := await self._services.storage.partitions(after=after, limit=_PARTITIONS_AT_ONCE):
            after = page[-1]
            for partition in page:
                if partition.kind == COLLECTION and partition.parts[0] == tenant:
                    first = await self._services.storage.scan(partition, prefix=_DOCUMENTS, limit=1)
                    found += partition.parts[1:] if first.items else ()
        return tuple(sorted(found))

    @operation
    async def list(self, name: str, *, tenant: str | None = None) -> list[Document]:
        """Return the documents of the collection *name*, newest first."""
        return await self._documents(self._readable(name, tenant))

    async def _documents(self, partition: Partition) -> list[Document]:
        documents: list[Document] = []
        after: str | None = None
        while True:
            page = await self._services.storage.scan(partition, prefix=_DOCUMENTS, after=after)
            documents += [_document(item) for item in page.items]
            after = page.after
            if after is None:
                return documents

    @operation
    async def delete(self, name: str, document_id: str, *, tenant: str = "") -> None:
        """Remove a document from the collection *name*.

        Raises:
            OwnerMismatchError: The client is locked to an owner.
            DocumentNotFoundError: The collection has none with this id.
            RevisionConflictError: Another writer changed the document.
        """
        partition = self._writable(name, tenant)
        header = await self._require(partition, document_id)
        parts = [Delete((_PARTS, document_id), _key(place)) for place in range(int(header.value["parts"]))]
        head = Delete(_DOCUMENTS, document_id, expect=header.revision)
        await self._services.storage.commit(Batch(partition, [head, *parts]))

    @operation
    async def erase(self, name: str, *, tenant: str = "") -> int:
        """Remove the collection *name* with its vectors; return how many documents it had.

        Raises:
            OwnerMismatchError: The client is locked to an owner.
        """
        partition = self._writable(name, tenant)
        documents = len(await self._documents(partition))
        await self._services.search.erase(partition)
        await self._services.storage.erase(partition)
        await self._services.search.erase(partition)
        return documents

    def _writable(self, name: str, tenant: str) -> Partition:
        if self._scope.locked:
            msg = "Collections are shared, and this client is locked to one owner; write without for_owner()."
            raise OwnerMismatchError(msg)
        return collection(name, tenant)

    def _readable(self, name: str, tenant: str | None) -> Partition:
        return collection(name, self._readable_tenant(tenant))

    def _readable_tenant(self, tenant: str | None) -> str:
        own = self._scope.default.tenant if self._scope.default is not None else ""
        if self._scope.locked and tenant not in (None, own):
            msg = "This collection belongs to another tenant; use one of your own tenant."
            raise OwnerMismatchError(msg)
        return own if tenant is None else tenant

    async def _near(
        self, partition: Partition, text: str, mean: np.ndarray[Any, Any] | None, own: Sequence[Item], limit: int
    ) -> Ranking:
        search, most = self._services.search, len(own) + limit * _MORE
        if mean is None:
            return await self._services.search.ranking(
                partition, text, prefixes=[(_PARTS,)], ranking="lexical", limit=most
            )
        return await search.ranking(partition, text, prefixes=[(_PARTS,)], ranking="dense", vector=mean, limit=most)

    async def _passages(self, partition: Partition, hits: Sequence[Hit]) -> tuple[Passage, ...]:
        items = await self._services.storage.get([Ref(partition, hit.namespace, hit.key) for hit in hits])
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
            made = await self._services.search.embed_put(some)
            if made is None:
                found += [None] * len(some)
                continue
            width = 4 * made.dims
            rows = [made.data[place * width : (place + 1) * width] for place in range(len(some))]
            found += [Embedding(made.model, made.dims, row) for row in rows]
        return found

    def _part(self, text: str, document_id: str, title: str, place: int) -> dict[str, Any]:
        source = {"speaker": "document", "at": self._services.clock.now().isoformat()}
        return {
            "text": text,
            "document": document_id,
            "title": title,
            "place": place,
            "trust": "document",
            "sources": [source],
        }

    async def _header(self, partition: Partition, document_id: str) -> Item | None:
        (item,) = await self._services.storage.get([Ref(partition, _DOCUMENTS, document_id)])
        return item

    async def _require(self, partition: Partition, document_id: str) -> Item:
        item = await self._header(partition, document_id)
        if item is None:
            msg = "The document was not found in the collection; list the documents of the collection."
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
