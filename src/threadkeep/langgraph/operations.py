"""LangGraph's operations in the seam's words: checked, copied and sorted by kind. Pure rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from langgraph.store.base import GetOp, ListNamespacesOp, Op, PutOp, SearchOp
from langgraph.store.base import InvalidNamespaceError as LangGraphInvalidNamespaceError

from threadkeep.errors import InvalidInputError, OwnerMismatchError, TooLargeError
from threadkeep.identity import OWNED_ROOTS, Owner, partition_of
from threadkeep.memories.codec import searchable_paths
from threadkeep.storage.encoding import MAX_TTL, MAX_VALUE_DEPTH, OPERATORS, check_filter
from threadkeep.storage.interface import MAX_VALUE_BYTES, Namespace, NamespaceMatch, Partition, Ref

if TYPE_CHECKING:
    from threadkeep.models.base import Embedder

WHOLE_VALUE: Final = ("$",)
"""LangGraph's default: the whole value as JSON is one searchable text."""

_MAX_TTL_MINUTES: Final = MAX_TTL / timedelta(minutes=1)

_JOINING: Final = frozenset({"$and", "$or", "$nor", "$not", *OPERATORS})


@dataclass(frozen=True, slots=True)
class ItemRead:
    """A Get: its place in the call, what it asks for, and whether reading it lets it live longer."""

    place: int
    ref: Ref
    refresh: bool


@dataclass(frozen=True, slots=True)
class ItemSearch:
    """A Search: its place in the call and the operation, its prefix a tuple of legal labels."""

    place: int
    op: SearchOp


@dataclass(frozen=True, slots=True)
class NamespaceListing:
    """A ListNamespaces: its place in the call, its conditions, and which page is asked for."""

    place: int
    match: tuple[NamespaceMatch, ...]
    max_depth: int | None
    limit: int
    offset: int


@dataclass(frozen=True, slots=True)
class ItemWrite:
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
class CallPlan:
    """One call: reads, then writes; the last write of a key stands for all of them.

    Attributes:
        owner: The owner of the namespaces that may be named; ``None``: all may be.
        shared: Whether namespaces that are no owner's may be named, too.
    """

    owner: Owner | None = None
    shared: bool = field(default=False, kw_only=True)
    size: int = 0
    reads: list[ItemRead] = field(default_factory=list[ItemRead])
    finds: list[ItemSearch] = field(default_factory=list[ItemSearch])
    listings: list[NamespaceListing] = field(default_factory=list[NamespaceListing])
    writes: dict[Ref, ItemWrite] = field(default_factory=dict[Ref, ItemWrite])


def planned(ops: Iterable[Op], *, fields: tuple[str, ...], owner: Owner | None, shared: bool = False) -> CallPlan:
    """Check every operation and sort them by kind; nothing has been read or written yet.

    Args:
        ops: LangGraph's operations.
        fields: The searchable fields of items without fields of their own.
        owner: The owner of the namespaces that may be named; ``None``: all may be.
        shared: Whether namespaces that are no owner's may be named, too.

    Raises:
        InvalidNamespaceError: A namespace is illegal.
        OwnerMismatchError: A namespace is not the owner's.
        InvalidInputError: Anything else of an operation is.
    """
    plan = CallPlan(owner, shared=shared)
    for place, op in enumerate(cast("Iterable[Any]", ops)):
        plan.size = place + 1
        match op:
            case GetOp():
                plan.reads.append(
                    ItemRead(place, _ref(op.namespace, op.key, owner, shared=shared), bool(op.refresh_ttl))
                )
            case PutOp():
                write = _write(op, fields, owner, shared=shared)
                plan.writes[write.ref] = write
            case SearchOp():
                prefix = labels_of(op.namespace_prefix)
                if owner is not None:
                    require_own(prefix, owner, shared=shared)
                _check_page(op.limit, op.offset)
                query: Any = op.query
                if query is not None and not isinstance(query, str):
                    msg = f"query must be a string, got {type(query).__name__}."
                    raise InvalidInputError(msg)
                if op.filter is not None:
                    _check_conditions(op.filter)
                plan.finds.append(ItemSearch(place, op._replace(namespace_prefix=prefix)))
            case ListNamespacesOp():
                _check_page(op.limit, op.offset)
                if op.max_depth is not None and (type(op.max_depth) is not int or op.max_depth < 0):
                    msg = "max_depth must be an int of 0 or more, or None."
                    raise InvalidInputError(msg)
                plan.listings.append(NamespaceListing(place, matches_of(op), op.max_depth, op.limit, op.offset))
            case _:
                msg = f"{type(op).__name__} is not a GetOp, PutOp, SearchOp or ListNamespacesOp; pass one of them."
                raise InvalidInputError(msg)
    return plan


def fields_of(fields: Sequence[str] | None) -> tuple[str, ...]:
    """Return the paths that *fields* of an index configuration stands for."""
    return WHOLE_VALUE if fields is None else _paths(fields)


def require_cosine(index: Mapping[str, Any] | None) -> None:
    """Refuse an index configuration with a ``distance_type`` other than the cosine, the only distance there is.

    Raises:
        InvalidInputError: It names another distance.
    """
    distance = index.get("distance_type") if index else None
    if distance not in (None, "cosine"):
        msg = f"index['distance_type'] is {str(distance)[:40]!r}, and scores are cosines; leave it out, or set cosine."
        raise InvalidInputError(msg)


def require_embedder(index: Mapping[str, Any] | None, embedder: Embedder | None) -> None:
    """Refuse an index configuration with an ``embed`` or ``dims`` that are not those of *embedder*.

    Raises:
        InvalidInputError: They differ; the message says how to change the embedder.
    """
    if index is None:
        return
    embed, dims = index.get("embed"), index.get("dims")
    own = None if embedder is None else embedder.name
    same = embed is embedder or (isinstance(embed, str) and own is not None and own.partition("@")[0] == embed)
    if embed and not same and getattr(embedder, "embeddings", None) is not embed:
        named = f"{embed[:60]!r}" if isinstance(embed, str) else type(cast("object", embed)).__name__
        msg = (
            f"index['embed'] is {named}, and the embedder of this memory is {own or 'none'}; leave it out, "
            "or pass that embedder to threadkeep.open(embedder=…)."
        )
        raise InvalidInputError(msg)
    if embedder is not None and dims and embedder.dims not in (None, dims):
        msg = f"index['dims'] is {str(dims)[:40]}, and the embedder {own} gives {embedder.dims}; leave it out."
        raise InvalidInputError(msg)


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
    msg = f"ttl must be a positive number of minutes, or None for no expiry, got {said}."
    raise InvalidInputError(msg)


def _ref(namespace: Any, key: Any, owner: Owner | None, *, shared: bool) -> Ref:
    labels = labels_of(namespace)
    if owner is not None:
        require_own(labels, owner, shared=shared)
    if key is None:
        msg = "The key must be a string, not None: pass a key."
        raise InvalidInputError(msg)
    return Ref(partition_of(labels), labels, str(key))


def _write(op: PutOp, fields: tuple[str, ...], owner: Owner | None, *, shared: bool) -> ItemWrite:
    ref = _ref(op.namespace, op.key, owner, shared=shared)
    if op.value is None:
        return ItemWrite(ref, None)
    require_some(ref.namespace)
    value = json_copy(op.value)
    ttl = ttl_of(op.ttl)
    paths, pinned = searchable_paths(ref.namespace, ref.key, value)
    ttl = None if pinned else ttl
    if paths is not None and op.index is None and fields == WHOLE_VALUE:
        return ItemWrite(ref, value, paths, ttl)
    index = () if op.index is False else fields if op.index is None else _paths(op.index)
    return ItemWrite(ref, value, index, ttl)


def _paths(index: Any) -> tuple[str, ...]:
    if isinstance(index, list | tuple):
        paths = cast("list[Any] | tuple[Any, ...]", index)
        if all(isinstance(path, str) for path in paths):
            return tuple(dict.fromkeys(cast("Sequence[str]", paths)))
    msg = 'An index is a list of paths such as ["text", "tags[*]"], False for none, or None for the default.'
    raise InvalidInputError(msg)


def _check_conditions(conditions: Any) -> None:
    check_filter(conditions)
    # As fields they would match nothing, in silence.
    joined = next((name for name in conditions if name in _JOINING), None)
    if joined is not None:
        msg = f"A filter has no operator {joined!r}: an item must meet all conditions."
        raise InvalidInputError(msg)


def _check_page(limit: Any, offset: Any) -> None:
    for name, number in (("limit", limit), ("offset", offset)):
        if type(number) is not int or number < 0:
            msg = f"{name} must be an int of 0 or more, got {str(number)[:40]}."
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

    def __init__(self) -> None:
        self._parts = 0

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


RESERVED_ROOT: Final = "langgraph"


class InvalidNamespaceError(InvalidInputError, LangGraphInvalidNamespaceError):
    """A namespace label cannot be used. Labels are texts with no period and no NUL, and not empty."""

    code = "namespace_invalid"


def labels_of(namespace: Any) -> Namespace:
    """Return *namespace* as a tuple of labels, each of them legal.

    A list is taken as the tuple it stands for, a single text as the one label it is: where a tuple
    of one was meant, the comma is easily forgotten.

    Raises:
        InvalidNamespaceError: A label is no text, is empty, or holds a period or NUL.
    """
    if isinstance(namespace, str):
        namespace = (namespace,)
    elif type(namespace) is not tuple:
        if not isinstance(namespace, Iterable):
            msg = f"The namespace must be a tuple of labels, got {type(namespace).__name__}."
            raise InvalidNamespaceError(msg)
        namespace = tuple(cast("Iterable[Any]", namespace))
    for label in cast("tuple[Any, ...]", namespace):
        if not isinstance(label, str):
            rule = f"is {type(label).__name__}, not a text"
        elif "." in label:
            rule = "holds a period; use threadkeep's label() for ids such as e-mail addresses"
        elif "\x00" in label:
            rule = "holds a NUL"
        elif not label:
            rule = "is empty"
        else:
            continue
        msg = f"The namespace label {str(cast('object', label))[:80]!r} {rule}."
        raise InvalidNamespaceError(msg)
    return cast("Namespace", namespace)


def require_some(labels: Namespace) -> None:
    """Let *labels* pass only where there are any: nothing is written to the empty namespace."""
    if not labels:
        msg = "The namespace is empty; give at least one label."
        raise InvalidNamespaceError(msg)


def writable(namespace: Any) -> Namespace:
    """Return *namespace* as :func:`labels_of` does, where ``put`` may write to it.

    LangGraph itself writes below its own root label, by operations rather than by ``put``.

    Raises:
        InvalidNamespaceError: It is empty, or its root label is LangGraph's own.
    """
    labels = labels_of(namespace)
    require_some(labels)
    if labels[0] == RESERVED_ROOT:
        msg = f"The root label {RESERVED_ROOT!r} belongs to LangGraph itself; choose another."
        raise InvalidNamespaceError(msg)
    return labels


def own_prefixes(owner: Owner) -> tuple[Namespace, ...]:
    """Return the namespaces that, with everything below them, belong to *owner*."""
    label = owner.label
    return tuple((root, label) for root in OWNED_ROOTS)


def require_own(namespace: Namespace, owner: Owner, *, shared: bool = False) -> None:
    """Let *namespace* pass only where all of it is the owner's.

    Args:
        namespace: The namespace, or a prefix of several.
        owner: The owner.
        shared: Whether namespaces that are no owner's pass, too.

    Raises:
        OwnerMismatchError: It belongs to another owner or to none, or spans several owners.
    """
    if len(namespace) > 1 and partition_of(namespace) == owner.partition:
        return
    if shared and is_shared(namespace):
        return
    msg = (
        "This store is locked to one owner, and the namespace is not that owner's; "
        "use ('memories', label, …), ('summaries', label, …) or ('users', label, …)."
    )
    raise OwnerMismatchError(msg)


def is_shared(namespace: Namespace) -> bool:
    """Return whether *namespace* is below a root that belongs to no owner, such as ``("prefs",)``."""
    return bool(namespace) and namespace[0] not in (*OWNED_ROOTS, RESERVED_ROOT, "*")


def one_partition(prefix: Namespace) -> Partition | None:
    """Return the partition that holds everything below *prefix*; ``None`` where several may."""
    if not prefix or (len(prefix) == 1 and prefix[0] in OWNED_ROOTS):
        return None
    return partition_of(prefix)


def matches_of(op: ListNamespacesOp) -> tuple[NamespaceMatch, ...]:
    """Return the conditions of *op* in the seam's words.

    Raises:
        InvalidNamespaceError: A condition holds an illegal label, or is neither prefix nor suffix.
    """
    found: list[NamespaceMatch] = []
    for condition in op.match_conditions or ():
        if condition.match_type not in ("prefix", "suffix"):
            msg = f"Namespaces are matched by prefix or suffix, not by {str(condition.match_type)[:40]!r}."
            raise InvalidNamespaceError(msg)
        found.append(NamespaceMatch(condition.match_type, labels_of(condition.path)))
    return tuple(found)


def cut(namespaces: Iterable[Namespace], *, max_depth: int | None, limit: int, offset: int) -> list[Namespace]:
    """Cut *namespaces* to *max_depth* labels, make them distinct, sort, and return one page of them."""
    distinct = {namespace if max_depth is None else namespace[:max_depth] for namespace in namespaces}
    return sorted(distinct)[offset : offset + limit]
