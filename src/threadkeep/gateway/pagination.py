"""Cursors: signed, and valid for one owner, route and filter only."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from threadkeep.errors import InvalidInputError
from threadkeep.gateway.shared_secret import SharedSecret
from threadkeep.ids import base64url, digest

if TYPE_CHECKING:
    from threadkeep.identity import Owner

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_SIGNATURE_BYTES: Final = 16
_POSITION: Final = re.compile(r"(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2,3})?", re.ASCII)
_SIGNATURE: Final = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)


class RowPage(Protocol[T_co]):
    """A page of rows, as the library returns it: a list with the cursor of the next page."""

    cursor: str | None

    def __iter__(self) -> Iterator[T_co]: ...


class ListPage(list[T]):
    """A page of a list that was read whole.

    Args:
        rows: The list.
        key: Returns the place of a row, of which no two are the same; the greatest comes first.
        limit: How many rows the page has at most.
        cursor: The place of the last row of the page before; ``None``: this is the first page.

    Attributes:
        cursor: That of this page; ``None``: it is the last one.
    """

    def __init__(self, rows: Iterable[T], key: Callable[[T], str], *, limit: int, cursor: str | None) -> None:
        ordered = sorted(rows, key=key, reverse=True)
        following = [row for row in ordered if cursor is None or key(row) < cursor]
        super().__init__(following[:limit])
        self.cursor = key(self[-1]) if self and len(following) > limit else None


class Cursors:
    """Makes and reads cursors. All processes share the secret that signs them, and know the one before.

    Args:
        store: Keeps the secret; ``tk.store``.
    """

    def __init__(self, store: Any) -> None:
        self._secret = SharedSecret(store)

    async def page(
        self,
        rows: Callable[..., Awaitable[RowPage[T]]],
        owner: Owner,
        *bound: str,
        cursor: str | None,
        limit: int,
    ) -> tuple[Iterable[T], str | None]:
        """Return one page of what *rows* lists, and the cursor of the next page; ``None``: this is the last one.

        Args:
            rows: Returns a page of at most ``limit=`` rows; ``cursor=``: where it begins.
            owner: The owner that the cursors are for.
            bound: See :meth:`seal`.
            cursor: The cursor of this page; ``None``: the first page.
            limit: How many rows the page has at most.

        Raises:
            InvalidInputError: See :meth:`open`.
        """
        found = await rows(limit=limit, cursor=await self.open(cursor, owner, *bound))
        return found, None if found.cursor is None else await self.seal(found.cursor, owner, *bound)

    async def seal(self, position: str, owner: Owner, *bound: str) -> str:
        """Return the cursor of a *position* that the library returned.

        *bound* are the route and the values of its filter.
        """
        secret = await self._secret.current()
        return f"{base64url(position.encode())}.{_sign(secret, position, owner, bound)}"

    async def open(self, cursor: str | None, owner: Owner, *bound: str) -> str | None:
        """Return the position of a cursor; without one, None.

        Raises:
            InvalidInputError: The cursor is forged, or one of another owner, route or filter.
        """
        if cursor is None:
            return None
        text, _, signature = cursor.partition(".")
        if _POSITION.fullmatch(text) and _SIGNATURE.fullmatch(signature):
            position = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("utf-8", "replace")
            if await self._is_signed(position, signature, owner, bound):
                return position
        msg = "The cursor is invalid; begin with the first page."
        raise InvalidInputError(msg)

    async def _is_signed(self, place: str, signature: str, owner: Owner, bound: tuple[str, ...]) -> bool:
        """Return whether a secret of ours has signed; those of other processes are read if none that is known has."""
        async for secret in self._secret.candidates():
            if hmac.compare_digest(_sign(secret, place, owner, bound), signature):
                return True
        return False


def _sign(secret: bytes, position: str, owner: Owner, bound: tuple[str, ...]) -> str:
    message = digest(position, *owner.parts, *bound)
    signature = hmac.digest(secret, message, hashlib.sha256)[:_SIGNATURE_BYTES]
    return base64url(signature)
