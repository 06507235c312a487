"""The owner of a thread: who may read, continue and delete it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.checkpoints.checkpoints import aput, avalue_of, config_of, echo_graph
from tests.checkpoints.conftest import MakeCheckpointer
from threadkeep.checkpoints.codec import HEAD
from threadkeep.checkpoints.directory import thread_partition
from threadkeep.checkpoints.saver import ThreadkeepCheckpointer
from threadkeep.errors import (
    InvalidInputError,
    OwnerConflictError,
    OwnerMismatchError,
    PartitionErasedError,
    StorageUnavailableError,
)
from threadkeep.identity import Owner
from threadkeep.ids import ThreadId
from threadkeep.storage.interface import Batch, Delete, Position
from threadkeep.storage.memory import InMemoryStorage

ANA, BOB = Owner("ana@x.org"), Owner("bob", "issuer")


@pytest.fixture
def bound(make: MakeCheckpointer, kind: Any) -> ThreadkeepCheckpointer:
    return make(kind)


async def threads_of(checkpointer: ThreadkeepCheckpointer, owner: Owner) -> tuple[str, ...]:
    await checkpointer.connect()
    return await checkpointer._loop.run(checkpointer.directory.ids_of(owner))  # pyright: ignore[reportPrivateUsage]


class TestBinding:
    async def test_of_two_owners_at_once_one_has_it(self, bound: ThreadkeepCheckpointer):
        """The others are refused, and have written nothing."""
        owners = [Owner(f"user {number}") for number in range(8)]
        configs = [config_of("1", user_id=owner.user_id) for owner in owners]

        done = await asyncio.gather(
            *(aput(bound, one, number) for number, one in enumerate(configs)), return_exceptions=True
        )

        winners = [number for number, one in enumerate(done) if not isinstance(one, BaseException)]
        assert len(winners) == 1
        assert sum(isinstance(one, OwnerMismatchError) for one in done) == 7
        assert await bound.run(bound.maintenance.owner_of("1")) == owners[winners[0]].label
        assert [one.checkpoint["channel_values"]["x"] async for one in bound.alist(None)] == winners

    async def test_an_owners_threads_are_listed_once_each(self, bound: ThreadkeepCheckpointer):
        """Bound and scoped ones, with ids as given."""
        for thread_id in ("1", "half\ud800", "x" * 1000):
            await aput(bound, config_of(thread_id, user_id=ANA.user_id), 1)
        await aput(bound.scoped(ANA), config_of("1"), 1)
        await aput(bound.scoped(ANA), config_of("2"), 1)
        await aput(bound.scoped(BOB), config_of("3"), 1)

        assert sorted(await threads_of(bound, ANA)) == sorted(["1", "2", "half\ud800", "x" * 1000])

    async def test_while_the_owner_is_erased_no_thread_begins(self, bound: ThreadkeepCheckpointer):
        """Not a scoped one either; once the owner's partition is erased, the owner may come back."""
        await aput(bound, config_of("1", user_id=ANA.user_id), 1)

        erased = await bound.run(bound.maintenance.erase_owner(ANA))

        assert erased == ("1",)
        for saver, config in ((bound, config_of("2", user_id=ANA.user_id)), (bound.scoped(ANA), config_of("2"))):
            with pytest.raises(PartitionErasedError, match="being erased"):
                await aput(saver, config, 1)
        await bound._loop.run(bound.storage.erase(ANA.partition))  # pyright: ignore[reportPrivateUsage]
        await aput(bound, config_of("2", user_id=ANA.user_id), 2)
        assert await threads_of(bound, ANA) == ("2",)

    async def test_without_an_answer_of_the_storage_nothing_is_read_or_written(
        self, make: MakeCheckpointer, monkeypatch: pytest.MonkeyPatch
    ):
        """The check of the owner fails closed, once the time is over in which the storage is asked again."""
        bound = make("memory", timeout=timedelta(seconds=0.3))
        await aput(bound, config_of("1", user_id=ANA.user_id), 1)

        async def away(*_: Any, **__: Any) -> Any:
            msg = "The storage did not answer."
            raise StorageUnavailableError(msg)

        monkeypatch.setattr(bound.storage, "get", away)
        for user_id in (ANA.user_id, "bob"):
            with pytest.raises(StorageUnavailableError):
                await avalue_of(bound, config_of("1", user_id=user_id))
            with pytest.raises(StorageUnavailableError):
                await aput(bound, config_of("1", user_id=user_id), 2)


class TestOwners:
    @pytest.mark.parametrize(
        "named",
        [
            {"user_id": "ana@x.org"},
            {"langgraph_user_id": ANA.label},
            {"user_id": "ana@x.org", "langgraph_user_id": ANA.label},
        ],
        ids="+".join,
    )
    async def test_thread_of_another_owner_is_neither_read_nor_written(
        self, bound: ThreadkeepCheckpointer, named: dict[str, str]
    ):
        """Every method refuses, and the thread is as it was."""
        saved = await aput(bound, config_of("1", **named), "ana's")
        bobs = config_of("1", checkpoint_ns="", langgraph_user_id=BOB.label)

        for refused in (
            bound.aget_tuple(bobs),
            anext(bound.alist(bobs)),
            aput(bound, bobs, "bob's"),
            bound.aput_writes({"configurable": {**saved["configurable"], "langgraph_user_id": BOB.label}}, [], "t"),
            bound.aget_delta_channel_history(config=bobs, channels=["x"]),
        ):
            with pytest.raises(OwnerMismatchError):
                await refused

        assert await avalue_of(bound, config_of("1", **named)) == "ana's"

    async def test_reading_binds_nothing(self, bound: ThreadkeepCheckpointer):
        """Only a write makes a thread somebody's."""
        await bound.aget_tuple(config_of("1", user_id="ana@x.org"))
        assert [one async for one in bound.alist(config_of("1", user_id="ana@x.org"))] == []

        assert await bound.run(bound.maintenance.owner_of("1")) is None

    async def test_two_names_that_disagree_are_refused(self, bound: ThreadkeepCheckpointer):
        """Before anything is read."""
        with pytest.raises(OwnerConflictError, match="user_id"):
            await bound.aget_tuple(config_of("1", user_id="ana@x.org", langgraph_user_id="bob"))
        with pytest.raises(InvalidInputError, match="label"):
            await bound.aget_tuple(config_of("1", langgraph_user_id="ana@x.org"))

    async def test_the_runs_context_counts(self, bound: ThreadkeepCheckpointer):
        """Who comes with ``context=`` only is bound and refused just so, before their words are in the thread."""
        graph = echo_graph(bound, context_schema=dict)
        await graph.ainvoke({"words": ["mine"]}, config_of("1"), context={"user_id": "ana@x.org"})

        with pytest.raises(OwnerMismatchError):
            await graph.ainvoke({"words": ["intruding"]}, config_of("1"), context={"user_id": "bob"})

        assert await bound.run(bound.maintenance.owner_of("1")) == ANA.label
        state = await graph.aget_state(config_of("1", user_id="ana@x.org"))
        assert state.values == {"words": ["mine", "MINE"]}

    async def test_on_a_server_only_its_user_counts(self, bound: ThreadkeepCheckpointer):
        """A name that the client sent binds nothing."""

        class User:
            identity = "ana@x.org"

        await aput(bound, config_of("1", assistant_id="a", user_id="forged"), 1)
        await aput(bound, config_of("2", assistant_id="a", user_id="forged", langgraph_auth_user=User()), 1)

        assert await bound.run(bound.maintenance.owner_of("1")) is None
        assert await bound.run(bound.maintenance.owner_of("2")) == ANA.label

    async def test_an_applications_own_word_wins(self, make: MakeCheckpointer):
        """Where the application says whose run it is, the configuration is not asked."""
        bound = make("memory", owner_of=lambda config: ANA)

        await aput(bound, config_of("1", user_id="somebody"), 1)

        assert await bound.run(bound.maintenance.owner_of("1")) == ANA.label

    async def test_without_a_name_nothing_is_checked(self, bound: ThreadkeepCheckpointer):
        """An application that has no users keeps threads as with any checkpointer."""
        await aput(bound, config_of("1"), "anybody's")

        assert await avalue_of(bound, config_of("1")) == "anybody's"
        assert await bound.run(bound.maintenance.owner_of("1")) is None

    async def test_deleted_thread_has_no_owner(self, bound: ThreadkeepCheckpointer):
        """Its id may begin again as somebody else's, also where it was seen a moment ago."""
        await aput(bound, config_of("1", user_id="ana@x.org"), 1)
        await ThreadkeepCheckpointer.adelete_thread(bound, "1")

        await aput(bound, config_of("1", langgraph_user_id=BOB.label), 2)

        assert await bound.run(bound.maintenance.owner_of("1")) == BOB.label
        assert await threads_of(bound, ANA) == ()
        with pytest.raises(OwnerMismatchError):
            await avalue_of(bound, config_of("1", user_id="ana@x.org"))

    async def test_scoped_thread_is_listed_and_stays_with_its_owner(self, bound: ThreadkeepCheckpointer):
        """Two owners have a thread of one id in their own views."""
        await aput(bound.scoped(ANA), config_of("1"), "ana's")
        await aput(bound.scoped(BOB), config_of("1"), "bob's")

        assert await threads_of(bound, ANA) == ("1",)
        assert await threads_of(bound, BOB) == ("1",)
        await bound.scoped(ANA).adelete_thread("1")
        assert await threads_of(bound, ANA) == ()
        assert await avalue_of(bound.scoped(BOB), config_of("1")) == "bob's"

    async def test_deleting_for_an_owner_takes_both_of_theirs_and_no_other(self, bound: ThreadkeepCheckpointer):
        """Scoped and bound; a thread of the same id that is bound to somebody else stays."""
        await aput(bound, config_of("1", user_id="ana@x.org"), "ana's")
        await aput(bound.scoped(ANA), config_of("1"), "ana's, scoped")
        await aput(bound.scoped(BOB), config_of("1"), "bob's, scoped")

        await bound.run(bound.maintenance.delete_of_owner(["1"], BOB))
        after_bob = await avalue_of(bound, config_of("1")), await avalue_of(bound.scoped(ANA), config_of("1"))
        await bound.run(bound.maintenance.delete_of_owner(["1"], ANA))

        assert after_bob == ("ana's", "ana's, scoped")
        assert await avalue_of(bound.scoped(BOB), config_of("1")) is None
        assert [one async for one in bound.alist(None)] == []
        assert await threads_of(bound, ANA) == ()


class TestUnlisted:
    """Threads that are bound and on no list: what a version left that erased an owner while runs were at work."""

    @pytest.mark.parametrize("scoped", [False, True], ids=["bound", "scoped"])
    async def test_threads_of_an_erased_owner_are_removed(self, bound: ThreadkeepCheckpointer, scoped: bool):
        """Others' threads, and those without an owner, stay as they are."""
        view = bound.scoped(ANA) if scoped else bound
        await aput(bound, config_of("free"), 1)
        await aput(bound, config_of("bob's", user_id=BOB.user_id), 1)
        await aput(view, config_of("1", user_id=ANA.user_id), 1)
        await bound.run(bound.storage.erase(ANA.partition))

        found = await bound.run(bound.directory.unlisted())
        mended = await bound.run(bound.directory.mend())

        assert [(one.thread_id, one.owner, one.erased) for one in found] == [("1", ANA, True)]
        assert (mended, await bound.run(bound.directory.unlisted())) == (1, [])
        assert await avalue_of(view, config_of("1")) is None
        assert await avalue_of(bound, config_of("bob's", user_id=BOB.user_id)) == 1
        assert await avalue_of(bound, config_of("free")) == 1

    async def test_threads_of_other_owners_are_listed_again(self, bound: ThreadkeepCheckpointer):
        """Nothing that a user may still talk in is removed."""
        await aput(bound, config_of("1", user_id=ANA.user_id), 1)
        await bound.run(bound.directory.leave(ANA, "1", scoped=False))

        mended = await bound.run(bound.directory.mend())

        assert mended == 1
        assert await threads_of(bound, ANA) == ("1",)
        assert await avalue_of(bound, config_of("1", user_id=ANA.user_id)) == 1

    async def test_checkpoints_without_a_head_are_removed(self, bound: ThreadkeepCheckpointer):
        """Nothing reads them any more."""
        await aput(bound, config_of("1"), 1)
        thread = thread_partition(ThreadId("1"), None)
        await bound.run(bound.storage.commit(Batch(thread, [Delete(*HEAD)])))

        assert await bound.run(bound.directory.mend()) == 1
        assert (await bound.run(bound.storage.scan(thread))).items == ()


async def test_no_thread_of_an_owner_who_is_erased_meanwhile_is_listed(
    make: MakeCheckpointer, monkeypatch: pytest.MonkeyPatch
):
    """The listing of a run's thread waits for the storage; what was said before the erasure is not kept after it."""
    bound = make("memory")
    graph, config = echo_graph(bound), config_of("1", user_id=ANA.user_id)
    await graph.ainvoke({"words": ["hi"]}, config_of("0", user_id=ANA.user_id))
    commit, failures = InMemoryStorage.commit, list[str]()

    async def away(self: InMemoryStorage, batch: Batch) -> Position:
        if any(one.namespace[0] == ".threads" for one in batch.operations) and not failures:
            failures.append("once")
            await bound.storage.erase(ANA.partition)
            msg = "The storage is away."
            raise StorageUnavailableError(msg)
        return await commit(self, batch)

    monkeypatch.setattr(InMemoryStorage, "commit", away)
    with pytest.raises(PartitionErasedError):
        await graph.ainvoke({"words": ["hi"]}, config)

    assert failures
    assert await threads_of(bound, ANA) == ()
