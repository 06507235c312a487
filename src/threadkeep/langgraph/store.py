"""What LangGraph's stores on databases have beside ``BaseStore``: setting up, and sweeping what has expired."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast

from langgraph.store.base import (
    NOT_PROVIDED,
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    NamespacePath,
    NotProvided,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
)

from threadkeep.errors import InvalidInputError, RevisionConflictError
from threadkeep.identity import owner_in
from threadkeep.langgraph.operations import (
    CallBatcher,
    CallPlan,
    ItemWrite,
    fields_of,
    labels_of,
    planned,
    require_cosine,
    ttl_of,
    writable,
)
from threadkeep.langgraph.store_search import StoreMatch, StoreRanking, find, list_namespaces
from threadkeep.memories.audited_writer import is_changed
from threadkeep.memories.codec import shown_value
from threadkeep.storage.interface import (
    MAX_BATCH_OPERATIONS,
    Batch,
    Delete,
    Embedding,
    Operation,
    Partition,
    Put,
    Ref,
    Touch,
)
from threadkeep.storage.rows import encode_batch
from threadkeep.text.tokenizing import texts_of

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings

    from threadkeep.event_loop import EventLoopThread
    from threadkeep.identity import Owner
    from threadkeep.services import Services
    from threadkeep.storage.interface import Item as StoredItem
    from threadkeep.storage.interface import Position


class AwaitableCount(int):
    """A number, and what awaiting it gives: ``PostgresStore`` returns it, ``AsyncPostgresStore`` is awaited."""

    def __await__(self) -> Generator[Any, None, int]:
        return int(self)
        yield  # makes it a generator


class Sweeping:
    """The methods of ``SqliteStore`` and ``PostgresStore`` that programs call after opening one, awaited or not.

    None of them needs to be called: a Threadkeep connects when it is first used, shows nothing that has
    expired, and removes it physically by itself. They block until they are done, also in a running loop.
    """

    _event_loop: EventLoopThread
    _connect: Callable[[], Coroutine[Any, Any, Services]]

    def setup(self) -> AwaitableCount:
        """Connect, and make what is missing in the database."""
        self._event_loop.run_sync(self._connect())
        return AwaitableCount()

    def sweep_ttl(self) -> AwaitableCount:
        """Remove physically what has expired, everybody's, and return how many items that were."""

        async def swept() -> int:
            services = await self._connect()
            return await services.storage.sweep(now=services.clock.now())

        return AwaitableCount(self._event_loop.run_sync(swept()))

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> AwaitableCount:
        """Do nothing, whatever *sweep_interval_minutes* says: Threadkeep sweeps by itself."""
        del sweep_interval_minutes
        return AwaitableCount()

    def stop_ttl_sweeper(self, timeout: float | None = None) -> AwaitableCount:
        """Do nothing, and say that it is done: the sweeping ends with the Threadkeep, whatever *timeout* says."""
        del timeout
        return AwaitableCount(1)


T = TypeVar("T")

_FLOAT_BYTES: Final = 4


class ThreadkeepStore(Sweeping, BaseStore):
    """LangGraph's store over one Threadkeep, sync and async, from any event loop or thread.

    Where LangGraph's own stores disagree with each other, this one does what its documentation
    promises: ``created_at`` survives updates, values are copies, the filter applies before the
    limit, pages reach any offset, expired items are gone at once, and a batch is atomic in each
    partition.

    Args:
        event_loop: Where everything runs.
        services: Gives the services, connected; called in the event loop by every operation.
        index: LangGraph's index configuration. ``fields`` are searchable in items without
            fields of their own; by default the whole value as JSON, and of a memory its statement.
            ``embed`` and ``dims`` must be those of Threadkeep's embedder, which makes the vectors.
        ttl_config: LangGraph's expiry configuration, in minutes; a ``default_ttl`` of 0 means never.
        ranking: ``dense`` orders by meaning alone, as a stock ``index=`` does, and ``hybrid`` by words, too. Scores
            are cosines; where the order of words and meaning has a higher one after a lower one, it is told as that.
        owner: Only this owner's namespaces can be named; ``None``: everybody's.
    """

    supports_ttl = True

    def __init__(
        self,
        event_loop: EventLoopThread,
        services: Callable[[], Coroutine[Any, Any, Services]],
        *,
        index: IndexConfig | None = None,
        ttl_config: TTLConfig | None = None,
        ranking: StoreRanking = "hybrid",
        owner: Owner | None = None,
    ) -> None:
        self._event_loop = event_loop
        self._connect = services
        require_cosine(index)
        self._fields = fields_of(_fields(index))
        if ranking not in ("hybrid", "dense"):
            msg = f"ranking must be hybrid or dense, got {ranking!r}."
            raise InvalidInputError(msg)
        self._ranking: StoreRanking = ranking
        self._owner = owner
        self._batcher = CallBatcher(event_loop, self._perform)
        self.index_config = index
        self.ttl_config = TTLConfig(**ttl_config) if ttl_config is not None else None
        if self.ttl_config is not None:
            self.ttl_config["default_ttl"] = self.ttl_config.get("default_ttl") or None
            ttl_of(self.ttl_config["default_ttl"])

    @property
    def embeddings(self) -> Embeddings | None:
        """The embedder of the index configuration, where LangGraph's own stores show it, too."""
        embed = self.index_config.get("embed") if self.index_config else None
        return ensure_embeddings(embed) if embed is not None else None

    @property
    def locked_to(self) -> Owner | None:
        """The owner that this store is locked to, if it is."""
        return self._resolve_owner()

    async def call(self, work: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Run *work* with the services below this store, connected, from any loop."""

        async def on_event_loop() -> T:
            return await work(await self._connect())

        return await self._event_loop.run(on_event_loop())

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Perform *ops* as :meth:`abatch` does, and block until they are done."""
        return self._batcher.perform_sync(self._planned(ops))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Perform *ops*: first everything that reads, then everything that writes.

        All operations are checked before any is performed. Of several writes of one key the last
        one counts. The writes of one partition are one atomic commit.

        Returns:
            A result for each operation, in their order; ``None`` for a write.

        Raises:
            InvalidNamespaceError: A namespace is illegal.
            InvalidInputError: Anything else of an operation is; nothing was written.
            OwnerMismatchError: A namespace is not the owner's that this store is locked to.
            OptedOutError: A memory is put of an owner who opted out; nothing was written.
            StorageError: The storage cannot be used.
        """
        return await self._batcher.perform(self._planned(ops))

    def _planned(self, ops: Iterable[Op]) -> CallPlan:
        return planned(ops, fields=self._fields, owner=self._resolve_owner())

    def _resolve_owner(self) -> Owner | None:
        """Return the owner of the namespaces that this call may name; None: all."""
        return self._owner

    async def _perform(self, plan: CallPlan) -> list[Result]:
        services = await self._connect()
        results: list[Result] = [None] * plan.size
        read: list[StoredItem] = []
        if plan.reads:
            items = await services.storage.get([one.ref for one in plan.reads])
            for one, item in zip(plan.reads, items, strict=True):
                if item is not None:
                    results[one.place] = _item(item)
                    if one.refresh and item.ttl is not None:
                        read.append(item)
        for search in plan.finds:
            found = await find(services, search.op, ranking=self._ranking)
            results[search.place] = list(map(_search_item, found))
            if search.op.refresh_ttl:
                read += [one.item for one in found if one.item.ttl is not None]
        for listing in plan.listings:
            results[listing.place] = await list_namespaces(services.storage, listing, plan.owner, shared=plan.shared)
        batches = await _batches(services, plan.writes) if plan.writes else []
        for batch in batches:
            await _committed(services, batch)
        for batch in _touches(read) if read else ():
            await services.storage.commit(batch)
        return results

    # The base class validates in these methods only, and with LangGraph's error only: so they are its own here.

    def get(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """Return an item, or ``None`` where there is none.

        Args:
            namespace: Where it is.
            key: Which one.
            refresh_ttl: Whether it lives its ``ttl`` once more from now; ``None``: as configured.
        """
        (result,) = self.batch([GetOp(labels_of(namespace), key, self._refreshes(asked=refresh_ttl))])
        return cast("Item | None", result)

    async def aget(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """Do what :meth:`get` does, from any event loop."""
        (result,) = await self.abatch([GetOp(labels_of(namespace), key, self._refreshes(asked=refresh_ttl))])
        return cast("Item | None", result)

    def search(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name for it
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Return items below *namespace_prefix* that meet *filter*: best first with a *query*, else newest first.

        Args:
            namespace_prefix: First labels, each compared whole; ``()``: everywhere.
            query: What to look for, in plain words; without an embedder it is compared by words.
            filter: Values of top-level fields, or ``{"$eq" | "$ne" | "$gt" | "$gte" | "$lt" | "$lte": value}``.
            limit: At most so many.
            offset: Leave out so many of the first; pages fit together however far they go.
            refresh_ttl: Whether they live their ``ttl`` once more from now; ``None``: as configured.
        """
        op = SearchOp(labels_of(namespace_prefix), filter, limit, offset, query, self._refreshes(asked=refresh_ttl))
        (result,) = self.batch([op])
        return cast("list[SearchItem]", result)

    async def asearch(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name for it
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Do what :meth:`search` does, from any event loop."""
        op = SearchOp(labels_of(namespace_prefix), filter, limit, offset, query, self._refreshes(asked=refresh_ttl))
        (result,) = await self.abatch([op])
        return cast("list[SearchItem]", result)

    def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Write an item whole; when it was created is kept.

        Args:
            namespace: Where; not empty, and not below ``"langgraph"``.
            key: Any text.
            value: A JSON object; it is copied.
            index: Paths of the texts that a query finds it by (``"title"``, ``"tags[*]"``); ``False``:
                none; ``None``: the default fields, and of a memory its statement.
            ttl: Minutes that it lives after a write or a read, fractions allowed; ``None``: for ever.

        Raises:
            InvalidNamespaceError: The namespace may not be written to.
            InvalidInputError: Anything else cannot be kept; the message says what.
        """
        self.batch([self._put(namespace, key, value, index, ttl)])

    async def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Do what :meth:`put` does, from any event loop."""
        await self.abatch([self._put(namespace, key, value, index, ttl)])

    async def aput_new(
        self, namespace: tuple[str, ...], key: str, value: Mapping[str, Any], *, ttl: float | None = None
    ) -> bool:
        """Write an item that no query finds, unless there is one; of several processes one succeeds.

        Args:
            namespace: As for :meth:`put`.
            key: Any text.
            value: A JSON object; it is copied.
            ttl: As for :meth:`put`.

        Returns:
            Whether it was written; otherwise the item is as it was.
        """
        ((ref, write),) = self._planned([self._put(namespace, key, value, index=False, ttl=ttl)]).writes.items()
        put = Put(ref.namespace, ref.key, write.value or {}, ttl=write.ttl, expect="absent")

        async def commit(services: Services) -> bool:
            try:
                await services.storage.commit(Batch(ref.partition, [put]))
            except RevisionConflictError:
                return False
            return True

        return await self.call(commit)

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        """Remove an item physically; it need not be there."""
        self.batch([PutOp(labels_of(namespace), key, None)])

    async def adelete(self, namespace: tuple[str, ...], key: str) -> None:
        """Do what :meth:`delete` does, from any event loop."""
        await self.abatch([PutOp(labels_of(namespace), key, None)])

    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """Return the namespaces that hold something, sorted.

        Args:
            prefix: Their first labels; ``"*"`` is any one label.
            suffix: Their last labels, likewise.
            max_depth: Cut them to so many labels first.
            limit: At most so many.
            offset: Leave out so many of the first.
        """
        (result,) = self.batch([_listing(prefix, suffix, max_depth, limit, offset)])
        return cast("list[tuple[str, ...]]", result)

    async def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """Do what :meth:`list_namespaces` does, from any event loop."""
        (result,) = await self.abatch([_listing(prefix, suffix, max_depth, limit, offset)])
        return cast("list[tuple[str, ...]]", result)

    def _put(self, namespace: Any, key: Any, value: Any, index: Any, ttl: float | NotProvided | None) -> PutOp:
        if isinstance(ttl, NotProvided):
            ttl = self.ttl_config.get("default_ttl") if self.ttl_config else None
        return PutOp(writable(namespace), key, value, index, ttl)

    def _refreshes(self, *, asked: bool | None) -> bool:
        if asked is not None:
            return asked
        return self.ttl_config.get("refresh_on_read", True) if self.ttl_config else True


def _require_wanted(services: Services, write: ItemWrite) -> None:
    """Refuse to put a memory or a summary of an owner who has opted out; deletes and other items are as usual."""
    owner = None if write.value is None else owner_in(write.ref.namespace)
    if owner is not None and is_changed(Put(write.ref.namespace, write.ref.key, write.value or {})):
        services.opt_outs.require_wanted(owner)


async def _batches(services: Services, writes: Mapping[Ref, ItemWrite]) -> list[Batch]:
    """Return a commit for each partition; texts are embedded here, all at once and outside of any commit."""
    texts: dict[Ref, list[str]] = {}
    row_of: dict[str, int] = {}
    owned: dict[Partition, None] = {}
    for ref, write in writes.items():
        if ref.partition.kind == "owner":
            _require_wanted(services, write)
            owned[ref.partition] = None
        if write.value is not None and write.index:
            texts[ref] = texts_of(write.value, write.index)
            for text in texts[ref]:
                row_of.setdefault(text, len(row_of))
    epochs: dict[Partition, str] = {}
    vectors = None
    if row_of:  # embedding takes its time: where an owner is erased meanwhile, nothing of theirs is written
        vectors, positions = await asyncio.gather(
            services.search.embed_put(list(row_of)), asyncio.gather(*map(services.storage.position, owned))
        )
        epochs = dict(zip(owned, map(attrgetter("epoch"), positions), strict=True))
    operations: dict[Partition, list[Operation]] = defaultdict(list)
    for ref, write in writes.items():
        operations[ref.partition].append(
            Delete(ref.namespace, ref.key)
            if write.value is None
            else Put(
                ref.namespace,
                ref.key,
                write.value,
                index=write.index,
                embedding=_rows(vectors, list(map(row_of.__getitem__, texts.get(ref, ())))),
                ttl=write.ttl,
            )
        )
    schedule = services.missing_vectors.schedule if row_of and vectors is None else list[Operation]
    batches = [Batch(partition, schedule(parts), epochs.get(partition)) for partition, parts in operations.items()]
    if len(batches) > 1:
        for batch in batches:
            encode_batch(batch)  # one that cannot be kept stops the others, before anything is written
    return batches


def _committed(services: Services, batch: Batch) -> Awaitable[Position]:
    """Commit *batch*; where it changes what is kept about an owner, with the audit entry that tells of it."""
    owned = batch.partition.kind == "owner" and any(map(is_changed, batch.operations))
    owner = owner_in(batch.operations[0].namespace) if owned else None
    if owner is not None:
        return services.audited_writer.commit(owner, batch.operations, by="store", epoch=batch.epoch)
    return services.storage.commit(batch)


def _rows(vectors: Embedding | None, rows: Sequence[int]) -> Embedding | None:
    """Return the vectors of one item: these *rows* of the vectors of all."""
    if vectors is None or not rows:
        return None
    width = vectors.dims * _FLOAT_BYTES
    data = b"".join([vectors.data[row * width : (row + 1) * width] for row in rows])
    return Embedding(vectors.model, vectors.dims, data)


def _fields(index: Mapping[str, Any] | None) -> Any:
    """Return what *index* says is searchable; ``SqliteStore`` has a name of its own for it."""
    fields = index.get("fields") if index else None
    return index.get("text_fields") if index and fields is None else fields


def _touches(read: Sequence[StoredItem]) -> list[Batch]:
    """Return the commits that let what was *read* live its time to live once more; what is gone by then stays gone."""
    touches: dict[Partition, dict[Ref, Operation]] = defaultdict(dict)
    for item in read:
        touches[item.ref.partition][item.ref] = Touch(item.ref.namespace, item.ref.key)
    batches: list[Batch] = []
    for partition, of_partition in touches.items():
        operations = list(of_partition.values())
        batches += [
            Batch(partition, operations[start : start + MAX_BATCH_OPERATIONS])
            for start in range(0, len(operations), MAX_BATCH_OPERATIONS)
        ]
    return batches


def _listing(
    prefix: NamespacePath | None, suffix: NamespacePath | None, max_depth: int | None, limit: int, offset: int
) -> ListNamespacesOp:
    conditions: list[MatchCondition] = []
    if prefix:
        conditions.append(MatchCondition("prefix", labels_of(prefix)))
    if suffix:
        conditions.append(MatchCondition("suffix", labels_of(suffix)))
    return ListNamespacesOp(tuple(conditions), max_depth, limit, offset)


def _item(item: StoredItem) -> Item:
    return Item(
        value=shown_value(item.ref.namespace, item.value),
        key=item.ref.key,
        namespace=item.ref.namespace,
        created_at=item.created_at,
        updated_at=item.updated_at,
    )


def _search_item(found: StoreMatch) -> SearchItem:
    item = found.item
    value = shown_value(item.ref.namespace, item.value)
    return SearchItem(item.ref.namespace, item.ref.key, value, item.created_at, item.updated_at, score=found.score)
