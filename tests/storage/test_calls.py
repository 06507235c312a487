"""A call of a storage on a network: to its end although its caller is cancelled, and again after a lost connection."""

from __future__ import annotations

import asyncio

import pytest

from threadkeep.storage.base import CallRunner


class LostError(Exception):
    """The connection broke."""


class Calls:
    """Counts the calls, and loses the connection for the first *losses* of them."""

    def __init__(self, losses: int = 0) -> None:
        self.losses = losses
        self.started = 0
        self.reconnected = 0
        self.runner = CallRunner(is_lost=lambda error: isinstance(error, LostError), reconnect=self.reconnect)

    async def reconnect(self) -> None:
        self.reconnected += 1

    async def call(self) -> str:
        self.started += 1
        if self.started <= self.losses:
            raise LostError
        return "done"


class TestCancelling:
    async def test_cancelled_caller_returns_at_once_and_the_call_runs_to_its_end(self):
        calls, go, ended = Calls(), asyncio.Event(), asyncio.Event()

        async def call() -> None:
            await go.wait()
            ended.set()

        caller = asyncio.create_task(calls.runner.run(call))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert not ended.is_set()

        go.set()
        await calls.runner.drain()
        assert ended.is_set()

    async def test_error_of_a_call_without_a_caller_is_not_reported_as_lost(self):
        """Its task's exception is retrieved: an unretrieved one is a warning, and warnings are errors."""
        calls, go = Calls(losses=2), asyncio.Event()

        async def call() -> str:
            await go.wait()
            return await calls.call()

        caller = asyncio.create_task(calls.runner.run(call))
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        go.set()

        await calls.runner.drain()
        assert calls.started == 2

    async def test_drain_without_calls_returns(self):
        await Calls().runner.drain()


class TestRepeating:
    async def test_lost_call_is_repeated_once_after_reconnecting(self):
        calls = Calls(losses=1)

        assert await calls.runner.run(calls.call) == "done"

        assert (calls.started, calls.reconnected) == (2, 1)

    async def test_second_loss_is_raised(self):
        calls = Calls(losses=2)

        with pytest.raises(LostError):
            await calls.runner.run(calls.call)

        assert calls.started == 2

    async def test_call_that_is_not_repeatable_is_not_repeated(self):
        calls = Calls(losses=1)

        with pytest.raises(LostError):
            await calls.runner.run(calls.call, repeatable=lambda: False)

        assert (calls.started, calls.reconnected) == (1, 0)

    async def test_other_error_is_not_repeated(self):
        calls = Calls()

        async def call() -> None:
            calls.started += 1
            raise ValueError

        with pytest.raises(ValueError):  # noqa: PT011 - it has no message
            await calls.runner.run(call)

        assert calls.started == 1
