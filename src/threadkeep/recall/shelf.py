"""The values of an index's items, as they are stored: what was found need not be read from storage."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from itertools import compress
from typing import TYPE_CHECKING, Final

import numpy as np

from threadkeep.memories.shapes import is_memory_namespace
from threadkeep.recall.columns import Column
from threadkeep.storage.port import Item, Ref

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from threadkeep.storage.fields import Fields

MAX_SPELLED_BYTES: Final = 2_048
"""A longer value is left to the storage; a statement with its provenance is 200 to 400 bytes."""

_spell: Final = json.JSONEncoder(separators=(",", ":")).encode


class Shelf:
    """The value of each slot of an index, as JSON; memories only, and only short ones.

    A value as text takes a fifth of the room of the objects that it is read to, and reading it a
    microsecond or two.
    """

    def __init__(self) -> None:
        self._spelled: list[str | None] = []
        self._created_at = Column(np.float64)
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self._bytes + sys.getsizeof(self._spelled) + self._created_at.nbytes

    def extend(self, fields: Fields) -> None:
        """Append a slot for each item of *fields*."""
        spelled = _spelled(fields)
        self._spelled += spelled
        self._created_at.extend(fields.created_at)
        self._bytes += _size(spelled)

    def drop(self, slots: Sequence[int]) -> None:
        """Forget what is in *slots*."""
        for slot in slots:
            self._bytes -= _size([self._spelled[slot]])
            self._spelled[slot] = None

    def keep(self, alive: NDArray[np.bool_]) -> None:
        """Drop all slots but those of the mask *alive*, and number the rest anew."""
        self._spelled = list(compress(self._spelled, alive.tolist()))
        self._created_at.replace(self._created_at.filled[alive])
        self._bytes = _size(self._spelled)

    def item(self, slot: int, ref: Ref, *, revision: int, updated_at: float) -> Item | None:
        """Read an item, without vectors, paths and expiry; ``None`` where it is left to the storage."""
        spelled = self._spelled[slot]
        if spelled is None:
            return None
        created_at = float(self._created_at.filled[slot])
        return Item(
            ref,
            json.loads(spelled),
            revision,
            datetime.fromtimestamp(created_at, UTC),
            datetime.fromtimestamp(updated_at, UTC),
        )


def _spelled(fields: Fields) -> list[str | None]:
    """Return the values of *fields* as JSON; ``None`` where one is left to the storage."""
    spaces = {namespace: is_memory_namespace(namespace) for namespace in {namespace for namespace, _ in fields.names}}
    kept = [spaces[namespace] for namespace, _ in fields.names]
    texts: Iterable[str | None] | None = fields.spelled
    if texts is None:
        texts = (_json_of(value) if one else None for one, value in zip(kept, fields.values, strict=True))
    return [
        text if one and text is not None and len(text) <= MAX_SPELLED_BYTES else None
        for one, text in zip(kept, texts, strict=True)
    ]


def _json_of(value: object) -> str | None:
    try:
        return _spell(value)
    except (TypeError, ValueError):  # something that is no JSON, which the storage may read in its own way
        return None


def _size(spelled: Iterable[str | None]) -> int:
    return sum(map(sys.getsizeof, filter(None, spelled)))
