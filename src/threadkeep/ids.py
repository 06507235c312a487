"""Identifiers: their types, how new ones are made, and the names of what a storage keeps together."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NewType, TypeAlias

MemoryId = NewType("MemoryId", str)
ThreadId = NewType("ThreadId", str)
MessageId = NewType("MessageId", str)
TurnId = NewType("TurnId", str)
ProposalId = NewType("ProposalId", str)

Namespace: TypeAlias = tuple[str, ...]


def new_id() -> str:
    """Return a random identifier: 128 bits as 32 hexadecimal characters.

    It is the operating system's, not ``uuid.uuid4``'s, which applications and tests replace to number their messages.
    """
    return os.urandom(16).hex()


def digest(*parts: str) -> bytes:
    """Return the SHA-256 of *parts*: 32 bytes, different for every different list of texts.

    Each part is framed by its length, so ``("ab", "c")`` and ``("a", "bc")`` never meet, and any
    text has a digest of its own: lone surrogates, NUL, and two halves that only look like a pair.
    """
    framed = b""
    for part in parts:
        text = part.encode("utf-8", "surrogatepass")
        framed += b"%d:%b" % (len(text), text)
    return hashlib.sha256(framed).digest()


def short_digest(*parts: str) -> str:
    """Return the first 32 hexadecimal characters of :func:`digest`, for use as a key."""
    return digest(*parts).hex()[:32]


def base64url(data: bytes) -> str:
    """Return *data* in the alphabet of URLs, without padding (RFC 7515)."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


@dataclass(frozen=True)
class Partition:
    """The unit of a commit: an owner, a thread, a collection, or the root label of other namespaces.

    Attributes:
        kind: ``owner``, ``thread``, ``collection`` or ``root``.
        parts: The name of the partition within its kind, e.g. ``(tenant, user_id)``.
    """

    kind: Literal["owner", "thread", "collection", "root"]
    parts: tuple[str, ...]

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that identify the partition."""
        return digest(self.kind, *self.parts)
