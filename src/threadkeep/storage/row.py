"""An item as it is kept, and a batch made ready to be kept. Pure rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast, overload

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.storage.encoding import (
    check_key,
    check_namespace,
    decode_name,
    decode_namespace,
    decode_text,
    encode_namespace,
    encode_text,
    encode_value,
    micros,
    moment_of,
    ttl_micros,
)
from threadkeep.storage.fields import AT_ONCE, NEVER, Fields
from threadkeep.storage.port import (
    MAX_BATCH_BYTES,
    MAX_BATCH_OPERATIONS,
    Batch,
    Delete,
    Due,
    Embedding,
    Expectation,
    Item,
    Namespace,
    Operation,
    Partition,
    Put,
    Ref,
    Touch,
)

T = TypeVar("T")
U = TypeVar("U")

Place: TypeAlias = tuple[str, str]
"""An encoded namespace and an encoded key."""

NO_PATHS: Final = "[]"
"""The encoded paths of an item that is not searchable."""

_FLOAT_BYTES: Final = 4
_FEW: Final = 64
_MICROS: Final = 1e6
_FEW_LABELS: Final = 8
_FEW_CHARACTERS: Final = 1_000


class Row(NamedTuple):
    """One item, encoded; moments and durations in microseconds. SQL backends name their columns like this."""

    namespace: str
    key: str
    value: str
    revision: int
    created_at: int
    updated_at: int
    paths: str
    model: str | None
    dims: int | None
    embedding: bytes | None
    ttl: int | None
    expires_at: int | None
    due_kind: str | None
    due_at: int | None

    @property
    def place(self) -> Place:
        """Where it is in its partition."""
        return self.namespace, self.key


_Vector: TypeAlias = tuple[str | None, int | None, bytes | None]
_Ends: TypeAlias = tuple[int | None, int | None, str | None, int | None]
Columns: TypeAlias = tuple[str, str, str, int, int, int, str, *_Vector, *_Ends]
"""The columns of a row as a driver gives them: of ten thousand, making a :class:`Row` of each is time lost."""

VALUE: Final = 2
EXPIRES_AT: Final = 11
"""Their places."""


class Content(NamedTuple):
    """What a put writes, encoded; the fields are those of :class:`Row`, ``None`` where the storage decides."""

    value: str
    paths: str
    model: str | None
    dims: int | None
    embedding: bytes | None
    ttl: int | None
    due_kind: str | None
    due_at: int | None
    created_at: int | None
    updated_at: int | None
    expires_at: int | None


class Change(NamedTuple):
    """One operation, checked and encoded; *content* is there for a put only."""

    kind: Literal["put", "delete", "touch"]
    place: Place
    expect: Expectation
    content: Content | None = None


def encoded(batch: Batch) -> list[Change]:
    """Check and encode the operations of *batch*.

    Raises:
        InvalidInputError: It is empty, an operation is malformed, or two are about one item.
        TooLargeError: A part of it, or all of it, is over a limit.
    """
    if not batch.operations:
        msg = "The batch has no operations; give it one at least."
        raise InvalidInputError(msg)
    if len(batch.operations) > MAX_BATCH_OPERATIONS:
        msg = (
            f"The batch has {len(batch.operations):,} operations; at most {MAX_BATCH_OPERATIONS:,} "
            "are allowed. Commit it in parts."
        )
        raise TooLargeError(msg, operations=len(batch.operations))
    changes = [_change(operation) for operation in batch.operations]
    if len({change.place for change in changes}) < len(changes):
        msg = "The batch has two operations on one item; give one for each namespace and key."
        raise InvalidInputError(msg)
    size = sum(map(_size, changes))
    if size > MAX_BATCH_BYTES:
        msg = f"The batch takes {size:,} bytes; at most {MAX_BATCH_BYTES:,} are allowed. Commit it in parts."
        raise TooLargeError(msg, size_bytes=size)
    return changes


def place_of(namespace: Namespace, key: str) -> Place:
    """Return the place of an item, checked and encoded."""
    check_key(key)
    return _spelling(namespace), encode_text(key)


def spelled(place: Place) -> tuple[Namespace, str]:
    """Undo :func:`place_of`."""
    return decode_namespace(place[0]), decode_text(place[1])


class Items(Sequence[Item]):
    """The items that *rows* of one partition are, made each time they are read.

    Whoever goes through ten thousand of them once has a few hundred in RAM at a time, and in the
    processor's caches: that takes half the time of making them all first.
    """

    def __init__(self, rows: Sequence[Columns], partition: Partition) -> None:
        self._rows = rows
        self._partition = partition

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Item]:
        return items_of(self._rows, self._partition)

    def fields(self) -> Iterator[Fields]:
        """See :class:`~threadkeep.storage.fields.FieldByField`: a third of the time that making the items takes."""
        for start in range(0, len(self._rows), AT_ONCE):
            yield _fields_of(self._rows[start : start + AT_ONCE])

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | Sequence[Item]:
        """Return one item, or some of them."""
        if isinstance(place, slice):
            return Items(self._rows[place], self._partition)
        return next(items_of([self._rows[place]], self._partition))


def changed_of(rows: Sequence[Columns], partition: Partition) -> Sequence[Item]:
    """Return what *rows* of one partition's changes are: a few items made now, or many made as they are read."""
    return tuple(items_of(rows, partition)) if len(rows) <= _FEW else Items(rows, partition)


def items_of(rows: Sequence[Columns], partition: Partition) -> Iterator[Item]:
    """Yield the items that *rows* of one partition are, in their order.

    Values are parsed by the hundred: one call of the parser on a joined text takes half the time
    of a call for each (27 ms for 10,000, measured; orjson, one by one, 34 ms).
    """
    for start in range(0, len(rows), AT_ONCE):
        part = rows[start : start + AT_ONCE]
        values = _values_of([row[VALUE] for row in part])
        for row, value in zip(part, values, strict=True):
            # In one piece: at ten thousand rows each call for a part of one is milliseconds.
            (namespace, key, _, revision, created, updated, paths, model, dims, data, ttl, expires, kind, at) = row
            updated_at = moment_of(updated)
            yield Item(
                Ref(partition, decode_namespace(namespace), decode_text(key)),
                value,
                revision,
                updated_at if created == updated else moment_of(created),
                updated_at,
                decode_namespace(paths),
                None if data is None or model is None or dims is None else Embedding(decode_name(model), dims, data),
                None if ttl is None else timedelta(microseconds=ttl),
                None if expires is None else moment_of(expires),
                None if kind is None or at is None else Due(decode_name(kind), moment_of(at)),
            )


def _fields_of(rows: Sequence[Columns]) -> Fields:
    """Return the fields of one row at least; what they share is read once."""
    namespaces, keys, values, revisions, created, updated, paths, models, dims, data, _, expires, _, _ = zip(
        *rows, strict=True
    )
    plain = "\\" not in "".join(keys)
    return Fields(
        names=list(
            zip(
                _each(namespaces, decode_namespace),
                [key[1:-1] for key in keys] if plain else map(decode_text, keys),
                strict=True,
            )
        ),
        values=_values_of(values),
        spelled=values,
        revisions=revisions,
        created_at=[moment / _MICROS for moment in created],
        updated_at=[moment / _MICROS for moment in updated],
        expires_at=_each(expires, lambda moment: NEVER if moment is None else moment / _MICROS),
        indexes=_each(paths, decode_namespace),
        models=_each(models, lambda model: None if model is None else decode_name(model)),
        dims=dims,
        vectors=data,
    )


def _each(column: tuple[T, ...], read: Callable[[T], U]) -> list[U]:
    """Return what *read* makes of each of *column*; once for all, where they are the same."""
    if column.count(column[0]) == len(column):
        return [read(column[0])] * len(column)
    return list(map(read, column))


def _values_of(texts: Sequence[str]) -> list[dict[str, Any]]:
    return json.loads(f"[{','.join(texts)}]")


def _change(operation: Operation) -> Change:
    match cast("object", operation):
        case Put(namespace=namespace, key=key, expect=expect) as put:
            return Change("put", place_of(namespace, key), _expectation(expect), _content(put))
        case Delete(namespace=namespace, key=key, expect=expect):
            return Change("delete", place_of(namespace, key), _expectation(expect))
        case Touch(namespace=namespace, key=key):
            return Change("touch", place_of(namespace, key), "any")
        case other:
            msg = f"An operation is a Put, a Delete or a Touch, not {type(other).__name__}."
            raise InvalidInputError(msg)


def _content(put: Put) -> Content:
    check_namespace(put.index)
    if put.expires_at is not None and put.ttl is None:
        msg = "A put has expires_at and no ttl; give the ttl that a touch renews it by."
        raise InvalidInputError(msg)
    model = dims = data = None
    if put.embedding is not None:
        _check_embedding(put.embedding)
        model, dims, data = encode_text(put.embedding.model), put.embedding.dims, bytes(put.embedding.data)
    return Content(
        value=encode_value(put.value),
        paths=encode_namespace(put.index),
        model=model,
        dims=dims,
        embedding=data,
        ttl=None if put.ttl is None else ttl_micros(put.ttl),
        due_kind=None if put.due is None else encode_text(put.due.kind),
        due_at=None if put.due is None else micros(put.due.at),
        created_at=None if put.created_at is None else micros(put.created_at),
        updated_at=None if put.updated_at is None else micros(put.updated_at),
        expires_at=None if put.expires_at is None else micros(put.expires_at),
    )


def _check_embedding(embedding: Embedding) -> None:
    dims = cast("object", embedding.dims)
    if not isinstance(dims, int) or dims < 1 or len(embedding.data) % (dims * _FLOAT_BYTES):
        msg = (
            f"An embedding of {len(embedding.data):,} bytes is no whole number of vectors of {dims} "
            "32-bit floats; give the dims that its model has."
        )
        raise InvalidInputError(msg)


def _expectation(expect: Expectation) -> Expectation:
    if expect in ("any", "absent") or type(expect) is int:
        return expect
    msg = 'An expectation is "any", "absent" or the revision of an item.'
    raise InvalidInputError(msg)


def _size(change: Change) -> int:
    size = len(change.place[0]) + len(change.place[1])
    if change.content is not None:
        size += len(change.content.value) + len(change.content.paths) + len(change.content.embedding or b"")
    return size


@lru_cache(maxsize=4096)
def _short_spelling(namespace: Namespace) -> str:
    check_namespace(namespace)
    return encode_namespace(namespace)


def _spelling(namespace: Namespace) -> str:
    """Return *namespace* checked and encoded; the same few come again and again, and most are short."""
    try:
        if len(namespace) <= _FEW_LABELS and sum(map(len, namespace)) <= _FEW_CHARACTERS:
            return _short_spelling(namespace)
    except TypeError:  # it is no tuple of texts, which the check says better
        pass
    check_namespace(namespace)
    return encode_namespace(namespace)
