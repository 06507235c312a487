"""Collections, documents and passages, as callers see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, cast

from threadkeep.errors import InvalidInputError
from threadkeep.storage.interface import Partition

COLLECTION: Final = "collection"
"""The kind of their partitions."""

MAX_NAME_CHARACTERS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Ingested:
    """The result of ingesting a document.

    Attributes:
        document_id: Its id.
        parts: How many parts it has.
        changed: Whether anything was written: the same content with the same title and metadata writes nothing.
        written: How many of the parts are new; the others stayed as they were.
        degraded: ``("embedder",)`` where new parts have no vectors, and are found by words only until
            ``threadkeep storage re-embed`` has run.
    """

    document_id: str
    parts: int
    changed: bool
    written: int = 0
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
        collection: The collection of its document.
        document_id: Its document.
        title: What that is called; may be empty.
        headings: The headings above it, the outermost first.
        page: Its page or slide, from 1; ``None``: the kind of file has none.
        place: The number of the part in its document, from 0.
        text: What it says, at most some 1,000 characters.
        score: In [0, 1], higher is closer.
        metadata: The metadata of its document.
    """

    collection: str
    document_id: str
    title: str
    headings: tuple[str, ...]
    page: int | None
    place: int
    text: str
    score: float
    metadata: Mapping[str, Any]

    @property
    def citation(self) -> str:
        """Where the passage stands: the document, the headings and the page, in one line."""
        document = f"{self.title} ({self.document_id})" if self.title != self.document_id else self.document_id
        names = [document if self.title else self.document_id, *self.headings]
        where = " › ".join(" ".join(name.split()) for name in names)
        return where if self.page is None else f"{where}, page {self.page}"


@dataclass(frozen=True, slots=True)
class Passages:
    """What was found in one or more collections.

    Attributes:
        passages: Best first; empty where nothing has to do with the question.
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
        InvalidInputError: The name is empty, or too long, or the tenant is no text.
    """
    if not isinstance(cast("object", tenant), str):
        msg = f"tenant must be a text, got {type(tenant).__name__}."
        raise InvalidInputError(msg)
    if not isinstance(name, str) or not name or len(name) > MAX_NAME_CHARACTERS:
        msg = f"A collection's name has 1 to {MAX_NAME_CHARACTERS:,} characters."
        raise InvalidInputError(msg)
    return Partition(COLLECTION, (tenant, name))
