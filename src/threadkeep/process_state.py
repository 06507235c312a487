"""What an operator watches of this process, and probes of whether each part of a memory answers, and how fast.

Of a process: times, counters, indexes, connections, the queue and the event loops. Of each part: whether it receives
text of users, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from threadkeep.concurrency import AnswerTimeout, Priority, current_priority
from threadkeep.container import PROBED
from threadkeep.errors import StorageError, StorageUnavailableError, ThreadkeepError
from threadkeep.observability import log
from threadkeep.proposals.models import DUE as PROPOSAL_DUE

if TYPE_CHECKING:
    from threadkeep.container import Container
    from threadkeep.observability import Measured
    from threadkeep.services import Services

QUEUE_SECONDS: Final = 15.0
"""How often the queue is counted, by processes that learn from it."""

_FAR: Final = timedelta(days=36_500)
_MOST_PROPOSALS: Final = 10_000
_BEAT_SECONDS: Final = 0.5
_KEPT_BEATS: Final = 60


class LoopLag:
    """Measures how late an event loop runs what is due; the longest delay of the last 30 seconds counts."""

    def __init__(self) -> None:
        self._late: list[float] = []

    @property
    def seconds(self) -> float:
        """The longest delay."""
        return max(self._late, default=0.0)

    async def run(self) -> None:
        """Measure the running event loop until cancelled."""
        while True:
            due = time.monotonic() + _BEAT_SECONDS
            await asyncio.sleep(_BEAT_SECONDS)
            self._late = [*self._late[1 - _KEPT_BEATS :], max(0.0, time.monotonic() - due)]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Measure the running event loop during the block."""
        task = asyncio.create_task(self.run(), name="threadkeep-loop-lag")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@dataclass(frozen=True, slots=True)
class QueueState:
    """The queue of recorded turns of all owners; 10,000 of each are counted at most.

    Attributes:
        waiting: Turns that wait for a worker.
        running: Turns that a worker has now.
        dead: Turns that failed too often.
        oldest_seconds: How long the oldest one that is not dead has been there.
        open_proposals: Proposals that wait for a decision.
    """

    waiting: int = 0
    running: int = 0
    dead: int = 0
    oldest_seconds: float = 0.0
    open_proposals: int = 0


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A moment of a process.

    Attributes:
        counts: The counters of :class:`threadkeep.observability.Telemetry`.
        measured: Its durations.
        index_bytes: RAM of all indexes.
        index_limit_bytes: From where on the longest unused are dropped.
        connections: Connections of the memories' pool: its size; 0: there is no pool.
        connections_in_use: Those in use.
        calls_waiting: Storage calls that wait in this process.
        waited_seconds: How long calls have waited in this process, all together.
        loop_lag_seconds: See :class:`LoopLag`, of Threadkeep's own event loop.
        queue: The queue when it was last counted; ``None``: this process does not learn.
    """

    counts: dict[str, int]
    measured: dict[str, Measured]
    index_bytes: int
    index_limit_bytes: int
    connections: int
    connections_in_use: int
    calls_waiting: int
    waited_seconds: float
    loop_lag_seconds: float
    queue: QueueState | None


PROBE_SECONDS: Final = 1.0
"""How long a part may take to answer."""

PROBE_EVERY_SECONDS: Final = 0.5
"""The pause between two probes of a storage: one that stalls is reported after 1.5 seconds."""

EMBEDDER_EVERY_SECONDS: Final = 5.0


class StorageProbe:
    """Asks a storage again and again whether it answers, so that no request waits for it. Belongs to an event loop.

    Args:
        ask: Reads from the storage.
        clock: Returns the time in seconds.

    Attributes:
        answered: Set once the first question has an answer, or none in time.
        stalled: Whether the last question had no answer, or the last two could not be asked: one connection that broke
            is no outage. Neither is overload: time in which this process is too busy to ask does not count.
    """

    def __init__(self, ask: Callable[[], Awaitable[object]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._asked_at: float | None = None
        self._error: str | None = StorageUnavailableError.code
        self.answered = asyncio.Event()
        self.stalled = False

    @property
    def error(self) -> str | None:
        """The code of the error of the last answer, or of a question that waits for too long; ``None``: it answers."""
        asked_at = self._asked_at
        if asked_at is not None and self._clock() - asked_at >= PROBE_SECONDS:
            return StorageUnavailableError.code
        return self._error

    async def run(self) -> None:
        """Ask until cancelled."""
        current_priority.set(Priority.CHECKPOINT)  # a question that waits behind turns says nothing of the storage
        while True:
            await self.probe()
            await asyncio.sleep(PROBE_EVERY_SECONDS)

    async def probe(self) -> None:
        """Ask once."""
        self._asked_at = self._clock()
        error: str | None = None
        silent, unavailable = False, StorageUnavailableError.code
        try:
            async with AnswerTimeout(PROBE_SECONDS):
                await self._ask()
        except TimeoutError:
            silent, error = True, unavailable
        except ThreadkeepError as failure:
            error = failure.code
        stalled = silent or error == self._error == unavailable
        self._asked_at, self._error = None, error
        if stalled and not self.stalled:
            log.warning("A storage does not answer: turns that need it are refused until it does.")
        self.stalled = stalled
        self.answered.set()


@dataclass(eq=False)
class ProcessMonitor:
    """Watches one memory of this process.

    Args:
        app: The memory's container.

    Attributes:
        storage: Tells whether the storage of the memories answers.
        threads: Tells whether the one of the threads does, which may be the same.
        degraded: What works less well, such as ``embedder``; ``None``: it is not known yet.
    """

    app: Container
    degraded: tuple[str, ...] | None = field(default=None, init=False)
    _lag: LoopLag = field(default_factory=LoopLag)
    _queue: QueueState | None = None

    def __post_init__(self) -> None:
        app = self.app
        self.storage = self.threads = StorageProbe(lambda: app.ask(app.storage))
        if app.threads.checkpointer is not None and app.threads.storage is not app.storage:
            self.threads = StorageProbe(lambda: app.ask(app.threads.storage))

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Watch during the block, which begins once the storages were asked."""
        probes = {self.storage, self.threads}
        works = (self._lag.run, self._count, self._keep_embedder, *(probe.run for probe in probes))
        tasks = [asyncio.create_task(self.app.event_loop.run(work())) for work in works]
        await asyncio.gather(*(self.app.event_loop.run(_until(probe.answered)) for probe in probes))
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def state(self) -> ProcessState:
        """Return the state now. No I/O; callable from any thread."""
        app = self.app
        services = app.connected
        stats = None if services is None else services.search.stats()
        gate, pool = app.backend.gate, getattr(app.backend, "pool", None)
        return ProcessState(
            counts=app.telemetry.counts(),
            measured=app.telemetry.measured(),
            index_bytes=stats.nbytes if stats else 0,
            index_limit_bytes=stats.max_bytes if stats else 0,
            connections=pool.size if pool else 0,
            connections_in_use=pool.in_use if pool else 0,
            calls_waiting=gate.waiting if gate else 0,
            waited_seconds=gate.waited_seconds if gate else 0.0,
            loop_lag_seconds=self._lag.seconds,
            queue=self._queue,
        )

    @property
    def error(self) -> str | None:
        """The code of why the memories or the threads cannot be used; ``None``: they can."""
        return self.storage.error or self.threads.error

    async def _keep_embedder(self) -> None:
        """Load the embedder, and look again whether it works."""
        while True:
            self.degraded = await self.app.warm(self.app.loading_budget)
            await asyncio.sleep(EMBEDDER_EVERY_SECONDS)

    async def _count(self) -> None:
        while True:
            services = self.app.connected
            if services is None:
                await asyncio.sleep(_BEAT_SECONDS)
                continue
            if self.app.capturing and services.captures.works:
                try:
                    self._queue = await self._read_queue(services)
                except StorageError as error:
                    self.app.telemetry.degraded("capture.count", error)
            await asyncio.sleep(QUEUE_SECONDS)

    async def _read_queue(self, services: Services) -> QueueState:
        stats = await services.captures.stats()
        far = self.app.clock.now() + _FAR
        proposals = await self.app.storage.due(PROPOSAL_DUE, now=far, limit=_MOST_PROPOSALS)
        oldest = 0.0 if stats.oldest_at is None else (self.app.clock.now() - stats.oldest_at).total_seconds()
        return QueueState(stats.pending - stats.running, stats.running, stats.failed, max(0.0, oldest), len(proposals))


async def _until(answered: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(PROBE_SECONDS):
            await answered.wait()


TIMED_OUT: Final = "timed_out"


@dataclass(frozen=True, slots=True)
class Probe:
    """How a part answered.

    Attributes:
        part: ``storage``, ``threads``, ``embedder`` or ``vectors``.
        name: Which one, such as ``postgres``; no address.
        error: The code of the error; ``None``: it answered.
        milliseconds: How long the answer took.
    """

    part: str
    name: str
    error: str | None
    milliseconds: float


async def probe_parts(app: Container) -> list[Probe]:
    """Ask every part of a memory at once; it takes :data:`PROBE_SECONDS` at most."""
    probes = [_probe("storage", app.storage.name, lambda: app.event_loop.run(app.ask(app.storage)))]
    if app.threads.checkpointer is not None and app.threads.storage is not app.storage:
        threads = app.threads.storage
        probes.append(_probe("threads", threads.name, lambda: app.event_loop.run(app.ask(threads))))
    if (embedder := app.embedder) is not None:
        probes.append(_probe("embedder", embedder.name, lambda: app.event_loop.run(embedder.embed(["probe"]))))
    if app.settings.vectors != "exact":
        probes.append(_probe("vectors", app.settings.vectors, lambda: app.call(_ask_vectors)))
    return await asyncio.gather(*probes)


async def _ask_vectors(services: Services) -> None:
    """Ask the vector engine about a partition that it need not have."""
    if (engine := services.search.engine) is not None:
        await engine.connect()
        await engine.holds(PROBED)


async def _probe(part: str, name: str, ask: Callable[[], Awaitable[object]]) -> Probe:
    started, error = time.perf_counter(), None
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            await ask()
    except ThreadkeepError as failure:
        error = failure.code
    except TimeoutError:
        error = TIMED_OUT
    return Probe(part, name, error, (time.perf_counter() - started) * 1_000)


def list_data_flows(app: Container, *, addresses: bool = True) -> list[dict[str, str]]:
    """Return who receives text (``to``), which (``gets``), and whether that leaves this machine (``leaves_machine``).

    Args:
        app: What the settings built.
        addresses: Whether ``to`` names addresses of servers and paths of files, too; users of a server need not know.
    """

    def at(name: str, address: str | None) -> str:
        return f"{name} {address}" if addresses else name

    settings, embedder = app.settings, app.embedder
    rows: list[dict[str, str]] = [
        {
            "to": f"chat model {settings.model or '(offline stand-in)'}",
            "gets": "messages and recalled memories of each turn",
            "leaves_machine": "depends on the provider" if settings.model else "no",
        },
        {
            "to": f"embedder {embedder.name if embedder else '(none)'}",
            "gets": "questions and memories" if embedder else "nothing",
            "leaves_machine": "yes" if embedder and embedder.remote else "no",
        },
        {
            "to": "LangSmith",
            "gets": "prompts and replies of each turn, recalled memories included" if settings.traced else "nothing",
            "leaves_machine": "yes" if settings.traced else "no",
        },
        {
            "to": at(f"storage {app.storage.name}", app.storage.location),
            "gets": "memories, and turns until they are learnt from",
            "leaves_machine": "no" if app.storage.name in ("memory", "sqlite") else "where its server is elsewhere",
        },
    ]
    if settings.enable_fact_extraction and settings.capture != "off":
        rows.append(
            {
                "to": f"extraction model {settings.fact_extraction_model or settings.model}",
                "gets": "each turn, redacted, memories that may be about the same, and old episodes to summarize",
                "leaves_machine": "depends on the provider",
            }
        )
    if (reranker := app.reranker) is not None:
        rows.append(
            {
                "to": f"reranker {reranker.name}",
                "gets": "questions, and the memories that were found for them",
                "leaves_machine": "yes" if reranker.remote else "no",
            }
        )
    if settings.trace_content:
        rows.append(
            {
                "to": "OpenTelemetry, where the application exports its spans to",
                "gets": "recalled memories",
                "leaves_machine": "depends on the exporter",
            }
        )
    if settings.vectors == "pinecone":
        rows.append(
            {
                "to": at(f"vectors {settings.vectors}", settings.pinecone_host),
                "gets": "vectors of large owners, keys and namespaces without the owner's id; no text",
                "leaves_machine": "yes",
            }
        )
    saver = app.threads.checkpointer
    if saver is not None:
        rows.append(
            {
                "to": at(f"threads {saver.storage.name}", saver.storage.location),
                "gets": "whole conversations, encrypted" if app.settings.checkpoint_key else "whole conversations",
                "leaves_machine": "no" if saver.storage.name in ("memory", "sqlite") else "depends on the server",
            }
        )
    return rows
