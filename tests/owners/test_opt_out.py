"""Opting out: a turn of somebody who wants no memory reads and writes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import PutOp

import threadkeep
from threadkeep.clock import SystemClock
from threadkeep.errors import OptedOutError
from threadkeep.identity import Owner
from threadkeep.memories.models import NewMemory
from threadkeep.owners.service import OptOuts
from threadkeep.storage.interface import Page
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import HashingEmbedder, ScriptedModel

ANA: Final = "ana@x.org"
SAID: Final = [{"role": "user", "content": "I live in Lisbon."}]


@pytest.fixture
async def tk(tmp_path: Path) -> AsyncIterator[threadkeep.Threadkeep]:
    """Return a memory in a file."""
    async with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder()) as opened:
        opened.app.notice_every = timedelta(hours=1)  # what is no part of a turn is not to be counted
        await opened.ready()
        yield opened


def calls_of(tk: threadkeep.Threadkeep, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is asked of the storage from now on, by name."""
    calls: list[str] = []
    storage: Any = tk.app.storage
    for name in ("get", "commit", "position", "scan", "changes", "namespaces", "partitions", "erase"):
        method = getattr(storage, name)

        async def counted(*args: Any, _name: str = name, _method: Any = method, **kwargs: Any) -> Any:
            calls.append(_name)
            return await _method(*args, **kwargs)

        monkeypatch.setattr(storage, name, counted)
    return calls


async def turn(tk: threadkeep.Threadkeep, text: str, *, thread: str = "1") -> Any:
    """Run a turn of an agent whose checkpointer is not ours."""
    model = ScriptedModel(replies=["Noted."])
    agent: Any = create_agent(model, tools=[], middleware=[tk.middleware()], checkpointer=InMemorySaver())
    config = tk.config(user_id=ANA, thread_id=thread)
    return await agent.ainvoke({"messages": [{"role": "user", "content": text}]}, config)


class TestOff:
    """Nothing is recalled, nothing is learnt, and the storage is not asked."""

    async def test_a_turn_does_not_touch_the_storage(self, tk: threadkeep.Threadkeep, monkeypatch: pytest.MonkeyPatch):
        """Neither for recall nor for the turn record; before, it does."""
        calls = calls_of(tk, monkeypatch)
        await turn(tk, "I live in Lisbon.")
        assert {"get", "commit"} <= set(calls)
        await tk.drain()
        await tk.owners.opt_out(ANA)
        calls.clear()

        await turn(tk, "I have two cats.", thread="2")
        assert (await tk.recall("Where do I live?", owner=ANA)).memories == ()
        assert (await tk.capture(SAID, owner=ANA, thread_id="3")).status == "nothing"

        assert calls == []
        assert len(await tk.memories.list(owner=ANA)) > 0

    async def test_only_in_a_thread(self, tk: threadkeep.Threadkeep):
        """In that thread nothing is learnt, in others it is."""
        await tk.owners.opt_out(ANA, thread_id="1")

        assert (await tk.capture(SAID, owner=ANA, thread_id="1")).status == "nothing"
        assert (await tk.capture(SAID, owner=ANA, thread_id="2", wait=True)).memory_ids
        assert (await tk.recall("Where do I live?", owner=ANA, thread_id="1")).memories == ()
        assert (await tk.recall("Where do I live?", owner=ANA, thread_id="2")).memories
        assert await tk.owners.opted_out(ANA, thread_id="1")
        assert not await tk.owners.opted_out(ANA)

    async def test_nothing_is_kept_for_them(self, tk: threadkeep.Threadkeep):
        """Remembering says so; what there is can be seen, and it can be taken back."""
        await tk.memories.remember("I live in Lisbon.", owner=ANA)
        await tk.owners.opt_out(ANA)
        with pytest.raises(OptedOutError):
            await tk.memories.remember("I have two cats.", owner=ANA)
        with pytest.raises(OptedOutError):
            await tk.memories.remember_many([NewMemory("I have two cats.")], owner=ANA)
        assert len(await tk.memories.list(owner=ANA)) == 1

        await tk.owners.opt_out(ANA, out=False)
        assert (await tk.memories.remember("I have two cats.", owner=ANA)).status == "accepted"

    @pytest.mark.parametrize("thread_id", [None, "1"])
    async def test_what_was_said_meanwhile_is_not_learnt_later(self, tk: threadkeep.Threadkeep, thread_id: str | None):
        """The thread shows it to the next turn, in this process and in others."""
        before, meanwhile, after = (
            [{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}]
            for text in ("I live in Lisbon.", "I have two cats.", "I drink tea.")
        )
        await tk.capture(before, owner=ANA, thread_id="1", wait=True)
        await tk.owners.opt_out(ANA, thread_id=thread_id)
        await tk.capture([*before, *meanwhile], owner=ANA, thread_id="1")
        await tk.owners.opt_out(ANA, thread_id=thread_id, out=False)
        services = await tk.app.event_loop.run(tk.app.connect())
        await tk.app.event_loop.run(services.opt_outs.notice())

        await tk.capture([*before, *meanwhile, *after], owner=ANA, thread_id="1", wait=True)

        texts = {memory.text for memory in await tk.memories.list(owner=ANA, kind="semantic")}
        assert texts == {"I live in Lisbon.", "I drink tea."}

    async def test_what_is_said_after_a_turn_on_record_is_learnt_at_once(self, tk: threadkeep.Threadkeep):
        """Also if several turns were missed, which came after the user was in again."""
        said = [
            [{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}]
            for text in ("I have two cats.", "I drink tea.", "I live in Lisbon.", "I work at Acme.")
        ]
        await tk.owners.opt_out(ANA)
        await tk.capture(said[0], owner=ANA, thread_id="1")
        await tk.owners.opt_out(ANA, out=False)
        await tk.capture([*said[0], *said[1]], owner=ANA, thread_id="1", wait=True)

        await tk.capture([message for turn in said for message in turn], owner=ANA, thread_id="1", wait=True)

        texts = {memory.text for memory in await tk.memories.list(owner=ANA, kind="semantic")}
        assert texts == {"I drink tea.", "I live in Lisbon.", "I work at Acme."}

    async def test_what_waits_is_emptied(self, tk: threadkeep.Threadkeep, monkeypatch: pytest.MonkeyPatch):
        """A turn that was recorded is not learnt from afterwards."""
        services = await tk.app.event_loop.run(tk.app.connect())
        await tk.app.event_loop.run(services.captures.stop())
        await tk.capture(SAID, owner=ANA, thread_id="1")
        await tk.owners.opt_out(ANA)
        assert (await tk.owners.show(ANA)).turns_waiting == 0
        await tk.drain()
        assert await tk.memories.list(owner=ANA) == []

    async def test_another_process_knows(self, tmp_path: Path):
        """From its start on, and what is changed later, when it looks."""
        url = f"sqlite:///{tmp_path}/memory.db"
        async with threadkeep.open(url, embedder="none") as one:
            await one.owners.opt_out(ANA)
            async with threadkeep.open(url, embedder="none") as other:
                assert (await other.capture(SAID, owner=ANA, thread_id="1")).status == "nothing"
                await one.owners.opt_out(ANA, out=False)
                services = await other.app.event_loop.run(other.app.connect())
                await other.app.event_loop.run(services.opt_outs.notice())
                assert (await other.capture(SAID, owner=ANA, thread_id="1")).status == "queued"

    async def test_erasing_takes_it_along(self, tk: threadkeep.Threadkeep):
        """An erased owner leaves nothing."""
        await tk.owners.opt_out(ANA)
        await tk.owners.opt_out(ANA, thread_id="1")
        await tk.owners.opt_out("bob")
        await tk.owners.erase(ANA)
        assert not await tk.owners.opted_out(ANA, thread_id="1")
        assert await tk.owners.opted_out("bob")

    async def test_nothing_is_put_for_them(self, tk: threadkeep.Threadkeep):
        """No memory and no summary through the store either, and nothing of their batch; other items as usual."""
        label, store = tk.label(ANA), tk.store
        await store.aput(("memories", label), "old", {"text": "I live in Lisbon."})
        await tk.owners.opt_out(ANA)

        for namespace in (("memories", label), ("users", label, "memories", "x"), ("summaries", label)):
            with pytest.raises(OptedOutError):
                await store.aput(namespace, "new", {"text": "I have two cats."})
            with pytest.raises(OptedOutError):
                await store.abatch([PutOp(("notes",), "1", {"n": 1}), PutOp(namespace, "new", {"text": "Cats."})])
        assert await store.aget(("notes",), "1") is None
        await store.aput(("memories", "bob"), "new", {"text": "I have two cats."})
        await store.aput(("users", label, "files"), "a", {"n": 1})
        await store.adelete(("memories", label), "old")
        assert await tk.memories.list(owner=ANA) == []

    async def test_langmems_tools_say_so(self, tk: threadkeep.Threadkeep):
        """The store keeps nothing of a user who opted out, and the handler of the guide lets the run continue."""
        langmem = pytest.importorskip("langmem", reason="LangMem is not installed")
        await tk.owners.opt_out(ANA)
        call = {"name": "manage_memory", "args": {"action": "create", "content": "Lives in Lisbon."}, "id": "1"}
        guide = (Path(__file__).parents[2] / "docs" / "langmem.md").read_text()
        names: dict[str, Any] = {}
        exec(guide.split("```python\n")[-1].split("```")[0], names)
        tool = langmem.create_manage_memory_tool(("memories", "{langgraph_user_id}"))
        for middleware, answer in (([], None), ([names["tell_model"]], "opted out")):
            model = ScriptedModel(replies=[AIMessage("", tool_calls=[call]), "Noted."])
            agent: Any = create_agent(model, tools=[tool], middleware=middleware, store=tk.store)
            run = agent.ainvoke({"messages": SAID}, tk.config(user_id=ANA, thread_id="1"))
            if answer is None:
                with pytest.raises(OptedOutError):
                    await run
            else:
                assert answer in str((await run)["messages"])
        assert await tk.memories.list(owner=ANA) == []

    async def test_the_tools_say_so(self, tk: threadkeep.Threadkeep):
        """A model that would remember hears that it must not."""
        await tk.owners.opt_out(ANA)
        call = {"name": "remember", "args": {"text": "I live in Lisbon."}, "id": "1"}
        model = ScriptedModel(replies=[AIMessage("", tool_calls=[call]), "Noted."])
        agent: Any = create_agent(model, tools=tk.tools("remember"), checkpointer=InMemorySaver())
        said = {"messages": [{"role": "user", "content": "Remember that I live in Lisbon."}]}
        state = await agent.ainvoke(said, tk.config(user_id=ANA, thread_id="1"))
        assert "opted_out" in str(state["messages"])
        assert await tk.memories.list(owner=ANA) == []


async def test_an_opt_out_holds_while_those_of_other_processes_are_read(monkeypatch: pytest.MonkeyPatch):
    """What was read before it was written does not take its place."""
    storage = InMemoryStorage(clock=SystemClock())
    await storage.connect()
    opt_outs = OptOuts(storage, SystemClock())
    scan, opted_out = InMemoryStorage.scan, asyncio.Event()

    async def slow(self: InMemoryStorage, *args: Any, **kwargs: Any) -> Page:
        page = await scan(self, *args, **kwargs)
        await opted_out.wait()
        return page

    monkeypatch.setattr(InMemoryStorage, "scan", slow)
    noticing = asyncio.create_task(opt_outs.notice())
    await asyncio.sleep(0)
    await opt_outs.set(Owner(ANA))
    opted_out.set()
    await noticing

    assert opt_outs.holds(Owner(ANA))
    await opt_outs.notice()
    assert opt_outs.holds(Owner(ANA))
