"""The function in the database decides what ``storage/rows.py`` decides, and finds its rows by the right index."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from tests.storage.postgres_world import ANA, commit, connected, note, run
from threadkeep.errors import PartitionErasedError, RevisionConflictError, ThreadkeepError
from threadkeep.storage.interface import Batch, Delete, Operation, Position, Put, Storage, Touch
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.storage.postgres.storage import PostgresStorage
from threadkeep.testing.clock import FrozenClock

NAMESPACE = ("memories", "ana")
STEPS = 250


def operation(chance: random.Random, key: str, sequence: int, clock: FrozenClock) -> Operation:
    expect: Any = chance.choice(["any", "any", "any", "absent", sequence, sequence - 1, 0, -1, 10**30])
    kind = chance.random()
    if kind < 0.2:
        return Delete(NAMESPACE, key, expect=expect)
    if kind < 0.4:
        return Touch(NAMESPACE, key)
    ttl = chance.choice([None, None, timedelta(seconds=chance.randint(1, 20))])
    return Put(
        NAMESPACE,
        key,
        {"n": chance.randint(0, 9)},
        index=chance.choice([(), ("n",)]),
        ttl=ttl,
        expires_at=clock.now() + timedelta(seconds=3) if ttl and chance.random() < 0.2 else None,
        created_at=chance.choice([None, None, clock.now() - timedelta(days=1)]),
        updated_at=chance.choice([None, None, clock.now() - timedelta(hours=1)]),
        expect=expect,
    )


async def outcome(storage: Storage, operations: list[Operation], epoch: str | None) -> tuple[str, dict[str, object]]:
    try:
        position = await storage.commit(Batch(ANA, operations, epoch))
    except (RevisionConflictError, PartitionErasedError) as error:
        return f"{type(error).__name__}: {error}", error.details
    return f"{position.sequence}", {}


async def seen(storage: Storage, since: Position | None) -> tuple[Any, ...]:
    changes = await storage.changes(ANA, since)
    page = await storage.scan(ANA, limit=1000, direction="oldest")
    puts = sorted(changes.puts, key=lambda item: (item.revision, item.ref.key))
    assert [item.revision for item in changes.puts] == [item.revision for item in puts]
    return changes.reset, puts, sorted(changes.removed), changes.position.sequence, page.items


class TestDeciding:
    @pytest.mark.parametrize("seed", range(3))
    async def test_whatever_is_committed_comes_to_the_same(self, postgres_url: str, seed: int):
        """Side by side with the storage in memory, which decides by those rules; what followers see, too."""
        chance, clock = random.Random(seed), FrozenClock()
        beside = InMemoryStorage(clock=clock)
        async with connected(postgres_url, clock=clock) as storage:
            both: tuple[Storage, Storage] = (storage, beside)
            since: list[Position | None] = [None, None]
            for _ in range(STEPS):
                at = [await one.position(ANA) for one in both]
                keys = chance.sample("abcdefgh", chance.randint(1, 4))
                operations = [operation(chance, key, at[0].sequence, clock) for key in keys]
                stale = chance.random() < 0.05
                epochs = ["stale"] * 2 if stale else [one.epoch if chance.random() < 0.5 else None for one in at]

                first, second = [await outcome(*pair) for pair in zip(both, [operations] * 2, epochs, strict=True)]

                assert first == second
                assert await seen(storage, since[0]) == await seen(beside, since[1])
                if chance.random() < 0.3:
                    since = [await one.position(ANA) for one in both]
                if chance.random() < 0.1:
                    moment = clock.now()
                    assert await storage.sweep(now=moment) == await beside.sweep(now=moment)
                if chance.random() < 0.02:
                    assert await storage.erase(ANA) == await beside.erase(ANA)
                clock.advance(timedelta(seconds=chance.randint(0, 3)))

    async def test_an_error_tells_no_value(self, postgres_url: str):
        async with connected(postgres_url) as storage:
            await commit(storage, note("1", {"data": "secret"}))
            with pytest.raises(ThreadkeepError) as refused:
                await commit(storage, note("1", {"data": "secret"}, expect="absent"))

        assert "secret" not in str(refused.value)


class TestPlans:
    async def test_rows_are_found_by_their_key_in_a_table_that_has_grown_since(self, postgres_url: str):
        """A plan is made while the table is empty and kept: the indexes of other questions must not be in it."""
        async with connected(postgres_url, size=1) as storage:
            for turn in range(12):
                await commit(storage, *(note(f"{turn}.{number}") for number in range(50)))
                await commit(storage, *(note(f"{turn}.{number}", expect=3 * turn + 1) for number in range(50)))
                await commit(storage, *(Delete(NAMESPACE, f"{turn}.{number}") for number in range(5)))

        read = dict(run(postgres_url, "SELECT pg_stat_force_next_flush()", INDEXES))

        assert 0 < read.pop("items_pkey") <= 12 * 300
        assert not any(read.values())

    async def test_what_is_followed_and_scanned_is_found_in_its_order(self, postgres_url: str):
        async with connected(postgres_url, size=1) as storage:
            for turn in range(10):
                position = await commit(storage, *(note(f"{turn}.{number}") for number in range(100)))
                before = Position(position.epoch, position.sequence - 1)
                assert len((await storage.changes(ANA, before)).puts) == 100
                assert len((await storage.scan(ANA, limit=5)).items) == 5

        read = dict(run(postgres_url, "SELECT pg_stat_force_next_flush()", INDEXES))

        assert 0 < read["items_searchable"] <= 10 * 300
        assert 0 < read["items_in_order"] <= 10 * 200

    async def test_all_of_an_owner_who_has_few_comes_by_one_call(self, postgres_url: str):
        """As the changes since they began; one who was erased in between, or has many, is read in parts."""
        run(postgres_url, TRACKED)
        async with connected(postgres_url, size=1) as storage:
            await commit(storage, *(note(str(number)) for number in range(100)))
            first = await storage.changes(ANA, None)
            calls = await called(postgres_url, storage)
            await storage.erase(ANA)
            await commit(storage, note("1"))
            anew = await storage.changes(ANA, None)

        assert (len(first.puts), len(anew.puts)) == (100, 1)
        assert first.reset
        assert calls == {"commit_with_data": 1, "follow_with_data": 1}


async def called(url: str, storage: PostgresStorage) -> dict[str, int]:
    """Return how often each function was called that reads or writes one owner's items."""
    async with storage.pool.connection() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
    return dict(run(url, "SELECT funcname, calls FROM pg_stat_user_functions WHERE funcname <> 'serves'"))


TRACKED = """DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET track_functions = pl', current_database());
END $$"""

INDEXES = "SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes WHERE relname = 'items'"
