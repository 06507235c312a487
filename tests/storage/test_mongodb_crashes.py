"""Writers that are killed, or stand still, at every command: nothing is lost, doubled, or there by half."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.storage.mongodb_world import (
    ANA,
    NOTES,
    Moment,
    Trap,
    Writer,
    commit,
    get,
    left_over,
    note,
    opened,
    raw,
    texts,
)
from threadkeep.storage.interface import Delete, Touch
from threadkeep.storage.mongodb import records
from threadkeep.storage.mongodb.storage import MongoStorage
from threadkeep.testing.clock import FrozenClock

pytestmark = [pytest.mark.linux, pytest.mark.slow]

BEFORE = {"a": "old", "b": "old", "c": "old"}
AFTER = {"a": "new", "c": "old", "d": "new"}
COMMANDS = 9
"""Of the second commit: two reads, three inserts of what it writes, its entry, and three to fold it."""

COMMIT_STEPS = [(at, when) for at in range(COMMANDS) for when in ("before", "after")]
ERASURE_STEPS = [(at, when) for at in range(6) for when in ("before", "after")]


@pytest.fixture(autouse=True)
def no_writer_left() -> Iterator[None]:
    yield
    Writer.end_all()


async def first_batch(storage: MongoStorage) -> None:
    await commit(storage, note("a", "old"), note("b", "old"), note("c", "old", ttl=timedelta(hours=9)))


async def second_batch(storage: MongoStorage) -> None:
    await commit(storage, note("a", "new"), Delete(NOTES, "b"), Touch(NOTES, "c"), note("d", "new"))
    await storage.commits.drain()


async def erasure(storage: MongoStorage) -> None:
    await storage.erase(ANA)


class TestKilled:
    @pytest.mark.parametrize(("at", "when"), COMMIT_STEPS)
    async def test_a_commit_is_whole_or_not_at_all(self, mongodb_url: str, at: int, when: Moment) -> None:
        """Whoever comes next reads one state or the other, goes on from it, and clears up."""
        writer = Writer(mongodb_url, Trap(signal.SIGKILL, at, when), first=first_batch, then=second_batch)

        assert writer.wait() == "killed"
        decided = (at, when) == (5, "after") or at > 5
        async with opened(mongodb_url) as storage:
            assert await texts(storage) == (AFTER if decided else BEFORE)
            position = await commit(storage, note("e", "next"))

            assert position.sequence == (3 if decided else 2)
            assert await texts(storage) == {**(AFTER if decided else BEFORE), "e": "next"}
            if decided:
                assert await get(storage, "b") is None
        await self.clear_up(mongodb_url, items=4)

    async def clear_up(self, url: str, *, items: int) -> None:
        clock = FrozenClock()
        clock.advance(timedelta(hours=2))
        async with opened(url, clock=clock) as storage:
            await storage.sweep(now=clock.now())
            assert (await storage.stats()).items == items
        assert left_over(url) | {"notes": 0} == {"versions": items, "notes": 0, "pending": 0, "open": 0}

    @pytest.mark.parametrize(("at", "when"), ERASURE_STEPS)
    async def test_an_erasure_is_whole_or_not_at_all(self, mongodb_url: str, at: int, when: Moment) -> None:
        """Once it is decided nobody reads anything, and the next to write removes what is left."""
        writer = Writer(mongodb_url, Trap(signal.SIGKILL, at, when), first=first_batch, then=erasure)

        assert writer.wait() == "killed"
        decided = (at, when) == (1, "after") or at > 1
        async with opened(mongodb_url) as storage:
            assert await texts(storage) == ({} if decided else BEFORE)
            await commit(storage, note("e", "next"))
            assert await texts(storage) == ({"e": "next"} if decided else {**BEFORE, "e": "next"})
        await self.clear_up(mongodb_url, items=1 if decided else 4)
        if decided:
            with raw(mongodb_url) as database:
                assert "old" not in str(list(database["threadkeep_items"].find()))


class TestTooLate:
    """A writer that stands still for long, as a paused machine does, and then goes on."""

    @pytest.mark.parametrize("at", [6, 7, 8])
    async def test_folding_long_after_everybody_else_changes_nothing(self, mongodb_url: str, at: int) -> None:
        """Its items were deleted, written again and erased meanwhile; none of them comes back, none is lost."""
        writer = Writer(mongodb_url, Trap(signal.SIGSTOP, at, "before"), first=first_batch, then=second_batch)
        assert writer.wait() == "stopped"
        async with opened(mongodb_url) as storage:
            await commit(storage, Delete(NOTES, "a"), note("d", "newer"), note("b", "back"))
            before = await texts(storage)
            writer.go_on()

            assert await texts(storage) == before == {"c": "old", "d": "newer", "b": "back"}
            assert writer.acknowledged()
        assert left_over(mongodb_url) | {"notes": 0} == {"versions": 3, "notes": 0, "pending": 0, "open": 0}

    @pytest.mark.parametrize("at", range(2, 6))
    async def test_erasing_long_after_everybody_else_takes_nothing_new(self, mongodb_url: str, at: int) -> None:
        """What was written in the new epoch, after others had finished the erasure, stays."""
        writer = Writer(mongodb_url, Trap(signal.SIGSTOP, at, "before"), first=first_batch, then=erasure)
        assert writer.wait() == "stopped"
        async with opened(mongodb_url) as storage:
            await commit(storage, note("a", "new"))
            await storage.erase(ANA)
            await commit(storage, note("a", "newer"))
            writer.go_on()

            assert await texts(storage) == {"a": "newer"}

    async def test_an_entry_long_after_its_number_was_used_and_removed_is_found_out(
        self, mongodb_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The number is free again, and the commit is made anew behind what others have written."""
        monkeypatch.setattr(records, "GRACE_SECONDS", 0.1)
        writer = Writer(mongodb_url, Trap(signal.SIGSTOP, 5, "before"), first=first_batch, then=second_batch)
        assert writer.wait() == "stopped"
        async with opened(mongodb_url) as storage:
            for number in range(5):
                await commit(storage, note("a", f"theirs {number}"))
            await storage.commits.drain()
            while storage.folder._outdated:
                await storage.sweep(now=FrozenClock().now())
            with raw(mongodb_url) as database:
                assert database["threadkeep_batches"].count_documents({}) == 1
            writer.go_on()

            assert writer.acknowledged()
            assert await texts(storage) == AFTER
            assert (await storage.position(ANA)).sequence == 7
        assert left_over(mongodb_url) | {"notes": 0} == {"versions": 3, "notes": 0, "pending": 0, "open": 0}

    async def test_what_a_sweep_has_cleared_away_is_prepared_again(self, mongodb_url: str) -> None:
        """A writer that is only slow loses its number to the sweep, never a part of its batch."""
        writer = Writer(mongodb_url, Trap(signal.SIGSTOP, 5, "before"), first=first_batch, then=second_batch)
        assert writer.wait() == "stopped"
        assert left_over(mongodb_url)["pending"] == 4
        clock = FrozenClock()
        async with opened(mongodb_url, clock=clock) as storage:
            await storage.sweep(now=clock.now())
            assert left_over(mongodb_url)["pending"] == 4
            await storage.sweep(now=clock.advance(timedelta(hours=2)))
            assert left_over(mongodb_url)["pending"] == 0
            assert (await storage.position(ANA)).sequence == 1
        writer.go_on()

        assert writer.acknowledged()
        async with opened(mongodb_url) as storage:
            assert await texts(storage) == AFTER
            assert (await storage.position(ANA)).sequence == 2
