"""LangGraph's operations in the seam's words: checked, copied and sorted by kind. Pure rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, TypeAlias, cast

from langgraph.store.base import GetOp, ListNamespacesOp, Op, PutOp, SearchOp

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.identity import Owner, partition_of
from threadkeep.langgraph.namespaces import labels_of, matches_of, require_own, require_some
from threadkeep.memories.codec import searchable_paths
from threadkeep.storage.encoding import MAX_TTL, MAX_VALUE_DEPTH, OPERATORS, check_filter
from threadkeep.storage.interface import MAX_VALUE_BYTES, NamespaceMatch, Ref

WHOLE_VALUE: Final = ("$",)
"""LangGraph's default: the whole value as JSON is one searchable text."""

_MAX_TTL_MINUTES: Final = MAX_TTL / timedelta(minutes=1)

_JOINING: Final = frozenset({"$and", "$or", "$nor", "$not", *OPERATORS})


@dataclass(frozen=True, slots=True)
class Read:
    """A Get: its place in the call, what it asks for, and whether reading it lets it live longer."""

    place: int
    ref: Ref
    refresh: bool


@dataclass(frozen=True, slots=True)
class Find:
    """A Search: its place in the call and the operation, its prefix a tuple of legal labels."""

    place: int
    op: SearchOp


@dataclass(frozen=True, slots=True)
class Listing:
    """A ListNamespaces: its place in the call, its conditions, and which page is asked for."""

    place: int
    match: tuple[NamespaceMatch, ...]
    max_depth: int | None
    limit: int
    offset: int


@dataclass(frozen=True, slots=True)
class Write:
    """A Put, or where *value* is ``None`` a Delete.

    Attributes:
        ref: Where.
        value: A JSON object of our own.
        index: Paths of its searchable texts.
        ttl: How long it lives after a write or a read.
    """

    ref: Ref
    value: dict[str, Any] | None
    index: tuple[str, ...] = ()
    ttl: timedelta | None = None


@dataclass(slots=True)
class Plan:
    """One call: reads, then writes; the last write of a key stands for all of them.

    Attributes:
        owner: Whose namespaces may be named; ``None``: everybody's.
    """

    owner: Owner | None = None
    size: int = 0
    reads: list[Read] = field(default_factory=list[Read])
    finds: list[Find] = field(default_factory=list[Find])
    listings: list[Listing] = field(default_factory=list[Listing])
    writes: dict[Ref, Write] = field(default_factory=dict[Ref, Write])


def planned(ops: Iterable[Op], *, fields: tuple[str, ...], owner: Owner | None) -> Plan:
    """Check every operation and sort them by kind; nothing has been read or written yet.

    Args:
        ops: LangGraph's operations.
        fields: What is searchable of an item whose Put does not say.
        owner: Whose namespaces may be named; ``None``: everybody's.

    Raises:
        InvalidNamespaceError: A namespace is illegal.
        OwnerMismatchError: A namespace is not the owner's.
        InvalidInputError: Anything else of an operation is.
    """
    plan = Plan(owner)
    for place, op in enumerate(cast("Iterable[Any]", ops)):
        plan.size = place + 1
        match op:
            case GetOp():
                plan.reads.append(Read(place, _ref(op.namespace, op.key, owner), bool(op.refresh_ttl)))
            case PutOp():
                write = _write(op, fields, owner)
                plan.writes[write.ref] = write
            case SearchOp():
                prefix = labels_of(op.namespace_prefix)
                require_own(prefix, owner)
                _check_page(op.limit, op.offset)
                query: Any = op.query
                if query is not None and not isinstance(query, str):
                    msg = f"A query is a text, not {type(query).__name__}."
                    raise InvalidInputError(msg)
                _check_conditions(op.filter)
                plan.finds.append(Find(place, op._replace(namespace_prefix=prefix)))
            case ListNamespacesOp():
                _check_page(op.limit, op.offset)
                if op.max_depth is not None and (type(op.max_depth) is not int or op.max_depth < 0):
                    msg = "max_depth is a whole number of labels, 0 or more, or None."
                    raise InvalidInputError(msg)
                plan.listings.append(Listing(place, matches_of(op), op.max_depth, op.limit, op.offset))
            case _:
                msg = f"{type(op).__name__} is no operation of a LangGraph store."
                raise InvalidInputError(msg)
    return plan


def fields_of(fields: Sequence[str] | None) -> tuple[str, ...]:
    """Return the paths that *fields* of an index configuration stands for."""
    return WHOLE_VALUE if fields is None else _paths(fields)


def ttl_of(minutes: Any) -> timedelta | None:
    """Return *minutes* (fractions allowed) as a duration; ``None`` stays ``None``: for ever.

    Raises:
        InvalidInputError: It is no positive number, or more than a thousand years.
    """
    if minutes is None:
        return None
    if isinstance(minutes, int | float) and not isinstance(minutes, bool):
        if math.isfinite(minutes) and 0 < minutes <= _MAX_TTL_MINUTES:
            return timedelta(minutes=minutes)
        said = f"{minutes}"
    else:
        said = type(cast("object", minutes)).__name__
    msg = f"A ttl is a positive number of minutes, or None for ever; it is {said}."
    raise InvalidInputError(msg)


def _ref(namespace: Any, key: Any, owner: Owner | None) -> Ref:
    labels = labels_of(namespace)
    require_own(labels, owner)
    if key is None:
        msg = "A key is a text, not None."
        raise InvalidInputError(msg)
    return Ref(partition_of(labels), labels, str(key))


def _write(op: PutOp, fields: tuple[str, ...], owner: Owner | None) -> Write:
    ref = _ref(op.namespace, op.key, owner)
    if op.value is None:
        return Write(ref, None)
    require_some(ref.namespace)
    value = json_copy(op.value)
    ttl = ttl_of(op.ttl)
    paths, pinned = searchable_paths(ref.namespace, ref.key, value)
    ttl = None if pinned else ttl
    if paths is not None and op.index is None and fields == WHOLE_VALUE:
        return Write(ref, value, paths, ttl)
    index = () if op.index is False else fields if op.index is None else _paths(op.index)
    return Write(ref, value, index, ttl)


def _paths(index: Any) -> tuple[str, ...]:
    if isinstance(index, list | tuple):
        paths = cast("list[Any] | tuple[Any, ...]", index)
        if all(isinstance(path, str) for path in paths):
            return tuple(dict.fromkeys(cast("Sequence[str]", paths)))
    msg = 'An index is a list of paths such as ["text", "tags[*]"], False for none, or None for the default.'
    raise InvalidInputError(msg)


def _check_conditions(conditions: Any) -> None:
    if conditions is None:
        return
    check_filter(conditions)
    # As fields they would match nothing, in silence.
    joined = next((name for name in conditions if name in _JOINING), None)
    if joined is not None:
        msg = f"A filter has no operator {joined!r}: all its conditions must hold."
        raise InvalidInputError(msg)


def _check_page(limit: Any, offset: Any) -> None:
    for name, number in (("limit", limit), ("offset", offset)):
        if type(number) is not int or number < 0:
            msg = f"{name} is a whole number, 0 or more; it is {str(number)[:40]}."
            raise InvalidInputError(msg)


_Path: TypeAlias = tuple[str | int, ...]


def json_copy(value: Any) -> dict[str, Any]:
    """Return a deep copy of the mapping *value* that holds nothing but JSON.

    Mappings become objects, tuples lists; subclasses of texts and numbers (enumerations among them)
    become what they are made of.

    Raises:
        InvalidInputError: Something in it is no JSON; the message names where it stands.
        TooLargeError: It has more parts than can be stored.
    """
    if not isinstance(value, Mapping):
        msg = f"A value is a mapping with text keys, not {type(value).__name__}."
        raise InvalidInputError(msg)
    return _Copying().of_object(cast("Mapping[Any, Any]", value), ())


class _Copying:
    """One copy; counts its parts, so that a value that holds one list very often ends in a sentence."""

    def __init__(self) -> None:
        self._parts = 0

    def of_object(self, value: Mapping[Any, Any], path: _Path) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        for key, part in value.items():
            if not isinstance(key, str):
                msg = f"{_place(path)} has a key that is {type(key).__name__}; JSON keys are texts."
                raise InvalidInputError(msg)
            name = str.__str__(key)
            copy[name] = self._of(part, (*path, name))
        return copy

    def _of(self, value: Any, path: _Path) -> Any:
        self._parts += 1
        if self._parts > MAX_VALUE_BYTES:  # a part takes a byte at least
            msg = f"The value takes more than {MAX_VALUE_BYTES:,} bytes as JSON. Split it."
            raise TooLargeError(msg)
        if len(path) >= MAX_VALUE_DEPTH:
            msg = f"The value is nested deeper than {MAX_VALUE_DEPTH} levels, or holds itself. Flatten it."
            raise InvalidInputError(msg)
        match value:
            case bool() | None:
                return value
            case str():
                return str.__str__(value)
            case int():
                return int(value)
            case float():
                if math.isfinite(value):
                    return float(value)
                kind = "not a finite number"
            case Mapping():
                return self.of_object(cast("Mapping[Any, Any]", value), path)
            case list() | tuple():
                elements = cast("list[Any] | tuple[Any, ...]", value)
                return [self._of(element, (*path, place)) for place, element in enumerate(elements)]
            case _:
                kind = f"{type(value).__name__}, which JSON has no word for"
        msg = f"{_place(path)} is {kind}; store text, numbers, true, false, null, lists and objects of them."
        raise InvalidInputError(msg)


def _place(path: _Path) -> str:
    """Spell *path* as a place in the value; field names only, never what is stored there."""
    spelled = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:80]}" for step in path)
    return f"value{spelled[:400]}"
