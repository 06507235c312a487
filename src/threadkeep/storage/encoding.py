"""Texts, values, moments and cursors as every backend stores them. Pure rules.

Namespaces, keys and values are stored as JSON in ASCII, so NUL, lone surrogates and every script
survive on every backend, and byte order, code point order and database collations agree on them. A
text is what JSON makes of it: the two halves of a surrogate pair, written apart, are the one
character that they spell.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.storage.port import MAX_KEY_CHARACTERS, MAX_NAMESPACE_CHARACTERS, MAX_VALUE_BYTES, Namespace

MAX_VALUE_DEPTH: Final = 200
"""Objects and lists inside each other; parsers and databases stop somewhere above."""

MAX_TTL: Final = timedelta(days=1000 * 366)
"""A thousand years; sums beyond have no date."""

_MAX_CONTAINERS: Final = MAX_VALUE_BYTES // 3
"""Each takes two brackets and a comma; counting them bounds the work on a value that holds one list very often."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_EXACT_AS_FLOAT: Final = 4_000_000_000_000_000
"""Until 2096 the seconds as a float are off by less than a quarter of a microsecond."""

_encode: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


class Cursor(NamedTuple):
    """Where an item stands in the order of a scan."""

    updated_at: int
    revision: int
    namespace: str
    key: str


def encode_text(text: str) -> str:
    """Return *text* as a JSON string in ASCII."""
    return _encode(text)


def decode_text(text: str) -> str:
    """Undo :func:`encode_text`."""
    return json.loads(text) if "\\" in text else text[1:-1]


@lru_cache(maxsize=64)
def decode_name(text: str) -> str:
    """Undo :func:`encode_text` for a name that comes again and again: a model's, a kind of work's."""
    return decode_text(text)


@lru_cache(maxsize=4096)
def partition_key(prefix: str, digest: bytes) -> bytes:
    """Return 32 bytes that lead every key of a partition: deployments with different prefixes share none.

    Args:
        prefix: The deployment's key prefix, as :func:`encode_text` spells it.
        digest: The partition's.
    """
    return hashlib.sha256(prefix.encode("ascii") + digest).digest()


@lru_cache(maxsize=1024)
def encode_namespace(namespace: Namespace) -> str:
    """Return *namespace* as a JSON array in ASCII: ``["memories","ana"]``."""
    return _encode(namespace)


@lru_cache(maxsize=1024)
def decode_namespace(text: str) -> Namespace:
    """Undo :func:`encode_namespace`; paths of an index are spelled the same way."""
    return tuple(json.loads(text))


def prefix_range(prefix: Namespace) -> tuple[str, str]:
    """Return the first and last text, both included, of the namespaces that begin with the labels *prefix*.

    After a label's closing quote stands ``,`` or ``]`` and nothing between the two, so one range
    holds the prefix itself and everything below it, and never ``["user10"]`` for ``["user1"]``.
    """
    last = encode_namespace(prefix)
    return (last[:-1] + "," if prefix else "["), last


def encode_value(value: Mapping[str, Any]) -> str:
    """Return *value* as a JSON object in ASCII.

    Raises:
        InvalidInputError: Something in it is no JSON.
        TooLargeError: It takes more than 4 MiB as JSON.
    """
    _check_json(value)
    try:
        text = _encode(value if isinstance(value, dict) else dict(value))
    except (TypeError, ValueError, OverflowError) as error:
        msg = "The value cannot be written as JSON; store text, numbers, true, false, null, lists and objects of them."
        raise InvalidInputError(msg) from error
    if len(text) > MAX_VALUE_BYTES:
        msg = (
            f"The value takes {len(text):,} bytes as JSON; at most {MAX_VALUE_BYTES:,} are allowed. "
            "Split it, or store a reference to it."
        )
        raise TooLargeError(msg, size_bytes=len(text))
    return text


def check_namespace(namespace: Namespace) -> None:
    """Refuse what is no namespace.

    Raises:
        InvalidInputError: It is no tuple of texts.
        TooLargeError: Its labels have more than 50,000 characters together.
    """
    labels = cast("object", namespace)
    if not isinstance(labels, tuple) or not all(isinstance(label, str) for label in cast("tuple[object, ...]", labels)):
        msg = 'A namespace is a tuple of texts, e.g. ("memories", "ana").'
        raise InvalidInputError(msg)
    size = max(sum(map(len, namespace)), len(namespace))
    if size > MAX_NAMESPACE_CHARACTERS:
        msg = f"The namespace has {size:,} characters; at most {MAX_NAMESPACE_CHARACTERS:,} are allowed. Shorten it."
        raise TooLargeError(msg, characters=size)


def check_key(key: str) -> None:
    """Refuse what is no key.

    Raises:
        InvalidInputError: It is no text.
        TooLargeError: It has more than 10,000 characters.
    """
    if not isinstance(cast("object", key), str):
        msg = f"A key is a text, not {type(key).__name__}."
        raise InvalidInputError(msg)
    if len(key) > MAX_KEY_CHARACTERS:
        msg = f"The key has {len(key):,} characters; at most {MAX_KEY_CHARACTERS:,} are allowed. Use a digest of it."
        raise TooLargeError(msg, characters=len(key))


def micros(moment: datetime) -> int:
    """Return an aware moment as microseconds since 1970, exactly.

    Raises:
        InvalidInputError: It has no time zone.
    """
    if not isinstance(cast("object", moment), datetime) or moment.tzinfo is None:
        msg = "A moment is a datetime with a time zone, e.g. datetime.now(UTC)."
        raise InvalidInputError(msg)
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(microseconds: int) -> datetime:
    """Undo :func:`micros`, as UTC."""
    if 0 <= microseconds < _EXACT_AS_FLOAT:
        return datetime.fromtimestamp(microseconds / 1e6, UTC)  # half the time of the sum
    return _EPOCH + timedelta(microseconds=microseconds)


def ttl_micros(ttl: timedelta) -> int:
    """Return a time to live as microseconds.

    Raises:
        InvalidInputError: It is not positive, or longer than a thousand years.
    """
    if not isinstance(cast("object", ttl), timedelta) or not timedelta(0) < ttl <= MAX_TTL:
        msg = "A ttl is a positive timedelta of at most a thousand years; None is for ever."
        raise InvalidInputError(msg)
    return ttl // _MICROSECOND


def check_limit(number: int, *, name: str) -> None:
    """Refuse a limit or offset that is no whole number from 0 on.

    Raises:
        InvalidInputError: It is not.
    """
    if not isinstance(cast("object", number), int) or number < 0:
        msg = f"{name} is a whole number, 0 or more."
        raise InvalidInputError(msg)


def encode_cursor(cursor: Cursor) -> str:
    """Return *cursor* as a text to hand out."""
    return _encode(cursor)


def decode_cursor(text: str) -> Cursor:
    """Undo :func:`encode_cursor`.

    Raises:
        InvalidInputError: No scan has handed it out.
    """
    try:
        fields: object = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        fields = None
    match fields:
        case [int() as updated_at, int() as revision, str() as namespace, str() as key]:
            return Cursor(updated_at, revision, namespace, key)
        case _:
            msg = "This is no place in a scan; pass the `after` of the page before, unchanged."
            raise InvalidInputError(msg)


def _check_json(value: object) -> None:
    """Refuse what ``json`` would write otherwise than it was given, or not at all."""
    if not isinstance(value, Mapping):
        msg = f"A value is a JSON object (a mapping), not {type(value).__name__}."
        raise InvalidInputError(msg)
    containers = 0
    waiting: list[tuple[object, int]] = [(dict(cast("Mapping[object, object]", value)), 1)]
    while waiting:
        container, depth = waiting.pop()
        containers += 1
        if depth > MAX_VALUE_DEPTH:
            msg = f"The value is nested deeper than {MAX_VALUE_DEPTH} levels, or holds itself. Flatten it."
            raise InvalidInputError(msg)
        if containers > _MAX_CONTAINERS:
            msg = f"The value takes more than {MAX_VALUE_BYTES:,} bytes as JSON. Split it."
            raise TooLargeError(msg)
        for inner in _inside(container):
            if isinstance(inner, dict | list | tuple):
                waiting.append((cast("object", inner), depth + 1))
            elif not isinstance(inner, str):
                _check_leaf(inner)


def _inside(container: object) -> Iterable[object]:
    if not isinstance(container, dict):
        return cast("list[object] | tuple[object, ...]", container)
    fields = cast("dict[object, object]", container)
    if not all(isinstance(name, str) for name in fields):
        msg = "A value has a key that is no text; JSON keys are texts. Convert it with str()."
        raise InvalidInputError(msg)
    return fields.values()


def _check_leaf(leaf: object) -> None:
    if isinstance(leaf, float) and not math.isfinite(leaf):
        msg = "A value holds NaN or infinity, which JSON has no word for; store None or a text."
        raise InvalidInputError(msg)
    if leaf is not None and not isinstance(leaf, str | int | float):
        msg = (
            f"A value holds {type(leaf).__name__}, which JSON has no word for; "
            "store text, numbers, true, false, null, lists and objects of them."
        )
        raise InvalidInputError(msg)
