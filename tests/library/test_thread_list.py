"""The list of an owner's threads: titles, status, pins and pages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langgraph.graph import StateGraph
from langgraph.types import Command, interrupt

import threadkeep
from threadkeep import Owner
from threadkeep.errors import ConflictError, InvalidInputError, OwnerMismatchError, OwnerRequiredError
from threadkeep.testing import FrozenClock, ScriptedModel

ANA = Owner("ana", "acme")


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(params=["sqlite", "memory"])
def tk(tmp_path: Path, clock: FrozenClock, request: pytest.FixtureRequest) -> Iterator[threadkeep.Threadkeep]:
    url = f"sqlite:///{tmp_path / 'memory.sqlite3'}" if request.param == "sqlite" else "memory://"
    with threadkeep.open(url, embedder="none", clock=clock) as opened:
        yield opened


def agent_of(tk: threadkeep.Threadkeep) -> Any:
    view = tk.per_run_owner()
    return create_agent(ScriptedModel(), middleware=[view.middleware()], checkpointer=view.checkpointer)


async def say(tk: threadkeep.Threadkeep, text: str, thread_id: str, owner: Owner = ANA) -> None:
    config = tk.per_run_owner().config(owner, thread_id=thread_id)
    await agent_of(tk).ainvoke({"messages": [("user", text)]}, config)


class Question(TypedDict):
    """The state of a graph that asks, fails or waits, as its input says."""

    what: str


def graph_of(tk: threadkeep.Threadkeep, began: asyncio.Event | None = None) -> Any:
    async def act(state: Question) -> Question:
        what = state["what"]
        if what == "ask":
            what = interrupt("May I?")
        if what == "fail":
            raise RuntimeError(what)
        if what == "wait" and began is not None:
            began.set()
            await asyncio.Event().wait()
        return {"what": "done"}

    inner = StateGraph(Question).add_node("act", act).add_edge("__start__", "act").compile()
    outer = StateGraph(Question).add_node("inner", inner).add_edge("__start__", "inner")
    return outer.compile(checkpointer=tk.checkpointer)


class TestStatus:
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    async def test_a_plain_run_notes_how_it_ended(self, tk: threadkeep.Threadkeep, clock: FrozenClock, durability: Any):
        """Of any graph, without the middleware and the gateway, also in a subgraph; pruning changes nothing."""
        graph, config = graph_of(tk), tk.config(user_id="ana", thread_id="1")

        async def status() -> str:
            return (await tk.threads.list("ana"))[0].status

        await graph.ainvoke({"what": "ask"}, config, durability=durability)
        assert await status() == "interrupted"
        await tk.threads.prune(["1"], owner="ana")
        assert await status() == "interrupted"
        clock.advance(timedelta(hours=1))
        await graph.ainvoke(Command(resume="yes"), config, durability=durability)
        assert await status() == "idle"
        assert (await tk.threads.list("ana"))[0].last_turn_at == clock.now()
        with pytest.raises(RuntimeError):
            await graph.ainvoke({"what": "fail"}, config, durability=durability)
        assert await status() == "error"
        await graph.ainvoke({"what": "go"}, config, durability=durability)
        assert await status() == "idle"

    async def test_a_stopped_run_is_idle(self, tk: threadkeep.Threadkeep):
        began = asyncio.Event()
        running = asyncio.ensure_future(
            graph_of(tk, began).ainvoke({"what": "wait"}, tk.config(user_id="ana", thread_id="1"))
        )
        await began.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

        assert (await tk.threads.list("ana"))[0].status == "idle"

    @pytest.mark.parametrize("strategy", ["enqueue", "rollback"])
    @pytest.mark.parametrize(("user_id", "refusal"), [(None, OwnerRequiredError), ("bob", OwnerMismatchError)])
    async def test_a_refused_run_changes_nothing(
        self, tk: threadkeep.Threadkeep, user_id: str | None, refusal: type[Exception], strategy: str
    ):
        """A run of another user, or of none: neither the list nor the checkpoints of the thread are others then."""
        agent: Any = create_agent(ScriptedModel(), middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        config = tk.config(user_id="ana", thread_id="1")
        await agent.ainvoke({"messages": [("user", "I live in Lisbon.")]}, config)
        before = await tk.threads.list("ana"), await agent.aget_state(config)
        named = {"thread_id": "1", "multitask_strategy": strategy, **({"user_id": user_id} if user_id else {})}

        with pytest.raises(refusal, match="belongs to an"):
            await agent.ainvoke({"messages": [("user", "Hello")]}, {"configurable": named})

        assert (await tk.threads.list("ana"), await agent.aget_state(config)) == before

    @pytest.mark.parametrize("place", [0, -1])
    async def test_a_refused_run_at_a_checkpoint_changes_nothing(self, tk: threadkeep.Threadkeep, place: int):
        """The agent refuses it after it has begun: it names no user, and the thread has one."""
        agent: Any = create_agent(ScriptedModel(), middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        config = tk.config(user_id="ana", thread_id="1")
        await agent.ainvoke({"messages": [("user", "I live in Lisbon.")]}, config)
        before = [one async for one in agent.aget_state_history(config)]
        listed = await tk.threads.list("ana")

        with pytest.raises(OwnerRequiredError):
            await agent.ainvoke({"messages": [("user", "Hello")]}, before[place].config)

        assert [one async for one in agent.aget_state_history(config)] == before
        assert await tk.threads.list("ana") == listed
        await agent.ainvoke({"messages": [("user", "Hello again.")]}, config)
        assert [one.text for one in await tk.threads.messages("1", owner="ana")][2:] == ["Hello again.", "Noted."]

    async def test_a_turn_with_the_middleware_that_fails_is_an_error(self, tk: threadkeep.Threadkeep):
        view = tk.per_run_owner()
        model = ScriptedModel(replies=[RuntimeError("down"), "Hello."])
        agent: Any = create_agent(model, middleware=[view.middleware()], checkpointer=view.checkpointer)
        config = view.config(ANA, thread_id="1")
        with pytest.raises(RuntimeError):
            await agent.ainvoke({"messages": [("user", "Hello")]}, config)
        failed = (await tk.threads.list(ANA))[0]
        await agent.ainvoke({"messages": [("user", "Hello again")]}, config)

        assert (failed.status, failed.title) == ("error", "Hello")
        (thread,) = await tk.threads.list(ANA)
        assert (thread.status, thread.title) == ("idle", "Hello")


class TestTitles:
    async def test_a_fork_and_a_copy_have_the_title_of_their_source(self, tk: threadkeep.Threadkeep):
        await say(tk, "Plan our holiday.", "1")

        fork = await tk.threads.fork("1", "2", owner=ANA)
        copy = await tk.threads.copy("1", "3", owner=ANA)

        assert (fork.title, copy.title) == ("Plan our holiday.", "Plan our holiday.")
        assert {thread.title for thread in await tk.threads.list(ANA)} == {"Plan our holiday."}

    async def test_the_first_seven_words_are_the_title(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        await say(tk, "Please plan\x00 our holiday\nin the north of Portugal.", "1")
        began = clock.now()
        clock.advance(timedelta(hours=1))
        await say(tk, "And book it.", "1")

        (thread,) = await tk.threads.list(ANA)

        assert (thread.thread_id, thread.title) == ("1", "Please plan our holiday in the north")
        assert (thread.status, thread.pinned) == ("idle", False)
        assert (thread.created_at, thread.last_turn_at) == (began, clock.now())
        assert await tk.threads.list(Owner("ana", "other")) == []

    async def test_a_secret_is_no_title(self, tk: threadkeep.Threadkeep):
        await say(tk, "My key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD.", "1")

        assert "abcdefgh" not in (await tk.threads.list(ANA))[0].title

    async def test_a_title_that_was_given_stays(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        await say(tk, "Hello there.", "1")
        clock.advance(timedelta(hours=1))
        await say(tk, "Something else.", "2")
        mine = tk.for_owner(ANA)

        changed = await mine.threads.update("1", title="  Holiday \n plans ", pinned=True)
        order = [one.thread_id for one in await mine.threads.list()]
        clock.advance(timedelta(hours=1))
        await say(tk, "More.", "1")

        assert (changed.title, changed.pinned) == ("Holiday plans", True)
        assert order == ["2", "1"]
        assert [(one.thread_id, one.title, one.pinned) for one in await mine.threads.list()] == [
            ("1", "Holiday plans", True),
            ("2", "Something else.", False),
        ]
        for wrong in (mine.threads.update("3", title="x"), mine.threads.update("1", title="x" * 201)):
            with pytest.raises(InvalidInputError):
                await wrong

    async def test_a_thread_is_created_before_its_first_turn(self, tk: threadkeep.Threadkeep):
        mine = tk.for_owner(ANA)
        created = await mine.threads.create("1", title="Plans")
        await mine.threads.create("2")

        assert created.title == "Plans"
        assert {one.thread_id for one in await mine.threads.list()} == {"1", "2"}
        with pytest.raises(ConflictError):
            await mine.threads.create("1")
        await say(tk, "Hello there.", "2")
        found = await mine.threads.require("2")
        assert (found.title, found.stats.checkpoints > 0) == ("Hello there.", True)
        await tk.threads.create("shared", owner="bob")
        with pytest.raises(OwnerMismatchError):
            await tk.threads.create("shared", owner="eve")

    async def test_a_thread_with_an_invalid_title_or_metadata_is_not_created(self, tk: threadkeep.Threadkeep):
        mine = tk.for_owner(ANA)
        wrong: list[dict[str, Any]] = [{"title": "x" * 201}, {"metadata": {"a": "x" * 8_001}}, {"metadata": {"a": {1}}}]
        for given in wrong:
            with pytest.raises(InvalidInputError):
                await mine.threads.create("1", **given)

        assert list(await mine.threads.list()) == []

    async def test_metadata_grow_to_their_limit_only(self, tk: threadkeep.Threadkeep):
        mine = tk.for_owner(ANA)
        await mine.threads.create("1", metadata={"a": "x" * 5_000})

        with pytest.raises(InvalidInputError, match="8,000"):
            await mine.threads.update("1", metadata={"b": "x" * 5_000})
        changed = await mine.threads.update("1", metadata={"a": "y"})

        assert changed.metadata == {"a": "y"}

    async def test_a_deleted_thread_is_not_listed_again(self, tk: threadkeep.Threadkeep):
        mine = tk.for_owner(ANA)
        await say(tk, "Hello.", "1")
        await mine.threads.delete(["1"])

        await mine.threads.note_turn("1", question="Late.")

        assert await mine.threads.list() == []
        await say(tk, "A new one.", "1")
        assert [one.title for one in await mine.threads.list()] == ["A new one."]

    async def test_a_turn_of_a_graph_without_middleware_is_noted(self, tk: threadkeep.Threadkeep):
        mine = tk.for_owner(ANA)
        view = tk.per_run_owner()
        agent: Any = create_agent(ScriptedModel(), checkpointer=view.checkpointer)
        await agent.ainvoke({"messages": [("user", "Hi")]}, view.config(ANA, thread_id="1"))

        await mine.threads.note_turn("1", question="May I pay the bill?", status="interrupted")

        assert [(one.title, one.status) for one in await mine.threads.list()] == [
            ("May I pay the bill?", "interrupted")
        ]


class TestPages:
    async def test_pages_are_by_the_last_turn(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """Each page is one read, and no thread is in two."""
        mine = tk.for_owner(ANA)
        for n in range(7):
            await say(tk, f"Turn {n}.", f"t{n}")
            clock.advance(timedelta(minutes=1))
        await say(tk, "Again.", "t2")

        pages: list[list[str]] = []
        cursor: str | None = None
        while True:
            page = await mine.threads.list(limit=3, cursor=cursor)
            pages.append([one.thread_id for one in page])
            cursor = page.cursor
            if cursor is None:
                break

        assert pages == [["t2", "t6", "t5"], ["t4", "t3", "t1"], ["t0"]]

    async def test_a_page_is_one_read(self, tk: threadkeep.Threadkeep, monkeypatch: pytest.MonkeyPatch):
        for n in range(5):
            await say(tk, f"Turn {n}.", f"t{n}")
        await tk.drain()  # nothing else reads meanwhile
        calls: list[str] = []
        storage: Any = type(tk.app.storage)

        def count(name: str) -> None:
            method = getattr(storage, name)

            def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
                calls.append(name)
                return method(self, *args, **kwargs)

            monkeypatch.setattr(storage, name, counted)

        for name in ("get", "scan", "commit", "position"):
            count(name)
        await tk.for_owner(ANA).threads.list(limit=3)

        assert [call for call in calls if call != "commit"] == ["scan"]  # the turns before may still be noted

    @pytest.mark.parametrize("cursor", ["x", "", "e30", "\x00"])
    async def test_an_invalid_cursor_is_refused(self, tk: threadkeep.Threadkeep, cursor: str):
        with pytest.raises(InvalidInputError):
            await tk.for_owner(ANA).threads.list(cursor=cursor)


class TestTitleSearch:
    async def test_pages_hold_each_thread_with_the_words_once(
        self, tk: threadkeep.Threadkeep, monkeypatch: pytest.MonkeyPatch
    ):
        """However the storage is read, and in upper or lower case."""
        monkeypatch.setattr("threadkeep.langgraph.threads._SEARCHED", 7)
        mine = tk.for_owner(ANA)
        for number in range(40):
            await mine.threads.create(f"t{number}", title=f"{'Übung' if number % 3 else 'Plans'} for day {number}")
        pages: list[list[str]] = []
        cursor: str | None = None
        while not pages or cursor is not None:
            page = await mine.threads.list(title="PLANS day", limit=4, cursor=cursor)
            pages.append([one.thread_id for one in page])
            cursor = page.cursor

        found = [one for page in pages for one in page]
        assert found == [f"t{number}" for number in range(39, -1, -3)]
        assert max(map(len, pages)) == 4
        assert len(await mine.threads.list(title="übung", limit=100)) == 26
        assert await mine.threads.list(title="nothing") == []
