"""How long a turn waits for a storage that does not answer."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from threadkeep.concurrency import TimeoutBudget

HOUR = timedelta(hours=1)
MOMENT = timedelta(milliseconds=1)


async def value_after(event: asyncio.Event) -> str:
    await event.wait()
    return "done"


class TestWait:
    """The time-out once; after that hardly at all, until what hangs has answered."""

    async def test_it_returns_what_the_work_returns(self) -> None:
        """Work that is quick is waited for."""
        event = asyncio.Event()
        event.set()

        assert await TimeoutBudget(HOUR).wait(value_after(event)) == "done"

    async def test_the_work_goes_on_when_it_is_not_waited_for(self) -> None:
        """Neither a time-out nor a cancelled caller ends it."""
        patience, event, ended = TimeoutBudget(MOMENT), asyncio.Event(), asyncio.Event()

        async def work() -> None:
            await event.wait()
            ended.set()

        with pytest.raises(TimeoutError):
            await patience.wait(work())
        event.set()
        await patience.settle(HOUR)

        assert ended.is_set()

    async def test_a_second_wait_is_short_while_the_first_hangs(self) -> None:
        """A turn of many writes waits one time-out: an hour is not waited here."""
        patience, event = TimeoutBudget(MOMENT), asyncio.Event()
        with pytest.raises(TimeoutError):
            await patience.wait(value_after(event))

        with pytest.raises(TimeoutError):
            await patience.wait(value_after(event), timeout=HOUR)

        event.set()
        await patience.settle(HOUR)

    async def test_recall_is_given_a_little_while_something_hangs(self) -> None:
        """And all of its time otherwise."""
        patience, event = TimeoutBudget(MOMENT), asyncio.Event()
        assert patience.for_recall(HOUR) == HOUR
        with pytest.raises(TimeoutError):
            await patience.wait(value_after(event))

        assert patience.for_recall(HOUR) < timedelta(seconds=1)
        assert patience.for_recall(MOMENT) == MOMENT

        event.set()
        await patience.settle(HOUR)
        assert patience.for_recall(HOUR) == HOUR

    async def test_what_answered_is_waited_for_again(self) -> None:
        """Once the storage is back, so is the whole time-out."""
        patience, event, later = TimeoutBudget(MOMENT), asyncio.Event(), asyncio.Event()
        with pytest.raises(TimeoutError):
            await patience.wait(value_after(event))
        event.set()
        await patience.settle(HOUR)

        waiting = asyncio.create_task(patience.wait(value_after(later), timeout=HOUR))
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        later.set()

        assert not done
        assert await waiting == "done"

    async def test_an_error_that_nobody_waits_for_is_nobodys(self) -> None:
        """It is not reported as never retrieved, which would be an error here."""
        patience, event = TimeoutBudget(MOMENT), asyncio.Event()

        async def failing() -> None:
            await event.wait()
            raise ValueError

        with pytest.raises(TimeoutError):
            await patience.wait(failing())
        event.set()
        await patience.settle(HOUR)
