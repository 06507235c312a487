"""Turns that lose their thread: an acknowledged one is learnt from, one of which the thread keeps nothing is not."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from langgraph.graph import START, MessagesState, StateGraph

import threadkeep
from tests.gateway.conftest import Open
from tests.gateway.langgraph_api.conftest import sdk
from tests.gateway.langgraph_api.script import say
from tests.gateway.world import GatewayWorld, kinds, owner_of, until
from threadkeep.testing import Held, ScriptedModel

SAID = "My favourite color is turquoise."


async def learnt(gateway: GatewayWorld) -> list[str]:
    """Return what is remembered of the user, once nothing waits to be learnt from."""
    mine = gateway.tk.for_owner(owner_of("ana"))
    await gateway.tk.drain()
    assert await gateway.tk.queue.list(owner_of("ana")) == []
    return [memory.text async for memory in mine.memories.walk()]


def two_steps(recorded: asyncio.Event, release: asyncio.Event, tk: threadkeep.Threadkeep) -> Any:
    """Return a graph that sets *recorded* after the agent's turn was recorded, and ends after *release*."""

    async def last(_: MessagesState) -> dict[str, Any]:
        recorded.set()
        await release.wait()
        return {}

    view = tk.per_run_owner()
    builder = StateGraph(MessagesState)
    builder.add_node("agent", view.graph())
    builder.add_node("last", last)
    builder.add_edge(START, "agent")
    builder.add_edge("agent", "last")
    return builder.compile(checkpointer=view.checkpointer)


async def delete(gateway: GatewayWorld, api: str, thread_id: str) -> None:
    if api == "lg":
        async with sdk(gateway) as graph:
            await graph.threads.delete(thread_id)
    else:
        async with gateway.client() as client:
            assert (await client.delete(f"/threads/{thread_id}")).status_code == 204


class TestTurnInProgress:
    @pytest.mark.parametrize("again", [False, True])
    @pytest.mark.parametrize("api", ["api", "lg"])
    async def test_nothing_is_learnt(self, open_gateway: Open, storage_url: str, api: str, *, again: bool):
        """The thread is deleted by another process while the model replies; its id may be in use again by then."""
        release = asyncio.Event()
        gateway = open_gateway(ScriptedModel(replies=(Held(release, "Noted."),)), url=storage_url)
        other = open_gateway(ScriptedModel(replies=("Hello.",)), url=storage_url)
        async with gateway.client() as client, other.client() as beside:
            async with gateway.stream(client, {"message": SAID, "thread_id": "t"}) as events:
                await until(lambda: gateway.model.prompts)
                await delete(other, api, "t")
                if again:
                    await other.turn(beside, "Hello", thread_id="t")
                gateway.call(release.set)
                rest = [event async for event in events]
            texts = [one["text"] for one in (await beside.get("/threads/t/messages")).json().get("messages", [])]

        assert [event.data["code"] for event in rest if event.kind == "error"] == ["thread_moved_on"]
        assert texts == (["Hello", "Hello."] if again else [])
        assert not any("turquoise" in text for text in await learnt(gateway))

    async def test_nothing_is_learnt_of_a_turn_on_record(self, open_gateway: Open, storage_url: str):
        """The turn was recorded, but its run goes on with another step."""
        recorded, release = asyncio.Event(), asyncio.Event()
        gateway = open_gateway(url=storage_url, graph=partial(two_steps, recorded, release))
        body = {"message": SAID, "thread_id": "t"}
        async with gateway.client() as client, gateway.stream(client, body) as events:
            await until(recorded.is_set)
            is_empty = await gateway.tk.drain(timeout=timedelta(seconds=0.3))
            waiting = await gateway.tk.queue.list(owner_of("ana"))
            await delete(gateway, "api", "t")
            gateway.call(release.set)
            rest = [event async for event in events]

        assert not is_empty
        assert len(waiting) == 1
        assert "error" in kinds(rest)
        assert await learnt(gateway) == []

    async def test_nothing_is_learnt_if_the_loss_is_seen_when_the_lease_is_renewed(
        self, open_gateway: Open, storage_url: str, monkeypatch: pytest.MonkeyPatch
    ):
        """The thread is deleted long before the run ends."""
        monkeypatch.setenv("THREADKEEP_LEASE_SECONDS", "3")
        recorded, release = asyncio.Event(), asyncio.Event()
        gateway = open_gateway(url=storage_url, graph=partial(two_steps, recorded, release))
        body = {"message": SAID, "thread_id": "t"}
        async with gateway.client() as client, gateway.stream(client, body) as events:
            await until(recorded.is_set)
            saver: Any = gateway.tk.checkpointer
            (lease,) = saver._leases._active.values()
            await delete(gateway, "api", "t")
            await until(lambda: lease.over)
            gateway.call(release.set)
            rest = [event async for event in events]

        assert lease.undone
        assert "error" in kinds(rest)
        assert await learnt(gateway) == []

    @pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
    async def test_a_turn_that_another_run_takes_the_thread_from(
        self, open_gateway: Open, storage_url: str, strategy: str
    ):
        """After an interruption the thread keeps what the user said, so it is learnt; what is undone is not."""
        release = asyncio.Event()
        first = open_gateway(ScriptedModel(replies=(Held(release, "Noted."),)), url=storage_url)
        second = open_gateway(ScriptedModel(replies=("Hello.",)), url=storage_url)
        body = {"message": SAID, "thread_id": "t"}
        async with first.client() as client, sdk(second) as graph, first.stream(client, body) as events:
            run_id = (await anext(events)).data["run_id"]
            await until(lambda: first.model.prompts)
            await graph.runs.wait("t", "agent", input=say("Hello"), multitask_strategy=strategy)
            first.call(release.set)
            rest = [event async for event in events]
        turn_ids = first.runs.find(owner_of("ana"), run_id).events.turn_ids
        receipt = await first.tk.for_owner(owner_of("ana")).settle(turn_ids)
        texts = await learnt(first)

        assert [event.data["code"] for event in rest if event.kind == "error"] == ["thread_moved_on"]
        assert len(turn_ids) == 1
        assert bool(receipt.memory_ids) is (strategy == "interrupt")
        assert any("turquoise" in text for text in texts) is (strategy == "interrupt")


class TestAcknowledgedTurn:
    async def test_it_is_learnt_from_although_its_thread_is_deleted(
        self, open_gateway: Open, storage_url: str, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("THREADKEEP_CAPTURE_WORKERS", "0")  # it waits until another process learns from it
        gateway = open_gateway(url=storage_url)
        async with gateway.client() as client:
            events = await gateway.turn(client, SAID, thread_id="t")
            waiting = await gateway.tk.queue.list(owner_of("ana"))
            await delete(gateway, "api", "t")

        (done,) = [event for event in events if event.kind == "done"]
        assert done.data["recorded"]
        assert len(waiting) == 1
        assert any("turquoise" in text for text in await learnt(gateway))
