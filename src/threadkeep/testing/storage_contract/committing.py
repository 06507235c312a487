"""``commit``: "all of it or nothing, checked and written in one step"."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from threadkeep.errors import InvalidInputError, PartitionErasedError, RevisionConflictError
from threadkeep.storage.interface import Batch, MultiPartitionCommits, Position, Ref, Storage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract.world import (
    ANA,
    BOB,
    NOTES,
    VECTOR,
    World,
    commit,
    delete,
    get,
    note,
    plain,
    require,
    touch,
)

MINUTE = timedelta(minutes=1)


class Committing(World):
    """Batches, expectations, revisions and times."""

    async def test_the_sequence_moves_by_one_and_is_the_revision(self, storage: Storage) -> None:
        """ "The partition's sequence moves by one", however large the batch, and is the revision of all in it."""
        first = await commit(storage, note("1"), note("2"))

        second = await commit(storage, note("2"), note("3"))

        revisions = [item and item.revision for item in await storage.get([Ref(ANA, NOTES, k) for k in "123"])]
        assert (first.sequence, second.sequence) == (1, 2)
        assert revisions == [1, 2, 2]
        assert await storage.position(ANA) == second

    async def test_a_partition_that_was_never_written_has_a_position(self, storage: Storage) -> None:
        """ "One that was never written to has an epoch, too", and the first commit is of that epoch."""
        before = await storage.position(ANA)

        after = await commit(storage, note("1"), epoch=before.epoch)

        assert (before.sequence, before.epoch) == (0, after.epoch)
        assert before.epoch

    async def test_several_partitions_are_written_in_one_step(self, storage: Storage) -> None:
        """ "All of them or nothing", each at its own partition's next number."""
        if not isinstance(storage, MultiPartitionCommits):
            return
        await commit(storage, note("1"), partition=BOB)

        positions = await storage.commit_all([Batch(ANA, [note("1")]), Batch(BOB, [note("2")])])

        assert [position.sequence for position in positions] == [1, 2]
        assert positions == (await storage.position(ANA), await storage.position(BOB))
        assert await get(storage, "1") is not None
        assert await get(storage, "2", partition=BOB) is not None

    @pytest.mark.parametrize("refused", ["expectation", "epoch", "malformed"])
    @pytest.mark.parametrize("order", ["first", "last"])
    async def test_where_one_is_refused_none_of_several_is_applied(
        self, storage: Storage, refused: str, order: str
    ) -> None:
        """Whichever it is, and for whatever it is refused."""
        if not isinstance(storage, MultiPartitionCommits):
            return
        before = [await storage.position(partition) for partition in (ANA, BOB)]
        bad, error = {
            "expectation": (Batch(BOB, [note("1", expect=7)]), RevisionConflictError),
            "epoch": (Batch(BOB, [note("1")], "another"), PartitionErasedError),
            "malformed": (Batch(BOB, []), InvalidInputError),
        }[refused]
        good = Batch(ANA, [note("1")])

        with pytest.raises(error):
            await storage.commit_all([good, bad] if order == "last" else [bad, good])

        assert [await storage.position(partition) for partition in (ANA, BOB)] == before
        assert await get(storage, "1") is None

    async def test_partitions_count_for_themselves(self, storage: Storage) -> None:
        """A commit moves the sequence of its own partition only."""
        await commit(storage, note("1"))
        await commit(storage, note("1"))

        assert (await commit(storage, note("1"), partition=BOB)).sequence == 1

    @pytest.mark.parametrize("bad", [note("2", expect=7), note("2", expect="absent"), delete("2", expect=9)])
    async def test_a_batch_that_is_refused_changes_nothing(self, storage: Storage, bad: Any) -> None:
        """One expectation that is not met refuses the whole batch, wherever it stands in it."""
        position = await commit(storage, note("1"), note("2"))
        before = await storage.get([Ref(ANA, NOTES, key) for key in "1234"])

        with pytest.raises(RevisionConflictError):
            await commit(storage, note("3", "new"), bad, delete("1"), note("4", "new"))

        assert await storage.get([Ref(ANA, NOTES, key) for key in "1234"]) == before
        assert await storage.position(ANA) == position
        assert (await storage.changes(ANA, position)).puts == ()

    @pytest.mark.parametrize("operation", [note("1", "new", expect="absent"), delete("1", expect="absent")])
    async def test_absent_is_met_by_nothing_only(self, storage: Storage, operation: Any) -> None:
        """``absent`` admits the first writer and no later one."""
        await commit(storage, operation)
        await commit(storage, note("1", "old"))

        with pytest.raises(RevisionConflictError) as refused:
            await commit(storage, operation)

        assert (await require(storage, "1")).value == {"data": "old"}
        assert refused.value.code == "revision_conflict"
        assert "likes tea" not in str(refused.value)

    @pytest.mark.parametrize("make", [note, delete])
    async def test_a_revision_is_met_by_that_revision_only(self, storage: Storage, make: Any) -> None:
        """A stale revision is refused, the present one is let in, and then it is stale, too."""
        first = await commit(storage, note("1"))
        second = await commit(storage, note("1"))

        with pytest.raises(RevisionConflictError):
            await commit(storage, make("1", expect=first.sequence))
        await commit(storage, make("1", expect=second.sequence))
        with pytest.raises(RevisionConflictError):
            await commit(storage, make("1", expect=second.sequence))

    async def test_a_revision_is_not_met_by_nothing(self, storage: Storage) -> None:
        """An item that is gone, or never was, has no revision."""
        with pytest.raises(RevisionConflictError):
            await commit(storage, note("1", expect=0))
        position = await commit(storage, note("1"))
        await commit(storage, delete("1"))

        with pytest.raises(RevisionConflictError):
            await commit(storage, note("1", expect=position.sequence))

    async def test_an_expired_item_counts_as_absent(self, storage: Storage, clock: FrozenClock) -> None:
        """ "An expired item counts as absent", its revision is met no more, and what follows it is new."""
        position = await commit(storage, note("1", ttl=MINUTE))
        moment = clock.advance(MINUTE)

        with pytest.raises(RevisionConflictError):
            await commit(storage, note("1", expect=position.sequence))
        await commit(storage, note("1", expect="absent"))

        assert (await require(storage, "1")).created_at == moment

    async def test_revisions_are_never_used_twice(self, storage: Storage) -> None:
        """Neither deleting nor erasing takes the sequence back."""
        await commit(storage, note("1"), note("2"))
        await commit(storage, delete("1"), delete("2"))
        before = await commit(storage, note("1"))
        await storage.erase(ANA)

        after = await commit(storage, note("1"))

        assert before.sequence == 3
        assert after.sequence > before.sequence
        assert (await require(storage, "1")).revision == after.sequence

    async def test_a_put_keeps_the_time_of_creation_and_nothing_else(
        self, storage: Storage, clock: FrozenClock
    ) -> None:
        """ "What is not given here is not kept from before, but for created_at"."""
        created = clock.now()
        await commit(storage, note("1", embedding=VECTOR, ttl=MINUTE))
        updated = clock.advance(MINUTE / 2)
        await commit(storage, plain("1", {"now": "this"}))

        item = await require(storage, "1")

        assert (item.created_at, item.updated_at) == (created, updated)
        assert (item.value, item.index, item.embedding, item.ttl, item.expires_at) == (
            {"now": "this"},
            (),
            None,
            None,
            None,
        )

    async def test_a_put_may_say_when_it_was_created(self, storage: Storage, clock: FrozenClock) -> None:
        """``created_at`` overrides, on an item that is there, too; later puts keep it."""
        moment = datetime(2020, 2, 29, tzinfo=UTC)
        await commit(storage, note("1"))

        await commit(storage, note("1", created_at=moment))
        await commit(storage, note("1", "again"))

        item = await require(storage, "1")
        assert (item.created_at, item.updated_at) == (moment, clock.now())

    async def test_a_put_may_say_when_it_was_updated(self, storage: Storage) -> None:
        """``updated_at`` overrides, and the scan's order follows it; later puts know nothing of it."""
        moment = datetime(2020, 2, 29, 1, 2, 3, 4, tzinfo=UTC)
        await commit(storage, note("new"))

        await commit(storage, note("old", created_at=moment, updated_at=moment))

        item = await require(storage, "old")
        assert (item.created_at, item.updated_at) == (moment, moment)
        assert [found.ref.key for found in (await storage.scan(ANA)).items] == ["new", "old"]
        await commit(storage, note("old"))
        assert (await require(storage, "old")).updated_at > moment

    async def test_a_key_that_comes_back_is_created_anew(self, storage: Storage, clock: FrozenClock) -> None:
        """``created_at`` does not outlive a delete."""
        await commit(storage, note("1"))
        await commit(storage, delete("1"))
        moment = clock.advance(MINUTE)

        await commit(storage, note("1"))

        assert (await require(storage, "1")).created_at == moment

    async def test_deleting_and_touching_nothing_is_no_error(self, storage: Storage) -> None:
        """ "It need not be there"; the sequence moves all the same."""
        position = await commit(storage, delete("none"), touch("nothing"))

        assert position.sequence == 1
        assert (await storage.scan(ANA)).items == ()

    async def test_the_same_key_in_two_namespaces_is_two_items(self, storage: Storage) -> None:
        """An item is where namespace and key say, both of them."""
        await commit(storage, plain("1", {"at": 1}), plain("1", {"at": 2}, ("summaries", "ana")))

        await commit(storage, delete("1"))

        assert await get(storage, "1") is None
        assert (await require(storage, "1", ("summaries", "ana"))).value == {"at": 2}

    async def test_of_two_writers_that_expect_the_same_one_wins(self, storage: Storage) -> None:
        """Twenty commits that expect the same revision at the same time: one is let in."""
        position = await commit(storage, note("1"))
        commits = (commit(storage, plain("1", {"by": by}, expect=position.sequence)) for by in range(20))

        results = await asyncio.gather(*commits, return_exceptions=True)

        won = [by for by, result in enumerate(results) if isinstance(result, Position)]
        assert len(won) == 1
        assert sum(isinstance(result, RevisionConflictError) for result in results) == 19
        assert (await require(storage, "1")).value == {"by": won[0]}

    async def test_concurrent_commits_each_have_a_number(self, storage: Storage) -> None:
        """Commits of one partition are one after the other, whichever writer makes them."""
        positions = await asyncio.gather(*(commit(storage, note(str(n))) for n in range(30)))

        assert sorted(position.sequence for position in positions) == list(range(1, 31))
        assert len((await storage.scan(ANA)).items) == 30

    async def test_erased_means_refused(self, storage: Storage) -> None:
        """A write of work that began before the erasure is refused; one of now is let in."""
        begun = await commit(storage, note("1"))
        await storage.erase(ANA)

        with pytest.raises(PartitionErasedError):
            await commit(storage, note("2"), epoch=begun.epoch)
        assert (await storage.scan(ANA)).items == ()

        now = await storage.position(ANA)
        assert now.epoch != begun.epoch
        await commit(storage, note("3"), epoch=now.epoch)
        await commit(storage, note("4"))
        assert len((await storage.scan(ANA)).items) == 2

    async def test_erased_before_anything_was_written_means_refused(self, storage: Storage) -> None:
        """The epoch of an empty partition changes, too."""
        begun = await storage.position(ANA)
        assert await storage.erase(ANA) == 0

        with pytest.raises(PartitionErasedError):
            await commit(storage, note("1"), epoch=begun.epoch)

    async def test_erasing_takes_one_partition(self, storage: Storage) -> None:
        """Everything of it, counted, internal rows included, and nothing of another."""
        await commit(storage, note("1"), plain("2", namespace=(".turns", "ana")))
        await commit(storage, note("1"), partition=BOB)

        assert await storage.erase(ANA) == 2

        assert (await storage.scan(ANA)).items == ()
        assert await get(storage, "1", partition=BOB)
        assert await storage.erase(ANA) == 0
