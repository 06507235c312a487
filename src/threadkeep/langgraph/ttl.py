"""What LangGraph's stores on databases have beside ``BaseStore``: setting up, and sweeping what has expired."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadkeep.event_loop import EventLoopThread
    from threadkeep.services import Services


class Told(int):
    """A number, and what awaiting it gives: ``PostgresStore`` returns it, ``AsyncPostgresStore`` is awaited."""

    def __await__(self) -> Generator[Any, None, int]:
        return int(self)
        yield  # makes it a generator


class Sweeping:
    """The methods of ``SqliteStore`` and ``PostgresStore`` that programs call after opening one, awaited or not.

    None of them needs to be called: a Threadkeep connects when it is first used, shows nothing that has
    expired, and removes it physically by itself. They block until they are done, also in a running loop.
    """

    _home: EventLoopThread
    _connect: Callable[[], Coroutine[Any, Any, Services]]

    def setup(self) -> Told:
        """Connect, and make what is missing in the database."""
        self._home.run_sync(self._connect())
        return Told()

    def sweep_ttl(self) -> Told:
        """Remove physically what has expired, everybody's, and return how many items that were."""

        async def swept() -> int:
            services = await self._connect()
            return await services.storage.sweep(now=services.clock.now())

        return Told(self._home.run_sync(swept()))

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Told:
        """Do nothing, whatever *sweep_interval_minutes* says: Threadkeep sweeps by itself."""
        del sweep_interval_minutes
        return Told()

    def stop_ttl_sweeper(self, timeout: float | None = None) -> Told:
        """Do nothing, and say that it is done: the sweeping ends with the Threadkeep, whatever *timeout* says."""
        del timeout
        return Told(1)
