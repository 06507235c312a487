"""Time to live: "expires_at becomes the storage's time plus this", in every read."""

from __future__ import annotations

from datetime import timedelta

import pytest

from threadkeep.errors import InvalidInputError
from threadkeep.storage.interface import Due, Storage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract.world import ANA, World, commit, get, keys, note, plain, require, touch

MINUTE = timedelta(minutes=1)
INSTANT = timedelta(microseconds=1)


class Expiring(World):
    """What has expired is not seen, swept or not."""

    async def test_an_item_is_seen_until_it_expires(self, storage: Storage, clock: FrozenClock) -> None:
        """It is there an instant before ``expires_at``, and gone at it."""
        await commit(storage, note("1", ttl=MINUTE))

        clock.advance(MINUTE - INSTANT)
        assert await get(storage, "1")
        clock.advance(INSTANT)
        assert await get(storage, "1") is None

    async def test_no_read_shows_what_has_expired(self, storage: Storage, clock: FrozenClock) -> None:
        """Every reading method leaves it out before anybody sweeps."""
        due = Due("work", clock.now())
        await commit(storage, note("1", ttl=MINUTE, due=due), note("2", due=due, namespace=("else",)))
        now = clock.advance(MINUTE)

        assert keys((await storage.scan(ANA)).items) == ["2"]
        assert keys((await storage.changes(ANA, None)).puts) == ["2"]
        assert await storage.namespaces() == (("else",),)
        assert keys(await storage.due("work", now=now, limit=10)) == ["2"]

    async def test_a_touch_lets_it_live_once_more(self, storage: Storage, clock: FrozenClock) -> None:
        """``expires_at`` and the revision move; value, ``updated_at`` and the rest stay."""
        await commit(storage, note("1", ttl=MINUTE))
        before = await require(storage, "1")
        now = clock.advance(MINUTE / 2)

        position = await commit(storage, touch("1"))

        after = await require(storage, "1")
        assert (after.expires_at, after.revision) == (now + MINUTE, position.sequence)
        assert (after.value, after.updated_at, after.created_at, after.ttl, after.index) == (
            before.value,
            before.updated_at,
            before.created_at,
            before.ttl,
            before.index,
        )

    async def test_a_touch_does_not_wake_the_dead(self, storage: Storage, clock: FrozenClock) -> None:
        """An expired item is absent, swept or not."""
        await commit(storage, note("1", ttl=MINUTE))
        clock.advance(MINUTE)

        await commit(storage, touch("1"))

        assert await get(storage, "1") is None

    async def test_a_touch_of_what_lives_for_ever_leaves_it_so(self, storage: Storage) -> None:
        """Without a ttl there is nothing to renew."""
        await commit(storage, note("1"))

        position = await commit(storage, touch("1"))

        item = await require(storage, "1")
        assert (item.ttl, item.expires_at, item.revision) == (None, None, position.sequence)

    async def test_a_put_counts_from_its_own_time(self, storage: Storage, clock: FrozenClock) -> None:
        """A second put with a ttl starts again; one without lets it live for ever."""
        await commit(storage, note("1", ttl=MINUTE), note("2", ttl=MINUTE))
        clock.advance(MINUTE / 2)
        await commit(storage, note("1", ttl=MINUTE), note("2"))
        clock.advance(MINUTE / 2)

        assert keys((await storage.scan(ANA, direction="oldest")).items) == ["1", "2"]
        clock.advance(MINUTE)
        assert keys((await storage.scan(ANA)).items) == ["2"]

    async def test_a_put_may_say_when_it_expires(self, storage: Storage, clock: FrozenClock) -> None:
        """``expires_at`` overrides what ``ttl`` gives, once: a touch renews by the ttl."""
        await commit(storage, note("1", ttl=MINUTE * 9, expires_at=clock.now() + MINUTE))
        await commit(storage, note("2", ttl=MINUTE * 9, expires_at=clock.now() + MINUTE))
        await commit(storage, note("3", ttl=MINUTE * 9, expires_at=clock.now()))

        assert (await require(storage, "1")).expires_at == clock.now() + MINUTE
        assert await get(storage, "3") is None
        await commit(storage, touch("2"))
        clock.advance(MINUTE)
        assert keys((await storage.scan(ANA)).items) == ["2"]

    @pytest.mark.parametrize("ttl", [timedelta(0), -MINUTE, timedelta(days=400_000)])
    async def test_a_ttl_without_an_end_in_sight_is_refused(self, storage: Storage, ttl: timedelta) -> None:
        """It is positive and at most a thousand years."""
        with pytest.raises(InvalidInputError):
            await commit(storage, note("1", ttl=ttl))

    async def test_sweeping_removes_what_has_expired(self, storage: Storage, clock: FrozenClock) -> None:
        """ "Remove items that expired by now physically; return how many"."""
        await commit(storage, note("1", ttl=MINUTE), plain("2", ttl=MINUTE), note("3", ttl=MINUTE * 2), note("4"))
        now = clock.advance(MINUTE)

        assert await storage.sweep(now=now - INSTANT) == 0
        assert await storage.sweep(now=now) == 2

        assert (await storage.stats()).items == 2
        assert await storage.sweep(now=now) == 0

    async def test_sweeping_tells_who_follows(self, storage: Storage, clock: FrozenClock) -> None:
        """The sequence moves, and what was searchable is among the removed."""
        begun = await commit(storage, note("1", ttl=MINUTE), plain("2", ttl=MINUTE), note("3"))
        now = clock.advance(MINUTE)
        await storage.sweep(now=now)

        changes = await storage.changes(ANA, begun)

        assert (changes.reset, changes.puts) == (False, ())
        assert changes.removed == ((("memories", "ana"), "1"),)
        assert changes.position.sequence == begun.sequence + 1
        assert (await commit(storage, note("5"))).sequence == begun.sequence + 2
