"""Probes: whether each part of a memory answers, and how fast."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from threadkeep.concurrency import answer_timeout
from threadkeep.container import PROBED
from threadkeep.errors import StorageUnavailableError, ThreadkeepError
from threadkeep.observability import log

if TYPE_CHECKING:
    from threadkeep.container import Container
    from threadkeep.services import Services

PROBE_SECONDS: Final = 1.5
"""How long a part may take to answer; one that has stalled is reported after this time."""

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
    probes = [_probe("storage", app.storage.name, lambda: app.call(_positions(app.storage)))]
    if app.checkpointer is not None and app.thread_storage is not app.storage:
        threads = app.thread_storage
        probes.append(_probe("threads", threads.name, lambda: app.call(_positions(threads))))
    if (embedder := app.embedder) is not None:
        probes.append(_probe("embedder", embedder.name, lambda: app.event_loop.run(embedder.embed(["probe"]))))
    if app.settings.vectors != "exact":
        probes.append(_probe("vectors", app.settings.vectors, lambda: app.call(_ask_vectors)))
    return await asyncio.gather(*probes)


async def threads_answer(app: Container) -> bool:
    """Return whether the storage of the threads answers, be it with an error.

    Time in which this process is too busy to ask does not count: overload is no outage.
    """

    async def ask(services: Services) -> None:
        async with answer_timeout(PROBE_SECONDS):
            await _positions(app.thread_storage)(services)

    try:
        await app.call(ask)
    except (TimeoutError, StorageUnavailableError):
        return False
    except ThreadkeepError as error:
        log.warning("The storage of the threads was probed: %s", error)
    return True


class _HasPosition(Protocol):
    async def connect(self) -> None: ...

    async def position(self, partition: Any, /) -> Any: ...


def _positions(storage: _HasPosition) -> Callable[[Services], Any]:
    async def ask(_: Services) -> None:
        await storage.connect()
        await storage.position(PROBED)

    return ask


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
