"""Items as backends store them: encoding a batch, parsing rows, and what a batch does to stored rows. Pure rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast, overload, runtime_checkable

from threadkeep.errors import InvalidInputError, PartitionErasedError, RevisionConflictError, TooLargeError
from threadkeep.storage.encoding import (
    ENCODED_NAMESPACES,
    EXACT_AS_FLOAT,
    check_key,
    decode_name,
    decode_namespace,
    decode_text,
    encode_namespace,
    encode_text,
    encode_value,
    from_micros,
    to_micros,
    ttl_to_micros,
)
from threadkeep.storage.interface import (
    MAX_BATCH_BYTES,
    MAX_BATCH_OPERATIONS,
    MAX_DATA_BYTES,
    MAX_KEY_CHARACTERS,
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

RowKey: TypeAlias = tuple[str, str]
"""An encoded namespace and an encoded key."""

NO_PATHS: Final = "[]"
"""The encoded paths of an item that is not searchable."""

NEVER: Final = float("inf")
"""The expiry, in seconds, of an item that does not expire."""

_CHUNK_ROWS: Final = 256
"""Rows that are parsed together: they and the code that parses them stay in the processor's caches."""

_MICROS: Final = 1e6
_FLOAT_BYTES: Final = 4
_EAGER_ROWS: Final = 64
_LARGEST_DATA: Final = MAX_DATA_BYTES + 1024
"""Encrypting data makes it longer by less than that; the encrypted storage checks the limit before."""


class ItemRow(NamedTuple):
    """One encoded item; times and durations in microseconds. SQL backends name their columns like the fields."""

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
    data: bytes | None = None

    @property
    def row_key(self) -> RowKey:
        """The encoded namespace and key."""
        return self.namespace, self.key


_VectorColumns: TypeAlias = tuple[str | None, int | None, bytes | None]
_OtherColumns: TypeAlias = tuple[int | None, int | None, str | None, int | None, bytes | None]
RowColumns: TypeAlias = tuple[str, str, str, int, int, int, str, *_VectorColumns, *_OtherColumns]
"""The columns of a row as a driver returns them: making an :class:`ItemRow` of each of 10,000 costs milliseconds."""

EXPIRES_AT: Final = 11
"""The index of the expiry among the columns."""

_get_value: Final[Callable[[RowColumns], str]] = itemgetter(2)
get_expiry: Final[Callable[[RowColumns], int | None]] = itemgetter(EXPIRES_AT)


class PutRow(NamedTuple):
    """What a put writes, encoded. The fields are those of :class:`ItemRow`, ``None`` where the storage decides."""

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
    data: bytes | None = None


class RowChange(NamedTuple):
    """One operation, checked and encoded. Only a put has *content*."""

    kind: Literal["put", "delete", "touch"]
    row_key: RowKey
    expect: Expectation
    content: PutRow | None = None


class EncodedBatch(NamedTuple):
    """A batch, checked and encoded; the fields are those of :class:`~threadkeep.storage.interface.Batch`."""

    partition: Partition
    epoch: str | None
    changes: Sequence[RowChange]


class RowState(NamedTuple):
    """What a commit reads of a stored row, expired or not. The fields are those of :class:`ItemRow`."""

    revision: int
    created_at: int
    ttl: int | None
    expires_at: int | None
    paths: str


class TouchedRow(NamedTuple):
    """A row that gets the batch's revision and a new expiry."""

    expires_at: int | None
    namespace: str
    key: str


@dataclass(slots=True)
class CommitPlan:
    """What a commit writes, all or nothing.

    Attributes:
        rows: Rows to write.
        touched: Rows that get a new revision and a new expiry.
        deleted: Rows to delete.
        removed: Rows that were searchable and no longer are; they go to the change log.
    """

    rows: list[ItemRow] = field(default_factory=list[ItemRow])
    touched: list[TouchedRow] = field(default_factory=list[TouchedRow])
    deleted: list[RowKey] = field(default_factory=list[RowKey])
    removed: list[RowKey] = field(default_factory=list[RowKey])


def encode_batch(batch: Batch) -> EncodedBatch:
    """Check and encode *batch*.

    Raises:
        InvalidInputError: It is empty, an operation is malformed, or two operations name one item.
        TooLargeError: A part of it, or all of it, exceeds a limit.
    """
    if not batch.operations:
        msg = "The batch has no operations: add at least one."
        raise InvalidInputError(msg)
    if len(batch.operations) > MAX_BATCH_OPERATIONS:
        msg = (
            f"The batch is too large: {len(batch.operations):,} operations, at most {MAX_BATCH_OPERATIONS:,} "
            "are allowed. Commit it in parts."
        )
        raise TooLargeError(msg, operations=len(batch.operations))
    changes: list[RowChange] = []
    size = 0
    for operation in batch.operations:
        change = _encode_put(operation) if type(operation) is Put else _encode_operation(operation)
        changes.append(change)
        size += len(change.row_key[0]) + len(change.row_key[1])
        if (content := change.content) is not None:
            size += len(content.value) + len(content.paths) + len(content.embedding or b"") + len(content.data or b"")
    if len(changes) > 1 and len(set(map(itemgetter(1), changes))) < len(changes):
        msg = "The batch has two operations for one item: use one operation per namespace and key."
        raise InvalidInputError(msg)
    if size > MAX_BATCH_BYTES:
        msg = f"The batch is too large: {size:,} bytes, at most {MAX_BATCH_BYTES:,} are allowed. Commit it in parts."
        raise TooLargeError(msg, size_bytes=size)
    return EncodedBatch(batch.partition, batch.epoch, changes)


def to_row_key(namespace: Namespace, key: str) -> RowKey:
    """Check and encode a namespace and a key.

    Raises:
        InvalidInputError, TooLargeError: One of them cannot be stored.
    """
    if type(key) is not str or len(key) > MAX_KEY_CHARACTERS:
        check_key(key)
    try:
        return ENCODED_NAMESPACES[namespace], encode_text(key)
    except TypeError:  # not a tuple of strings, which has its own error
        return encode_namespace(namespace), encode_text(key)


def parse_row_key(row_key: RowKey) -> tuple[Namespace, str]:
    """Undo :func:`to_row_key`."""
    return decode_namespace(row_key[0]), decode_text(row_key[1])


def parse_partition(kind: Any, parts: str | None) -> Partition | None:
    """Return the partition with this kind and these parts, which are JSON; ``None`` if it was erased."""
    return None if kind is None or parts is None else Partition(kind, tuple(json.loads(parts)))


def is_alive(row: ItemRow, now: int) -> bool:
    """Return whether *row* is not expired at *now*."""
    return row.expires_at is None or row.expires_at > now


def plan_commit(
    changes: Iterable[RowChange], states: Mapping[RowKey, RowState], *, revision: int, now: int
) -> CommitPlan:
    """Return what *changes* do to the stored rows.

    Args:
        changes: At most one for each row.
        states: The stored rows that the changes name.
        revision: The partition's sequence after this commit.
        now: The storage's time, in microseconds.

    Raises:
        RevisionConflictError: An expectation is not met.
    """
    plan = CommitPlan()
    for change in changes:
        row = states.get(change.row_key)
        alive = row if row is not None and (row.expires_at is None or row.expires_at > now) else None
        if change.expect != "any":
            check_expectation(change, alive)
        searchable = row is not None and row.paths != NO_PATHS
        if change.content is not None:
            plan.rows.append(_to_row(change.row_key, change.content, alive, revision, now))
            if searchable and change.content.paths == NO_PATHS:
                plan.removed.append(change.row_key)
        elif change.kind == "delete":
            if row is not None:
                plan.deleted.append(change.row_key)
            if searchable:
                plan.removed.append(change.row_key)
        elif alive is not None:
            plan.touched.append(TouchedRow(None if alive.ttl is None else now + alive.ttl, *change.row_key))
    return plan


def check_expectation(change: RowChange, alive: RowState | None) -> None:
    """Check that *alive*, the stored row that has not expired, is what *change* expects.

    Raises:
        RevisionConflictError: It is not.
    """
    if change.expect in ("any", alive.revision if alive else "absent"):
        return
    namespace, key = parse_row_key(change.row_key)
    actual = f"at revision {alive.revision}" if alive else "absent"
    expected = "absent" if change.expect == "absent" else f"at revision {change.expect}"
    msg = f"An item is {actual} and the batch expects it {expected}; nothing was written. Read it again and retry."
    raise RevisionConflictError(msg, namespace=namespace, key=key, revision=alive.revision if alive else None)


def check_epoch(expected: str | None, epoch: str) -> None:
    """Check that the partition's *epoch* is the one that a batch expects.

    Raises:
        PartitionErasedError: It is not.
    """
    if expected is not None and expected != epoch:
        raise partition_erased()


def partition_erased() -> PartitionErasedError:
    """Return the error for a batch of an epoch that has ended."""
    msg = "The partition was erased after this operation began; nothing was written. Do not repeat it."
    return PartitionErasedError(msg)


class LazyItems(Sequence[Item]):
    """Items that are parsed from *rows* of one partition each time they are read.

    A reader that goes through 10,000 items once keeps a few hundred in RAM at a time, which takes half
    the time of parsing them all first.
    """

    def __init__(self, rows: Sequence[RowColumns], partition: Partition) -> None:
        self._rows = rows
        self._partition = partition

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Item]:
        for start in range(0, len(self._rows), _CHUNK_ROWS):
            yield from parse_rows(self._rows[start : start + _CHUNK_ROWS], self._partition)

    def columns(self) -> Iterator[ItemColumns]:
        """See :class:`HasColumns`. It takes a third of the time of parsing the items."""
        for start in range(0, len(self._rows), _CHUNK_ROWS):
            yield _parse_columns(self._rows[start : start + _CHUNK_ROWS])

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        """Return one item, or some of them."""
        if isinstance(index, slice):
            return LazyItems(self._rows[index], self._partition)
        return parse_rows([self._rows[index]], self._partition)[0]


def to_items(rows: Sequence[RowColumns], partition: Partition) -> Sequence[Item]:
    """Return the items of *rows*, all of one partition: a tuple of a few, or many that are parsed when read."""
    return tuple(parse_rows(rows, partition)) if len(rows) <= _EAGER_ROWS else LazyItems(rows, partition)


def parse_rows(rows: Sequence[RowColumns], partition: Partition) -> list[Item]:
    """Return the items of *rows*, all of one partition, in their order.

    Values are parsed by the hundred: one call of the parser on a joined text takes half the time
    of a call for each (27 ms for 10,000, measured; orjson, one by one, 34 ms).
    """
    items: list[Item] = []
    for start in range(0, len(rows), _CHUNK_ROWS):
        part = rows[start : start + _CHUNK_ROWS]
        values: list[dict[str, Any]] = json.loads(f"[{','.join(map(_get_value, part))}]")
        for row, value in zip(part, values, strict=True):
            # In one piece: at 10,000 rows each call for a part of one is milliseconds.
            (
                namespace,
                key,
                _,
                revision,
                created,
                updated,
                paths,
                model,
                dims,
                vectors,
                ttl,
                expires,
                kind,
                at,
                data,
            ) = row
            exact = 0 <= created <= updated < EXACT_AS_FLOAT  # almost always; see from_micros
            updated_at = datetime.fromtimestamp(updated / _MICROS, UTC) if exact else from_micros(updated)
            if created == updated:
                created_at = updated_at
            else:
                created_at = datetime.fromtimestamp(created / _MICROS, UTC) if exact else from_micros(created)
            items.append(
                Item(
                    Ref(
                        partition,
                        decode_namespace(namespace),
                        json.loads(key) if "\\" in key else key[1:-1],  # decode_text
                    ),
                    value,
                    revision,
                    created_at,
                    updated_at,
                    decode_namespace(paths),
                    None
                    if vectors is None or model is None or dims is None
                    else Embedding(decode_name(model), dims, vectors),
                    None if ttl is None else timedelta(microseconds=ttl),
                    None if expires is None else from_micros(expires),
                    None if kind is None or at is None else Due(decode_name(kind), from_micros(at)),
                    data,
                )
            )
    return items


class ItemColumns(NamedTuple):
    """Some items, column by column: index *i* of each field belongs to one item. Times are seconds since 1970.

    Attributes:
        names: Namespace and key.
        values: JSON objects.
        texts: The values as JSON in ASCII; ``None``: not available.
        revisions: See :class:`~threadkeep.storage.interface.Item`.
        created_at: See there.
        updated_at: See there.
        expires_at: See there; infinity: never.
        indexes: Paths of the searchable texts.
        models: Of the embeddings; ``None`` where there is none.
        dims: Of the embeddings.
        vectors: Of the embeddings, as bytes.
    """

    names: Sequence[tuple[Namespace, str]]
    values: Sequence[dict[str, Any]]
    texts: Sequence[str] | None
    revisions: Sequence[int]
    created_at: Sequence[float]
    updated_at: Sequence[float]
    expires_at: Sequence[float]
    indexes: Sequence[tuple[str, ...]]
    models: Sequence[str | None]
    dims: Sequence[int | None]
    vectors: Sequence[bytes | None]


@runtime_checkable
class HasColumns(Protocol):
    """Items that can be read column by column, without an object for each."""

    def columns(self) -> Iterator[ItemColumns]:
        """Yield the columns of some hundred items at a time, in the items' order."""
        ...


def read_columns(items: Sequence[Item]) -> Iterator[ItemColumns]:
    """Yield the columns of *items*, some hundred at a time."""
    if isinstance(items, HasColumns):
        yield from items.columns()
        return
    for start in range(0, len(items), _CHUNK_ROWS):
        part = items[start : start + _CHUNK_ROWS]
        embeddings = [item.embedding for item in part]
        yield ItemColumns(
            names=[(item.ref.namespace, item.ref.key) for item in part],
            values=[item.value for item in part],
            texts=None,
            revisions=[item.revision for item in part],
            created_at=[item.created_at.timestamp() for item in part],
            updated_at=[item.updated_at.timestamp() for item in part],
            expires_at=[NEVER if item.expires_at is None else item.expires_at.timestamp() for item in part],
            indexes=[item.index for item in part],
            models=[None if embedding is None else embedding.model for embedding in embeddings],
            dims=[None if embedding is None else embedding.dims for embedding in embeddings],
            vectors=[None if embedding is None else embedding.data for embedding in embeddings],
        )


def _parse_columns(rows: Sequence[RowColumns]) -> ItemColumns:
    """Return the columns of *rows*, at least one; a value that all rows share is parsed once."""
    namespaces, keys, values, revisions, created, updated, paths, models, dims, vectors, _, expires, _, _, _ = zip(
        *rows, strict=True
    )
    plain = "\\" not in "".join(keys)
    updated_at = [time / _MICROS for time in updated]
    return ItemColumns(
        names=list(
            zip(
                _parse_column(namespaces, decode_namespace),
                [key[1:-1] for key in keys] if plain else map(decode_text, keys),
                strict=True,
            )
        ),
        values=json.loads(f"[{','.join(values)}]"),
        texts=values,
        revisions=revisions,
        created_at=updated_at if created == updated else [time / _MICROS for time in created],
        updated_at=updated_at,
        expires_at=_parse_column(expires, lambda time: NEVER if time is None else time / _MICROS),
        indexes=_parse_column(paths, decode_namespace),
        models=_parse_column(models, lambda model: None if model is None else decode_name(model)),
        dims=dims,
        vectors=vectors,
    )


def _parse_column(column: tuple[T, ...], parse: Callable[[T], U]) -> list[U]:
    """Return *column* parsed; once, if all values are the same."""
    if column.count(column[0]) == len(column):
        return [parse(column[0])] * len(column)
    return list(map(parse, column))


def _encode_operation(operation: Operation) -> RowChange:
    match cast("object", operation):
        case Put() as put:
            return _encode_put(put)
        case Delete(namespace=namespace, key=key, expect=expect):
            if expect not in ("any", "absent") and type(expect) is not int:
                raise _invalid_expectation()
            return RowChange("delete", to_row_key(namespace, key), expect)
        case Touch(namespace=namespace, key=key):
            return RowChange("touch", to_row_key(namespace, key), "any")
        case other:
            msg = f"The operation is invalid: pass a Put, a Delete or a Touch, not {type(other).__name__}."
            raise InvalidInputError(msg)


def _invalid_expectation() -> InvalidInputError:
    return InvalidInputError('expect is invalid: pass "any", "absent" or the revision of an item.')


def _encode_put(put: Put) -> RowChange:
    if put.expect not in ("any", "absent") and type(put.expect) is not int:
        raise _invalid_expectation()
    if put.expires_at is not None and put.ttl is None:
        msg = "The put has expires_at without ttl: pass the ttl that a touch renews it by."
        raise InvalidInputError(msg)
    model = dims = embedding = None
    if put.embedding is not None:
        _check_embedding(put.embedding)
        model, dims, embedding = encode_text(put.embedding.model), put.embedding.dims, bytes(put.embedding.data)
    data = put.data
    if data is not None and (type(data) is not bytes or len(data) > _LARGEST_DATA):
        raise _invalid_data(data)
    content = PutRow(
        value=encode_value(put.value),
        paths=encode_namespace(put.index) if put.index else NO_PATHS,
        model=model,
        dims=dims,
        embedding=embedding,
        ttl=None if put.ttl is None else ttl_to_micros(put.ttl),
        due_kind=None if put.due is None else encode_text(put.due.kind),
        due_at=None if put.due is None else to_micros(put.due.at),
        created_at=None if put.created_at is None else to_micros(put.created_at),
        updated_at=None if put.updated_at is None else to_micros(put.updated_at),
        expires_at=None if put.expires_at is None else to_micros(put.expires_at),
        data=data,
    )
    return RowChange("put", to_row_key(put.namespace, put.key), put.expect, content)


def _check_embedding(embedding: Embedding) -> None:
    dims = cast("object", embedding.dims)
    if not isinstance(dims, int) or dims < 1 or len(embedding.data) % (dims * _FLOAT_BYTES):
        msg = (
            f"The embedding is invalid: {len(embedding.data):,} bytes are not a whole number of vectors of {dims} "
            "32-bit floats. Pass the dims of its model."
        )
        raise InvalidInputError(msg)


def _invalid_data(data: bytes) -> InvalidInputError:
    if type(data) is not bytes:
        return InvalidInputError(f"data must be bytes, got {type(data).__name__}: pass bytes(…).")
    msg = (
        f"The data is too large: {len(data):,} bytes, at most {MAX_DATA_BYTES:,} are allowed. "
        "Split it over several items."
    )
    return TooLargeError(msg, size_bytes=len(data))


def _to_row(row_key: RowKey, content: PutRow, alive: RowState | None, revision: int, now: int) -> ItemRow:
    created_at = content.created_at
    if created_at is None:
        created_at = alive.created_at if alive else now
    expires_at = content.expires_at
    if expires_at is None and content.ttl is not None:
        expires_at = now + content.ttl
    return ItemRow(
        *row_key,
        value=content.value,
        revision=revision,
        created_at=created_at,
        updated_at=now if content.updated_at is None else content.updated_at,
        paths=content.paths,
        model=content.model,
        dims=content.dims,
        embedding=content.embedding,
        ttl=content.ttl,
        expires_at=expires_at,
        due_kind=content.due_kind,
        due_at=content.due_at,
        data=content.data,
    )
