"""Tests of recall on the calling thread, and of recall that has to read something first."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import threadkeep
from tests.library.test_search_on_calling_thread import home_busy, url
from tests.recall.world import ImmediateHashingEmbedder
from tests.storage.forking import ended_well, forked
from threadkeep import observability as tracing
from threadkeep.errors import ClosedError, InvalidInputError, StorageUnavailableError
from threadkeep.recall.models import Recall
from threadkeep.settings import Settings
from threadkeep.testing import Held, ScriptedModel

__all__ = ["url"]  # a fixture

ANA, BOB = "ana", "bob"
TEA, QUESTION = "I drink green tea.", "Which tea do I drink?"


@pytest.fixture
async def tk(url: str) -> AsyncIterator[threadkeep.Threadkeep]:
    """Return a memory that knows what Ana and Bob drink, and was asked for both."""
    async with threadkeep.open(url, embedder=ImmediateHashingEmbedder()) as opened:
        await opened.memories.remember(TEA, owner=ANA)
        await opened.memories.remember("I drink black tea.", owner=BOB)
        for owner in (ANA, BOB):
            assert texts(await opened.recall(QUESTION, owner=owner))
        yield opened


def texts(found: Recall) -> list[str]:
    return [one.memory.text for one in found.memories]


async def soon(recall: Any) -> Recall:
    async with asyncio.timeout(10):
        return await recall


class Turns:
    """An agent without a checkpointer, asked on either face."""

    def __init__(self, tk: threadkeep.Threadkeep, **options: Any) -> None:
        self.model = ScriptedModel()
        self.middleware = tk.middleware(capture=False, **options)
        self._agent: Any = create_agent(self.model, [], middleware=[self.middleware])

    async def say(self, face: str, text: str = QUESTION, owner: str = ANA) -> tuple[str, list[dict[str, Any]]]:
        """Return what the model was shown, and what streams were told."""
        asked = {"messages": [HumanMessage(text)]}
        config = {"configurable": {"user_id": owner}}
        if face == "sync":
            told = await asyncio.to_thread(lambda: list(self._agent.stream(asked, config, stream_mode="custom")))
        else:
            told = [event async for event in self._agent.astream(asked, config, stream_mode="custom")]
        return str(self.model.prompts[-1][-1].content), told


class TestRecall:
    async def test_warm_recall_does_not_use_the_background_loop(self, tk: threadkeep.Threadkeep) -> None:
        """Each owner is told their own, as the home loop would tell it."""
        waited_for = await tk.recall(QUESTION, owner=ANA)

        with home_busy(tk):
            found = await soon(tk.recall(QUESTION, owner=ANA))
            assert texts(await soon(tk.recall(QUESTION, owner=BOB))) == ["I drink black tea."]
            with pytest.raises(InvalidInputError):
                await tk.recall(QUESTION, owner=ANA, budget_tokens=-1)

        assert found == waited_for
        assert texts(found) == [TEA]
        assert tk.app.telemetry.counts()["recall.turns"] == 5

    async def test_what_has_changed_is_seen_at_once(self, tk: threadkeep.Threadkeep) -> None:
        """What was corrected says what is new, and of who was erased nothing is told."""
        [kept] = (await tk.recall(QUESTION, owner=ANA)).memories

        await tk.memories.correct(kept.memory.memory_id, "I drink white tea.", owner=ANA)
        for _ in range(2):
            assert texts(await tk.recall(QUESTION, owner=ANA)) == ["I drink white tea."]
        await tk.memories.forget(kept.memory.memory_id, owner=ANA)
        for _ in range(2):
            assert texts(await tk.recall(QUESTION, owner=ANA)) == []
        await tk.memories.remember(TEA, owner=ANA)
        for _ in range(2):
            assert texts(await tk.recall(QUESTION, owner=ANA)) == [TEA]
        await tk.owners.erase(ANA)
        for _ in range(2):
            assert texts(await tk.recall(QUESTION, owner=ANA)) == []

    async def test_opted_out_owner_gets_no_memories(self, tk: threadkeep.Threadkeep) -> None:
        """From the moment on that they say so, in all threads or in one."""
        await tk.owners.opt_out(ANA)
        await tk.owners.opt_out(BOB, thread_id="t")

        assert await tk.recall(QUESTION, owner=ANA) == Recall()
        assert await tk.recall(QUESTION, owner=BOB, thread_id="t") == Recall()
        assert texts(await tk.recall(QUESTION, owner=BOB, thread_id="u")) == ["I drink black tea."]

    async def test_unchanged_question_uses_the_event_loop(self, tk: threadkeep.Threadkeep) -> None:
        """Where nothing is asked the newest are given, which are read."""
        assert texts(await tk.recall(" ", owner=ANA)) == [TEA]
        with home_busy(tk), pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await tk.recall(" ", owner=ANA)

    async def test_what_was_learnt_on_another_branch_is_looked_up(self, tk: threadkeep.Threadkeep) -> None:
        """The storage says which turns led here; that has to be waited for."""
        said = [HumanMessage("I drink mint tea.", id="m1"), AIMessage("Noted.", id="a1")]
        await tk.capture(said, owner=ANA, thread_id="t", wait=True)
        asked = [HumanMessage(QUESTION, id="m2")]
        both = [TEA, "I drink mint tea."]

        assert sorted(texts(await tk.recall([*said, *asked], owner=ANA, thread_id="t"))) == both
        with home_busy(tk):
            assert sorted(texts(await soon(tk.recall([*said, *asked], owner=ANA, thread_id="t")))) == both
        with home_busy(tk), pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await tk.recall(asked, owner=ANA, thread_id="t")

    async def test_one_recall_is_one_span(
        self, tk: threadkeep.Threadkeep, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Which began before anything was looked for."""
        search = tk.app.services.search
        try_prepare = search.try_prepare

        def looking(*args: Any, **kwargs: Any) -> Any:
            with trace.get_tracer("app").start_as_current_span("looking"):
                return try_prepare(*args, **kwargs)

        monkeypatch.setattr(search, "try_prepare", looking)
        spans.clear()
        await tk.recall(QUESTION, owner=ANA)
        await tk.recall(" ", owner=ANA)

        inside, one, other = spans.get_finished_spans()
        assert inside.name == "looking"
        for span in (one, other):
            assert span.name == tracing.RECALL
            assert span.attributes is not None
            assert (span.attributes[tracing.USER], span.attributes[tracing.MEMORIES]) == (ANA, 1)
        assert one.start_time is not None
        assert inside.start_time is not None
        assert inside.start_time - 10**9 < one.start_time < inside.start_time

    async def test_failure_is_raised_by_the_event_loop(
        self, tk: threadkeep.Threadkeep, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It fails there, too, and says so; no turn fails."""

        def failing(*_: object, **__: object) -> None:
            msg = "The file is gone."
            raise StorageUnavailableError(msg)

        monkeypatch.setattr(tk.app.storage, "is_at", failing)

        assert await tk.recall(QUESTION, owner=ANA) == Recall(degraded=("storage",))
        assert tk.app.telemetry.counts()["recall.degraded"] == 1

    async def test_what_was_recalled_counts_as_used(self, url: str) -> None:
        """However it was found."""
        settings = Settings.load().model_copy(update={"inactive_days": 90})
        async with threadkeep.open(url, settings=settings, embedder=ImmediateHashingEmbedder()) as tk:
            await tk.memories.remember(TEA, owner=ANA)
            await tk.recall(QUESTION, owner=ANA)
            uses = tk.app.services.recalls._uses
            assert uses is not None
            uses._noted.clear()
            with home_busy(tk):
                await soon(tk.recall(QUESTION, owner=ANA))

                assert list(uses._noted) == [threadkeep.Owner(ANA)]

    async def test_after_the_end_it_is_refused(self, url: str) -> None:
        """In a process that was forked, and where it was closed."""
        async with threadkeep.open(url, embedder=ImmediateHashingEmbedder()) as tk:
            await tk.memories.remember(TEA, owner=ANA)
            await tk.recall(QUESTION, owner=ANA)

            def refused() -> None:
                with pytest.raises(ClosedError, match="before the process forked"):
                    tk.recall(QUESTION, owner=ANA).send(None)

            if hasattr(os, "fork"):
                assert ended_well(forked(refused))
        with pytest.raises(ClosedError, match="was closed"):
            await tk.recall(QUESTION, owner=ANA)


@pytest.mark.parametrize("face", ["sync", "async"])
class TestTurn:
    async def test_warm_recall_does_not_use_the_background_loop(self, tk: threadkeep.Threadkeep, face: str) -> None:
        """The model is shown the same, and the stream is told the same."""
        turns = Turns(tk)
        waited_for = Turns(tk)
        tk.app.services.search.drop_index(threadkeep.Owner(ANA).partition)
        expected = await waited_for.say(face)

        with home_busy(tk):
            async with asyncio.timeout(10):
                assert await turns.say(face) == expected
                shown, _ = await turns.say(face, owner=BOB)

        assert TEA in expected[0]
        assert "I drink black tea." in shown
        assert TEA not in shown

    async def test_what_has_changed_is_seen_at_once(self, tk: threadkeep.Threadkeep, face: str) -> None:
        """Erased between two turns, or gone by opting out."""
        turns = Turns(tk)
        assert TEA in (await turns.say(face))[0]
        await tk.owners.opt_out(ANA)
        assert await turns.say(face) == (
            QUESTION,
            [{"type": "recalled", "memories": [], "left_out": [], "tokens": 0, "degraded": []}],
        )
        await tk.owners.opt_out(ANA, out=False)
        assert TEA in (await turns.say(face))[0]
        await tk.owners.erase(ANA)
        assert (await turns.say(face))[0] == QUESTION

    async def test_a_storage_that_cannot_tell_fails_no_turn(self, face: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Who waits for it says what is wrong."""

        def failing(*_: object) -> bool:
            msg = "It went away."
            raise StorageUnavailableError(msg)

        with threadkeep.open("memory://", embedder=ImmediateHashingEmbedder()) as tk:
            tk.sync.memories.remember(TEA, owner=ANA)
            turns = Turns(tk)
            await turns.say(face)
            monkeypatch.setattr(tk.app.storage, "is_at", failing)
            shown, told = await turns.say(face)

        assert shown == QUESTION
        assert told[0]["degraded"] == ["storage"]


def test_a_turn_that_outlives_its_owners_erasing_is_not_recorded(url: str) -> None:
    """It was recalled at hand, in the epoch in which it began."""
    with threadkeep.open(url, embedder=ImmediateHashingEmbedder()) as tk:
        locked = tk.for_owner(ANA)
        locked.sync.memories.remember(TEA)
        go = threading.Event()
        model = ScriptedModel(replies=[Held(go)])
        agent: Any = create_agent(model, [], middleware=[locked.middleware()])
        tk.sync.recall(QUESTION, owner=ANA)
        asked = {"messages": [HumanMessage(f"I own a cat. {QUESTION}")]}
        turn = threading.Thread(target=agent.invoke, args=(asked, {"configurable": {"thread_id": "t"}}))
        with home_busy(tk):
            turn.start()
            until = time.monotonic() + 10
            while not model.prompts and time.monotonic() < until:
                time.sleep(0.001)
            assert TEA in str(model.prompts)
        tk.sync.owners.erase(ANA)
        go.set()
        turn.join(10)

        assert list(tk.sync.memories.list(owner=ANA)) == []
        assert tk.sync.queue.list(owner=ANA) == []
