"""The models for tests do what their scripts say."""

from __future__ import annotations

import asyncio
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool

from threadkeep.errors import EmbedderUnavailableError
from threadkeep.testing import HashingEmbedder, HashingEmbeddings, Held, ScriptedModel

ASK = [HumanMessage("Hello?")]


@tool
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


class TestScriptedModel:
    def test_replies_come_in_order_and_the_last_one_stays(self):
        """A run may ask more often than the script says."""
        model = ScriptedModel(replies=["one", AIMessage("two")])

        assert [model.invoke(ASK).text for _ in range(3)] == ["one", "two", "two"]

    async def test_chunks_are_streamed_as_given(self):
        """A text goes word by word."""
        model = ScriptedModel(replies=[["a", "bc"], "two words"])

        streams = [[chunk.text async for chunk in model.astream(ASK) if chunk.content] for _ in range(2)]

        assert streams == [["a", "bc"], ["two", " words"]]

    def test_an_error_is_raised(self):
        """In its turn."""
        model = ScriptedModel(replies=[TimeoutError("busy"), "back"])

        with pytest.raises(TimeoutError, match="busy"):
            model.invoke(ASK)
        assert model.invoke(ASK).text == "back"

    def test_an_empty_stream_is_empty(self):
        """LangChain makes an error of it, as it does of a provider's."""
        with pytest.raises(ValueError, match="No generation"):
            list(ScriptedModel(replies=[[]]).stream(ASK))

    @pytest.mark.parametrize("event", [asyncio.Event, threading.Event])
    async def test_a_held_reply_waits_for_its_event(self, event: type[asyncio.Event | threading.Event]):
        """Of either kind."""
        until = event()
        model = ScriptedModel(replies=[Held(until, "now")])

        waiting = asyncio.ensure_future(model.ainvoke(ASK))
        done, _ = await asyncio.wait([waiting], timeout=0.01)
        until.set()

        assert not done
        assert (await waiting).text == "now"

    def test_tools_are_called_and_prompts_noted(self):
        """A whole agent runs on one script."""
        call = AIMessage("", tool_calls=[{"name": "add", "args": {"left": 1, "right": 2}, "id": "1"}])
        model = ScriptedModel(replies=[call, "It is 3."])

        state = create_agent(model, [add]).invoke({"messages": ASK})

        assert [message.type for message in model.prompts[1]] == ["human", "ai", "tool"]
        assert state["messages"][-1].text == "It is 3."
        assert [each.name for each in model.tools] == ["add"]


class TestHashingEmbedder:
    @given(st.lists(st.text(), min_size=1, max_size=5))
    def test_any_text_has_the_same_unit_vector_every_time(self, texts: list[str]):
        """Empty ones and half characters, too."""
        first, second = (asyncio.run(HashingEmbedder(dims=16).embed(texts)) for _ in range(2))

        assert np.array_equal(first, second)
        assert np.allclose(np.linalg.norm(first, axis=1), 1, atol=1e-5)

    async def test_texts_that_share_words_are_near(self):
        """Nearer than those that share none."""
        model = HashingEmbedder()

        tea, also_tea, other = await model.embed(["I like green tea", "green tea I love", "the deployment broke"])

        assert tea @ also_tea > 0.5 > tea @ other

    async def test_it_fails_on_request(self):
        """Until it is told otherwise."""
        model = HashingEmbedder()
        model.error = EmbedderUnavailableError("down")

        with pytest.raises(EmbedderUnavailableError, match="down"):
            await model.embed(["a"])

    async def test_langchains_twin_gives_the_same(self):
        """So a stock store can be compared with ours."""
        assert np.allclose(await HashingEmbedder().embed(["I like tea"]), HashingEmbeddings().embed_query("I like tea"))
