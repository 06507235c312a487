"""What the window's rules are told of messages, and when they need not be asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, FunctionMessage, HumanMessage, SystemMessage, ToolMessage

from threadkeep import functions
from threadkeep.langgraph.history import call_ids, entries_of, is_talk
from threadkeep.langgraph.window_rules import is_whole, repaired
from threadkeep.models.langchain import plain_messages

CALL: Any = {"name": "look", "args": {}, "id": "c"}
RAW: Any = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
BROKEN: Any = {"name": "look", "args": "{", "id": "c", "error": "no JSON"}

ORPHANS = {
    "a call": AIMessage("", tool_calls=[CALL]),
    "a call without an id": AIMessage("", tool_calls=[{**CALL, "id": None}]),
    "a call that cannot be read": AIMessage("", invalid_tool_calls=[BROKEN]),
    "a call as the provider spells it": AIMessage("", additional_kwargs={"tool_calls": [RAW]}),
    "a call that LangChain does not read": AIMessage("", additional_kwargs={"tool_calls": [{"id": "c", "custom": {}}]}),
    "a call in a block": AIMessage([{"type": "tool_use", "id": "c", "name": "look", "input": {}}]),
    "a call in Bedrock's block": AIMessage([{"toolUse": {"toolUseId": "c", "name": "look", "input": {}}}]),
    "a call in Bedrock's arguments": AIMessage("", additional_kwargs={"tool_use": [{"id": "c", "name": "look"}]}),
    "a single call in Bedrock's arguments": AIMessage("", additional_kwargs={"tool_use": {"id": "c", "name": "look"}}),
    "a call in Converse's arguments": AIMessage("", additional_kwargs={"toolUse": {"toolUseId": "c", "name": "look"}}),
    "a nested call in Converse's arguments": AIMessage(
        "", additional_kwargs={"toolUse": [{"toolUse": {"toolUseId": "c", "name": "look"}}]}
    ),
    "a result": ToolMessage("far", tool_call_id="c"),
    "a result in a block": HumanMessage([{"type": "tool_result", "tool_use_id": "c", "content": "far"}]),
    "a result in Bedrock's block": HumanMessage([{"toolResult": {"toolUseId": "c", "content": []}}]),
}
TALK = [
    SystemMessage("Be brief."),
    HumanMessage("Hello!"),
    AIMessage("Hello."),
    HumanMessage("What was said before.", additional_kwargs={"lc_source": "summarization"}),
    FunctionMessage(content="far", name="look"),
]


class TestIsTalk:
    @pytest.mark.parametrize("orphan", ORPHANS.values(), ids=ORPHANS.keys())
    def test_what_has_to_be_repaired_is_no_talk(self, orphan: BaseMessage):
        """However the call or the result is spelled."""
        messages = [*TALK, orphan, HumanMessage("And now?")]

        assert not is_whole(repaired(entries_of(messages)), len(messages))
        assert not is_talk(messages)

    @given(st.lists(st.sampled_from([*TALK, *ORPHANS.values()]), max_size=8))
    @example(TALK)
    def test_talk_is_whole(self, messages: list[BaseMessage]):
        """Nothing that is said to be talk has anything to repair, and texts alone are."""
        whole = is_whole(repaired(entries_of(messages)), len(messages))

        assert whole or not is_talk(messages)
        assert is_talk(messages) == all(message in TALK for message in messages)


class TestAdditionalArguments:
    def test_bedrock_calls_that_are_spelled_twice_are_one_call(self):
        """A call with its result is whole, whether it stands in one place or in all of them."""
        call = AIMessage(
            "",
            tool_calls=[CALL],
            additional_kwargs={"tool_use": [{"id": "c"}], "toolUse": {"toolUseId": "c"}, "tool_calls": [RAW]},
        )
        messages = [HumanMessage("Look!"), call, ToolMessage("far", tool_call_id="c")]

        assert call_ids(call) == ["c"]
        assert is_whole(repaired(entries_of(messages)), len(messages))

    def test_bedrock_calls_without_an_id_are_removed(self):
        """The provider would refuse them; usable calls stay."""
        call = AIMessage("", additional_kwargs={"tool_use": [{"id": "c", "name": "look"}, {"name": "lost"}]})

        mended = functions.repair_orphaned_tool_calls([HumanMessage("Look!"), call])

        assert mended[1].additional_kwargs["tool_use"] == [{"id": "c", "name": "look"}]
        assert [message.type for message in mended] == ["human", "ai", "tool"]

    @pytest.mark.parametrize("kind", [AIMessage, HumanMessage, SystemMessage])
    def test_additional_arguments_of_none_count_as_empty(self, kind: Any):
        """Some frameworks set them to None after construction."""
        message = kind("Hello")
        message.additional_kwargs = None
        messages = [HumanMessage("Hi"), message, AIMessage("", tool_calls=[CALL])]

        mended = functions.repair_orphaned_tool_calls(messages)

        assert [one.type for one in mended] == ["human", message.type, "ai", "tool"]
        assert functions.extract_tool_call_ids(messages) == {"c"}
        assert is_talk([message])
        assert "I live in Rome" in functions.summarize_messages([HumanMessage("I live in Rome."), message])
        assert len(functions.trim_messages_if_needed([*TALK[1:3] * 200, message], max_tokens=1000)) < 400
        assert plain_messages([message])[0].text == "Hello"
