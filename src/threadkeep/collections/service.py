"""``tk.collections``: ingest, search, list and delete documents that a tenant shares."""

from __future__ import annotations

import asyncio
import builtins
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

from threadkeep.collections.models import COLLECTION, Document, Ingested, Passage, Passages, Similar, collection
from threadkeep.concurrency import retry_conflicts
from threadkeep.documents.extraction import markdown_lines, sections_of
from threadkeep.documents.reader import ParsedDocument, Section, read_document, split_document
from threadkeep.errors import (
    CollectionNotFoundError,
    DocumentNotFoundError,
    FileUnreadableError,
    InvalidInputError,
    OwnerMismatchError,
    TooLargeError,
)
from threadkeep.identity import Service, operation
from threadkeep.ids import short_digest
from threadkeep.models.base import EMBEDDER
from threadkeep.storage.encoding import check_filter, check_limit, encode_value, meets
from threadkeep.storage.interface import Batch, Delete, Embedding, Item, Partition, Put, Ref

if TYPE_CHECKING:
    from threadkeep.documents.reader import Chunk
    from threadkeep.search.ranking import Ranking
    from threadkeep.search.scoring import Hit
    from threadkeep.storage.interface import Filter

LEAST_CLOSENESS: Final = 0.24
"""From so close on, a passage has to do with a question.

Source:
    The development half of ``threadkeep eval documents``: the closest passage of a question that names its subject has
    .29 or more, and 19 of 20 unrelated questions stay below; with other embedders, on the local model's scale.
"""

LEAST_LEXICAL: Final = 0.10
"""The same where words alone are compared, as in :mod:`threadkeep.recall.relevance`."""

IN_ITS_WORDS: Final = 0.40
"""A passage with so much of a question's words, as a share of BM25, is what it is about; the source is the same."""


def closest_hits(ranking: Ranking, limit: int, *, relevant_only: bool) -> list[Hit]:
    """Return the *limit* passages that are closest to the question, the closest first, with that as their scores.

    Memories are ordered by how far their words and their meaning stand out. Passages are ordered by how close they are:
    questions about documents use other words, and what few words they share says little.

    Args:
        ranking: All of what was found.
        limit: The most passages.
        relevant_only: Return none where the question has to do with none.
    """
    hits = ranking.hits
    places = hits.closest_places(limit)
    closest = [hits[place]._replace(score=hits.closeness_at(place)) for place in places]
    least = LEAST_LEXICAL if ranking.by_words else LEAST_CLOSENESS
    if relevant_only and not any(hit.score >= least or hit.lexical >= IN_ITS_WORDS for hit in closest):
        return []
    return closest


MAX_PARTS: Final = 4_000
MAX_CHARACTERS: Final = 4_000_000
"""Of the text of a document."""

MAX_FILE_BYTES: Final = 50_000_000
MAX_COLLECTIONS: Final = 20
"""So many collections are searched at a time."""

_DOCUMENTS: Final = ("documents",)
_PARTS: Final = "parts"
_EMBEDDED_AT_ONCE: Final = 64
_PARTITIONS_AT_ONCE: Final = 1_000
_MORE: Final = 10
"""So many passages are looked at for each similar document that is asked for."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A document to keep.

    Attributes:
        document_id: Its id.
        title: Given by the caller; empty: as the file names itself.
        metadata: JSON values.
        content: The digest of its text or bytes.
    """

    document_id: str
    title: str
    metadata: dict[str, Any]
    content: str

    @property
    def digest(self) -> str:
        """The same for the same content, title and metadata."""
        return short_digest(self.content, self.title, json.dumps(self.metadata, sort_keys=True))


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
        """Keep a text in the collection *name*, in one commit; replace what changed of the document with this id.

        Args:
            name: The collection; the first document creates it.
            text: Plain text or Markdown, at most 4 million characters.
            document_id: Any text, such as a path or an address.
            title: Shown with its passages; empty: the only heading of the first level.
            metadata: JSON values, by which searches can filter.
            tenant: The owner of the collection.

        Raises:
            OwnerMismatchError: The client is locked to an owner.
            InvalidInputError: The text or the id is empty, the metadata are not JSON, or an argument has another type.
            TooLargeError: The document has more than 4 million characters or 4,000 parts.
            RevisionConflictError: Other writers kept changing the same document; of a few, the last one stays.
            SettingsError: The splitter is not installed.
        """
        partition = self._writable(name, tenant)
        if not isinstance(text, str) or not text.strip():
            msg = "The text of the document is empty; pass its content."
            raise InvalidInputError(msg)
        source = _source(document_id, title, metadata, text.encode("utf-8", "surrogatepass"))
        if (same := await self._unchanged(partition, source)) is not None:
            return same
        return await self._keep(partition, source, await asyncio.to_thread(_parse_text, text))

    @operation
    async def ingest_file(
        self,
        name: str,
        file: str | Path | bytes,
        *,
        document_id: str = "",
        title: str = "",
        metadata: Mapping[str, Any] | None = None,
        tenant: str = "",
    ) -> Ingested:
        """Keep a file in the collection *name*, in one commit; replace what changed of the document with this id.

        PDF, DOCX, PPTX, XLSX, HTML, notebooks, Markdown and text are recognised by their content, and parsed in a child
        process with at most 512 MB and 10 seconds.

        Args:
            name: The collection; the first document creates it.
            file: Its path, or its content; at most 50 MB.
            document_id: Any text; empty: the path as given. Its suffix tells Markdown from other text.
            title: Shown with its passages; empty: as the file names itself, else its file name.
            metadata: JSON values, by which searches can filter.
            tenant: The owner of the collection.

        Raises:
            OwnerMismatchError: The client is locked to an owner.
            InvalidInputError: The id is missing, the metadata are not JSON, the file has no text, or an argument has
                another type.
            FileUnreadableError: The file is damaged, encrypted or missing, or unpacks to too much.
            FileTypeUnsupportedError: No parser reads files of this type.
            TooLargeError: The file has more than 50 MB, 4 million characters of text or 4,000 parts.
            RevisionConflictError: As :meth:`ingest`.
        """
        partition = self._writable(name, tenant)
        if not isinstance(cast("object", file), bytes | str | Path):
            msg = f"file must be a path or bytes, got {type(file).__name__}."
            raise InvalidInputError(msg)
        document_id = document_id or ("" if isinstance(file, bytes) else str(file))
        data = file if isinstance(file, bytes) else await asyncio.to_thread(_read, Path(file))
        source = _source(document_id, title, metadata, data)
        if (same := await self._unchanged(partition, source)) is not None:
            return same
        document = await read_document(
            data, self._services.file_readers, name=document_id, max_bytes=MAX_FILE_BYTES, max_characters=MAX_CHARACTERS
        )
        if not document.title:
            document = ParsedDocument(Path(document_id).name, document.sections)
        return await self._keep(partition, source, document)

    @operation
    async def search(
        self,
        name: str | Sequence[str],
        query: str,
        *,
        limit: int = 10,
        where: Filter | None = None,
        relevant_only: bool = True,
        tenant: str | None = None,
    ) -> Passages:
        """Return the passages that are most like *query*, best first.

        Args:
            name: The collection, or up to 20 that are searched together.
            query: A question, or any text.
            limit: The most passages.
            where: Only documents with such metadata: ``{"team": "ops", "year": {"$gte": 2030}}``; the operators are
                those of LangGraph's stores.
            relevant_only: Return nothing where nothing has to do with the question.
            tenant: The owner of the collections; ``None``: the tenant of the client.

        Raises:
            CollectionNotFoundError: A collection has no documents, or was deleted meanwhile.
            InvalidInputError: There is no name, or more than 20, or the limit or the filter is invalid.
        """
        check_limit(limit, name="limit")
        if not isinstance(cast("object", query), str):
            msg = f"query must be a text, got {type(query).__name__}."
            raise InvalidInputError(msg)
        if not isinstance(cast("object", name), Sequence):
            msg = f"The name of a collection is a text, got {type(name).__name__}."
            raise InvalidInputError(msg)
        names = [name] if isinstance(name, str) else name
        partitions = list(dict.fromkeys(self._readable(one, tenant) for one in names))
        if not 1 <= len(partitions) <= MAX_COLLECTIONS:
            msg = f"Name 1 to {MAX_COLLECTIONS} collections to search, not {len(partitions)}."
            raise InvalidInputError(msg)
        results = [
            await self._search_one(partition, query, limit, where, relevant_only=relevant_only)
            for partition in partitions
        ]
        passages = sorted((one for found in results for one in found.passages), key=lambda one: -one.score)
        degraded = tuple(dict.fromkeys(part for found in results for part in found.degraded))
        return Passages(tuple(passages[:limit]), degraded)

    async def _search_one(
        self, partition: Partition, query: str, limit: int, where: Filter | None, *, relevant_only: bool
    ) -> Passages:
        prefixes = [(_PARTS,)] if not where else await self._matching(partition, where)
        if not prefixes:
            return Passages(())
        ranking = await self._services.search.ranking(partition, query, prefixes=prefixes, limit=None)
        if (scale := await self._services.calibration.scale()) is not None:
            ranking = replace(ranking, hits=ranking.hits.rescaled(scale.to_local))
        hits = closest_hits(ranking, limit, relevant_only=relevant_only)
        passages = await self._passages(partition, hits)
        if not passages and limit:
            await self._require_documents(partition)
        return Passages(passages, ranking.degraded)

    async def _matching(self, partition: Partition, where: Filter) -> list[tuple[str, ...]]:
        """Return the namespaces of the documents with metadata that meet *where*."""
        check_filter(where)
        await self._require_documents(partition)
        return [
            (_PARTS, item.ref.key) for item in await self._headers(partition) if meets(item.value["metadata"], where)
        ]

    @operation
    async def similar(self, name: str, document_id: str, *, limit: int = 5, tenant: str | None = None) -> list[Similar]:
        """Return the documents of the collection *name* that are most like one of them.

        They are compared by the mean of their vectors, or by words if the document has none.

        Raises:
            DocumentNotFoundError: The collection has none with this id.
            InvalidInputError: The limit is invalid.
        """
        check_limit(limit, name="limit")
        partition = self._readable(name, tenant)
        header = await self._require(partition, document_id)
        refs = [Ref(partition, (_PARTS, document_id), key) for key in header.value["parts"]]
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
        return [_document(item) for item in await self._headers(self._readable(name, tenant))]

    async def _headers(self, partition: Partition) -> builtins.list[Item]:
        items: builtins.list[Item] = []
        after: str | None = None
        while True:
            page = await self._services.storage.scan(partition, prefix=_DOCUMENTS, after=after)
            items += page.items
            after = page.after
            if after is None:
                return items

    @operation
    async def delete(self, name: str, document_id: str, *, tenant: str = "") -> None:
        """Remove a document from the collection *name*.

        Raises:
            OwnerMismatchError: The client is locked to an owner.
            DocumentNotFoundError: The collection has none with this id.
            RevisionConflictError: Other writers kept changing the document.
        """
        partition = self._writable(name, tenant)

        async def commit() -> None:
            header = await self._require(partition, document_id)
            parts = [Delete((_PARTS, document_id), key) for key in header.value["parts"]]
            head = Delete(_DOCUMENTS, document_id, expect=header.revision)
            await self._services.storage.commit(Batch(partition, [head, *parts]))

        await retry_conflicts(commit)

    @operation
    async def erase(self, name: str, *, tenant: str = "") -> int:
        """Remove the collection *name* with its vectors; return how many documents it had.

        Raises:
            OwnerMismatchError: The client is locked to an owner.
        """
        partition = self._writable(name, tenant)
        documents = len(await self._headers(partition))
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
        """Return the passages at *hits*; those of documents that were deleted or replaced meanwhile are left out."""
        headers = list(dict.fromkeys(Ref(partition, _DOCUMENTS, hit.namespace[1]) for hit in hits))
        parts = [Ref(partition, hit.namespace, hit.key) for hit in hits]
        items = await self._services.storage.get([*headers, *parts])
        documents = {item.ref.key: item for item in items[: len(headers)] if item is not None}
        return tuple(
            _passage(documents[hit.namespace[1]], item, hit.score)
            for hit, item in zip(hits, items[len(headers) :], strict=True)
            if item is not None
            and hit.namespace[1] in documents
            and hit.key in documents[hit.namespace[1]].value["parts"]
        )

    async def _unchanged(self, partition: Partition, source: _Source) -> Ingested | None:
        """Return the result for a document that is kept as it is; ``None``: it is new or differs."""
        header = await self._header(partition, source.document_id)
        if header is None or header.value["digest"] != source.digest:
            return None
        return _unchanged(header)

    async def _keep(self, partition: Partition, source: _Source, document: ParsedDocument) -> Ingested:
        """Commit the document, and of its parts those that are new or gone."""
        chunks = await asyncio.to_thread(split_document, document)
        if not chunks:
            msg = "The document has no text; pass one with content."
            raise InvalidInputError(msg)
        if len(chunks) > MAX_PARTS:
            msg = f"The document has {len(chunks):,} parts, and {MAX_PARTS:,} are the most; split it."
            raise TooLargeError(msg)
        title = source.title or document.title
        parts = {
            key: self._part(source.document_id, one, title)
            for key, one in zip(_keys(chunks, title), chunks, strict=True)
        }
        vectors: dict[str, Embedding | None] = {}
        return await retry_conflicts(lambda: self._write(partition, source, title, parts, vectors))

    async def _write(
        self,
        partition: Partition,
        source: _Source,
        title: str,
        parts: Mapping[str, dict[str, Any]],
        vectors: dict[str, Embedding | None],
    ) -> Ingested:
        """Commit what differs from the version that is there; *vectors* keeps those that are made for another attempt.

        Raises:
            RevisionConflictError: Another writer was first; nothing was written.
        """
        before = await self._header(partition, source.document_id)
        if before is not None and before.value["digest"] == source.digest:
            return _unchanged(before)
        known: set[str] = set() if before is None else set(before.value["parts"])
        new = [key for key in parts if key not in known]
        missing = [key for key in new if key not in vectors]
        made = await self._embedded([parts[key]["text"] for key in missing])
        vectors.update(zip(missing, made, strict=True))
        head = {"title": title, "parts": [*parts], "metadata": source.metadata, "digest": source.digest}
        namespace = (_PARTS, source.document_id)
        operations = [
            Put(_DOCUMENTS, source.document_id, head, expect="absent" if before is None else before.revision),
            *(Put(namespace, key, parts[key], ("text",), vectors[key]) for key in new),
            *(Delete(namespace, key) for key in sorted(known - parts.keys())),
        ]
        await self._services.storage.commit(Batch(partition, self._services.missing_vectors.schedule(operations)))
        unembedded = self._services.search.semantic and any(vectors[key] is None for key in new)
        degraded = (EMBEDDER,) if unembedded else ()
        return Ingested(source.document_id, len(parts), changed=True, written=len(new), degraded=degraded)

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

    def _part(self, document_id: str, chunk: Chunk, title: str) -> dict[str, Any]:
        """Return what is stored of a part; its context is searched with it, and stands in front of its text."""
        source = {"speaker": "document", "at": self._services.clock.now().isoformat()}
        context = chunk.context(title)
        return {
            "text": f"{context}\n{chunk.text}" if context else chunk.text,
            "start": len(context) + 1 if context else 0,
            "headings": [*chunk.headings],
            "page": chunk.page,
            "document": document_id,
            "trust": "document",
            "sources": [source],
        }

    async def _require_documents(self, partition: Partition) -> None:
        """Refuse a collection without documents.

        Raises:
            CollectionNotFoundError: It has none.
        """
        if not (await self._services.storage.scan(partition, prefix=_DOCUMENTS, limit=1)).items:
            name = partition.parts[1]
            msg = (
                f"The collection {name[:100]!r} was not found: it has no documents. List the names of the collections."
            )
            raise CollectionNotFoundError(msg)

    async def _header(self, partition: Partition, document_id: str) -> Item | None:
        (item,) = await self._services.storage.get([Ref(partition, _DOCUMENTS, document_id)])
        return item

    async def _require(self, partition: Partition, document_id: str) -> Item:
        item = await self._header(partition, document_id)
        if item is None:
            msg = "The document was not found in the collection; list the documents of the collection."
            raise DocumentNotFoundError(msg, document_id=document_id)
        return item


def _source(document_id: str, title: str, metadata: Mapping[str, Any] | None, content: bytes) -> _Source:
    """Check what names a document.

    Raises:
        InvalidInputError: The id is empty, or the metadata are not JSON.
    """
    for name, value in (("document_id", document_id), ("title", title)):
        if not isinstance(cast("object", value), str):
            msg = f"{name} must be a text, got {type(value).__name__}."
            raise InvalidInputError(msg)
    if not document_id:
        msg = "A document needs an id, such as its path or address."
        raise InvalidInputError(msg)
    if metadata is not None and not isinstance(cast("object", metadata), Mapping):
        msg = f"metadata must be a mapping, got {type(metadata).__name__}."
        raise InvalidInputError(msg)
    given = dict(metadata or {})
    encode_value(given)  # raises if it is not JSON
    return _Source(document_id, title, given, sha256(content).hexdigest())


def _parse_text(text: str) -> ParsedDocument:
    if len(text) > MAX_CHARACTERS:
        msg = f"The document has {len(text):,} characters, and {MAX_CHARACTERS:,} are the most; split it."
        raise TooLargeError(msg)
    title, sections = sections_of(None, markdown_lines(text), len(text) + 1)
    return ParsedDocument(title, tuple(Section(*section) for section in sections))


def _read(path: Path) -> bytes:
    """Return the bytes of a file; of one that is too large, none are read.

    Raises:
        FileUnreadableError: It is missing, or it cannot be read.
        TooLargeError: It is too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # a path with NUL is a ValueError
        msg = f"The file cannot be read ({type(error).__name__}); check its path and its permissions."
        raise FileUnreadableError(msg) from error
    if len(data) > MAX_FILE_BYTES:
        msg = f"The file has more than {MAX_FILE_BYTES:,} bytes; split it."
        raise TooLargeError(msg)
    return data


def _keys(chunks: Iterable[Chunk], title: str) -> Iterable[str]:
    """Yield a key for each part: the same for the same text in the same place; equal ones are counted."""
    seen = Counter[str]()
    for chunk in chunks:
        digest = short_digest(chunk.context(title), str(chunk.page), chunk.text)
        yield f"{digest}-{seen[digest]}"
        seen[digest] += 1


def _unchanged(header: Item) -> Ingested:
    return Ingested(header.ref.key, len(header.value["parts"]), changed=False)


def _document(item: Item) -> Document:
    value = item.value
    return Document(item.ref.key, str(value["title"]), len(value["parts"]), dict(value["metadata"]), item.updated_at)


def _passage(document: Item, part: Item, score: float) -> Passage:
    value, head = part.value, document.value
    return Passage(
        part.ref.partition.parts[1],
        document.ref.key,
        str(head["title"]),
        tuple(value["headings"]),
        value["page"],
        head["parts"].index(part.ref.key),
        str(value["text"])[int(value["start"]) :],
        score,
        dict(head["metadata"]),
    )


def _mean(embeddings: Sequence[Embedding | None]) -> np.ndarray[Any, Any] | None:
    """Return the mean direction of *embeddings*, of the first one's model; ``None``: there are none."""
    there = [one for one in embeddings if one is not None]
    rows = [np.frombuffer(one.data, "<f4", one.dims) for one in there if one.dims == there[0].dims]
    if not rows:
        return None
    mean = np.mean(rows, axis=0)
    length = float(np.linalg.norm(mean))
    return (mean / length).astype(np.float32) if length else None
