"""A secret that all processes of the gateway share, and the one before it."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from typing import Any, Final

NAMESPACE: Final = ("threadkeep", "gateway")
"""Where the gateway keeps what belongs to no owner."""

_KEY: Final = "cursor_secret"


class SharedSecret:
    """Signs cursors and seals the cookie of a login. It is an item, chosen by the first process that needs it.

    Args:
        store: Keeps it; ``tk.store``.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._known: tuple[bytes, ...] = ()

    async def current(self) -> bytes:
        """Return the secret of 32 bytes."""
        return (self._known or await self._load())[0]

    async def candidates(self) -> AsyncGenerator[bytes]:
        """Yield the secrets that something may be signed with: those that are known, then what others have chosen."""
        for secret in self._known or await self._load():
            yield secret
        for secret in await self._load():
            yield secret

    async def rotate(self) -> None:
        """Choose a new secret; what the one before signed stays valid until the next rotation."""
        before, *_ = await self._load()
        secret = secrets.token_bytes(32)
        await self._store.aput(NAMESPACE, _KEY, {"secret": secret.hex(), "before": before.hex()}, index=False)
        self._known = (secret, before)

    async def _load(self) -> tuple[bytes, ...]:
        item = await self._store.aget(NAMESPACE, _KEY)
        if item is None:  # of several processes that start at once, one chooses the secret
            await self._store.aput_new(NAMESPACE, _KEY, {"secret": secrets.token_hex(32)})
            item = await self._store.aget(NAMESPACE, _KEY)
        value: dict[str, Any] = item.value if item is not None else {}
        self._known = tuple(bytes.fromhex(value[name]) for name in ("secret", "before") if name in value)
        return self._known
