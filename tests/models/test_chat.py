"""The chat model that is named, and the one that stands in for it."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool

from threadkeep.errors import ModelUnavailableError
from threadkeep.ids import MemoryId
from threadkeep.memories.models import Memory
from threadkeep.models.langchain import NO_MODEL, OfflineChatModel, chat_model
from threadkeep.recall import models as render

AT = datetime(2026, 11, 20, tzinfo=UTC)
STATEMENTS = ["I am allergic to peanuts.", 'My "best" friend\nis Ana.']


def block(*texts: str) -> str:
    return render.render_block(
        [
            Memory(MemoryId(text), ("memories", "ana"), text, "semantic", "active", "user", (), 1, AT, AT)
            for text in texts
        ]
    )


@tool
def search(query: str) -> str:
    """Search for *query*."""
    return query


class TestChatModel:
    @pytest.mark.parametrize("name", ["", "gpt-5", ":x", "openai:", "openai: ", "sk-secret1:x", "Open AI:x"])
    def test_a_name_of_another_shape_is_refused(self, name: str):
        """The sentence shows the right one and repeats nothing, as it might be a key in the wrong variable."""
        with pytest.raises(ModelUnavailableError, match="provider:name") as caught:
            chat_model(name)
        assert "secret" not in str(caught.value)

    def test_an_unknown_provider_is_named(self):
        """With the variable to correct."""
        with pytest.raises(ModelUnavailableError, match="no model provider nope; correct THREADKEEP_MODEL"):
            chat_model("nope:x")

    def test_a_missing_package_is_named(self):
        """With the line that installs it."""
        if importlib.util.find_spec("langchain_mistralai"):
            pytest.skip("langchain-mistralai is installed")

        with pytest.raises(ModelUnavailableError, match="pip install langchain-mistralai"):
            chat_model("mistralai:mistral-small")

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("provider", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY")]
    )
    def test_a_missing_key_is_named_before_the_first_turn(self, provider: str, variable: str):
        """Also where the provider itself would only notice when it is called."""
        pytest.importorskip(f"langchain_{provider}")

        with pytest.raises(ModelUnavailableError, match=f"needs {variable}"):
            chat_model(f"{provider}:some-model")

    @pytest.mark.slow
    def test_a_model_with_a_key_is_made(self, monkeypatch: pytest.MonkeyPatch):
        """Without calling it."""
        pytest.importorskip("langchain_anthropic")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-key")

        assert chat_model("anthropic:claude-test")._llm_type == "anthropic-chat"

    def test_without_a_name_it_is_the_stand_in(self):
        """So everything works with no key."""
        assert isinstance(chat_model(None), OfflineChatModel)


class TestOfflineChatModel:
    @pytest.mark.parametrize("place", ["question", "blocks", "system"])
    def test_it_quotes_what_was_recalled(self, place: str):
        """Wherever the block was placed."""
        rendered = block(*STATEMENTS)
        messages = {
            "question": [HumanMessage(f"{rendered}\n\nWhat can I eat?")],
            "blocks": [HumanMessage([{"type": "text", "text": f"{rendered}\n"}, {"type": "text", "text": "What?"}])],
            "system": [SystemMessage(rendered), HumanMessage("What can I eat?")],
        }[place]

        reply = OfflineChatModel().invoke(messages).text

        assert all(f"“{statement}”" in reply for statement in STATEMENTS)
        assert reply.endswith(NO_MODEL)

    def test_it_reads_this_turns_block_only(self):
        """Not the one of an earlier question, nor its own earlier replies."""
        messages = [HumanMessage(f"{block('Old.')}\n\nHi"), AIMessage(block("Mine.")), HumanMessage("And now?")]

        reply = OfflineChatModel().invoke(messages).text

        assert reply == f"I know nothing about it yet.\n\n{NO_MODEL}"

    async def test_it_streams_in_pieces(self):
        """The pieces are the whole reply, in both worlds."""
        messages = [HumanMessage(f"{block(*STATEMENTS)}\n\nWhat can I eat?")]
        model = OfflineChatModel()

        pieces = [chunk.text for chunk in model.stream(messages)]
        awaited = [chunk.text async for chunk in model.astream(messages)]

        assert len(pieces) > 10
        assert "".join(pieces) == "".join(awaited) == (await model.ainvoke(messages)).text

    async def test_an_agent_with_tools_runs_on_it(self):
        """It calls none of them."""
        agent = create_agent(OfflineChatModel(), [search])

        state = await agent.ainvoke({"messages": [HumanMessage("Find it.")]})

        assert [message.type for message in state["messages"]] == ["human", "ai"]
