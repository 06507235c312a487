"""The engine for fleets that run procrastinate already: wake-ups are jobs of its, in PostgreSQL.

A job says nothing but that a thread waits, by a digest. It may be lost or repeated: workers look at the turn records
as well, now and then, and a job for a thread that another worker has leased does nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import procrastinate
import psycopg
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException

from threadkeep.errors import ClosedError, StorageError, StorageUnavailableError
from threadkeep.event_loop import start_background

if TYPE_CHECKING:
    from threadkeep.capture.queue import Work
    from threadkeep.observability import Telemetry

QUEUE: Final = "threadkeep"
TASK: Final = "threadkeep.learn"

_LOOK_SECONDS: Final = 5.0
_MOST_TO_TELL: Final = 10_000
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0
_FLUSH_SECONDS: Final = 1.0
_CONNECTIONS: Final = 2
_SCHEMA_LOCK: Final = 0x7468_6B70


class ProcrastinateEngine:
    """Defers a job for each thread that waits; with *workers*, runs them, too.

    Args:
        dsn: Where procrastinate's PostgreSQL is.
        location: The same, for people.
        telemetry: Counts and logs what was survived.
        workers: See :class:`~threadkeep.capture.queue.Engine`.
        debounce: How long after a turn its thread's job is due.
        migrate: Whether procrastinate's tables are made where there are none.
    """

    def __init__(
        self,
        dsn: str,
        *,
        location: str,
        telemetry: Telemetry,
        workers: int,
        debounce: timedelta = timedelta(0),
        migrate: bool = True,
    ) -> None:
        self.name: str = "procrastinate"
        self.workers = workers
        self._location = location
        self._telemetry = telemetry
        self._debounce = debounce
        self._migrate = migrate
        self._dsn = dsn
        self._app = self._new_app()
        self._to_tell: OrderedDict[str, datetime | None] = OrderedDict()
        self._told = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._opening = asyncio.Lock()
        self._open = False

    @property
    def learns_here(self) -> bool:
        """See :class:`threadkeep.capture.queue.Engine`: any worker may get a job."""
        return False

    async def start(self, work: Work) -> None:
        """See :meth:`threadkeep.capture.queue.Engine.start`; it retries while the server is away."""
        if self._tasks:
            return
        self._app = self._new_app()
        self._tasks = [start_background(self._again("capture.wake", self._tell), name="threadkeep-wake")]
        if not self.workers:
            return

        async def learn(key: str) -> None:
            try:
                await work.learn(key)
            except StorageError as error:  # it is found again by looking
                self._telemetry.degraded("capture.worker", error)

        self._app.task(name=TASK, queue=QUEUE)(learn)

        async def look() -> None:
            while True:
                for key in (await work.find()).keys:
                    self.wake(key)
                await asyncio.sleep(_LOOK_SECONDS)

        self._tasks.append(
            start_background(self._again("capture.worker", self._serve), name="threadkeep-procrastinate")
        )
        self._tasks.append(start_background(self._again("capture.worker", look), name="threadkeep-look"))

    def wake(self, key: str, *, at: datetime | None = None) -> None:
        """See :meth:`threadkeep.capture.queue.Engine.wake`; the job is deferred by a task of its own."""
        if len(self._to_tell) < _MOST_TO_TELL:  # what is left out is found by looking
            self._to_tell.setdefault(key, at)
            self._told.set()

    async def stop(self) -> None:
        """See :meth:`threadkeep.capture.queue.Engine.stop`."""
        tasks, self._tasks = self._tasks, []
        with suppress(TimeoutError, ConnectorException, psycopg.Error, StorageError):
            async with asyncio.timeout(_FLUSH_SECONDS):
                while self._to_tell and tasks:
                    await self._tell_one()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._open:
            self._open = False
            await self._app.close_async()

    def _new_app(self) -> procrastinate.App:
        connector = procrastinate.PsycopgConnector(
            conninfo=self._dsn, min_size=0, max_size=self.workers + _CONNECTIONS, timeout=_LOOK_SECONDS
        )
        return procrastinate.App(connector=connector)

    async def _serve(self) -> None:
        await self._opened()
        await self._app.run_worker_async(
            queues=[QUEUE],
            concurrency=self.workers,
            install_signal_handlers=False,
            delete_jobs="always",
            shutdown_graceful_timeout=0.0,
            fetch_job_polling_interval=1.0,
        )

    async def _tell(self) -> None:
        while True:
            while self._to_tell:
                await self._tell_one()
            self._told.clear()
            await self._told.wait()

    async def _tell_one(self) -> None:
        """Defer one job; the same thread's that waits already is enough."""
        await self._opened()
        key, at = next(iter(self._to_tell.items()))
        due: dict[str, Any] = {"schedule_at": at} if at else {}
        if self._debounce and not at:
            due = {"schedule_in": {"seconds": self._debounce.total_seconds()}}
        job = self._app.configure_task(TASK, queue=QUEUE, queueing_lock=key, **due)
        with suppress(AlreadyEnqueued):
            await job.defer_async(key=key)
        self._to_tell.pop(key, None)

    async def _opened(self) -> None:
        async with self._opening:
            if self._open:
                return
            if self._migrate:
                await self._make_tables()
            await self._app.open_async()
            self._open = True

    async def _make_tables(self) -> None:
        """Make procrastinate's tables, once, however many processes begin together."""
        async with (
            await psycopg.AsyncConnection.connect(self._dsn, autocommit=True) as connection,
            connection.transaction(),
        ):
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_SCHEMA_LOCK])
            found = await connection.execute("SELECT to_regclass('procrastinate_jobs')")
            row = await found.fetchone()
            if row is None or row[0] is None:
                await connection.execute(self._app.schema_manager.get_schema())

    async def _again(self, where: str, serve: Callable[[], Any]) -> None:
        """Run *serve* for ever; where the server or the storage is away, after a while again, longer each time."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            began = asyncio.get_running_loop().time()
            try:
                await serve()
            except ClosedError:
                return
            except StorageError as error:
                self._telemetry.degraded(where, error)
            except Exception as error:  # noqa: BLE001 - its worker may end by anything; turns must not wait for ever
                said = f"procrastinate's PostgreSQL at {self._location} failed ({type(error).__name__})."
                self._telemetry.degraded(where, StorageUnavailableError(said))
            if asyncio.get_running_loop().time() - began > _LONGEST_PAUSE_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
