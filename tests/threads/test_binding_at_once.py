"""Whose thread it is, told where it is asked; and a first turn that binds it once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from typing import Any

import langchain.agents
import pytest
from langchain_core.language_models.fake_chat_models import FakeListChatModel

import threadkeep
from tests.storage.forking import ended_well, forked
from tests.storage.test_sqlite_group_commit import transactions_of
from tests.threads.checkpoints import aput, config_of, echo_graph
from tests.threads.test_fence import said
from threadkeep.client import Threadkeep
from threadkeep.clock import SystemClock
from threadkeep.concurrency import TimeoutBudget
from threadkeep.container import Container
from threadkeep.errors import OwnerMismatchError, PartitionErasedError
from threadkeep.identity import Owner
from threadkeep.observability import Telemetry
from threadkeep.recall.models import Recall
from threadkeep.recall.service import RecallRequest
from threadkeep.storage.interface import Batch, Partition, Position, Put, Storage
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.threads import thread_ownership as binding
from threadkeep.threads.thread_ownership import GuardedBinding, ThreadBinding

ANA, BOB = Owner("ana"), Owner("bob")
ANAS, BOBS = config_of("1", user_id="ana"), config_of("1", user_id="bob")


def sqlite(path: Path) -> SqliteStorage:
    return SqliteStorage(path, clock=SystemClock())


def opened(folder: Path) -> AbstractAsyncContextManager[Threadkeep]:
    return threadkeep.open(f"sqlite:///{(folder / 'memory.db').as_posix()}", embedder="none")


def guarded(bindings: ThreadBinding) -> GuardedBinding:
    async def connected() -> ThreadBinding:
        return bindings

    patience = TimeoutBudget(timedelta(seconds=60))
    return GuardedBinding(connected, Telemetry(), patience=patience, there=lambda: bindings)


@pytest.fixture(params=["memory", "sqlite"])
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    storage = InMemoryStorage(clock=SystemClock()) if request.param == "memory" else sqlite(tmp_path / "memory.db")
    await storage.connect()
    yield storage
    await storage.close()


class TestTelling:
    async def test_what_is_answered_is_told_from_any_thread(self, storage: Storage):
        """Nobody's, one's own and somebody else's, bound and scoped, before and after each change."""
        other = ThreadBinding(storage)
        binder = guarded(ThreadBinding(storage))

        def told(owner: Owner, *, scoped: bool = False) -> tuple[bool, bool]:
            return binder.checked("1", owner), binder.known("1", owner, epoch=None, scoped=scoped)

        assert await asyncio.to_thread(told, ANA) == (True, False)
        await other.bind("1", ANA)
        assert await asyncio.to_thread(told, ANA) == (True, True)
        assert await asyncio.to_thread(told, BOB) == (False, False)
        assert await asyncio.to_thread(lambda: told(ANA, scoped=True)[1]) is False
        await other.enter("1", ANA)
        assert told(ANA, scoped=True)[1] is True
        assert told(BOB, scoped=True)[1] is False
        await other.unbind("1")
        await other.bind("1", BOB)
        assert await asyncio.to_thread(told, ANA) == (False, False)
        assert told(BOB) == (True, True)

    async def test_one_that_is_not_listed_has_yet_to_be(self, storage: Storage):
        """After a crash between two commits, where they are two, the owner's erasure would not find the thread."""
        bindings = ThreadBinding(storage)
        await bindings.bind("1", ANA)
        await storage.erase(ANA.partition)

        assert guarded(bindings).known("1", ANA, epoch=None, scoped=False) is False
        await bindings.bind("1", ANA)
        assert await bindings.of_owner(ANA) == ("1",)

    async def test_what_cannot_be_told_is_waited_for_and_holds_for_a_second(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """As where the log of the file is being recovered, and with every storage on a server."""
        storage = sqlite(tmp_path / "memory.db")
        await storage.connect()
        storage._connections.inline.close()
        binder = guarded(ThreadBinding(storage))

        def told() -> tuple[bool, bool]:
            return binder.checked("1", ANA), binder.known("1", ANA, epoch=None, scoped=False)

        before = told()
        await binder.bind("1", ANA)
        bound = told()
        await binder.check("1", ANA)
        asked = told()
        with pytest.raises(OwnerMismatchError):
            await binder.check("1", BOB)
        monkeypatch.setattr(binding.time, "monotonic", lambda: float("inf"))
        later = told()
        await storage.close()

        assert [before, bound, asked, later] == [(False, False), (False, True), (True, True), (False, False)]


class TestBindingInOneStep:
    async def test_a_thread_and_its_owners_row_are_one_commit(self, tmp_path: Path):
        storage = sqlite(tmp_path / "memory.db")
        await storage.connect()
        ended = transactions_of(storage)

        await ThreadBinding(storage).bind("1", ANA)

        await storage.close()
        assert ended == ["COMMIT"]

    async def test_an_owner_who_was_erased_leaves_nothing(self, storage: Storage):
        """Neither a binding nor a row; of one who lost the race neither."""
        bindings = ThreadBinding(storage)
        await storage.commit(Batch(ANA.partition, [Put(("x",), "x", {})]))
        old = await bindings.epoch(ANA)
        await storage.erase(ANA.partition)

        with pytest.raises(PartitionErasedError):
            await bindings.bind("1", ANA, epoch=old)

        assert await bindings.owner_of("1") is None
        assert await bindings.of_owner(ANA) == ()

    async def test_who_asks_meanwhile_waits_for_what_is_asked(self, tmp_path: Path):
        """Whatever asks of one turn: its middleware and each of its checkpoints."""
        storage = sqlite(tmp_path / "memory.db")
        await storage.connect()
        ended, binder = transactions_of(storage), guarded(ThreadBinding(storage))

        await asyncio.gather(*(binder.bind("1", ANA) for _ in range(5)))
        refused = await asyncio.gather(*(binder.bind("1", BOB) for _ in range(3)), return_exceptions=True)

        await storage.close()
        assert ended == ["COMMIT"]
        assert [type(one) for one in refused] == [OwnerMismatchError] * 3

    async def test_who_asks_after_a_deletion_does_not_wait_for_what_was_asked_before(self):
        storage, held = InMemoryStorage(clock=SystemClock()), asyncio.Event()
        bindings, asked = ThreadBinding(storage), 0

        async def connected() -> ThreadBinding:
            nonlocal asked
            asked += 1
            if asked == 1:
                await held.wait()
            return bindings

        binder = GuardedBinding(connected, Telemetry(), patience=TimeoutBudget(timedelta(minutes=10)))
        first = asyncio.create_task(binder.bind("1", BOB))
        while not asked:
            await asyncio.sleep(0)
        await binder.unbind("1")
        async with asyncio.timeout(60):
            await binder.bind("1", BOB)
        held.set()
        await first

        assert await bindings.owner_of("1") == BOB

    @pytest.mark.parametrize("within", [pytest.param("threads"), pytest.param("processes", marks=pytest.mark.linux)])
    def test_owners_who_race_have_each_thread_once(self, tmp_path: Path, within: str):
        """Each of theirs is listed as theirs, and nobody else's is."""
        path, owners, threads = tmp_path / "memory.db", [Owner(name) for name in "abc"], range(30)

        async def race(owner: Owner) -> None:
            storage = sqlite(path)
            await storage.connect()
            for thread in threads:
                try:
                    await ThreadBinding(storage).bind(str(thread), owner)
                except OwnerMismatchError:
                    continue
            await storage.close()

        async def found() -> list[tuple[Owner | None, list[Owner]]]:
            storage = sqlite(path)
            await storage.connect()
            bindings = ThreadBinding(storage)
            listed = {owner: await bindings.of_owner(owner) for owner in owners}
            whose = [
                (await bindings.owner_of(str(thread)), [owner for owner in owners if str(thread) in listed[owner]])
                for thread in threads
            ]
            await storage.close()
            return whose

        if within == "processes":
            children = [forked(lambda owner=owner: asyncio.run(race(owner))) for owner in owners]
            assert [ended_well(child) for child in children] == [True] * len(owners)
        else:
            asyncio.run(_in_threads([lambda owner=owner: asyncio.run(race(owner)) for owner in owners]))

        for owner, listing in asyncio.run(found()):
            assert listing == [owner]


async def _in_threads(works: list[Callable[[], None]]) -> None:
    await asyncio.gather(*map(asyncio.to_thread, works))


class TestTurns:
    async def test_what_another_process_gave_away_is_refused_at_once(self, tmp_path: Path):
        """Within the second that it was asked in: a run, a look and a write of nobody's run."""
        async with opened(tmp_path) as here, opened(tmp_path) as there:
            assert here.checkpointer is not None
            assert there.checkpointer is not None
            graph = echo_graph(here.checkpointer)
            await graph.ainvoke(said("one"), ANAS)
            await aput(here.checkpointer, config_of("1", checkpoint_ns="", user_id="ana"), 1)
            await there.checkpointer.adelete_thread("1")
            await echo_graph(there.checkpointer).ainvoke(said("bob's"), BOBS)

            for refused in (
                graph.ainvoke(said("two"), ANAS),
                graph.aget_state(ANAS),
                aput(here.checkpointer, config_of("1", checkpoint_ns="", user_id="ana"), 2),
            ):
                with pytest.raises(OwnerMismatchError):
                    await refused
            state = await graph.aget_state(BOBS)

        assert state.values["words"] == ["bob's", "BOB'S"]

    @pytest.mark.parametrize("face", ["async", "sync"])
    async def test_a_first_one_binds_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, face: str):
        """Middleware and checkpointer both ask whose the thread is; it is committed once, and nothing else is."""
        written: list[list[Partition]] = []
        commit_all = SqliteStorage.commit_all

        async def committed(storage: SqliteStorage, batches: Sequence[Batch]) -> tuple[Position, ...]:
            written.append([batch.partition for batch in batches])
            return await commit_all(storage, batches)

        monkeypatch.setattr(SqliteStorage, "commit_all", committed)
        model = FakeListChatModel(responses=["I see."])
        async with opened(tmp_path) as tk:
            agent: Any = langchain.agents.create_agent(
                model, tools=[], middleware=[tk.middleware(capture=False)], checkpointer=tk.checkpointer
            )
            for thread in ("1", "2"):
                written.clear()
                asked = {"messages": [{"role": "user", "content": "What tea do I like?"}]}
                config = tk.config(user_id="ana", thread_id=thread)
                if face == "async":
                    await agent.ainvoke(asked, config)
                else:
                    await asyncio.to_thread(agent.invoke, asked, config)
                assert written == [[binding._partition(thread), ANA.partition]]
            positions = [await tk.app.storage.position(partition) for partition in written[0]]

        assert [position.sequence for position in positions] == [1, 2]

    async def test_a_middleware_alone_recalls_at_hand_and_binds(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """Where the checkpoints are somebody else's, so that nobody else binds the thread."""
        waited: list[str] = []
        recall = Container.recall

        async def noted(app: Container, request: RecallRequest) -> Recall:
            waited.append(request.question)
            return await recall(app, request)

        monkeypatch.setattr(Container, "recall", noted)
        model = FakeListChatModel(responses=["I see."])
        async with opened(tmp_path) as tk:
            agent: Any = langchain.agents.create_agent(model, tools=[], middleware=[tk.middleware(capture=False)])
            await tk.recall("Who am I?", owner=ANA)
            await tk.recall("Who am I?", owner=BOB)
            waited.clear()
            asked = {"messages": [{"role": "user", "content": "What tea do I like?"}]}

            await agent.ainvoke(asked, tk.config(user_id="ana", thread_id="1"))
            with pytest.raises(OwnerMismatchError):
                await agent.ainvoke(asked, tk.config(user_id="bob", thread_id="1"))
            with pytest.raises(OwnerMismatchError):
                await asyncio.to_thread(agent.invoke, asked, tk.config(user_id="bob", thread_id="1"))

        assert waited == []
