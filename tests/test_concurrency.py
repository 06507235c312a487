"""How long a turn waits for a storage that does not answer, and which call gets a connection first."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import suppress
from datetime import timedelta

import pytest

from threadkeep.concurrency import (
    MAX_WAITING,
    AnswerTimeout,
    Priority,
    PriorityGate,
    SharedTask,
    StalledError,
    TimeoutBudget,
    asking,
    current_priority,
    queued,
)
from threadkeep.errors import OverloadedError, StorageUnavailableError

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
MOMENT = timedelta(milliseconds=1)


async def value_after(event: asyncio.Event) -> str:
    with asking():
        await event.wait()
    return "done"


def recall_time(budget: TimeoutBudget) -> timedelta:
    """Return how long a recall may take that would take an hour."""
    with budget.for_recall(HOUR) as (allowed, _):
        return allowed


async def assert_gives_up(waiting: asyncio.Task[object]) -> None:
    """Check that a caller of a budget waits no longer, though what it waits for has not ended."""
    done, _ = await asyncio.wait([waiting], timeout=10)
    assert done
    with pytest.raises(TimeoutError):
        await waiting


class Clock:
    """The time of the event loop, which a test moves on."""

    def __init__(self) -> None:
        self.now = time.monotonic()

    async def advance(self, seconds: float) -> None:
        """Let *seconds* pass, a millisecond after the other: a loop that is late by all of them counts none."""
        for _ in range(round(seconds * 1_000)):
            self.now += 0.001
            for _ in range(10):
                await asyncio.sleep(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


async def _call(gate: PriorityGate, answer: asyncio.Event, *, seconds: float) -> None:
    """Ask a storage that answers with *answer*."""
    async with AnswerTimeout(seconds):
        with asking():
            async with gate.place():
                await answer.wait()


async def _blocking() -> None:
    """Block the event loop for 50 ms, again and again."""
    while True:
        time.sleep(0.05)  # noqa: ASYNC251 - that is what a busy process does
        await asyncio.sleep(0)


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
            await value_after(event)
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
        assert recall_time(patience) == HOUR
        with pytest.raises(TimeoutError):
            await patience.wait(value_after(event))

        assert recall_time(patience) < timedelta(seconds=1)
        with patience.for_recall(MOMENT) as (allowed, _):
            assert allowed == MOMENT

        event.set()
        await patience.settle(HOUR)
        assert recall_time(patience) == HOUR

    async def test_recall_ends_soon_after_a_call_was_given_up(self) -> None:
        """It began before that, and learns then that the storage does not answer."""
        patience, event = TimeoutBudget(MOMENT), asyncio.Event()

        async def recall() -> str:
            with patience.for_recall(HOUR) as (_, limit):
                async with limit:
                    return await value_after(event)

        recalling = asyncio.create_task(recall())
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await patience.wait(value_after(event))
        await assert_gives_up(recalling)
        event.set()
        await patience.settle(HOUR)

    async def test_one_call_finds_out_for_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """After a while, though the old call never answered; its caller waits no longer than the others."""
        monkeypatch.setattr("threadkeep.concurrency._AGAIN_SECONDS", 0.0)
        patience, event, answer = TimeoutBudget(MINUTE), asyncio.Event(), asyncio.Event()
        with pytest.raises(TimeoutError):
            await patience.wait(value_after(event), timeout=MOMENT)

        await assert_gives_up(asyncio.create_task(patience.wait(value_after(answer))))
        assert recall_time(patience) < timedelta(seconds=1)
        answer.set()
        await asyncio.sleep(0.01)

        assert recall_time(patience) == HOUR
        event.set()
        await patience.settle(HOUR)

    @pytest.mark.parametrize("error", [StorageUnavailableError("It is away."), TimeoutError()])
    async def test_a_call_without_an_answer_finds_nothing_out(
        self, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        monkeypatch.setattr("threadkeep.concurrency._AGAIN_SECONDS", 0.0)
        patience, event = TimeoutBudget(MINUTE), asyncio.Event()

        async def fail() -> None:
            raise error

        with pytest.raises(TimeoutError):
            await patience.wait(value_after(event), timeout=MOMENT)
        with pytest.raises(type(error)):
            await patience.wait(fail())

        assert recall_time(patience) < timedelta(seconds=1)
        event.set()
        await patience.settle(HOUR)

    async def test_a_late_answer_finds_nothing_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Callers would wait in vain for the next one."""
        monkeypatch.setattr("threadkeep.concurrency._AGAIN_SECONDS", 0.0)
        patience, event, answer = TimeoutBudget(MOMENT), asyncio.Event(), asyncio.Event()
        for waited_for in (event, answer):
            with pytest.raises(TimeoutError):
                await patience.wait(value_after(waited_for))
        answer.set()
        await asyncio.sleep(0.01)

        assert recall_time(patience) < timedelta(seconds=1)
        event.set()
        await patience.settle(HOUR)

    async def test_work_that_no_caller_waits_for_goes_last(self) -> None:
        """A storage that is back answers the turns in progress first."""
        patience, event, priorities = TimeoutBudget(MOMENT), asyncio.Event(), list[Priority]()

        async def work() -> None:
            priorities.append(current_priority.get())
            await value_after(event)
            priorities.append(current_priority.get())

        with pytest.raises(TimeoutError):
            await patience.wait(work())
        event.set()
        await patience.settle(HOUR)

        assert priorities == [Priority.RECALL, Priority.LEARNING]

    async def test_a_queue_that_moves_keeps_no_caller_while_something_hangs(self) -> None:
        """A storage that is back answers first what has waited for it; the turn does not wait for its own call."""
        patience, event = TimeoutBudget(MOMENT), asyncio.Event()

        async def in_a_queue() -> None:
            with asking(), queued():
                await event.wait()

        with pytest.raises(TimeoutError):
            await patience.wait(value_after(event))
        waiting = asyncio.create_task(patience.wait(in_a_queue(), timeout=HOUR))
        await assert_gives_up(waiting)
        event.set()
        await patience.settle(HOUR)

    async def test_a_long_wait_ends_soon_after_another_was_given_up(self) -> None:
        """It began before that, and learns then that the storage does not answer."""
        patience, event = TimeoutBudget(MOMENT), asyncio.Event()
        waiting = asyncio.create_task(patience.wait(value_after(event), timeout=HOUR, least=MOMENT))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await patience.wait(value_after(event))
        await assert_gives_up(waiting)
        event.set()
        await patience.settle(HOUR)

    async def test_what_must_be_known_is_waited_for_a_little_longer(self) -> None:
        """Even while something hangs: an answer that takes less than *least* is returned."""
        patience, event = TimeoutBudget(MOMENT), asyncio.Event()
        with pytest.raises(TimeoutError):
            await patience.wait(value_after(event))

        waiting = asyncio.create_task(patience.wait(value_after(event), timeout=HOUR, least=HOUR))
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        event.set()

        assert not done
        assert await waiting == "done"
        await patience.settle(HOUR)

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

    async def test_error_without_a_waiting_caller_is_dropped(self) -> None:
        """It is not reported as never retrieved, which would be an error here."""
        patience, event = TimeoutBudget(MOMENT), asyncio.Event()

        async def failing() -> None:
            await value_after(event)
            raise ValueError

        with pytest.raises(TimeoutError):
            await patience.wait(failing())
        event.set()
        await patience.settle(HOUR)


class TestAnswerTimeout:
    """Only the time counts in which a storage or a model was asked."""

    async def test_a_queue_of_this_process_costs_no_time(self) -> None:
        """Waiting for a place is no outage, however long the queue is."""
        async with AnswerTimeout(0.02):
            await asyncio.sleep(0.1)
            with asking(), queued():
                await asyncio.sleep(0.1)

    async def test_what_was_asked_and_does_not_answer_ends_it(self) -> None:
        with pytest.raises(TimeoutError):
            async with AnswerTimeout(0.01):
                await value_after(asyncio.Event())

    async def test_time_after_the_queue_counts(self) -> None:
        async def call() -> None:
            with asking():
                with queued():
                    await asyncio.sleep(0.05)
                await asyncio.Event().wait()

        with pytest.raises(TimeoutError):
            async with AnswerTimeout(0.01):
                await call()

    async def test_shared_work_counts_for_each_caller(self) -> None:
        """Also for one that comes while it is asking, and no longer than that one waits."""
        event = asyncio.Event()
        shared = SharedTask(value_after(event))
        await asyncio.sleep(0)

        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with AnswerTimeout(0.01):
                    await shared.wait()
        async with AnswerTimeout(0.01):
            with suppress(TimeoutError):
                async with asyncio.timeout(0):
                    await shared.wait()
            await asyncio.sleep(0.05)
        event.set()
        assert await shared.wait() == "done"

    async def test_shared_work_that_fails_without_a_caller_is_no_unhandled_error(self) -> None:
        """Its callers have given up, and nothing else reports it."""
        unhandled: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unhandled.append(str(told["message"])))

        async def work() -> None:
            await asyncio.sleep(0)
            msg = "It is away."
            raise StorageUnavailableError(msg)

        shared = SharedTask(work())
        await asyncio.wait([shared.task])
        del shared
        gc.collect()

        assert unhandled == []

    async def test_a_queue_of_shared_work_costs_no_caller_time(self) -> None:
        async def work() -> str:
            with asking(), queued():
                await asyncio.sleep(0.1)
            return "done"

        shared = SharedTask(work())
        await asyncio.sleep(0)
        async with AnswerTimeout(0.02):
            assert await shared.wait() == "done"

    async def test_an_inner_timeout_counts_for_the_outer_one(self) -> None:
        """A call with a timeout of its own is part of what the turn waits for."""
        with pytest.raises(TimeoutError):
            async with AnswerTimeout(0.01), AnswerTimeout(60):
                await value_after(asyncio.Event())


class TestPriorityGate:
    """The most important call goes first; learning leaves places free."""

    async def test_calls_go_by_priority_and_then_by_arrival(self) -> None:
        gate, order = PriorityGate(1), list[str]()

        async def call(name: str, priority: Priority) -> None:
            current_priority.set(priority)
            async with gate.place():
                order.append(name)

        async with gate.place():
            calls = [
                asyncio.create_task(call(name, priority))
                for name, priority in (
                    ("learning", Priority.LEARNING),
                    ("recall", Priority.RECALL),
                    ("record", Priority.RECORD),
                    ("checkpoint", Priority.CHECKPOINT),
                    ("second checkpoint", Priority.CHECKPOINT),
                )
            ]
            while gate.waiting < len(calls):
                await asyncio.sleep(0)
        await asyncio.gather(*calls)

        assert order == ["checkpoint", "second checkpoint", "record", "recall", "learning"]

    async def test_learning_holds_a_quarter_at_most(self) -> None:
        gate, inside, most, go = PriorityGate(8), 0, 0, asyncio.Event()

        async def learn() -> None:
            nonlocal inside, most
            current_priority.set(Priority.LEARNING)
            async with gate.place():
                inside += 1
                most = max(most, inside)
                await go.wait()
                inside -= 1

        learning = [asyncio.create_task(learn()) for _ in range(6)]
        await asyncio.sleep(0)
        async with gate.place():
            assert inside == 2
        go.set()
        await asyncio.gather(*learning)

        assert most == 2

    async def test_a_cancelled_call_leaves_its_place(self) -> None:
        """Whether it waits still, or was let in at that moment."""
        gate = PriorityGate(1)

        async def call() -> None:
            async with gate.place():
                pass

        for let_in in (False, True):
            waiting: asyncio.Task[None]
            async with gate.place():
                waiting = asyncio.create_task(call())
                await asyncio.sleep(0)
                if not let_in:
                    waiting.cancel()
                    await asyncio.wait([waiting])
            waiting.cancel()
            await asyncio.wait([waiting])

            async with asyncio.timeout(10), gate.place():
                assert gate.waiting == 0

    async def test_waiting_counts_once_no_call_gets_an_answer(self) -> None:
        """Then the storage is slow or away, and a turn does not wait for it longer than it would alone."""
        gate = PriorityGate(1)

        async def call() -> None:
            async with AnswerTimeout(0.05):
                with asking():
                    async with gate.place():
                        await asyncio.Event().wait()

        done = await asyncio.gather(*(call() for _ in range(5)), return_exceptions=True)

        assert {type(error) for error in done} == {TimeoutError}
        async with asyncio.timeout(10), gate.place():
            assert gate.waiting == 0

    async def test_the_queue_of_a_silent_storage_counts_from_the_beginning(self, clock: Clock) -> None:
        """A caller behind calls without an answer waits its own timeout, and no while before that."""
        gate = PriorityGate(1)
        calls = [asyncio.create_task(_call(gate, asyncio.Event(), seconds=0.05)) for _ in range(3)]

        await clock.advance(0.08)

        done = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(error) for error in done} == {TimeoutError}

    async def test_a_queue_that_moves_costs_no_time(self, clock: Clock) -> None:
        """The last of twenty calls waits for much longer than its timeout: overload is no outage."""
        gate, events = PriorityGate(1), [asyncio.Event() for _ in range(20)]
        calls = [asyncio.create_task(_call(gate, event, seconds=0.05)) for event in events]

        for event in events:
            await clock.advance(0.02)
            event.set()

        assert await asyncio.gather(*calls) == [None] * 20

    async def test_a_late_event_loop_is_not_the_storage(self) -> None:
        """Ten calls that each get their answer at once wait for the loop, which other work of this process blocks."""
        work = asyncio.create_task(_blocking())
        try:
            async with AnswerTimeout(0.1):
                for _ in range(10):
                    with asking():
                        await asyncio.sleep(0.001)
        finally:
            work.cancel()

    async def test_patience_ends(self) -> None:
        gate = PriorityGate(1, patience=MOMENT)
        async with gate.place():
            with pytest.raises(StalledError):
                async with gate.place():
                    pass
        async with gate.place():
            assert gate.waiting == 0

    async def test_a_full_queue_refuses_runs(self) -> None:
        gate = PriorityGate(1)
        gate.require_capacity()
        async with gate.place():
            calls = [asyncio.create_task(gate.settle()) for _ in range(MAX_WAITING)]
            await asyncio.sleep(0)

            with pytest.raises(OverloadedError, match="5,000 calls wait for a connection"):
                gate.require_capacity()
        await asyncio.gather(*calls)
        gate.require_capacity()
