"""What the window's rules are told of messages, and when they need not be asked."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, FunctionMessage, HumanMessage, SystemMessage, ToolMessage

from threadkeep.langgraph.history import entries_of, is_talk
from threadkeep.langgraph.window_rules import is_whole, repaired

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
