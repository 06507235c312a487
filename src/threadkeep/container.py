"""The composition root: connects the services once, runs their background work, and closes them in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from threadkeep.clock import Clock, SystemClock
from threadkeep.concurrency import AnswerTimeout, Priority, SharedTask, TimeoutBudget, asking, current_priority
from threadkeep.errors import ClosedError, EmbedderUnavailableError, StorageError
from threadkeep.event_loop import CLOSED_AT_EXIT, EventLoopThread, start_background
from threadkeep.identity import Owner
from threadkeep.models.base import EMBEDDER, PairModels, UsesConnections
from threadkeep.observability import (
    DEGRADED,
    MEMORIES,
    RECALL,
    RECALLED,
    TENANT,
    THREAD,
    TOKENS,
    USER,
    Recording,
    Telemetry,
    log,
    span,
)
from threadkeep.recall.models import Recall
from threadkeep.recall.profile.schema import DEFAULT_SLOTS
from threadkeep.registry import (
    create_erasure_receipts,
    create_kinds,
    create_postgres_pool,
    parse_limits,
    parse_memory_rules,
    parse_prices,
)
from threadkeep.services import Health, Services
from threadkeep.settings import Settings
from threadkeep.storage.encryption import refuse_encrypted
from threadkeep.thread_access import ThreadAccess

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from threadkeep.capture.extractors import Extractor
    from threadkeep.capture.service import CaptureService
    from threadkeep.checkpoints.codec import AllowedType
    from threadkeep.memories.kinds import Kinds
    from threadkeep.memories.reflection import Summarizer
    from threadkeep.models.base import Embedder, Reranker
    from threadkeep.recall.profile.schema import ProfileSlot
    from threadkeep.recall.service import RecallRequest
    from threadkeep.storage.encryption.storage import EncryptedStorage
    from threadkeep.storage.interface import Storage
    from threadkeep.storage.postgres.pool import PostgresPool

T = TypeVar("T")

SWEEP_EVERY: Final = timedelta(minutes=10)
NOTICE_EVERY: Final = timedelta(seconds=5)
"""How long another process may use its indexes of an owner who was erased or opted out."""

LOADING_SECONDS: Final = 30.0
"""How long a turn waits for the embedder to be loaded, once; a model that never loads must not stop every turn."""

ASKING: Final = timedelta(seconds=5)
"""How long a turn waits for the first answer of a model that is loaded, or on a server, beside the recall's timeout."""

LOOKING: Final = timedelta(seconds=15)
"""The timeout of ``ready`` for the first answer of a model on a server; as in a turn, the first wait is 0.6 of it."""

SETTLE_SECONDS: Final = 1.0
"""How long closing waits until the last uses of memories are written."""

_SHORTEST_SECONDS: Final = 0.1

PROBED: Final = Owner("threadkeep").partition
"""The partition that a check of a storage reads the position of; it needs not exist."""

DRAIN_SECONDS: Final = 5.0
"""How long closing waits for turns that are being recorded and learnt from; any worker may take the rest at once."""

CLOSE_SECONDS: Final = 8.0
"""How long closing everything after that may take in all; what takes longer is left as a kill would leave it."""

AWAY_SECONDS: Final = 2.0
"""For how long a storage may leave a question unanswered while closing; then it is away, and nothing waits for it."""

CLOSE_AWAY_SECONDS: Final = 1.0
"""How long closing everything may take then."""

_ASK_EVERY_SECONDS: Final = 0.5


@dataclass(eq=False)
class Container:
    """Holds the services of one memory, connects them once and closes them in order. Creating it does no I/O.

    Attributes:
        settings: The settings.
        storage: Keeps the items.
        embedder: Makes vectors; ``None``: search is by words only.
        clock: Returns the time.
        event_loop: The event loop that runs all operations.
        telemetry: Counts events.
        closers: Called before the storage is closed, in reverse order.
        sweep_every: The interval of removing expired rows.
        notice_every: The interval of reading other processes' erasures and opt-outs; so long after the embedder
            answers again, what was written meanwhile is embedded.
        extractor: Extracts memories from turns; ``None``: rules on the user's words.
        reranker: Orders recalled memories once more; ``None``: their order stays.
        pair_models: Read two texts at once; without them words and cosines decide alone.
        allowed_types: Types that checkpoints may keep, besides those of the graphs' states.
        threads_from: A checkpointer from which threads move in at their first use; ``None``: none.
        owner_key: The key of its metadata with the user id.
        profile: The slots of the owners' profiles; ``None``: the default ones.
        kinds: The kinds of memory; ``None``: those of the settings.
        summarizer: Summarizes old episodes; ``None``: their sentences that say most do.
        background: Whether to learn from turns, remove expired rows and read other processes' changes meanwhile.
        embedder_seen: Whether the embedder was ready once; later turns do not wait for it.
    """

    settings: Settings
    storage: Storage
    embedder: Embedder | None
    clock: Clock = field(default_factory=SystemClock)
    event_loop: EventLoopThread = field(default_factory=EventLoopThread)
    telemetry: Telemetry = field(default_factory=Telemetry)
    closers: list[Callable[[], Any]] = field(default_factory=list)
    sweep_every: timedelta = SWEEP_EVERY
    notice_every: timedelta = NOTICE_EVERY
    extractor: Extractor | None = None
    reranker: Reranker | None = None
    pair_models: PairModels = field(default_factory=PairModels)
    allowed_types: Sequence[AllowedType] = ()
    threads_from: BaseCheckpointSaver[Any] | None = None
    owner_key: str = "user_id"
    profile: Sequence[ProfileSlot] | None = None
    kinds: Kinds | None = None
    summarizer: Summarizer | None = None
    _pools: list[PostgresPool] = field(default_factory=list["PostgresPool"])
    background: bool = True
    embedder_seen: bool = False
    _starting: SharedTask[Services] | None = None
    _sweeping: asyncio.Task[None] | None = None
    _noticing: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        settings = self.settings
        kinds = create_kinds(settings) if self.kinds is None else self.kinds
        for parse in (partial(parse_memory_rules, kinds=kinds.names), parse_prices, parse_limits):
            parse(settings)  # an invalid setting fails here, not in a turn
        create_erasure_receipts(settings, self.storage)
        self.threads = ThreadAccess(self)
        self.services = Services(
            settings,
            self.storage,
            embedder=self.embedder,
            extractor=self.extractor,
            reranker=self.reranker,
            pair_models=self.pair_models,
            clock=self.clock,
            telemetry=self.telemetry,
            connect=self.connect,
            event_loop=self.event_loop,
            thread_storage=self.threads.storage,
            thread_messages=self.threads.messages,
            erase_threads=self.threads.erase,
            postgres_pool=self.postgres_pool,
            profile=DEFAULT_SLOTS if self.profile is None else self.profile,
            kinds=kinds,
            summarizer=self.summarizer,
        )
        if self.background:  # imported now, so that the first turn does not wait for it
            _ = self.services.recalls
        if self.capturing and self.background:
            _ = self.services.captures
        models = (self.extractor, self.reranker, self.summarizer)
        self.closers += [one.aclose for one in models if isinstance(one, UsesConnections)]
        CLOSED_AT_EXIT.add(self)

    @property
    def sealed(self) -> EncryptedStorage | None:
        """The storage if it is encrypted, else None."""
        if not self.settings.sealed:
            return None
        from threadkeep.storage.encryption.storage import EncryptedStorage

        return self.storage if isinstance(self.storage, EncryptedStorage) else None

    @property
    def backend(self) -> Storage:
        """The storage without its encryption."""
        return self.storage if self.sealed is None else self.sealed.inner

    @property
    def capturing(self) -> bool:
        """Whether turns are learnt from."""
        return self.settings.capture != "off"

    async def ready(self) -> Health:
        """Connect the storage, and the checkpointer if it is in use or named by a setting, and load the embedder.

        Raises:
            StorageError: One of them cannot be used; the message says why.
        """
        await self.event_loop.run(self.ask(self.storage))
        in_use = self.settings.checkpoint_type is not None or "checkpointer" in vars(self.threads)
        if in_use and self.threads.checkpointer is not None:  # otherwise the application may have its own
            await self.threads.checkpointer.connect()
            if self.threads.storage is not self.storage:
                await self.event_loop.run(self.ask(self.threads.storage))
        embedder = self.embedder
        asked = embedder is not None and embedder.remote  # one in this process may load as long as it takes
        degraded = await self.event_loop.run(self.warm(self.loading_budget if asked else None, timeout=LOOKING))
        return Health(
            f"{self.storage.name} {self.storage.location}",
            embedder.name if embedder and not degraded else None,
            bool(embedder and embedder.remote),
            degraded,
        )

    async def ask(self, storage: Storage) -> None:
        """Connect *storage*, of the memories or of the threads, and read from it: connected once may be long ago.

        Runs in the event loop.

        Raises:
            StorageError: It cannot be used; the message says why.
        """
        await (self.connect() if storage is self.storage else storage.connect())
        await storage.position(PROBED)

    def postgres_pool(self, dsn: str, *, variable: str) -> PostgresPool:
        """Return the connection pool of *dsn*: the storage's if it uses the same database, else one of its own.

        The pool is opened at its first use, and closed after the checkpointers.

        Args:
            dsn: The URL of the database.
            variable: The setting that holds it.

        Raises:
            SettingsError: It is not a PostgreSQL URL, or the driver is missing.
        """
        shared = [getattr(self.backend, "pool", None), *self._pools]
        for pool in shared:
            if pool is not None and pool.leads_to(dsn):
                return pool
        pool = create_postgres_pool(dsn, self.settings, variable=variable)
        self._pools.append(pool)
        self.closers.insert(0, pool.close)
        return pool

    @cached_property
    def timeout_budget(self) -> TimeoutBudget:
        """The timeout budget of a turn's storage calls."""
        return TimeoutBudget(self.settings.recall_timeout)

    @cached_property
    def loading_budget(self) -> TimeoutBudget:
        """The timeout budget of a turn for loading the embedder; the load itself goes on."""
        return TimeoutBudget(timedelta(seconds=LOADING_SECONDS))

    async def connect(self) -> Services:
        """Return the services, connected; concurrent first calls connect once.

        A call that failed leaves the next one to try again. Runs in the event loop.
        """
        if self.services.is_connected:
            return self.services
        if self._starting is None or self._starting.task.done():
            self._starting = SharedTask(self._start())
        return await self._starting.wait()

    @property
    def connected(self) -> Services | None:
        """The services if they are connected, else None."""
        return self.services if self.services.is_connected else None

    async def is_off(self, owner: Owner, thread_id: str | None) -> bool:
        """Return whether the owner opted out, at all or in this thread. No I/O once connected; runs in the event loop.

        If the connection fails, nothing can be remembered anyway, and the next operation raises the error.
        """
        try:
            services = self.connected or await self.timeout_budget.wait(self.connect())
        except (StorageError, TimeoutError):  # the next operation raises it
            return False
        return services.opt_outs.holds(owner, thread_id)

    async def warm(self, budget: TimeoutBudget | None = None, *, timeout: timedelta | None = None) -> tuple[str, ...]:
        """Load the embedder; return the missing parts. Runs in the event loop.

        Args:
            budget: Limits how long it is waited for; ``None``: until it is loaded.
            timeout: Replaces the timeout of *budget*.
        """
        if self.embedder is None:
            return (EMBEDDER,)
        loaded = _counted(self.embedder.ready())
        try:
            await (budget.wait(loaded, timeout=timeout) if budget else loaded)
        except (EmbedderUnavailableError, TimeoutError) as error:
            self.telemetry.degraded(EMBEDDER, error)
            return (EMBEDDER,)
        self.embedder_seen = True
        return ()

    async def call(self, work: Callable[[Services], Coroutine[Any, Any, T]]) -> T:
        """Run *work* with the connected services in Threadkeep's event loop; callable from any loop."""

        async def run() -> T:
            return await work(await self.connect())

        return await self.event_loop.run(run())

    def try_services(self) -> Services | None:
        """Return the services if they are connected, else None; from any thread.

        Raises:
            ClosedError: This was closed, or belongs to the process that this one was forked from.
        """
        self.event_loop.require_open()
        return self.connected

    def try_recall(self, request: RecallRequest) -> Recall | None:
        """Return what :meth:`recall` would, on any thread and without I/O; ``None``: that is needed.

        Raises:
            ClosedError: This was closed, or belongs to the process that this one was forked from.
        """
        services, began, at = self.try_services(), SystemClock().now(), time.monotonic()
        if services is None:
            return None
        off = services.opt_outs.holds(request.owner, request.thread_id)
        recall = Recall() if off else services.recalls.try_run(request)
        if recall is not None:
            with span(RECALL, _about(request), began=began) as recorded:
                self._record(recall, recorded, since=at)
        return recall

    async def recall(self, request: RecallRequest) -> Recall:
        """Recall in the event loop; ``degraded`` names what fails or takes too long.

        Loading the embedder does not count as time.
        """
        at = time.monotonic()
        with span(RECALL, _about(request)) as recorded:
            recall = await self._recall(request)
            self._record(recall, recorded, since=at)
        return recall

    async def _recall(self, request: RecallRequest) -> Recall:
        try:
            services = self.connected or await self.timeout_budget.wait(self.connect(), timeout=request.timeout)
        except (StorageError, TimeoutError) as error:
            self.telemetry.degraded("recall", error)
            return Recall(degraded=("storage",))
        if services.opt_outs.holds(request.owner, request.thread_id):
            return Recall()
        if not self.embedder_seen:
            remote = self.embedder is not None and self.embedder.remote
            await self.warm(self.loading_budget, timeout=ASKING if remote else None)
        if services.recalls.needs_loading(request):
            with suppress(TimeoutError):  # it goes on, and this turn has no profile
                await self.loading_budget.wait(_counted(services.recalls.load()), timeout=ASKING)
        with self.timeout_budget.for_recall(request.timeout) as (request.timeout, request.limit):
            return await services.recalls.run(request)

    def _record(self, recall: Recall, recorded: Recording, *, since: float) -> None:
        self.telemetry.measure("recall.seconds", time.monotonic() - since)
        recorded.set(
            {
                MEMORIES: len(recall.memories),
                TOKENS: recall.tokens,
                DEGRADED: list(recall.degraded) or None,
                RECALLED: recall.text if self.settings.trace_content else None,
            }
        )

    async def aclose(self) -> None:
        """Drain capture, close the checkpointers and the storage, and stop the event loop."""
        if self.event_loop.running:
            await self.event_loop.run(self._stop())
        await asyncio.to_thread(self.event_loop.close)
        CLOSED_AT_EXIT.discard(self)

    def close(self) -> None:
        """Do what :meth:`aclose` does, blocking."""
        if self.event_loop.running:
            self.event_loop.run_sync(self._stop())
        self.event_loop.close()
        CLOSED_AT_EXIT.discard(self)

    async def _start(self) -> Services:
        await self.storage.connect()
        if self.sealed is None:
            await refuse_encrypted(self.storage)
        await self.services.opt_outs.notice()
        if self.background:
            await self._start_background()
        self.services.is_connected = True
        if self.background:
            await self._finish_erasures()
        return self.services

    async def _finish_erasures(self) -> None:
        """Finish the erasings that were interrupted."""
        try:
            owners = await self.threads.unfinished_erasures()
            for owner in owners:
                await self.services.erasure.erase(owner)
        except StorageError as error:  # the next start does it
            self.telemetry.degraded("owners.erase", error)

    async def _start_background(self) -> None:
        try:
            await self.services.retention.start()
        except StorageError as error:  # reading may still work
            self.telemetry.degraded("memories.tidying", error)
        if self.capturing:
            await self.services.captures.start()
        self._sweeping = start_background(self._sweep(), name="threadkeep-sweep")
        self._noticing = start_background(self._notice(), name="threadkeep-notice")

    async def _notice(self) -> None:
        """Read erasures and opt-outs of other processes, apart from any turn."""
        while True:
            await asyncio.sleep(self.notice_every.total_seconds())
            try:
                await self.services.erasure.notice()
                await self.services.opt_outs.notice()
            except StorageError as error:
                self.telemetry.degraded("owners.notice", error)

    async def _sweep(self) -> None:
        """Remove expired rows, expire proposals, archive memories and embed what lacks vectors, at intervals.

        Reads hide expired rows at once. Vectors are also made soon after the embedder answers again.
        """

        async def swept() -> None:
            self.telemetry.count("storage.swept", await self.storage.sweep(now=self.clock.now()))

        services = self.services

        async def expired() -> None:
            if self.settings.checkpoint_ttl is not None and self.threads.checkpointer is not None:
                self.telemetry.count(
                    "threads.expired",
                    await self.threads.checkpointer.run(self.threads.checkpointer.maintenance.expire()),
                )

        rounds = {
            "threads.expire": expired,
            "proposals.lapse": services.proposal_repository.lapse,
            "memories.tidying": services.retention.round,
            "memories.reflect": services.reflection.round,
            "storage.sweep": swept,
            "vectors.restore": services.missing_vectors.round,
        }

        async def run(*names: str) -> None:
            for name in names:
                try:
                    await rounds[name]()
                except StorageError as error:
                    self.telemetry.degraded(name, error)

        while True:
            await run(*rounds)
            next_at = time.monotonic() + self.sweep_every.total_seconds()
            while await self._embedder_recovers(until=next_at):
                await run("vectors.restore")

    async def _embedder_recovers(self, *, until: float) -> bool:
        """Wait until the embedder answers after it failed, or until that monotonic time; return whether it does."""
        recovered = self.services.missing_vectors.recovered
        with suppress(TimeoutError):
            async with asyncio.timeout(max(_SHORTEST_SECONDS, until - time.monotonic())):
                await recovered.wait()
                await asyncio.sleep(self.notice_every.total_seconds())  # it may fail every other time
        if not recovered.is_set() or time.monotonic() >= until:
            return False
        recovered.clear()
        return True

    async def _stop(self) -> None:
        loop = asyncio.get_running_loop()
        background = [task for task in (self._sweeping, self._noticing) if task is not None]
        for task in background:
            task.cancel()
        if background:
            await asyncio.wait(background, timeout=SETTLE_SECONDS)
        starting = None if self._starting is None else self._starting.task
        started = starting is not None and starting.done() and starting.exception() is None
        captures = self.services.captures if started and self.capturing and self.background else None
        self.telemetry.closing = True
        drained, asked = loop.create_task(self._drain(captures)), loop.create_task(self._until_away(starting))
        ends = DRAIN_SECONDS + SETTLE_SECONDS
        await asyncio.wait({drained, asked}, timeout=ends, return_when=asyncio.FIRST_COMPLETED)
        away = not asked.cancel()
        left = _TOO_LONG if drained.cancel() else drained.result()
        steps: list[Callable[[], Any]] = [] if captures is None else [captures.stop]
        services = vars(self.services)
        if started and "retention" in services:
            steps.append(self.services.retention.settle)
        if "search" in services:
            steps.append(self.services.search.close)
        steps += [*reversed(self.closers), self.storage.close]
        await self._end_steps(steps, CLOSE_AWAY_SECONDS if away else CLOSE_SECONDS)
        if left is not None:
            reason = asked.result() if away else left
            log.warning("What was recorded and not learnt from yet is left for the next start: %s", reason)

    async def _drain(self, captures: CaptureService | None) -> str | None:
        """Let the work end that no turn waits for, and learn from recorded turns; return why some are left."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self.timeout_budget.settle(timedelta(seconds=DRAIN_SECONDS))
                if captures is not None and captures.works:
                    await captures.learn_all()
        except TimeoutError:
            return _TOO_LONG
        except StorageError as error:
            return str(error)
        return None

    async def _until_away(self, starting: asyncio.Task[Services] | None) -> str:
        """Wait until the storage of the memories or of the threads leaves a question unanswered; return how."""
        current_priority.set(Priority.CHECKPOINT)
        if starting is not None and not (await asyncio.wait({starting}, timeout=AWAY_SECONDS))[0]:
            return _silent(self.storage)
        while True:
            for storage in {self.storage, vars(self.threads).get("storage", self.storage)}:
                try:
                    with suppress(ClosedError):  # it is not connected
                        async with AnswerTimeout(AWAY_SECONDS):
                            await storage.position(PROBED)
                except TimeoutError:
                    return _silent(storage)
                except StorageError as error:
                    return str(error)
            await asyncio.sleep(_ASK_EVERY_SECONDS)

    async def _end_steps(self, steps: Sequence[Callable[[], Any]], seconds: float) -> None:
        """Run steps of closing, in *seconds* at most; one that fails, or takes more than half of them, is left."""
        loop = asyncio.get_running_loop()
        until, most = loop.time() + seconds, seconds / min(2, len(steps))
        for step in steps:
            task = asyncio.ensure_future(step())
            await asyncio.wait({task}, timeout=max(_SHORTEST_SECONDS, min(most, until - loop.time())))
            if task.cancel():
                self.telemetry.degraded("storage.close", TimeoutError())
                await asyncio.wait({task}, timeout=_SHORTEST_SECONDS)
            elif (error := task.exception()) is not None:
                if not isinstance(error, StorageError):
                    raise error
                self.telemetry.degraded("storage.close", error)


_TOO_LONG: Final = f"learning took more than {DRAIN_SECONDS:g} seconds."


def _silent(storage: Storage) -> str:
    return f"{storage.location} did not answer within {AWAY_SECONDS:g} seconds."


async def _counted(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of *work*; all of its time is that of a model, and timeouts count it."""
    with asking():
        return await work


def _about(request: RecallRequest) -> dict[str, str | None]:
    return {USER: request.owner.user_id, TENANT: request.owner.tenant or None, THREAD: request.thread_id}
