"""What collections take and give back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from threadkeep.errors import InvalidInputError
from threadkeep.storage.interface import Partition

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
