"""Suspensions of owners where the storage is slow."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from langgraph.store.memory import InMemoryStore

from threadkeep.gateway.auth.suspensions import Suspensions
from threadkeep.identity import Owner
from threadkeep.testing import FrozenClock

ANA = Owner("ana")


class StalledStore(InMemoryStore):
    """A store that answers no read before it may."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = asyncio.Event()

    async def aget(self, *args: Any, **options: Any) -> Any:
        await self.answers.wait()
        return await super().aget(*args, **options)


async def test_a_request_goes_on_while_changes_cannot_be_read(monkeypatch: pytest.MonkeyPatch):
    """The last answer holds; the change counts as soon as it is read, however long that took."""
    monkeypatch.setattr("threadkeep.gateway.auth.suspensions.CACHE_SECONDS", 0.0)
    monkeypatch.setattr("threadkeep.gateway.auth.suspensions._WAIT_SECONDS", 3600.0)
    store, clock = StalledStore(), FrozenClock(datetime(2026, 1, 5, tzinfo=UTC))
    here, elsewhere = Suspensions(store, clock), Suspensions(store, clock)
    store.answers.set()
    assert not await here.is_suspended(ANA)
    await elsewhere.suspend(ANA, by="root", reason="Left the company.")

    store.answers.clear()
    assert not await here.is_suspended(ANA)
    store.answers.set()
    async with asyncio.timeout(30):
        while not await here.is_suspended(ANA):
            await asyncio.sleep(0)
