"""Whose thread it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from tests.threads.checkpoints import aput, avalue_of, config_of, echo_graph
from tests.threads.conftest import MakeCheckpointer
from threadkeep.clock import SystemClock
from threadkeep.concurrency import TimeoutBudget
from threadkeep.errors import (
    InvalidInputError,
    OwnerConflictError,
    OwnerMismatchError,
    PartitionErasedError,
    StorageUnavailableError,
)
from threadkeep.identity import Owner
from threadkeep.observability import Telemetry
from threadkeep.storage.interface import Batch, Position, Put, Storage
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer
from threadkeep.threads.thread_ownership import Binder, GuardedBinding, ThreadBinding

ANA, BOB = Owner("ana@x.org"), Owner("bob", "issuer")


@pytest.fixture
async def storage() -> AsyncIterator[Storage]:
    storage = InMemoryStorage(clock=SystemClock())
    await storage.connect()
    yield storage
    await storage.close()


@pytest.fixture
def binding(storage: Storage) -> ThreadBinding:
    return ThreadBinding(storage)


@pytest.fixture
def bound(make: MakeCheckpointer, kind: Any, binding: ThreadBinding) -> ThreadkeepCheckpointer:
    return make(kind, binder=binding)


class TestBinding:
    async def test_the_first_owner_has_the_thread(self, binding: ThreadBinding):
        """Binding again is fine for them and refused for anybody else."""
        await binding.bind("1", ANA)
        await binding.bind("1", ANA)

        with pytest.raises(OwnerMismatchError):
            await binding.bind("1", BOB)
        with pytest.raises(OwnerMismatchError):
            await binding.check("1", BOB)
        await binding.check("1", ANA)
        assert await binding.owner_of("1") == ANA

    async def test_checking_binds_nothing(self, binding: ThreadBinding):
        """A look at a thread that nobody has makes it nobody's still."""
        await binding.check("1", ANA)

        await binding.bind("1", BOB)
        assert await binding.owner_of("1") == BOB

    async def test_of_two_who_come_at_once_one_has_it(self, storage: Storage):
        """Two processes do not know of each other; storage decides."""
        owners = [Owner(str(n)) for n in range(8)]

        done = await asyncio.gather(
            *(ThreadBinding(storage).bind("1", owner) for owner in owners), return_exceptions=True
        )

        assert sum(one is None for one in done) == 1
        assert sum(isinstance(one, OwnerMismatchError) for one in done) == 7

    async def test_an_owners_threads_are_listed_once_each(self, binding: ThreadBinding):
        """Bound and scoped ones, with ids as given."""
        for thread_id in ("1", "half\ud800", "x" * 1000):
            await binding.bind(thread_id, ANA)
        await binding.enter("1", ANA)
        await binding.enter("2", ANA)
        await binding.bind("3", BOB)

        assert sorted(await binding.of_owner(ANA)) == sorted(["1", "2", "half\ud800", "x" * 1000])

    async def test_releasing_forgets_one_owner_only(self, binding: ThreadBinding):
        """Afterwards nothing says which threads they had, and others keep theirs."""
        await binding.bind("1", ANA)
        await binding.enter("2", ANA)
        await binding.bind("2", BOB)

        await binding.release(ANA)

        assert await binding.of_owner(ANA) == ()
        assert await binding.owner_of("1") is None
        assert await binding.owner_of("2") == BOB
        assert await binding.of_owner(BOB) == ("2",)


class TestBindingWhileTheOwnerIsErased:
    """A run outlives its owner, who may come back meanwhile."""

    async def test_an_old_run_leaves_a_newer_binding_alone(
        self, storage: Storage, binding: ThreadBinding, monkeypatch: pytest.MonkeyPatch
    ):
        """The owner is back and a new run is between its two commits: the thread stays theirs, and nobody else's."""
        await binding.bind("1", ANA)
        old = await binding.epoch(ANA)
        await storage.erase(ANA.partition)
        await binding.release(ANA)
        await binding.unbind("1")
        new = await binding.epoch(ANA)
        assert new != old
        commit, late = storage.commit, ThreadBinding(storage)

        async def overtaken(batch: Batch) -> Position:
            if batch.partition == ANA.partition:
                monkeypatch.setattr(storage, "commit", commit)
                with pytest.raises(PartitionErasedError):
                    await late.bind("1", ANA, epoch=old)
            return await commit(batch)

        monkeypatch.setattr(storage, "commit", overtaken)
        await binding.bind("1", ANA, epoch=new)

        assert await binding.owner_of("1") == ANA
        with pytest.raises(OwnerMismatchError):
            await binding.bind("1", BOB)

    async def test_an_old_run_takes_its_own_binding_back(
        self, storage: Storage, binding: ThreadBinding, monkeypatch: pytest.MonkeyPatch
    ):
        """Nothing says which threads the erased had: also where its process was killed after the first commit."""
        await storage.commit(Batch(ANA.partition, [Put(("x",), "x", {})]))
        old = await binding.epoch(ANA)
        commit = storage.commit

        async def killed(batch: Batch) -> Position:
            if batch.partition == ANA.partition:
                msg = "It is away."
                raise StorageUnavailableError(msg)
            return await commit(batch)

        monkeypatch.setattr(storage, "commit", killed)
        with pytest.raises(StorageUnavailableError):
            await binding.bind("killed", ANA, epoch=old)
        monkeypatch.setattr(storage, "commit", commit)
        await storage.erase(ANA.partition)

        for thread_id in ("killed", "begun"):
            with pytest.raises(PartitionErasedError):
                await binding.bind(thread_id, ANA, epoch=old)
            assert await binding.owner_of(thread_id) is None


class TestCheckingInTheCheckpointer:
    @pytest.mark.parametrize(
        "named",
        [
            {"user_id": "ana@x.org"},
            {"langgraph_user_id": ANA.label},
            {"user_id": "ana@x.org", "langgraph_user_id": ANA.label},
        ],
        ids="+".join,
    )
    async def test_a_thread_of_somebody_else_is_neither_read_nor_written(
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

    async def test_reading_binds_nothing(self, bound: ThreadkeepCheckpointer, binding: ThreadBinding):
        """Only a write makes a thread somebody's."""
        await bound.aget_tuple(config_of("1", user_id="ana@x.org"))
        assert [one async for one in bound.alist(config_of("1", user_id="ana@x.org"))] == []

        assert await binding.owner_of("1") is None

    async def test_two_names_that_disagree_are_refused(self, bound: ThreadkeepCheckpointer):
        """Before anything is read."""
        with pytest.raises(OwnerConflictError, match="user_id"):
            await bound.aget_tuple(config_of("1", user_id="ana@x.org", langgraph_user_id="bob"))
        with pytest.raises(InvalidInputError, match="label"):
            await bound.aget_tuple(config_of("1", langgraph_user_id="ana@x.org"))

    async def test_the_runs_context_counts(self, bound: ThreadkeepCheckpointer, binding: ThreadBinding):
        """Who comes with ``context=`` only is bound and refused just so, before their words are in the thread."""
        graph = echo_graph(bound, context_schema=dict)
        await graph.ainvoke({"words": ["mine"]}, config_of("1"), context={"user_id": "ana@x.org"})

        with pytest.raises(OwnerMismatchError):
            await graph.ainvoke({"words": ["intruding"]}, config_of("1"), context={"user_id": "bob"})

        assert await binding.owner_of("1") == ANA
        state = await graph.aget_state(config_of("1", user_id="ana@x.org"))
        assert state.values == {"words": ["mine", "MINE"]}

    async def test_on_a_server_only_its_user_counts(self, bound: ThreadkeepCheckpointer, binding: ThreadBinding):
        """A name that the client sent binds nothing."""

        class User:
            identity = "ana@x.org"

        await aput(bound, config_of("1", assistant_id="a", user_id="forged"), 1)
        await aput(bound, config_of("2", assistant_id="a", user_id="forged", langgraph_auth_user=User()), 1)

        assert await binding.owner_of("1") is None
        assert await binding.owner_of("2") == ANA

    async def test_an_applications_own_word_wins(self, make: MakeCheckpointer, binding: ThreadBinding):
        """Where the application says whose run it is, the configuration is not asked."""
        bound = make("memory", binder=binding, whose=lambda config: ANA)

        await aput(bound, config_of("1", user_id="somebody"), 1)

        assert await binding.owner_of("1") == ANA

    async def test_without_a_name_nothing_is_checked(self, bound: ThreadkeepCheckpointer, binding: ThreadBinding):
        """An application that has no users keeps threads as with any checkpointer."""
        await aput(bound, config_of("1"), "anybody's")

        assert await avalue_of(bound, config_of("1")) == "anybody's"
        assert await binding.owner_of("1") is None

    async def test_a_deleted_thread_is_nobodys(self, bound: ThreadkeepCheckpointer, binding: ThreadBinding):
        """Its id may begin again as somebody else's, also where it was seen a moment ago."""
        await aput(bound, config_of("1", user_id="ana@x.org"), 1)
        await ThreadkeepCheckpointer.adelete_thread(bound, "1")

        await aput(bound, config_of("1", langgraph_user_id=BOB.label), 2)

        assert await binding.owner_of("1") == BOB
        assert await binding.of_owner(ANA) == ()
        with pytest.raises(OwnerMismatchError):
            await avalue_of(bound, config_of("1", user_id="ana@x.org"))

    async def test_a_scoped_thread_is_listed_but_taken_from_nobody(
        self, bound: ThreadkeepCheckpointer, binding: ThreadBinding
    ):
        """Two owners have a thread of one id in their own views."""
        await aput(bound.scoped(ANA), config_of("1"), "ana's")
        await aput(bound.scoped(BOB), config_of("1"), "bob's")

        assert await binding.of_owner(ANA) == ("1",)
        assert await binding.of_owner(BOB) == ("1",)
        await bound.scoped(ANA).adelete_thread("1")
        assert await binding.of_owner(ANA) == ()
        assert await avalue_of(bound.scoped(BOB), config_of("1")) == "bob's"

    async def test_deleting_for_an_owner_takes_both_of_theirs_and_no_other(
        self, bound: ThreadkeepCheckpointer, binding: ThreadBinding
    ):
        """Scoped and bound; a thread of the same id that is bound to somebody else stays."""
        await aput(bound, config_of("1", user_id="ana@x.org"), "ana's")
        await aput(bound.scoped(ANA), config_of("1"), "ana's, scoped")
        await aput(bound.scoped(BOB), config_of("1"), "bob's, scoped")

        await bound.adelete_of_owner(["1"], owner=BOB)
        after_bob = await avalue_of(bound, config_of("1")), await avalue_of(bound.scoped(ANA), config_of("1"))
        await bound.adelete_of_owner(["1"], owner=ANA)

        assert after_bob == ("ana's", "ana's, scoped")
        assert await avalue_of(bound.scoped(BOB), config_of("1")) is None
        assert [one async for one in bound.alist(None)] == []
        assert await binding.of_owner(ANA) == ()


class TestSurviving:
    async def test_a_turn_goes_on_while_storage_is_away(self, make: MakeCheckpointer):
        """What cannot be asked is not waited for, and it is counted."""
        telemetry = Telemetry()

        async def away() -> Binder:
            raise StorageUnavailableError("The storage did not answer.")

        bound = make("memory", binder=GuardedBinding(away, telemetry, patience=TimeoutBudget(timedelta(seconds=1))))

        await aput(bound, config_of("1", user_id="ana@x.org"), "kept")

        assert await avalue_of(bound, config_of("1", user_id="ana@x.org")) == "kept"
        assert telemetry.counts() == {"binding.degraded": 2}

    async def test_a_refusal_is_no_failure(self, make: MakeCheckpointer, binding: ThreadBinding):
        """Somebody else's thread stays refused."""

        async def there() -> Binder:
            return binding

        bound = make("memory", binder=GuardedBinding(there, Telemetry(), patience=TimeoutBudget(timedelta(seconds=10))))
        await aput(bound, config_of("1", user_id="ana@x.org"), "ana's")

        with pytest.raises(OwnerMismatchError):
            await avalue_of(bound, config_of("1", user_id="bob"))
        await bound.adelete_thread("1")
        assert await binding.owner_of("1") is None
