"""The values of an index's items, packed: what was found need not be read from storage."""

from __future__ import annotations

import marshal
import sys
from datetime import UTC, datetime
from itertools import compress
from typing import TYPE_CHECKING, Final

from threadkeep.memories.shapes import is_memory_namespace
from threadkeep.storage.port import Item, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

MAX_PACKED_BYTES: Final = 2_048
"""A longer value is left to the storage; a statement with its provenance is 300 to 400 bytes."""


class Shelf:
    """One packed value for each slot of an index; memories only, and only short ones.

    A packed value takes a fifth of the room of the objects that it is unpacked to, and a microsecond
    or two. Its bytes are never written anywhere.
    """

    def __init__(self) -> None:
        self._packed: list[bytes | None] = []
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._bytes + sys.getsizeof(self._packed)

    def extend(self, packed: Sequence[bytes | None]) -> None:
        """Append a slot for each of *packed*, which :func:`pack` has made."""
        self._packed += packed
        self._bytes += _size(packed)

    def drop(self, slots: Sequence[int]) -> None:
        """Forget what is in *slots*."""
        for slot in slots:
            self._bytes -= _size([self._packed[slot]])
            self._packed[slot] = None

    def keep(self, alive: NDArray[np.bool_]) -> None:
        """Drop all slots but those of the mask *alive*, and number the rest anew."""
        self._packed = list(compress(self._packed, alive.tolist()))
        self._bytes = _size(self._packed)

    def item(self, slot: int, ref: Ref, *, revision: int, updated_at: float) -> Item | None:
        """Unpack an item, without vectors, paths and expiry; ``None`` where it is left to the storage."""
        packed = self._packed[slot]
        if packed is None:
            return None
        value, created_at = marshal.loads(packed)  # noqa: S302 - our own bytes, of this process
        return Item(
            ref, value, revision, datetime.fromtimestamp(created_at, UTC), datetime.fromtimestamp(updated_at, UTC)
        )


def pack(item: Item) -> bytes | None:
    """Return *item* packed; ``None`` where it is left to the storage."""
    if not is_memory_namespace(item.ref.namespace):
        return None
    try:
        packed = marshal.dumps((item.value, item.created_at.timestamp()))
    except ValueError:  # something that is no JSON, which the storage may read in its own way
        return None
    return packed if len(packed) <= MAX_PACKED_BYTES else None


def _size(packed: Iterable[bytes | None]) -> int:
    return sum(map(sys.getsizeof, filter(None, packed)))
