"""What a scan asks for, checked, and the page that answers it. Pure rules, the same on every SQL backend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from threadkeep.storage.encoding import Cursor, check_limit, check_namespace, decode_cursor, encode_cursor, prefix_range
from threadkeep.storage.matching import check_filter, meets
from threadkeep.storage.port import Direction, Filter, Item, Namespace, Page, Partition
from threadkeep.storage.row import Row, items_of

_HIGHEST: Final = (1 << 63) - 1
_LOWEST: Final = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Scan:
    """A checked question; *after* is where the page before ended."""

    partition: Partition
    prefix: Namespace
    filter: Filter | None
    direction: Direction
    after: Cursor | None
    limit: int

    @classmethod
    def checked(
        cls,
        partition: Partition,
        *,
        prefix: Namespace,
        filter: Filter | None,  # noqa: A002 - the field's name for it
        direction: Direction,
        after: str | None,
        limit: int,
    ) -> Scan:
        """Check what :meth:`threadkeep.storage.port.Storage.scan` was given.

        Raises:
            InvalidInputError, TooLargeError: It is no scan.
        """
        check_limit(limit, name="limit")
        check_namespace(prefix)
        check_filter(filter or {})
        return cls(partition, prefix, filter, direction, None if after is None else decode_cursor(after), limit)

    @property
    def start(self) -> Cursor:
        """The place that the page begins behind.

        ``~`` follows, and the empty text precedes, whatever a JSON array or string begins with.
        """
        if self.after is not None:
            return self.after
        newest = self.direction == "newest"
        return Cursor(_HIGHEST, _HIGHEST, "~", "~") if newest else Cursor(_LOWEST, _LOWEST, "", "")

    @property
    def namespaces(self) -> tuple[str, str]:
        """The first and the last encoded namespace that are asked for, both included."""
        return prefix_range(self.prefix)

    @property
    def wanted(self) -> int:
        """How many items are to be found: one more than the page holds tells that there is another."""
        return self.limit + 1

    def meeting(self, rows: Sequence[Row]) -> list[tuple[Cursor, Item]]:
        """Return the items that *rows* are, with their places in the order, where they meet the filter."""
        return [
            (cursor_of(row), item)
            for row, item in zip(rows, items_of(rows, self.partition), strict=True)
            if not self.filter or meets(item.value, self.filter)
        ]

    def page(self, found: Sequence[tuple[Cursor, Item]]) -> Page:
        """Return the page of *found*, which holds up to :attr:`wanted` items."""
        more = len(found) > self.limit
        after = encode_cursor(found[self.limit - 1][0]) if more else None
        return Page(tuple(item for _, item in found[: self.limit]), after)


def cursor_of(row: Row) -> Cursor:
    """Return where *row* stands in the order of a scan."""
    return Cursor(row.updated_at, row.revision, row.namespace, row.key)
