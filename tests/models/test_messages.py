"""LangChain's messages as our own."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from threadkeep.errors import InvalidInputError
from threadkeep.models.langchain import PlainMessages, plain_messages

TEXT = {"type": "text", "text": "one"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOL_USE = {"type": "tool_use", "id": "1", "name": "search", "input": {"text": "hidden"}}
THOUGHT = {"type": "reasoning", "reasoning": "hidden"}
CALL = {"name": "search", "args": {}, "id": "1", "type": "tool_call"}

CASES: list[tuple[Any, str, str]] = [
    (HumanMessage("hello"), "user", "hello"),
    ("hello", "user", "hello"),
    (("user", "hello"), "user", "hello"),
    (("human", "hello"), "user", "hello"),
    ({"role": "user", "content": "hello"}, "user", "hello"),
    ({"type": "human", "content": "hello"}, "user", "hello"),
    (ChatMessage(content="hello", role="user"), "user", "hello"),
    (ChatMessage(content="hello", role="narrator"), "system", "hello"),
    (AIMessage("hello"), "assistant", "hello"),
    (AIMessageChunk(content="hello"), "assistant", "hello"),
    (("ai", "hello"), "assistant", "hello"),
    (SystemMessage("hello"), "system", "hello"),
    ({"role": "developer", "content": "hello"}, "system", "hello"),
    (ToolMessage("hello", tool_call_id="1"), "tool", "hello"),
    (FunctionMessage(content="hello", name="search"), "tool", "hello"),
    (HumanMessage("so far", additional_kwargs={"lc_source": "summarization"}), "system", "so far"),
    ({"role": "user", "content": "so far", "additional_kwargs": {"lc_source": "summarization"}}, "system", "so far"),
    (HumanMessage([TEXT, IMAGE, "two"]), "user", "one\n\ntwo"),
    (AIMessage([THOUGHT, TEXT, TOOL_USE], tool_calls=[CALL]), "assistant", "one"),
    (AIMessage("", tool_calls=[CALL]), "assistant", ""),
    (HumanMessage([IMAGE]), "user", ""),
    (HumanMessage("half \ud800 \x00"), "user", "half \ud800 \x00"),
]


class TestPlainMessages:
    @pytest.mark.parametrize(("given", "role", "text"), CASES)
    def test_role_and_text_are_read(self, given: Any, role: str, text: str):
        """Whatever shape it comes in; what no person wrote is never the user's."""
        [plain] = plain_messages([given])

        assert (plain.role, plain.text) == (role, text)

    @pytest.mark.parametrize(
        ("names", "roles"),
        [
            ((None, "researcher", None), ("user", "system", "user")),
            (("ana", "ana", "ana"), ("user", "user", "user")),
            (("ana", "bob", "ana"), ("user", "user", "user")),
        ],
        ids=["an agent's", "everybody is named", "several people"],
    )
    def test_a_name_among_messages_without_one_is_another_agents(
        self, names: tuple[str | None, ...], roles: tuple[str, ...]
    ):
        """Where everybody is named, those are people."""
        given = [HumanMessage(f"m{place}", name=name) for place, name in enumerate(names)]

        assert tuple(message.role for message in plain_messages(given)) == roles
        assert PlainMessages([*given, AIMessage("ok")]).newest_human[2] == "m2"

    def test_removals_are_left_out(self):
        """They say nothing."""
        assert plain_messages([RemoveMessage(id="1"), {"role": "remove", "id": "2", "content": ""}]) == []

    def test_ids_are_kept(self):
        """Where the framework gives them."""
        plain = plain_messages([HumanMessage("a", id="m1"), {"role": "user", "content": "b", "id": "m2"}, "c"])

        assert [message.message_id for message in plain] == ["m1", "m2", None]

    @pytest.mark.parametrize("given", [3, None, {}, {"role": "user"}, {"role": "nobody", "content": "x"}])
    def test_what_is_no_message_is_refused(self, given: Any):
        """In our own words."""
        with pytest.raises(InvalidInputError, match="A message is"):
            plain_messages([given])


class TestNewestHuman:
    def test_the_last_one_that_a_person_wrote_is_found(self):
        """A summary in the user's clothes is not it; the place is one among the messages that stay."""
        messages = [
            RemoveMessage(id="0"),
            HumanMessage("first", id="1"),
            HumanMessage("second", id="2"),
            AIMessage("reply"),
            HumanMessage("so far", additional_kwargs={"lc_source": "summarization"}),
        ]

        assert PlainMessages(messages).newest_human == (1, "2", "second")

    def test_there_may_be_none(self):
        """A graph can be started by a system message alone."""
        assert PlainMessages([SystemMessage("be nice")]).newest_human == (-1, None, "")
