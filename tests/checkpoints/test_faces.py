"""The checkpointer from every side: sync, async, any loop, any thread, before and after its life."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from tests.checkpoints.checkpoints import METADATA, aput, avalue_of, checkpoint_of, config_of, put, value_of
from tests.storage.forking import ended_well, forked
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.errors import ClosedError, InvalidInputError, TooLargeError
from threadkeep.event_loop import EventLoopThread

HERE = config_of("1", checkpoint_ns="")


class TestConstructing:
    def test_nothing_is_opened_before_the_first_use(
        self, make: Callable[..., ThreadkeepCheckpointer], path: Path, home: EventLoopThread
    ):
        """A constructor does no I/O and starts no thread."""
        checkpointer = make("sqlite")

        assert not path.exists()
        assert not home.running
        assert checkpointer.get_next_version(None, None).startswith("0")

    def test_the_stock_saver_cannot_be_made_without_a_loop_and_ours_can(
        self, make: Callable[..., ThreadkeepCheckpointer]
    ):
        """A module-level graph gets a checkpointer that lasts."""
        connection: Any = object()

        with pytest.raises(RuntimeError, match="no running event loop"):
            AsyncSqliteSaver(connection)
        assert make("sqlite").get_tuple(HERE) is None


class TestCalling:
    async def test_sync_calls_work_inside_a_running_loop(self, checkpointer: ThreadkeepCheckpointer):
        """A sync invoke in a notebook cell blocks its loop and works."""
        put(checkpointer, HERE, "cell")

        assert value_of(checkpointer, HERE) == "cell"
        assert await avalue_of(checkpointer, HERE) == "cell"

    def test_two_loops_one_after_the_other_share_what_is_kept(self, checkpointer: ThreadkeepCheckpointer):
        """Each ``asyncio.run`` has a loop of its own."""
        asyncio.run(aput(checkpointer, HERE, "first"))

        assert asyncio.run(avalue_of(checkpointer, HERE)) == "first"
        assert value_of(checkpointer, HERE) == "first"

    def test_two_loops_at_once_share_what_is_kept(self, checkpointer: ThreadkeepCheckpointer):
        """Loops in two threads write and read each other's threads."""
        together = threading.Barrier(2)

        def serve(mine: str, other: str) -> Any:
            async def turns() -> Any:
                await aput(checkpointer, config_of(mine), mine)
                together.wait(10)
                return await avalue_of(checkpointer, config_of(other))

            return asyncio.run(turns())

        with ThreadPoolExecutor(2) as threads:
            read = list(threads.map(serve, ("a", "b"), ("b", "a")))

        assert read == ["b", "a"]

    def test_ten_writers_and_ten_readers_lose_nothing(self, checkpointer: ThreadkeepCheckpointer):
        """Twenty threads at once: every write is there, and no read sees half of one."""

        def write(writer: int) -> None:
            for n in range(10):
                put(checkpointer, config_of(f"w{writer}"), [writer, n] * 50)

        def read(writer: int) -> list[Any]:
            return [value_of(checkpointer, config_of(f"w{writer}")) for _ in range(10)]

        with ThreadPoolExecutor(20) as threads:
            writing = [threads.submit(write, n) for n in range(10)]
            reading = [threads.submit(read, n) for n in range(10)]
            seen = [value for future in reading for value in future.result(60) if value is not None]
            for future in writing:
                future.result(60)

        assert all(value == value[:2] * 50 for value in seen)
        assert [len(list(checkpointer.list(config_of(f"w{n}")))) for n in range(10)] == [10] * 10

    async def test_blocking_call_on_the_event_loop_is_refused(
        self, checkpointer: ThreadkeepCheckpointer, home: EventLoopThread
    ):
        """It would wait for itself; the error says so instead."""

        async def block() -> None:
            value_of(checkpointer, HERE)

        with pytest.raises(RuntimeError, match="async"):
            await home.run(block())

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
    def test_use_in_a_forked_process_is_refused(self, checkpointer: ThreadkeepCheckpointer):
        """In one sentence, and without a warning that something was never awaited."""
        put(checkpointer, HERE, 1)

        def refused() -> None:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with pytest.raises(ClosedError, match="open one in the child"):
                    checkpointer.get_tuple(HERE)
                gc.collect()
            assert [str(one.message) for one in caught] == []

        assert ended_well(forked(refused))

    async def test_a_cancelled_write_leaves_no_transaction_open(
        self, make: Callable[..., ThreadkeepCheckpointer], path: Path
    ):
        """A caller that goes away blocks no other process."""
        checkpointer = make("sqlite")
        await checkpointer.connect()
        tasks = [asyncio.create_task(aput(checkpointer, config_of(str(n)), n)) for n in range(20)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await aput(checkpointer, config_of("after"), "after")

        other = sqlite3.connect(path, timeout=5)  # for the writes that go on
        other.execute("CREATE TABLE theirs (x)")
        other.close()


class TestListing:
    def test_newest_comes_first_over_many_pages(self, checkpointer: ThreadkeepCheckpointer):
        """Paging repeats nothing and leaves nothing out."""
        for n in range(53):
            put(checkpointer, HERE, n)

        listed = [found.checkpoint["channel_values"]["x"] for found in checkpointer.list(HERE)]

        assert listed == list(reversed(range(53)))

    @pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (20, 20), (21, 21), (99, 45), (-1, 0), (None, 45)])
    async def test_a_limit_is_kept(self, checkpointer: ThreadkeepCheckpointer, limit: int | None, count: int):
        """Also where it falls on the edge of a page."""
        for n in range(45):
            await aput(checkpointer, HERE, n)

        listed = [found async for found in checkpointer.alist(HERE, limit=limit)]
        across_namespaces = list(checkpointer.list(config_of("1"), limit=limit))

        assert len(listed) == count
        assert len(across_namespaces) == count

    def test_the_caller_may_write_while_it_lists(self, checkpointer: ThreadkeepCheckpointer):
        """Nothing is locked between two checkpoints, and what is written meanwhile is not listed."""
        for n in range(30):
            put(checkpointer, HERE, n)

        listed = [(found, put(checkpointer, HERE, "new")) for found in checkpointer.list(HERE)]

        assert len(listed) == 30

    async def test_the_caller_may_stop_in_the_middle(self, checkpointer: ThreadkeepCheckpointer):
        """A list that nobody finishes holds nothing up."""
        for n in range(30):
            put(checkpointer, HERE, n)

        async for _ in checkpointer.alist(HERE):
            break
        next(checkpointer.list(HERE))
        put(checkpointer, HERE, "after")

        assert value_of(checkpointer, HERE) == "after"

    def test_everything_is_listed_without_a_thread(self, checkpointer: ThreadkeepCheckpointer):
        """``None`` stands for all threads, and a filter on metadata holds there."""
        for n in range(3):
            checkpointer.put(
                config_of(f"t{n}", checkpoint_ns=""), checkpoint_of(n), {**METADATA, "step": n}, {"x": "1"}
            )

        everything = {found.config["configurable"]["thread_id"] for found in checkpointer.list(None)}
        filtered = [found.config["configurable"]["thread_id"] for found in checkpointer.list(None, filter={"step": 1})]

        assert everything == {"t0", "t1", "t2"}
        assert filtered == ["t1"]


class TestThreadIds:
    @pytest.mark.parametrize(
        "thread_id",
        ["a.b@x.org", "a/b", "%_", "ü" * 1000, "nul\x00nul", "half\ud800", "~tk~", "~tk~~x", " ", "thread\n1", "None"],
    )
    async def test_any_text_is_a_thread_and_comes_back_as_given(
        self, checkpointer: ThreadkeepCheckpointer, thread_id: str
    ):
        """Written, read, listed, continued and deleted, next to a thread that looks like it."""
        lookalike = thread_id.replace("\x00", "").replace("\ud800", "") + "x"
        first = put(checkpointer, config_of(thread_id), 1)
        put(checkpointer, first, 2)
        put(checkpointer, config_of(lookalike[-1000:]), "other")

        found = await checkpointer.aget_tuple(config_of(thread_id))
        listed = [one.config["configurable"]["thread_id"] for one in checkpointer.list(None)]
        assert found is not None
        assert found.parent_config is not None

        assert first["configurable"]["thread_id"] == thread_id
        assert found.config["configurable"]["thread_id"] == thread_id
        assert found.parent_config["configurable"] == first["configurable"]
        assert sorted(listed) == sorted([thread_id, thread_id, lookalike[-1000:]])
        await checkpointer.adelete_thread(thread_id)
        assert value_of(checkpointer, config_of(thread_id)) is None
        assert value_of(checkpointer, config_of(lookalike[-1000:])) == "other"

    def test_no_thread_and_too_long_a_one_are_refused(self, checkpointer: ThreadkeepCheckpointer):
        """One sentence says what is wrong, and nothing is written."""
        with pytest.raises(InvalidInputError, match="empty"):
            put(checkpointer, config_of(""), 1)
        with pytest.raises(InvalidInputError, match="empty"):
            checkpointer.get_tuple({"configurable": {}})
        with pytest.raises(TooLargeError):
            put(checkpointer, config_of("x" * 1001), 1)

        assert list(checkpointer.list(None)) == []


class TestClosing:
    async def test_after_closing_every_call_is_refused(self, checkpointer: ThreadkeepCheckpointer):
        """Also through another view, and closing again does nothing."""
        await aput(checkpointer, HERE, 1)
        view = checkpointer.with_allowlist([("some.module", "Type")])

        await checkpointer.aclose()
        await checkpointer.aclose()

        for saver in (checkpointer, view):
            with pytest.raises(ClosedError):
                saver.get_tuple(HERE)
            with pytest.raises(ClosedError):
                await aput(saver, HERE, 2)

    async def test_closing_waits_for_what_is_under_way(self, make: Callable[..., ThreadkeepCheckpointer], path: Path):
        """What was submitted before is durable, what comes after is refused, and nothing is in between."""
        checkpointer = make("sqlite")
        await checkpointer.connect()
        writes = [asyncio.create_task(aput(checkpointer, config_of(str(n)), n)) for n in range(20)]
        await asyncio.wait(writes, return_when=asyncio.FIRST_COMPLETED)

        await checkpointer.aclose()
        done = await asyncio.gather(*writes, return_exceptions=True)

        assert all(isinstance(one, dict | ClosedError) for one in done)
        again = make("sqlite")
        kept = {one.config["configurable"]["thread_id"] async for one in again.alist(None)}
        assert kept == {one["configurable"]["thread_id"] for one in done if isinstance(one, dict)}

    def test_closing_what_was_never_used_starts_nothing(
        self, make: Callable[..., ThreadkeepCheckpointer], home: EventLoopThread
    ):
        """No thread, no loop, no file."""
        checkpointer = make("sqlite")

        asyncio.run(checkpointer.aclose())

        assert not home.running
        with pytest.raises(ClosedError):
            checkpointer.get_tuple(HERE)
