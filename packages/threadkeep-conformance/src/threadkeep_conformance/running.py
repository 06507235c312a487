"""Run the checks on one store, and keep what came out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from threadkeep.ids import new_id
from threadkeep_conformance.catalogue import CHECKS
from threadkeep_conformance.check import Check, CheckFailedError
from threadkeep_conformance.world import OpenStore, Options, Place, Sleep, UnsupportedError, World

if TYPE_CHECKING:
    from langgraph.store.base import BaseStore

CHECK_SECONDS: Final = 30.0
"""How long a check may take; a large one may take ten times as long."""

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Result:
    """What came out of one check; *reason* says why it did not pass."""

    check: Check
    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What came out of all checks of one store."""

    name: str
    results: tuple[Result, ...] = field(default=())

    def of(self, outcome: Outcome) -> dict[str, str]:
        """Return the ids of the checks that came out so, and why."""
        return {result.check.id: result.reason for result in self.results if result.outcome == outcome}


async def run_store(
    name: str,
    place: Place,
    *,
    checks: Sequence[Check] = CHECKS,
    pass_time: Sleep = asyncio.sleep,
    progress: Callable[[int, int], object] = lambda _done, _all: None,
) -> Report:
    """Run *checks* on the store that *place* gives.

    Stores are opened once for each configuration and shared by its checks, each of which works
    below a root label of its own. Checks that wait run side by side, after the others.

    Args:
        name: What the report is called.
        place: Gives empty places; see :class:`~threadkeep_conformance.world.OpenStore`.
        checks: Which.
        pass_time: Lets seconds pass; a store with a clock of its own moves that, and then no check
            runs beside another.
        progress: Told how many are done, and of how many.
    """
    results: dict[str, Result] = {}

    def done(result: Result) -> None:
        results[result.check.id] = result
        progress(len(results), len(checks))

    async with AsyncExitStack() as stack:
        try:
            open_store = await stack.enter_async_context(place())
        except UnsupportedError as error:
            return Report(name, tuple(Result(check, "skipped", str(error)) for check in checks))
        stores = _Stores(stack, open_store)
        waiting: list[Check] = []
        for check in checks:
            if check.waits:
                waiting.append(check)
            else:
                done(await _run(check, stores, place, pass_time))
        for check in waiting:
            await stores.opened(check.options)
        if pass_time is asyncio.sleep:
            for result in await asyncio.gather(*(_run(check, stores, place, pass_time) for check in waiting)):
                done(result)
        else:
            for check in waiting:
                done(await _run(check, stores, place, pass_time))
    return Report(name, tuple(results[check.id] for check in checks))


class _Stores:
    """The stores of one place, opened when they are first asked for; one that cannot be opened stays so."""

    def __init__(self, stack: AsyncExitStack, open_store: OpenStore) -> None:
        self.open_store = open_store
        self._stack = stack
        self._opened: dict[Options, BaseStore | str] = {}

    async def opened(self, options: Options) -> BaseStore | str:
        """Return the store, or why there is none."""
        if options not in self._opened:
            self._opened[options] = await self._open(options)
        return self._opened[options]

    async def _open(self, options: Options) -> BaseStore | str:
        try:
            store = await self._stack.enter_async_context(self.open_store(index=options.index(), ttl=options.ttl()))
        except UnsupportedError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - the report says it
            return f"it cannot be opened: {_told(error)}"
        if options.expires and not store.supports_ttl:
            return "the store says that it has no expiry (supports_ttl)"
        return store


async def _run(check: Check, stores: _Stores, place: Place, pass_time: Sleep) -> Result:
    store = await stores.opened(check.options)
    if isinstance(store, str):
        return Result(check, "skipped", store)
    world = World(store, f"check{new_id()}", stores.open_store, place, pass_time)
    try:
        async with asyncio.timeout(CHECK_SECONDS * (10 if check.large else 1)):
            await check.body(world)
    except UnsupportedError as error:
        return Result(check, "skipped", str(error))
    except CheckFailedError as error:
        return Result(check, "failed", str(error))
    except Exception as error:  # noqa: BLE001 - a store may raise anything; the report says it
        return Result(check, "failed", _told(error))
    return Result(check, "passed")


def _told(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
