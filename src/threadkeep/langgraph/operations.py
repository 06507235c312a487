"""LangGraph's operations: checked, copied and sorted by kind, and put together while many wait."""

from __future__ import annotations

import asyncio
import copy
import math
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

from langgraph.store.base import GetOp, ListNamespacesOp, Op, PutOp, Result, SearchOp
from langgraph.store.base import InvalidNamespaceError as LangGraphInvalidNamespaceError

from threadkeep.errors import (
    ClosedError,
    DamagedItemError,
    InvalidInputError,
    OwnerMismatchError,
    SealError,
)
from threadkeep.event_loop import closed_error
from threadkeep.identity import OWNED_ROOTS, Owner, partition_of
from threadkeep.memories.codec import searchable_paths
from threadkeep.storage.encoding import MAX_TTL, OPERATORS, check_filter, json_copy
from threadkeep.storage.interface import Namespace, NamespaceMatch, Partition, Ref

if TYPE_CHECKING:
    from threadkeep.event_loop import EventLoopThread
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
    msg = f"ttl must be a positive number of minutes, a thousand years at most, or None for no expiry, got {said}."
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
    if not ref.namespace:
        raise _empty_namespace()
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


def _empty_namespace() -> InvalidNamespaceError:
    return InvalidNamespaceError("The namespace is empty; give at least one label.")


def writable(namespace: Any) -> Namespace:
    """Return *namespace* as :func:`labels_of` does, where ``put`` may write to it.

    LangGraph itself writes below its own root label, by operations rather than by ``put``.

    Raises:
        InvalidNamespaceError: It is empty, or its root label is LangGraph's own.
    """
    labels = labels_of(namespace)
    if not labels:
        raise _empty_namespace()
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
    """Return the conditions of *op* as those of a storage.

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


AT_ONCE: Final = 32
"""So many calls of a store are under way at a time. A pool of connections lends none to those that ask for too long."""

_TOGETHER: Final = 500
_ONE_CALLS: Final = (InvalidInputError, DamagedItemError, SealError)  # one call's fault, and nothing was written

_Results: TypeAlias = list[Result]


class _StoreCall(NamedTuple):
    plan: CallPlan
    answer: Future[_Results]


class CallBatcher:
    """Performs calls, each for itself while there are few; what waits meanwhile is put together by what it does.

    Gets are one read. Writes of one partition are one commit, in the order in which they were called. Calls
    that ask the same are answered by one of them, each with a copy of its own. Everything else goes alone. A
    call that is refused takes no other with it. What waits costs the event loop nothing: ten thousand calls at
    a time would keep it from its connections.

    Args:
        event_loop: Where plans are performed; calls come from any loop or thread.
        perform: Performs one plan.
    """

    def __init__(
        self, event_loop: EventLoopThread, perform: Callable[[CallPlan], Coroutine[Any, Any, _Results]]
    ) -> None:
        self._event_loop = event_loop
        self._perform = perform
        self._guard = threading.Lock()
        self._under_way = 0  # while anything waits, something is under way, and begins what waits when it ends
        self._lanes: dict[Hashable, deque[_StoreCall]] = {}
        self._busy: set[Hashable] = set()

    async def perform(self, plan: CallPlan) -> _Results:
        """Return the results of *plan*, alone or together with others."""
        answer = self._waits(plan)
        if answer is not None:
            return await asyncio.wrap_future(answer)
        try:
            return await self._event_loop.run(self._perform(plan))
        finally:
            self._left()

    def perform_sync(self, plan: CallPlan) -> _Results:
        """Do what :meth:`perform` does, and block the calling thread until it is done."""
        answer = self._waits(plan)
        if answer is not None:
            try:
                return answer.result()
            finally:
                answer.cancel()  # Ctrl-C while waiting
        try:
            return self._event_loop.run_sync(self._perform(plan))
        finally:
            self._left()

    def _waits(self, plan: CallPlan) -> Future[_Results] | None:
        """Take a place among those under way, or where there is none, wait in a lane; return what to wait for."""
        with self._guard:
            if self._under_way < AT_ONCE and not (self._lanes and _lane(plan) in self._lanes):
                self._under_way += 1
                return None
            self._event_loop.require_open()
            answer: Future[_Results] = Future()
            self._lanes.setdefault(_lane(plan), deque()).append(_StoreCall(plan, answer))
            return answer

    def _left(self) -> None:
        """Begin a round of the lane that has waited longest and has none under way."""
        with self._guard:
            self._under_way -= 1
            if not self._lanes:
                return
            lane = next((lane for lane in self._lanes if lane not in self._busy), None)
            if lane is None:
                return
            try:
                self._event_loop.begin(self._round(lane), partial(self._ended, lane))
            except ClosedError as error:
                closed = error
                waiting, self._lanes = self._lanes, {}
            else:
                self._under_way += 1
                self._busy.add(lane)
                return
        for calls in waiting.values():
            _refused(calls, closed)

    def _ended(self, lane: Hashable) -> None:
        """Put those of *lane* that are left behind those that wait longer, and begin what is next."""
        with self._guard:
            self._busy.discard(lane)
            waiting = self._lanes.pop(lane, None)
            if waiting:
                self._lanes[lane] = waiting
        self._left()

    async def _round(self, lane: Hashable) -> None:
        with self._guard:
            waiting = self._lanes.get(lane, deque[_StoreCall]())
            calls = [waiting.popleft() for _ in range(min(len(waiting), _TOGETHER))]
        calls = [call for call in calls if call.answer.set_running_or_notify_cancel()]
        if not calls:
            return
        try:
            await self._answered(calls)
        except asyncio.CancelledError:
            _refused(calls, closed_error())
            raise

    async def _answered(self, calls: Sequence[_StoreCall]) -> None:
        try:
            answers = await self._together([call.plan for call in calls])
        except _ONE_CALLS as error:
            if len(calls) == 1:
                _refused(calls, error)
            else:
                for call in calls:
                    await self._answered([call])
        except Exception as error:  # noqa: BLE001 - passed to the caller
            _refused(calls, error)
        else:
            for call, results in zip(calls, answers, strict=True):
                call.answer.set_result(results)

    async def _together(self, plans: Sequence[CallPlan]) -> list[_Results]:
        first = plans[0]
        if len(plans) == 1 or first.finds or first.listings:
            results = await self._perform(first)
            return [results, *(copy.deepcopy(results) for _ in plans[1:])]
        whole = CallPlan(first.owner)
        for plan in plans:
            whole.reads += [replace(read, place=whole.size + read.place) for read in plan.reads]
            for ref, write in plan.writes.items():
                whole.writes.pop(ref, None)
                whole.writes[ref] = write
            whole.size += plan.size
        results = await self._perform(whole)
        ends, answers = 0, list[_Results]()
        for plan in plans:
            answers.append(results[ends : ends + plan.size])
            ends += plan.size
        return answers


def _lane(plan: CallPlan) -> Hashable:
    """Return what calls have in common that can be performed together with *plan*; itself, where it goes alone."""
    kinds = [bool(plan.reads), bool(plan.writes), bool(plan.finds), bool(plan.listings)]
    partitions = {ref.partition for ref in plan.writes}
    if sum(kinds) != 1 or len(partitions) > 1 or plan.size > _TOGETHER:
        return id(plan)
    if plan.reads:
        return "reads"
    if plan.writes:
        return partitions.pop()
    return repr((plan.finds, plan.listings, plan.owner, plan.shared))


def _refused(calls: Iterable[_StoreCall], error: Exception) -> None:
    for call in calls:
        if not call.answer.done():
            call.answer.set_exception(error)
