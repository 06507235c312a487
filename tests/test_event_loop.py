"""The way to the home loop and back: what comes back, what is cancelled, and what a closed one says."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Generator
from contextvars import ContextVar

import pytest

from threadkeep.errors import ClosedError
from threadkeep.event_loop import EventLoopThread

NAME: ContextVar[str] = ContextVar("NAME", default="nobody")


@pytest.fixture
def home() -> Generator[EventLoopThread]:
    home = EventLoopThread()
    yield home
    home.close()


async def _thread() -> str:
    return threading.current_thread().name


async def _fail(error: BaseException) -> None:
    await asyncio.sleep(0)
    raise error


async def test_results_and_errors_come_back_as_they_are(home: EventLoopThread) -> None:
    assert await home.run(_thread()) == "threadkeep-event-loop"
    error = KeyError("as it is")
    with pytest.raises(KeyError) as caught:
        await home.run(_fail(error))
    assert caught.value is error


def test_the_sync_face_gives_the_same(home: EventLoopThread) -> None:
    assert home.run_sync(_thread()) == "threadkeep-event-loop"
    error = KeyError("as it is")
    with pytest.raises(KeyError) as caught:
        home.run_sync(_fail(error))
    assert caught.value is error


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_what_ends_a_process_is_its_callers_only(home: EventLoopThread, kind: type[BaseException]) -> None:
    """A hook that calls ``sys.exit`` ends neither the loop nor what others do on it."""
    done = threading.Event()

    async def waits() -> str:
        await asyncio.to_thread(done.wait)
        return "done"

    other = asyncio.ensure_future(home.run(waits()))
    await asyncio.sleep(0)
    with pytest.raises(kind, match="now"):
        home.run_sync(_fail(kind("now")))
    done.set()
    assert await other == "done"
    assert home.run_sync(_thread()) == "threadkeep-event-loop"


async def test_the_callers_context_goes_along(home: EventLoopThread) -> None:
    async def name() -> str:
        return NAME.get()

    NAME.set("ana")
    assert await home.run(name()) == "ana"


async def test_cancelling_the_caller_cancels_the_work(home: EventLoopThread) -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    waiting = asyncio.create_task(home.run(work()))
    assert await asyncio.to_thread(begun.wait, 5)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await asyncio.to_thread(cancelled.wait, 5)


async def test_work_that_cancels_itself_says_so(home: EventLoopThread) -> None:
    with pytest.raises(asyncio.CancelledError):
        await home.run(_fail(asyncio.CancelledError()))


async def test_waiting_callers_get_closed_error(home: EventLoopThread) -> None:
    begun = threading.Event()

    async def work() -> None:
        begun.set()
        await asyncio.Event().wait()

    waiting = asyncio.create_task(home.run(work()))
    assert await asyncio.to_thread(begun.wait, 5)
    await asyncio.to_thread(home.close)
    with pytest.raises(ClosedError):
        await waiting
    with pytest.raises(ClosedError):
        await home.run(_thread())


async def test_what_was_handed_over_as_it_closed_ends_cancelled(home: EventLoopThread) -> None:
    held, release = threading.Event(), threading.Event()

    async def hold() -> None:
        held.set()
        release.wait(5)

    first = asyncio.create_task(home.run(hold()))
    assert await asyncio.to_thread(held.wait, 5)
    late = asyncio.create_task(home.run(_thread()))
    await asyncio.sleep(0)  # it is handed over, and the loop is held up
    closing = asyncio.create_task(asyncio.to_thread(home.close))
    while home.running:
        await asyncio.sleep(0)
    release.set()
    await closing
    assert await first is None
    with pytest.raises(ClosedError):
        await late


def test_closed_loop_of_a_caller_stops_nothing(home: EventLoopThread) -> None:
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        await asyncio.to_thread(release.wait, 5)
        ended.set()

    async def shielded() -> None:
        await asyncio.shield(asyncio.ensure_future(work()))

    async def leave() -> None:
        asyncio.ensure_future(home.run(shielded()))  # noqa: RUF006 - left behind on purpose
        assert await asyncio.to_thread(begun.wait, 5)

    asyncio.run(leave())
    release.set()
    assert ended.wait(5)
    assert home.run_sync(_thread()) == "threadkeep-event-loop"


@pytest.mark.timeout(60)
def test_closing_leaves_what_never_ends(home: EventLoopThread) -> None:
    """A task that ignores that it is cancelled, and a call in a thread that does not return, keep no process."""
    release = threading.Event()

    async def ignores() -> None:
        while not release.is_set():
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue

    async def begin() -> list[object]:
        thread = asyncio.get_running_loop().run_in_executor(None, release.wait)
        tasks: list[object] = [asyncio.create_task(ignores()), thread]
        await asyncio.sleep(0)
        return tasks

    kept = home.run_sync(begin())
    home.close()

    assert not home.running
    assert kept
    release.set()


HANGS: str = """
import asyncio, time
from threadkeep.event_loop import EventLoopThread

async def begin():
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 3600)

loop = EventLoopThread()
loop.run_sync(begin())
loop.close()
"""


@pytest.mark.slow
def test_a_program_ends_although_a_call_in_a_thread_does_not() -> None:
    """Python waits at its end for the threads of executors, so a model that hangs would keep the program for ever."""
    subprocess.run([sys.executable, "-c", HANGS], check=True, timeout=60)
