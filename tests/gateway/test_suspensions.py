"""Suspensions of owners where the storage is slow."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from threadkeep.concurrency import TimeoutBudget, asking
from threadkeep.gateway.auth.suspensions import Suspensions
from threadkeep.identity import Owner
from threadkeep.testing import FrozenClock

ANA = Owner("ana")
MOMENT = timedelta(milliseconds=1)


class StalledStore(InMemoryStore):
    """A store that answers no read before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()
        self.asked = 0

    async def aget(self, *args: Any, **options: Any) -> Any:
        self.asked += 1
        with asking():
            await self.answers.wait()
        return await super().aget(*args, **options)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadkeep.gateway.auth.suspensions.CACHE_SECONDS", 0.0)
    monkeypatch.setattr("threadkeep.gateway.auth.suspensions.READ_TIMEOUT", MOMENT)


def suspensions_of(store: StalledStore) -> Suspensions:
    return Suspensions(store, FrozenClock(datetime(2026, 1, 5, tzinfo=UTC)), TimeoutBudget(MOMENT))


async def until_suspended(suspensions: Suspensions) -> None:
    async with asyncio.timeout(30):
        while not await suspensions.is_suspended(ANA):
            await asyncio.sleep(0.01)


async def test_a_request_goes_on_while_changes_cannot_be_read():
    """The last answer holds; the change counts as soon as it is read, however long that took."""
    store = StalledStore()
    here, elsewhere = suspensions_of(store), suspensions_of(store)
    store.answers.set()
    assert not await here.is_suspended(ANA)
    await elsewhere.suspend(ANA, by="root", reason="Left the company.")

    store.answers.clear()
    assert not await here.is_suspended(ANA)
    store.answers.set()
    await until_suspended(here)


async def test_an_owner_of_whom_nothing_is_known_is_refused_once_it_is():
    """What a request did not wait for is read all the same, and counts for the next one."""
    store = StalledStore()
    await suspensions_of(store).suspend(ANA, by="root", reason="Left the company.")
    here = suspensions_of(store)

    assert not await here.is_suspended(ANA)
    asked = store.asked
    store.answers.set()
    await until_suspended(here)

    assert asked == 2
