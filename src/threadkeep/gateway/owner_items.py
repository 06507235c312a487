"""What the gateway keeps of a user beside their memory: items of theirs, which go when the user is erased."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from threadkeep.ids import short_digest

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep

_ROOT: Final = "users"
_LABEL: Final = "gateway"


class OwnerItems:
    """Items of one owner, each under the digest of a key, which may have any length.

    Args:
        tk: The client that is locked to the owner.
        labels: What the items are.
    """

    def __init__(self, tk: Threadkeep, *labels: str) -> None:
        assert tk.locked_to is not None  # noqa: S101 - otherwise the items would have no owner
        self._store: Any = tk.store
        self._namespace = _ROOT, tk.locked_to.label, _LABEL, *labels

    async def get(self, key: str) -> dict[str, Any] | None:
        """Return what is kept under a key; ``None``: nothing is."""
        item = await self._store.aget(self._namespace, short_digest(key))
        return None if item is None else item.value

    async def list(self, *, limit: int, offset: int = 0) -> list[dict[str, Any]]:
        """Return what is kept, the last change first."""
        return [item.value for item in await self._store.asearch(self._namespace, limit=limit, offset=offset)]

    async def put(self, key: str, value: dict[str, Any], *, minutes: float) -> None:
        """Keep *value* for some minutes; it is not searched."""
        await self._store.aput(self._namespace, short_digest(key), value, index=False, ttl=minutes)

    async def put_new(self, key: str, value: dict[str, Any], *, minutes: float) -> bool:
        """Keep *value* under a key that nothing is kept under; ``False``: something is."""
        return await self._store.aput_new(self._namespace, short_digest(key), value, ttl=minutes)

    async def delete(self, key: str) -> None:
        """Keep nothing under a key any more."""
        await self._store.adelete(self._namespace, short_digest(key))


def is_internal(labels: tuple[str, ...]) -> bool:
    """Return whether a namespace is one of these items."""
    return labels[:1] == (_ROOT,) and labels[2:3] == (_LABEL,)
