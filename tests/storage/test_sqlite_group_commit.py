"""Batches that wait for the writer together share one wait for the disk, and nothing else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from threadkeep.errors import InvalidInputError, RevisionConflictError
from threadkeep.storage.interface import Batch, Position
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract.world import ANA, BOB, commit, get, plain


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    storage = SqliteStorage(tmp_path / "memory.db", clock=FrozenClock())
    await storage.connect()
    yield storage
    await storage.close()


@contextmanager
def writer_held_up(storage: SqliteStorage) -> Iterator[None]:
    """Let what is committed inside wait for the writer, all of it together."""
    let_go = threading.Event()
    storage._connections.writer.submit(let_go.wait)
    try:
        yield
    finally:
        let_go.set()


def transactions_of(storage: SqliteStorage) -> list[str]:
    """Return a list that grows by each statement that ends a transaction."""
    ended: list[str] = []
    connection = storage._connections.connection
    connection.set_trace_callback(lambda sql: ended.append(sql) if sql in ("COMMIT", "ROLLBACK") else None)
    return ended


async def together(storage: SqliteStorage, *batches: Batch) -> list[Position | BaseException]:
    with writer_held_up(storage):
        tasks = [asyncio.create_task(storage.commit(batch)) for batch in batches]
        await asyncio.sleep(0)
    return await asyncio.gather(*tasks, return_exceptions=True)


class TestGroups:
    async def test_what_waits_together_is_written_at_once(self, storage: SqliteStorage):
        ended = transactions_of(storage)

        positions = await together(storage, *(Batch(ANA, [plain(f"k{i}")]) for i in range(50)))

        assert ended == ["COMMIT"]
        assert [position.sequence for position in positions if isinstance(position, Position)] == list(range(1, 51))

    async def test_what_waits_together_wakes_the_writer_once(self, storage: SqliteStorage):
        with writer_held_up(storage):
            tasks = [asyncio.create_task(commit(storage, plain(f"k{i}"))) for i in range(50)]
            await asyncio.sleep(0)

            assert storage._connections.writer._work_queue.qsize() <= 2  # the writer may not have begun to wait

        assert len({(await task).sequence for task in tasks}) == 50

    async def test_one_alone_has_its_own(self, storage: SqliteStorage):
        ended = transactions_of(storage)

        await commit(storage, plain("a"))
        await commit(storage, plain("b"))

        assert ended == ["COMMIT", "COMMIT"]

    async def test_each_sees_what_came_before(self, storage: SqliteStorage):
        first, second = await together(
            storage,
            Batch(ANA, [plain("a", {"data": 1}, expect="absent")]),
            Batch(ANA, [plain("a", {"data": 2}, expect=1)]),
        )

        assert (first, second) == (Position(first.epoch, 1), Position(first.epoch, 2))  # type: ignore[union-attr]


class TestRefused:
    async def test_one_takes_no_other_with_it(self, storage: SqliteStorage):
        outcomes = await together(
            storage,
            Batch(ANA, [plain("a")]),
            Batch(ANA, [plain("b", expect=99)]),
            Batch(BOB, [plain("c")]),
            Batch(BOB, []),
        )

        assert isinstance(outcomes[0], Position)
        assert isinstance(outcomes[1], RevisionConflictError)
        assert isinstance(outcomes[2], Position)
        assert isinstance(outcomes[3], InvalidInputError)
        assert await get(storage, "a") is not None
        assert await get(storage, "b") is None
        assert await get(storage, "c", partition=BOB) is not None

    async def test_nothing_is_written_twice(self, storage: SqliteStorage):
        """The group that failed left no trace: each batch moved its partition by one."""
        outcomes = await together(
            storage, *(Batch(ANA, [plain(f"k{i}", expect="any" if i else 99)]) for i in range(10))
        )

        assert [one.sequence for one in outcomes if isinstance(one, Position)] == list(range(1, 10))
        assert (await storage.position(ANA)).sequence == 9


class TestGivenUp:
    async def test_cancelled_caller_does_not_block_others(self, storage: SqliteStorage):
        with writer_held_up(storage):
            given_up = asyncio.create_task(commit(storage, plain("a")))
            other = asyncio.create_task(commit(storage, plain("b")))
            await asyncio.sleep(0)
            given_up.cancel()

        assert (await other).sequence == 2
        assert given_up.cancelled()

    async def test_what_was_taken_is_written_before_it_closes(self, tmp_path: Path):
        storage = SqliteStorage(tmp_path / "closing.db", clock=FrozenClock())
        await storage.connect()
        with writer_held_up(storage):
            tasks = [asyncio.create_task(commit(storage, plain(f"k{i}"))) for i in range(250)]
            await asyncio.sleep(0)
            closing = asyncio.create_task(storage.close())
            await asyncio.sleep(0)
        await closing

        assert [position.sequence for position in await asyncio.gather(*tasks)] == list(range(1, 251))
