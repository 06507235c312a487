"""Cursors: signed, and valid for one owner, route and filter only."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING, Any, Final

from threadkeep.errors import InvalidInputError
from threadkeep.ids import digest

if TYPE_CHECKING:
    from threadkeep.identity import Owner

NAMESPACE: Final = ("threadkeep", "gateway")
"""Where the gateway keeps what belongs to no owner."""

_KEY: Final = "cursor_secret"
_SIGNATURE_BYTES: Final = 16
_POSITION: Final = re.compile(r"(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2,3})?", re.ASCII)
_SIGNATURE: Final = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
_FORM: Final = re.compile(r"(\d{1,9})\.([A-Za-z0-9_-]{22})", re.ASCII)


class Cursors:
    """Makes and reads cursors. All processes share the secret that signs them.

    Args:
        store: Keeps the secret; ``tk.store``.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._secret: bytes | None = None

    async def seal(self, offset: int, owner: Owner, *bound: str) -> str:
        """Return the cursor of the row at *offset*; *bound* are the route and the values of its filter."""
        secret = self._secret or await self._load()
        return f"{offset}.{_sign(secret, offset, owner, bound)}"

    async def open(self, cursor: str | None, owner: Owner, *bound: str) -> int:
        """Return the offset of a cursor; without one, 0.

        Raises:
            InvalidInputError: The cursor is forged, or one of another owner, route or filter.
        """
        if cursor is None:
            return 0
        found = _FORM.fullmatch(cursor)
        for load in (False, True) if found else ():
            secret = await self._load() if load or self._secret is None else self._secret
            offset = int(found[1]) if found else 0
            if found and hmac.compare_digest(_sign(secret, offset, owner, bound), found[2]):
                return offset
        msg = "The cursor is invalid; begin with the first page."
        raise InvalidInputError(msg)

    async def seal_position(self, position: str, owner: Owner, *bound: str) -> str:
        """Return the cursor of a *position* that the library returned; see :meth:`seal`."""
        text = base64.urlsafe_b64encode(position.encode()).rstrip(b"=").decode()
        return f"{text}.{_sign(self._secret or await self._load(), position, owner, bound)}"

    async def open_position(self, cursor: str | None, owner: Owner, *bound: str) -> str | None:
        """Return the position of a cursor; without one, None.

        Raises:
            InvalidInputError: The cursor is forged, or one of another owner, route or filter.
        """
        if cursor is None:
            return None
        text, _, signature = cursor.partition(".")
        if _POSITION.fullmatch(text) and _SIGNATURE.fullmatch(signature):
            position = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("utf-8", "replace")
            for load in (False, True):
                secret = await self._load() if load or self._secret is None else self._secret
                if hmac.compare_digest(_sign(secret, position, owner, bound), signature):
                    return position
        msg = "The cursor is invalid; begin with the first page."
        raise InvalidInputError(msg)

    async def _load(self) -> bytes:
        item = await self._store.aget(NAMESPACE, _KEY)
        if item is None:  # of several processes that start at once, one chooses the secret
            await self._store.aput_new(NAMESPACE, _KEY, {"secret": secrets.token_hex(32)})
            item = await self._store.aget(NAMESPACE, _KEY)
        self._secret = bytes.fromhex(item.value["secret"]) if item is not None else b""
        return self._secret


def _sign(secret: bytes, offset: int | str, owner: Owner, bound: tuple[str, ...]) -> str:
    message = digest(str(offset), owner.tenant, owner.user_id, *bound)
    signature = hmac.digest(secret, message, hashlib.sha256)[:_SIGNATURE_BYTES]
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
