"""Encode, check and match the parts of an item, the same for every backend. Pure rules.

Namespaces, keys and values are stored as JSON in ASCII, so NUL, lone surrogates and every script
survive on every backend, and byte order, code point order and database collations agree on them.
The two halves of a surrogate pair become the one character that they encode.

A filter names fields of a value. A name is literal (``"a.b"`` is one field); only where the value
has no such field, its dots lead into objects, as in LangGraph's SqliteStore. All conditions must
hold. A condition is one of

==================================  ===============================================================
``{"f": 3}``, ``{"f": [1, 2]}``     equal as JSON: ``1`` equals ``1.0``, but never ``true``
``{"f": {"g": 3}}``                 an object with fields that meet these conditions; it may have others
``{"f": {"$gte": 3, "$lt": 9}}``    operators, all of which must hold
``{"f": None}``                     null, or no such field, as LangGraph's InMemoryStore and SqliteStore have it
==================================  ===============================================================

``$gt $gte $lt $lte`` compare a number with a number and a text with a text (ISO dates sort as
texts do); anything else, and a field that is missing, they never match. ``$eq`` is equality all the way
down and ``$ne`` its opposite; for both, a field that is missing is null.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, Final, NamedTuple, TypeAlias, cast

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.storage.interface import (
    MAX_KEY_CHARACTERS,
    MAX_NAMESPACE_CHARACTERS,
    MAX_VALUE_BYTES,
    Filter,
    Item,
    Namespace,
    NamespaceMatch,
)

MAX_VALUE_DEPTH: Final = 200
"""How deep objects and lists may be nested; parsers and databases have limits above this one."""

MAX_TTL: Final = timedelta(days=1000 * 366)
"""A thousand years; datetime has no dates far beyond."""

_MAX_CONTAINERS: Final = MAX_VALUE_BYTES // 3
"""Each takes two brackets and a comma; counting them bounds the work on a value that holds one list very often."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
EXACT_AS_FLOAT: Final = 4_000_000_000_000_000
"""Until 2096 the seconds as a float are off by less than a quarter of a microsecond."""

_CACHED_LABELS: Final = 8
_CACHED_CHARACTERS: Final = 1_000
_CACHED_NAMESPACES: Final = 4_096

_TEXT: Final = frozenset({str})
_PLAIN: Final = frozenset({str, int, bool, type(None)})
"""Types that JSON has as they are; a flat object of them needs no further check."""
_CONTAINERS: Final = (dict, list, tuple)

_encode: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


OPERATORS: Final = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
WILDCARD: Final = "*"

_ORDERING: Final[dict[str, Callable[[Any, Any], bool]]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
_MISSING: Final = object()
_MAX_FILTER_DEPTH: Final = 100


class Cursor(NamedTuple):
    """The position of an item in the order of a scan."""

    updated_at: int
    revision: int
    namespace: str
    key: str


encode_text: Final[Callable[[str], str]] = json.encoder.encode_basestring_ascii
"""Return a text as a JSON string in ASCII."""


def decode_text(text: str) -> str:
    """Undo :func:`encode_text`."""
    return json.loads(text) if "\\" in text else text[1:-1]


@lru_cache(maxsize=64)
def decode_name(text: str) -> str:
    """Undo :func:`encode_text` with a cache, for names that repeat: of models and of kinds of work."""
    return decode_text(text)


@lru_cache(maxsize=4096)
def partition_key(prefix: str, digest: bytes) -> bytes:
    """Return the 32 bytes that every key of a partition begins with; they differ between key prefixes.

    Args:
        prefix: The deployment's key prefix, encoded by :func:`encode_text`.
        digest: The digest of the partition.
    """
    return hashlib.sha256(prefix.encode("ascii") + digest).digest()


class _EncodedNamespaces(dict[Namespace, str]):
    """Encoded namespaces. Most are short and come again: those stay, until there are too many."""

    def __missing__(self, namespace: Namespace) -> str:
        check_namespace(namespace)
        text = _encode(namespace)
        if len(namespace) <= _CACHED_LABELS and len(text) <= _CACHED_CHARACTERS:
            if len(self) >= _CACHED_NAMESPACES:
                self.clear()
            self[namespace] = text
        return text


ENCODED_NAMESPACES: Final = _EncodedNamespaces()
"""What :func:`encode_namespace` returns, by namespace; a ``TypeError`` where that is no key of a dict."""


def encode_namespace(namespace: Namespace) -> str:
    """Check *namespace* and return it as a JSON array in ASCII: ``["memories","ana"]``.

    Raises:
        InvalidInputError, TooLargeError: See :func:`check_namespace`.
    """
    try:
        return ENCODED_NAMESPACES[namespace]
    except TypeError:  # not a tuple of strings; check_namespace raises the better error
        check_namespace(namespace)
        return _encode(namespace)


@lru_cache(maxsize=1024)
def decode_namespace(text: str) -> Namespace:
    """Undo :func:`encode_namespace`. Paths of an index are encoded the same way."""
    return tuple(json.loads(text))


def prefix_range(prefix: Namespace) -> tuple[str, str]:
    """Check *prefix* and return the first and last text, both included, of the namespaces that begin with its labels.

    A label's closing quote is followed by ``,`` or ``]``, so one range holds the prefix itself and every
    namespace below it, and never ``["user10"]`` for ``["user1"]``.
    """
    last = encode_namespace(prefix)
    return (last[:-1] + "," if prefix else "["), last


def encode_value(value: Mapping[str, Any]) -> str:
    """Return *value* as a JSON object in ASCII.

    Raises:
        InvalidInputError: It holds something that JSON cannot represent.
        TooLargeError: It takes more than 4 MiB as JSON.
    """
    is_object = isinstance(cast("object", value), dict)
    if not (is_object and _TEXT.issuperset(map(type, value)) and _PLAIN.issuperset(map(type, value.values()))):
        _check_json(value)
    try:
        text = _encode(value if isinstance(value, dict) else dict(value))
    except (TypeError, ValueError, OverflowError) as error:
        msg = "The value cannot be written as JSON: use strings, numbers, booleans, None, lists and dicts."
        raise InvalidInputError(msg) from error
    if len(text) > MAX_VALUE_BYTES:
        msg = (
            f"The value is too large: {len(text):,} bytes as JSON, at most {MAX_VALUE_BYTES:,} are allowed. "
            "Split it, or store a reference to it."
        )
        raise TooLargeError(msg, size_bytes=len(text))
    return text


def check_namespace(namespace: Namespace) -> None:
    """Check a namespace.

    Raises:
        InvalidInputError: It is not a tuple of strings.
        TooLargeError: Its labels have more than 50,000 characters together.
    """
    labels = cast("object", namespace)
    if not isinstance(labels, tuple) or not (
        {str}.issuperset(map(type, namespace))
        or all(isinstance(label, str) for label in cast("tuple[object, ...]", labels))
    ):
        msg = 'The namespace is invalid: pass a tuple of strings, e.g. ("memories", "ana").'
        raise InvalidInputError(msg)
    size = max(sum(map(len, namespace)), len(namespace))
    if size > MAX_NAMESPACE_CHARACTERS:
        msg = f"The namespace is too large: {size:,} characters, at most {MAX_NAMESPACE_CHARACTERS:,} are allowed."
        raise TooLargeError(msg, characters=size)


def check_key(key: str) -> None:
    """Check a key.

    Raises:
        InvalidInputError: It is not a string.
        TooLargeError: It has more than 10,000 characters.
    """
    if not isinstance(cast("object", key), str):
        msg = f"The key must be a string, got {type(key).__name__}."
        raise InvalidInputError(msg)
    if len(key) > MAX_KEY_CHARACTERS:
        msg = (
            f"The key is too large: {len(key):,} characters, at most {MAX_KEY_CHARACTERS:,} are allowed. "
            "Use a digest of it."
        )
        raise TooLargeError(msg, characters=len(key))


def to_micros(time: datetime) -> int:
    """Return a time with a time zone as microseconds since 1970, exactly.

    Raises:
        InvalidInputError: It has no time zone.
    """
    if not isinstance(cast("object", time), datetime) or time.tzinfo is None:
        msg = "The time is invalid: pass a datetime with a time zone, e.g. datetime.now(UTC)."
        raise InvalidInputError(msg)
    return (time - EPOCH) // MICROSECOND


def from_micros(microseconds: int) -> datetime:
    """Undo :func:`to_micros`; the result is in UTC."""
    if 0 <= microseconds < EXACT_AS_FLOAT:
        return datetime.fromtimestamp(microseconds / 1e6, UTC)  # half the time of the sum
    return EPOCH + timedelta(microseconds=microseconds)


def ttl_to_micros(ttl: timedelta) -> int:
    """Return a time to live as microseconds.

    Raises:
        InvalidInputError: It is not positive, or longer than a thousand years.
    """
    if not isinstance(cast("object", ttl), timedelta) or not timedelta(0) < ttl <= MAX_TTL:
        msg = "The ttl is invalid: pass a positive timedelta of at most a thousand years, or None for no expiry."
        raise InvalidInputError(msg)
    return ttl // MICROSECOND


def check_limit(number: int, *, name: str) -> None:
    """Check a limit or an offset.

    Raises:
        InvalidInputError: It is not an int, or negative.
    """
    if not isinstance(cast("object", number), int) or number < 0:
        msg = f"{name} is invalid: pass an int, 0 or more."
        raise InvalidInputError(msg)


def scan_position(item: Item) -> Cursor:
    """Return the position of *item* in the order of a scan."""
    namespace, key = encode_namespace(item.ref.namespace), encode_text(item.ref.key)
    return Cursor(to_micros(item.updated_at), item.revision, namespace, key)


def encode_cursor(cursor: Cursor) -> str:
    """Return *cursor* as text that a caller passes back."""
    return _encode(cursor)


def decode_cursor(text: str) -> Cursor:
    """Undo :func:`encode_cursor`.

    Raises:
        InvalidInputError: No scan returned it.
    """
    try:
        fields: object = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        fields = None
    match fields:
        case [int() as updated_at, int() as revision, str() as namespace, str() as key]:
            return Cursor(updated_at, revision, namespace, key)
        case _:
            msg = "The cursor of the page is invalid: pass the one that the previous page returned, unchanged."
            raise InvalidInputError(msg)


def _check_json(value: object) -> None:
    """Check that ``json`` writes *value* as it is."""
    if not isinstance(value, Mapping):
        msg = f"The value must be a mapping (a JSON object), got {type(value).__name__}."
        raise InvalidInputError(msg)
    containers = 0
    pending: list[tuple[object, int]] = [(dict(cast("Mapping[object, object]", value)), 1)]
    while pending:
        container, depth = pending.pop()
        containers += 1
        if depth > MAX_VALUE_DEPTH:
            msg = f"The value is nested deeper than {MAX_VALUE_DEPTH} levels, or contains itself: flatten it."
            raise InvalidInputError(msg)
        if containers > _MAX_CONTAINERS:
            msg = f"The value is too large: more than {MAX_VALUE_BYTES:,} bytes as JSON. Split it."
            raise TooLargeError(msg)
        parts: Iterable[object] = cast("Iterable[object]", container)
        if isinstance(container, dict):
            fields = cast("dict[object, object]", container)
            if not {str}.issuperset(map(type, fields)) and not all(isinstance(name, str) for name in fields):
                msg = "The value has a key that is not a string: JSON keys are strings. Convert it with str()."
                raise InvalidInputError(msg)
            parts = fields.values()
        for inner in parts:
            if isinstance(inner, _CONTAINERS):
                pending.append((cast("object", inner), depth + 1))
            elif type(inner) not in _PLAIN:
                _check_leaf(inner)


def _check_leaf(leaf: object) -> None:
    if isinstance(leaf, str | int) or (isinstance(leaf, float) and math.isfinite(leaf)):
        return
    if isinstance(leaf, float):
        msg = "The value contains NaN or infinity, which JSON cannot represent: store None or a string."
    else:
        msg = (
            f"The value contains {type(leaf).__name__}, which JSON cannot represent: "
            "use strings, numbers, booleans, None, lists and dicts."
        )
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
        msg = f"The value must be a mapping with string keys, got {type(value).__name__}."
        raise InvalidInputError(msg)
    return _Copying().of_object(cast("Mapping[Any, Any]", value), ())


class _Copying:
    """One copy; counts its parts, so that a value that holds one list very often ends in a sentence."""

    _parts = 0

    def of_object(self, value: Mapping[Any, Any], path: _Path) -> dict[str, Any]:
        copy: dict[str, Any] = {}
        for key, part in value.items():
            if not isinstance(key, str):
                msg = f"{_place(path)} has a key that is {type(key).__name__}; JSON keys are texts."
                raise InvalidInputError(msg)
            name = str.__str__(key)
            copy[name] = self._copy_value(part, (*path, name))
        return copy

    def _copy_value(self, value: Any, path: _Path) -> Any:
        self._parts += 1
        if self._parts > MAX_VALUE_BYTES:  # a part takes a byte at least
            msg = f"The value takes more than {MAX_VALUE_BYTES:,} bytes as JSON. Split it."
            raise TooLargeError(msg)
        if len(path) >= MAX_VALUE_DEPTH:
            msg = f"The value is nested deeper than {MAX_VALUE_DEPTH} levels, or contains itself. Flatten it."
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
                return [self._copy_value(element, (*path, place)) for place, element in enumerate(elements)]
            case _:
                kind = f"{type(value).__name__}, which JSON has no word for"
        msg = f"{_place(path)} is {kind}; store text, numbers, true, false, null, lists and objects of them."
        raise InvalidInputError(msg)


def _place(path: _Path) -> str:
    """Spell *path* as a place in the value; field names only, never what is stored there."""
    spelled = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:80]}" for step in path)
    return f"value{spelled[:400]}"


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
    if depth > _MAX_FILTER_DEPTH:
        msg = f"The filter is nested deeper than {_MAX_FILTER_DEPTH} levels: flatten it."
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
