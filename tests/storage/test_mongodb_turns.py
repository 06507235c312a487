"""Real turns of a real agent on MongoDB: what one conversation teaches the next one knows, and no outage fails one."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from pymongo import AsyncMongoClient, monitoring

import threadkeep
from tests.conftest import missing
from tests.storage.mongodb_world import opened
from threadkeep.storage.interface import Partition
from threadkeep.storage.mongodb import storage as mongodb_storage
from threadkeep.testing import HashingEmbedder, ScriptedModel
from threadkeep_conformance.servers import MongoServer

pytestmark = pytest.mark.slow

TAUGHT = "I live in Lisbon."
ASKED = "Which city do I live in?"
ANA, BOB = "ana.maria@x.org", "ana_maria@x_org"


def said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def asked(model: ScriptedModel) -> str:
    """Return the newest human message of the model's last prompt."""
    return [message for message in model.prompts[-1] if message.type == "human"][-1].text


class TestTurns:
    async def test_what_was_taught_is_known_later(self, mongodb_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """By another process's storage, to that user alone; named by the environment or by a URL."""
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", "mongodb")
        monkeypatch.setenv("LANGGRAPH_STORE_MONGODB_URI", mongodb_url)
        async with threadkeep.open(embedder=HashingEmbedder()) as tk:
            agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
            await agent.ainvoke(said(TAUGHT), tk.config(user_id=ANA, thread_id="1"))

        model = ScriptedModel()
        async with threadkeep.open(mongodb_url, embedder=HashingEmbedder()) as tk:
            assert (await tk.ready()).storage == f"mongodb {mongodb_url}"
            agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
            await agent.ainvoke(said(ASKED), tk.config(user_id=BOB, thread_id="2"))
            assert TAUGHT not in asked(model)
            await agent.ainvoke(said(ASKED), tk.config(user_id=ANA, thread_id="3"))
            assert TAUGHT in asked(model)

            await tk.owners.erase(ANA)
            await agent.ainvoke(said(ASKED), tk.config(user_id=ANA, thread_id="4"))
            assert TAUGHT not in asked(model)

    def test_blocking_too(self, mongodb_url: str) -> None:
        """The sync face works on the same loop; memories can be corrected and forgotten."""
        with threadkeep.open(mongodb_url, embedder=HashingEmbedder()) as tk:
            memory = tk.sync.memories.remember(TAUGHT, owner=ANA).memory
            tk.sync.memories.correct(memory.memory_id, "I live in Porto.", owner=ANA)
            assert [found.memory.text for found in tk.sync.memories.search("live", owner=ANA)] == ["I live in Porto."]
            tk.sync.memories.forget(memory.memory_id, owner=ANA)
            assert tk.sync.memories.list(owner=ANA) == []


class Concurrency(monitoring.CommandListener):
    """Counts the commands that wait for their answers.

    Attributes:
        most: How many were at the same moment.
    """

    def __init__(self) -> None:
        self.most = self._waiting = 0

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        self._waiting += 1
        self.most = max(self.most, self._waiting)

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        self._waiting -= 1

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        self._waiting -= 1


class TestBurst:
    async def test_few_calls_are_with_the_server_at_once(self, mongodb_url: str, monkeypatch: pytest.MonkeyPatch):
        """The others wait in this process, where no timeout runs: a server answers none of them sooner."""
        seen = Concurrency()
        connecting = lambda uri: AsyncMongoClient(uri, tz_aware=True, event_listeners=[seen])  # noqa: E731
        monkeypatch.setattr(mongodb_storage, "create_client", connecting)
        async with opened(mongodb_url) as storage:
            await asyncio.gather(*(storage.scan(Partition("owner", ("", f"user {n}")), limit=9) for n in range(100)))

        assert 1 < seen.most <= 8


class TestOutage:
    @pytest.fixture
    def server(self) -> Iterator[MongoServer]:
        if lacking := MongoServer.missing():
            missing(", ".join(lacking))
        with MongoServer() as server:
            yield server
        gc.collect()

    @pytest.mark.filterwarnings(
        "ignore:unclosed <socket:ResourceWarning"
    )  # the driver's, while it looks for the server
    async def test_it_fails_no_turn_and_loses_none(self, server: MongoServer) -> None:
        """What is said while the server is away is recorded by the next turn of that thread."""
        model = ScriptedModel()
        url = f"{server.url}/memory?serverSelectionTimeoutMS=200&connectTimeoutMS=200"
        async with threadkeep.open(url, embedder=HashingEmbedder()) as tk:
            agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=InMemorySaver())
            await agent.ainvoke(said("I like tea."), tk.config(user_id=ANA, thread_id="1"))
            server.kill()
            reply = await agent.ainvoke(said(TAUGHT), tk.config(user_id=ANA, thread_id="1"))
            assert reply["messages"][-1].type == "ai"

            server.start()
            await agent.ainvoke(said("Thank you."), tk.config(user_id=ANA, thread_id="1"))
            await tk.drain()
            texts = {memory.text for memory in await tk.memories.list(owner=ANA, kind="semantic")}
            assert {"I like tea.", TAUGHT} <= texts
