"""How much of a window messages take, and when that need not be counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

import threadkeep
from threadkeep.langgraph import window as compaction
from threadkeep.langgraph.history import described, estimated, fits_without_counting
from threadkeep.langgraph.window import Compaction, ModelCallContext
from threadkeep.testing import HashingEmbedder

TEXTS = st.text(st.characters(), max_size=60)
MESSAGES = st.one_of(
    st.builds(HumanMessage, TEXTS),
    st.builds(AIMessage, TEXTS),
    st.builds(lambda text: HumanMessage([{"type": "text", "text": text}, {"type": "image_url"}]), TEXTS),
    st.builds(lambda text: AIMessage("", tool_calls=[{"name": "look", "args": {"at": text}, "id": "c"}]), TEXTS),
    st.builds(lambda text: ToolMessage(text, tool_call_id="c"), TEXTS),
)


@tool
def look(at: str) -> str:
    """Look at something that is far away."""
    return at


@pytest.fixture
def tk() -> Iterator[threadkeep.Threadkeep]:
    with threadkeep.open("memory://", embedder=HashingEmbedder()) as opened:
        yield opened


class TestFitsWithoutCounting:
    @given(st.lists(MESSAGES, max_size=8), TEXTS, st.integers(1, 2_000))
    def test_it_never_says_so_where_counting_would_not(self, messages: list[BaseMessage], system: str, limit: int):
        """In any script, with calls, results, pictures, a system prompt and tools."""
        more: Any = {"system": SystemMessage(system), "tools": described([look])}

        counted = estimated(messages, **more)

        assert not fits_without_counting(messages, limit=limit, **more) or counted.total * 2 <= limit

    @given(st.lists(st.text(st.characters(), max_size=60), max_size=8))
    def test_every_byte_may_be_a_token(self, texts: list[str]):
        """No vocabulary of bytes makes more of a text; what a message takes beside it is the same for all."""
        worst = sum(len(text.encode("utf-8", "surrogatepass")) + 4 for text in texts)
        messages = [HumanMessage(text) for text in texts]

        assert fits_without_counting(messages, limit=2 * worst)
        assert not texts or not fits_without_counting(messages, limit=2 * worst - 2)


class TestCounting:
    async def test_a_short_history_is_not_counted(self, tk: threadkeep.Threadkeep, monkeypatch: pytest.MonkeyPatch):
        """A model is called many times in a turn, and each count reads the whole thread."""
        counts: list[int] = []

        def counting(messages: Any, **more: Any) -> Any:
            counts.append(len(messages))
            return estimated(messages, **more)

        monkeypatch.setattr(compaction, "estimated", counting)
        short, long = [HumanMessage("Hello!")], [HumanMessage("Hello! " * 300)]

        for messages in (short, long):
            await Compaction(tk).fitting(ModelCallContext(messages, None, limit=2_000, keep=20))

        assert counts == [1]

    async def test_tools_are_described_once(self, tk: threadkeep.Threadkeep, monkeypatch: pytest.MonkeyPatch):
        """While an agent gives the same ones; other ones, or one more, are described anew."""
        asked: list[int] = []

        def describing(tools: Any) -> Any:
            asked.append(len(tools))
            return described(tools)

        monkeypatch.setattr(compaction, "described", describing)
        fitting = Compaction(tk)

        for tools in ([look], [look], [look, look], [look], [{"name": "look"}]):
            await fitting.fitting(ModelCallContext([HumanMessage("Hello!")], None, limit=2_000, keep=20, tools=tools))

        assert asked == [1, 2, 1, 1]

    async def test_tools_count_in_the_window(self, tk: threadkeep.Threadkeep):
        """A history that fits by itself is shortened where its tools take what is left."""
        history = [HumanMessage("Tell me more. " * 20), AIMessage("More. " * 20), HumanMessage("And now?")]
        tools = [{"name": "look", "description": "Look. " * 300}]

        alone = await Compaction(tk).fitting(ModelCallContext(history, None, limit=600, keep=1))
        beside = await Compaction(tk).fitting(ModelCallContext(history, None, limit=600, keep=1, tools=tools))

        assert not alone.changed
        assert len(beside.messages) < len(history) or beside.changed
