"""Pages of a scan in the order of readable names, over a backend that orders by sealed ones.

Both agree on times and revisions. What was written by one commit at one moment is a *group*, which is read whole
and put in order here; a place in the scan is where the page began in which its group began, and its item's order.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from threadkeep.errors import InvalidInputError, PartitionErasedError
from threadkeep.storage.encoding import encode_namespace, encode_text, micros

if TYPE_CHECKING:
    from threadkeep.storage.port import Item
    from threadkeep.storage.sealed.seal import PartitionSeal

_SPARE: Final = 8
"""A group is cut to what can be on the page when it has so many times more."""

Read: TypeAlias = "Callable[[str | None], Awaitable[tuple[Sequence[Item], str | None]]]"


class Order(NamedTuple):
    """What items are ordered by."""

    updated_at: int
    revision: int
    namespace: str
    key: str


class Place(NamedTuple):
    """Where a page ended.

    Attributes:
        start: What continues the backend's scan where its group began; ``None``: from the beginning.
        order: Of the page's last item.
    """

    start: str | None
    order: Order


class Token(NamedTuple):
    """A place as it is handed out: the names are encrypted."""

    start: str | None
    updated_at: int
    revision: int
    note: str


def token_of(after: str) -> Token:
    """Read what :func:`spelled` wrote, but for the names.

    Raises:
        InvalidInputError: No scan has handed it out.
    """
    try:
        fields: object = json.loads(after)
    except (TypeError, ValueError, RecursionError):
        fields = None
    match fields:
        case [str() | None as start, int() as updated_at, int() as revision, str() as note]:
            return Token(start, updated_at, revision, note)
        case _:
            msg = "This is no place in a scan; pass the `after` of the page before, unchanged."
            raise InvalidInputError(msg)


def place_of(token: Token, seal: PartitionSeal) -> Place:
    """Return the place that *token* stands for.

    Raises:
        PartitionErasedError: It is of a time before the partition was erased, or of another partition.
    """
    text = seal.note_of(token.note)
    if text is None:
        msg = "The partition was erased while it was being read; begin the scan anew."
        raise PartitionErasedError(msg)
    namespace, key = json.loads(text)
    return Place(token.start, Order(token.updated_at, token.revision, namespace, key))


def spelled(place: Place, seal: PartitionSeal) -> str:
    """Return *place* as a text to hand out."""
    start, order = place
    note = seal.note(json.dumps([order.namespace, order.key]))
    return json.dumps([start, order.updated_at, order.revision, note])


async def page_of(
    read: Read, *, place: Place | None, newest: bool, limit: int, wanted: Callable[[Item], bool]
) -> tuple[list[Item], Place | None]:
    """Return up to *limit* items behind *place*, in order, and the place to go on from where there are more.

    Args:
        read: Gives a part of the backend's scan, opened, and what continues it.
        place: Where the page before ended.
        newest: Whether the newest come first.
        limit: One or more.
        wanted: Which items count.
    """
    found: list[tuple[Order, Item, str | None]] = []
    group: list[tuple[Order, Item, str | None]] = []
    moment: tuple[int, int] | None = None
    cursor = group_start = place.start if place else None

    def settle() -> None:
        group.sort(key=lambda entry: entry[0], reverse=newest)
        del group[limit + 1 :]

    more = True
    while more and len(found) <= limit:
        items, following = await read(cursor)
        for item in items:
            order = _order(item)
            if order[:2] != moment:
                settle()
                found += group
                group.clear()
                if len(found) > limit:
                    break
                moment, group_start = order[:2], cursor
            behind = place is None or (order < place.order if newest else order > place.order)
            if behind and wanted(item):
                group.append((order, item, group_start))
                if len(group) > _SPARE * (limit + 1):
                    settle()
        cursor, more = following, following is not None
    settle()
    found += group
    page = [item for _, item, _ in found[:limit]]
    if len(found) <= limit:
        return page, None
    order, _, start = found[limit - 1]
    return page, Place(start, order)


def _order(item: Item) -> Order:
    namespace, key = encode_namespace(item.ref.namespace), encode_text(item.ref.key)
    return Order(micros(item.updated_at), item.revision, namespace, key)
