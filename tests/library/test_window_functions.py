"""The documents' names for the window's rules."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

import threadkeep
from threadkeep import functions
from threadkeep.errors import ContextTooLargeError, InvalidInputError
from threadkeep.testing import HashingEmbedder, ScriptedModel

CALLING = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "c1"}], id="calling")
RESULT = ToolMessage("seen", tool_call_id="c1", id="result")
TALK = [
    SystemMessage("Be kind."),
    HumanMessage("Look."),
    CALLING,
    RESULT,
    AIMessage("I see it."),
    HumanMessage("Good."),
]


class State(TypedDict):
    """Messages that nobody checks."""

    messages: Annotated[list[Any], lambda _, new: [one for one in new if getattr(one, "type", "") != "remove"]]


class TestBoundaries:
    def test_ids_of_all_calls(self):
        assert functions.extract_tool_call_ids(TALK) == {"c1"}

    @pytest.mark.parametrize(("target", "split"), [(3, 2), (2, 2), (4, 4), (0, 0)])
    def test_a_split_never_parts_a_pair(self, target: int, split: int):
        assert functions.find_safe_split_index(TALK, target) == split

    def test_what_may_be_summarised(self, monkeypatch: pytest.MonkeyPatch):
        assert functions.find_safe_summarization_boundary(TALK, 3) == 2
        monkeypatch.setenv("MIN_MESSAGES_TO_KEEP", "2")
        assert functions.find_safe_summarization_boundary(TALK) == 4


class TestTrim:
    def test_under_the_limit_nothing_goes(self):
        assert functions.trim_messages_if_needed(TALK) == TALK

    def test_over_the_limit_the_oldest_go(self):
        talk = [TALK[0], *[kind(f"{i} " + "word " * 100) for i in range(10) for kind in (HumanMessage, AIMessage)]]

        kept = functions.trim_messages_if_needed(talk, max_tokens=1_000)

        assert not functions.preflight_context_check(talk, max_tokens=1_000)
        assert functions.preflight_context_check(kept, max_tokens=1_000)
        assert kept[0] is talk[0]
        assert kept[1].type == "human"
        assert kept[-1] is talk[-1]

    def test_off_means_off(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("ENABLE_AUTO_COMPRESSION", "false")
        talk = [HumanMessage("word " * 5_000), HumanMessage("Good.")]

        assert functions.trim_messages_if_needed(talk, max_tokens=1_000) == talk

    def test_a_models_profile_is_a_limit(self):
        model = ScriptedModel()
        model.profile = {"max_input_tokens": 1_000}

        assert not functions.preflight_context_check([HumanMessage("word " * 2_000)], model=model)

    def test_what_cannot_fit_is_named(self):
        with pytest.raises(ContextTooLargeError, match="user message at position 0"):
            functions.trim_messages_if_needed([HumanMessage("word " * 5_000)], max_tokens=1_000)

    def test_what_is_no_message_is_refused(self):
        with pytest.raises(InvalidInputError):
            functions.trim_messages_if_needed([object()])


class TestSummarise:
    def test_it_says_what_was_said_most(self):
        talk = [
            HumanMessage("The Lisbon deployment fails. I had coffee."),
            AIMessage("The Lisbon deployment fails at the database migration."),
            HumanMessage("So the database migration of the Lisbon deployment is broken."),
        ]

        summary = functions.summarize_messages(talk, max_tokens=32)

        assert "Lisbon deployment" in summary
        assert "coffee" not in summary

    def test_nothing_said(self):
        assert functions.summarize_messages([]) == ""


class TestRepair:
    def test_in_place(self):
        mended = functions.repair_orphaned_tool_calls([HumanMessage("Look."), CALLING, HumanMessage("Well?")])

        assert [message.type for message in mended] == ["human", "ai", "tool", "human"]

    async def test_a_threads_state(self):
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            agent: Any = create_agent(ScriptedModel(), tools=[], checkpointer=tk.checkpointer)
            config = tk.config(user_id="ana", thread_id="t")
            await agent.aupdate_state(config, {"messages": [HumanMessage("Look."), CALLING]}, as_node="model")

            assert await functions.repair_thread(agent, config)
            assert not await functions.repair_thread(agent, config)

            held = (await agent.aget_state(config)).values["messages"]
            assert [message.type for message in held] == ["human", "ai", "tool"]

    async def test_without_checkpointer_or_thread_nothing_is_done(self):
        bare: Any = create_agent(ScriptedModel(), tools=[])

        assert not await functions.repair_thread(bare, {"configurable": {"thread_id": "t"}})
        assert not await functions.repair_thread(bare, {})

    async def test_what_cannot_be_repaired_begins_anew(self):
        """A state of another shape than messages: the documents' reset."""
        builder = StateGraph(State)
        builder.add_node("chat", lambda state: {})
        builder.add_edge(START, "chat")
        graph: Any = builder.compile(checkpointer=InMemorySaver())
        config: Any = {"configurable": {"thread_id": "t"}}
        await graph.aupdate_state(config, {"messages": [{"neither": "role", "nor": "content"}]}, as_node="chat")

        assert await functions.repair_thread(graph, config)

        held = (await graph.aget_state(config)).values["messages"]
        assert [message.text for message in held] == [functions.RESET_MESSAGE]
