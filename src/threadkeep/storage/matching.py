"""Match values and namespaces against conditions, and check and page a scan. Pure rules, the same on every backend.

A filter names fields of a value. A name is literal (``"a.b"`` is one field); only where the value
has no such field, its dots lead into objects, as in LangGraph's SqliteStore. All conditions must
hold. A condition is one of

==================================  ===============================================================
``{"f": 3}``, ``{"f": [1, 2]}``     equal as JSON: ``1`` equals ``1.0``, but never ``true``
``{"f": {"g": 3}}``                 an object whose fields meet these conditions; it may have others
``{"f": {"$gte": 3, "$lt": 9}}``    operators, all of which must hold
``{"f": None}``                     null, or no such field, as LangGraph's InMemoryStore and SqliteStore have it
==================================  ===============================================================

``$gt $gte $lt $lte`` compare a number with a number and a text with a text (ISO dates sort as
texts do); anything else, and a field that is missing, they never match. ``$eq`` is equality all the way
down and ``$ne`` its opposite; for both, a field that is missing is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, Final, cast

from threadkeep.errors import InvalidInputError
from threadkeep.storage.encoding import (
    Cursor,
    check_limit,
    check_namespace,
    decode_cursor,
    decode_namespace,
    encode_cursor,
    prefix_range,
)
from threadkeep.storage.interface import Direction, Filter, Item, Namespace, NamespaceMatch, Page, Partition
from threadkeep.storage.rows import ItemRow, parse_rows

OPERATORS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
WILDCARD: Final = "*"

_ORDERING: Final[dict[str, Callable[[Any, Any], bool]]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
_MISSING: Final = object()
_MAX_DEPTH: Final = 100
_MAX_INT64: Final = (1 << 63) - 1
_MIN_INT64: Final = -(1 << 63)


def matches(value: Mapping[str, Any], filter: Filter) -> bool:  # noqa: A002 - the field's name for it
    """Return whether *value* meets every condition of *filter*; the module docstring lists them.

    Raises:
        InvalidInputError: The filter names an unknown operator.
    """
    check_filter(filter)
    return meets(value, filter)


def meets(value: Mapping[str, Any], filter: Filter) -> bool:  # noqa: A002 - the field's name for it
    """Like :func:`matches`, for a *filter* that :func:`check_filter` has checked."""
    return all(_meets(_field(value, name), condition) for name, condition in filter.items())


def check_filter(filter: Filter) -> None:  # noqa: A002 - the field's name for it
    """Check a filter.

    Raises:
        InvalidInputError: It is not a mapping, a field's name is not a string, or an operator is unknown.
    """
    if not isinstance(cast("object", filter), Mapping):
        msg = f"The filter must be a mapping of fields to conditions, got {type(filter).__name__}."
        raise InvalidInputError(msg)
    for field, condition in filter.items():
        if not isinstance(cast("object", field), str):
            msg = f"The filter's fields must be strings, got {type(field).__name__}."
            raise InvalidInputError(msg)
        _check_condition(condition, 1)


def namespace_matches(namespace: Namespace, conditions: Sequence[NamespaceMatch]) -> bool:
    """Return whether *namespace* meets every condition; ``*`` in a condition matches one label."""
    return all(_has_affix(namespace, condition) for condition in conditions)


def distinct_namespaces(
    texts: Iterable[str], *, match: Sequence[NamespaceMatch], max_depth: int | None
) -> tuple[Namespace, ...]:
    """Return the namespaces that :meth:`~threadkeep.storage.interface.Storage.namespaces` lists, before paging.

    Args:
        texts: The encoded namespaces that hold an unexpired item.
        match: The conditions on a namespace, before it is cut.
        max_depth: How many labels to keep.
    """
    if max_depth is not None:
        check_limit(max_depth, name="max_depth")
    names = (decode_namespace(text) for text in texts)
    visible = (name for name in names if not name[:1] or not name[0].startswith("."))
    return tuple(sorted({name[:max_depth] for name in visible if namespace_matches(name, match)}))


@dataclass(frozen=True, slots=True)
class ScanQuery:
    """The checked arguments of a scan; *after* is the position of the previous page's last item."""

    partition: Partition
    prefix: Namespace
    filter: Filter | None
    direction: Direction
    after: Cursor | None
    limit: int

    @classmethod
    def create(
        cls,
        partition: Partition,
        *,
        prefix: Namespace,
        filter: Filter | None,  # noqa: A002 - the field's name for it
        direction: Direction,
        after: str | None,
        limit: int,
    ) -> ScanQuery:
        """Check the arguments of :meth:`threadkeep.storage.interface.Storage.scan`.

        Raises:
            InvalidInputError, TooLargeError: One of them is invalid.
        """
        check_limit(limit, name="limit")
        check_namespace(prefix)
        check_filter(filter or {})
        return cls(partition, prefix, filter, direction, None if after is None else decode_cursor(after), limit)

    @property
    def start(self) -> Cursor:
        """The position after which the page begins.

        ``~`` sorts after, and the empty text before, every encoded namespace and key.
        """
        if self.after is not None:
            return self.after
        newest = self.direction == "newest"
        return Cursor(_MAX_INT64, _MAX_INT64, "~", "~") if newest else Cursor(_MIN_INT64, _MIN_INT64, "", "")

    @property
    def namespace_range(self) -> tuple[str, str]:
        """The first and the last encoded namespace of the scan, both included."""
        return prefix_range(self.prefix)

    @property
    def fetch_limit(self) -> int:
        """How many items a backend reads: one more than the page holds shows that another page follows."""
        return self.limit + 1

    def select(self, rows: Sequence[ItemRow]) -> list[tuple[Cursor, Item]]:
        """Return the items of *rows* that match the filter, with their positions in the order."""
        return [
            (to_cursor(row), item)
            for row, item in zip(rows, parse_rows(rows, self.partition), strict=True)
            if not self.filter or meets(item.value, self.filter)
        ]

    def to_page(self, items: Sequence[tuple[Cursor, Item]]) -> Page:
        """Return the page of *items*, of which there are up to :attr:`fetch_limit`."""
        more = len(items) > self.limit
        after = encode_cursor(items[self.limit - 1][0]) if more else None
        return Page(tuple(item for _, item in items[: self.limit]), after)


def to_cursor(row: ItemRow) -> Cursor:
    """Return the position of *row* in the order of a scan."""
    return Cursor(row.updated_at, row.revision, row.namespace, row.key)


def _field(value: Mapping[str, Any], name: str) -> object:
    field: object = value.get(name, _MISSING)
    if field is not _MISSING or "." not in name:
        return field
    field = value
    for step in name.split("."):
        if not isinstance(field, Mapping):
            return _MISSING
        field = cast("Mapping[str, object]", field).get(step, _MISSING)
    return field


def _has_affix(namespace: Namespace, condition: NamespaceMatch) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.where == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in (WILDCARD, label) for label, wanted in zip(part, path, strict=True))


def _check_condition(condition: object, depth: int) -> None:
    if depth > _MAX_DEPTH:
        msg = f"The filter is nested deeper than {_MAX_DEPTH} levels: flatten it."
        raise InvalidInputError(msg)
    if not isinstance(condition, Mapping):
        return
    conditions = cast("Mapping[object, object]", condition)
    if not all(isinstance(name, str) for name in conditions):
        msg = "A filter names fields by text."
        raise InvalidInputError(msg)
    names = cast("Mapping[str, object]", conditions)
    if _has_operators(names):
        unknown = [name for name in names if name not in OPERATORS]
        if unknown:
            msg = f"The filter has an unknown operator {unknown[0][:40]!r}: use one of {', '.join(OPERATORS)}."
            raise InvalidInputError(msg)
        return
    for inner in names.values():
        _check_condition(inner, depth + 1)


def _has_operators(condition: Mapping[str, object]) -> bool:
    return any(name.startswith("$") for name in condition)


def _meets(stored: object, condition: object) -> bool:
    if not isinstance(condition, Mapping):
        return _equal(None if stored is _MISSING else stored, condition)
    names = cast("Mapping[str, object]", condition)
    if _has_operators(names):
        return all(_holds(stored, operator, operand) for operator, operand in names.items())
    if not isinstance(stored, Mapping):
        return False
    fields = cast("Mapping[str, object]", stored)
    return all(_meets(fields.get(name, _MISSING), inner) for name, inner in names.items())


def _holds(stored: object, operator: str, operand: object) -> bool:
    if operator in ("$eq", "$ne"):
        return _equal(None if stored is _MISSING else stored, operand) is (operator == "$eq")
    both_texts = isinstance(stored, str) and isinstance(operand, str)
    return (both_texts or (_is_number(stored) and _is_number(operand))) and _ORDERING[operator](stored, operand)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(stored: object, wanted: object) -> bool:
    """Return whether two JSON values are equal; Python's ``==`` alone takes ``True`` for ``1``."""
    if isinstance(stored, bool) or isinstance(wanted, bool):
        return stored is wanted
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        ours, theirs = cast("Mapping[str, object]", stored), cast("Mapping[str, object]", wanted)
        return ours.keys() == theirs.keys() and all(_equal(ours[name], theirs[name]) for name in ours)
    if isinstance(stored, list | tuple) and isinstance(wanted, list | tuple):
        first, second = cast("Sequence[object]", stored), cast("Sequence[object]", wanted)
        return len(first) == len(second) and all(_equal(one, two) for one, two in zip(first, second, strict=True))
    return stored == wanted
