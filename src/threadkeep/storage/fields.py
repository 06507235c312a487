"""Items field by field: what reads ten thousand of them needs no object for each. Pure rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from threadkeep.storage.port import Item, Namespace

NEVER: Final = float("inf")

AT_ONCE: Final = 256
"""So many at a time, and one thing after the other: both they and the code stay in the processor's caches."""


class Fields(NamedTuple):
    """Some items: place *i* of each field is one item's. Moments are seconds since 1970.

    Attributes:
        names: Namespace and key.
        values: JSON objects.
        spelled: The same as JSON in ASCII; ``None``: not at hand.
        revisions: See :class:`~threadkeep.storage.port.Item`.
        created_at: See there.
        updated_at: See there.
        expires_at: See there; infinity: never.
        indexes: Paths of the texts that are searchable.
        models: Of the embeddings, ``None`` where there is none.
        dims: Of the embeddings.
        vectors: Of the embeddings, as bytes.
    """

    names: Sequence[tuple[Namespace, str]]
    values: Sequence[dict[str, Any]]
    spelled: Sequence[str] | None
    revisions: Sequence[int]
    created_at: Sequence[float]
    updated_at: Sequence[float]
    expires_at: Sequence[float]
    indexes: Sequence[tuple[str, ...]]
    models: Sequence[str | None]
    dims: Sequence[int | None]
    vectors: Sequence[bytes | None]


@runtime_checkable
class FieldByField(Protocol):
    """Items that can be read without making one."""

    def fields(self) -> Iterator[Fields]:
        """Yield the fields of some hundred items at a time, all in their order."""
        ...


def fields_of(items: Sequence[Item]) -> Iterator[Fields]:
    """Yield the fields of *items*, some hundred at a time."""
    if isinstance(items, FieldByField):
        yield from items.fields()
        return
    for start in range(0, len(items), AT_ONCE):
        part = items[start : start + AT_ONCE]
        made = [item.embedding for item in part]
        yield Fields(
            names=[(item.ref.namespace, item.ref.key) for item in part],
            values=[item.value for item in part],
            spelled=None,
            revisions=[item.revision for item in part],
            created_at=[item.created_at.timestamp() for item in part],
            updated_at=[item.updated_at.timestamp() for item in part],
            expires_at=[NEVER if item.expires_at is None else item.expires_at.timestamp() for item in part],
            indexes=[item.index for item in part],
            models=[None if one is None else one.model for one in made],
            dims=[None if one is None else one.dims for one in made],
            vectors=[None if one is None else one.data for one in made],
        )
