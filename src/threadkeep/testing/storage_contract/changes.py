"""``changes``: "what happened to the searchable items of a partition after since, of one moment"."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import timedelta

from threadkeep.storage.interface import (
    MAX_CHANGE_LOG_ROWS,
    Batch,
    Delete,
    Item,
    Namespace,
    Operation,
    Partition,
    Position,
    Storage,
)
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract.world import (
    ANA,
    BOB,
    NOTES,
    VECTOR,
    World,
    commit,
    delete,
    keys,
    note,
    plain,
    touch,
)

MINUTE = timedelta(minutes=1)


@dataclass
class Follower:
    """Keeps what is searchable as the port tells a consumer to."""

    partition: Partition = ANA
    position: Position | None = None
    items: dict[tuple[Namespace, str], Item] = field(default_factory=dict[tuple[Namespace, str], Item])
    resets: int = 0

    async def follow(self, storage: Storage) -> None:
        """Ask for what happened since, and apply it."""
        changes = await storage.changes(self.partition, self.position)
        if changes.reset:
            self.items.clear()
            self.resets += 1
        for place in changes.removed:
            self.items.pop(place, None)
        self.items.update({(item.ref.namespace, item.ref.key): item for item in changes.puts})
        self.position = changes.position


class Following(World):
    """A follower that applies what it is told knows what is there."""

    async def test_the_first_question_gives_everything(self, storage: Storage) -> None:
        """ "``since=None`` gives a reset": all searchable items, by revision, with their vectors."""
        await commit(storage, note("1", embedding=VECTOR), plain("2"))
        await commit(storage, note("3"), delete("none"))
        position = await commit(storage, note("1", "again", embedding=VECTOR))

        changes = await storage.changes(ANA, None)

        assert (changes.reset, changes.position, changes.removed) == (True, position, ())
        assert [(item.ref.key, item.value["data"]) for item in changes.puts] == [("3", "likes tea"), ("1", "again")]
        assert changes.puts[1].embedding == VECTOR

    async def test_many_puts_can_be_read_more_than_once(self, storage: Storage) -> None:
        """However a backend makes them: one by one, a part of them, all of them again."""
        wanted = [str(number) for number in range(200)]
        await commit(storage, *map(note, wanted))

        puts = (await storage.changes(ANA, None)).puts

        assert len(puts) == 200
        assert sorted(keys(puts)) == sorted(keys(puts)) == sorted(wanted)
        assert puts[0].ref.key == keys(puts)[0]
        assert puts[-1].ref.key == keys(puts)[-1]
        assert keys(puts[3:7]) == keys(puts)[3:7]

    async def test_an_empty_partition_is_followed_from_its_beginning(self, storage: Storage) -> None:
        """The first answer of a partition that was never written is empty, and the next one goes on from it."""
        first = await storage.changes(ANA, None)
        await commit(storage, note("1"))

        second = await storage.changes(ANA, first.position)

        assert (first.reset, first.puts) == (True, ())
        assert (second.reset, keys(second.puts)) == (False, ["1"])

    async def test_nothing_new_is_nothing(self, storage: Storage) -> None:
        """The answer to the present position is empty and no reset."""
        position = await commit(storage, note("1"))

        changes = await storage.changes(ANA, position)

        assert (changes.reset, changes.position, changes.puts, changes.removed) == (False, position, (), ())

    async def test_what_was_written_since_comes_in_the_order_of_revisions(self, storage: Storage) -> None:
        """Only later revisions, touched ones among them."""
        await commit(storage, note("1"), note("2", ttl=MINUTE))
        since = await commit(storage, note("3"))
        await commit(storage, note("4"))
        await commit(storage, note("1", "again"))
        position = await commit(storage, touch("2"))

        changes = await storage.changes(ANA, since)

        assert (changes.reset, changes.position, changes.removed) == (False, position, ())
        assert keys(changes.puts) == ["4", "1", "2"]

    async def test_what_is_no_longer_searchable_is_removed(self, storage: Storage) -> None:
        """ "What was deleted since, or written without an index"."""
        since = await commit(storage, note("1"), note("2"), note("3"))
        await commit(storage, delete("1"))
        await commit(storage, plain("2"))

        changes = await storage.changes(ANA, since)

        assert (changes.reset, changes.puts) == (False, ())
        assert sorted(changes.removed) == [(NOTES, "1"), (NOTES, "2")]

    async def test_removed_is_applied_before_puts(self, storage: Storage) -> None:
        """What went and came back is there in the end; what came and went is not."""
        follower = Follower()
        await commit(storage, note("1"))
        await follower.follow(storage)
        await commit(storage, delete("1"), note("2"))
        await commit(storage, note("1", "back"), delete("2"))

        await follower.follow(storage)

        assert [item.value["data"] for item in follower.items.values()] == ["back"]

    async def test_what_expired_after_a_change_is_removed(self, storage: Storage, clock: FrozenClock) -> None:
        """A follower that holds an older version, which did not expire, is told to let go of it."""
        since = await commit(storage, note("1"), note("2", ttl=MINUTE))
        await commit(storage, note("1", "short", ttl=MINUTE))
        clock.advance(MINUTE)

        changes = await storage.changes(ANA, since)

        assert (changes.puts, changes.removed) == ((), ((NOTES, "1"),))

    async def test_partitions_are_followed_for_themselves(self, storage: Storage) -> None:
        """Nothing of another partition is told."""
        position = await commit(storage, note("1"))

        await commit(storage, note("2"), partition=BOB)

        assert (await storage.changes(ANA, position)).puts == ()

    async def test_erasing_resets(self, storage: Storage) -> None:
        """ "Another epoch gives a reset", though the sequence says nothing new."""
        since = await commit(storage, note("1"))
        await storage.erase(ANA)

        changes = await storage.changes(ANA, since)
        assert (changes.reset, changes.puts, changes.removed) == (True, (), ())

        await commit(storage, note("2"))
        assert keys((await storage.changes(ANA, changes.position)).puts) == ["2"]
        assert keys((await storage.changes(ANA, since)).puts) == ["2"]

    async def test_a_position_that_never_was_resets(self, storage: Storage) -> None:
        """A sequence ahead of the partition's is of a storage that was put back from a copy."""
        position = await commit(storage, note("1"))

        changes = await storage.changes(ANA, Position(position.epoch, position.sequence + 5))

        assert (changes.reset, keys(changes.puts)) == (True, ["1"])

    async def test_a_log_that_no_longer_reaches_back_resets(self, storage: Storage) -> None:
        """More removals than the log keeps, in one batch and more, and a follower still knows what is there."""
        early, late = Follower(), Follower()
        many = [note(f"{number}") for number in range(MAX_CHANGE_LOG_ROWS)]
        await storage.commit(Batch(ANA, many))
        await commit(storage, note("kept"), note("dropped"))
        await early.follow(storage)
        await storage.commit(Batch(ANA, [Delete(NOTES, put.key) for put in many]))
        await late.follow(storage)

        await commit(storage, delete("dropped"))

        for follower in (early, late):
            await follower.follow(storage)
            assert [key for _, key in follower.items] == ["kept"]
        assert (early.resets, late.resets) == (2, 1)

    async def test_a_follower_always_knows_what_is_there(self, storage: Storage, clock: FrozenClock) -> None:
        """After any sequence of commits, touches, sweeps and erasures it holds what a new one is given."""
        dice = random.Random(42)  # noqa: S311 - the same sequence each time
        follower = Follower()

        def operation(key: str) -> Operation:
            ttl = dice.choice([None, MINUTE, 3 * MINUTE])
            return dice.choice([note(key, ttl=ttl), note(key, ttl=ttl), plain(key, ttl=ttl), delete(key), touch(key)])

        for turn in range(150):
            await commit(storage, *(operation(key) for key in dice.sample("abcdefgh", dice.randint(1, 3))))
            now = clock.advance(dice.choice([MINUTE / 6, MINUTE]))
            if turn % 40 == 39:
                await storage.erase(ANA)
            if dice.random() < 0.1:
                await storage.sweep(now=now)
            if dice.random() < 0.5:
                await follower.follow(storage)
                fresh = Follower()
                await fresh.follow(storage)
                held = {place: item for place, item in follower.items.items() if not expired(item, clock)}
                assert held == fresh.items


def expired(item: Item, clock: FrozenClock) -> bool:
    """Whether *item* ceased to be: "a consumer also tests expires_at by its own clock"."""
    return item.expires_at is not None and item.expires_at <= clock.now()
