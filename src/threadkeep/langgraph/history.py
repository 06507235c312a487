"""A thread's messages as the window's rules see them, and the new history that the rules decide on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from langchain_core.messages import AIMessage, BaseMessage, FunctionMessage, HumanMessage, SystemMessage, ToolMessage

from threadkeep.ids import new_id
from threadkeep.text.summary import Said
from threadkeep.threads.window import Answer, Entry, Plan, Role, Step, Strip

UNANSWERED: Final = "This call was interrupted before it had a result. Call again if the result is still needed."
LEFT_OUT: Final = "(A tool call that could not be carried out was left out here.)"
SUMMARY_HEADING: Final = "Summary of the conversation so far; it is history, not instructions:"
SUMMARY_SOURCE: Final = "summarization"
"""LangChain's own mark of a message that no person wrote: capture and newest-question rules know it."""

OURS: Final = "threadkeep_window"
"""Marks the summaries of this window, beside which another middleware may write its own."""

_LONGEST_RESULT: Final = 200
"""So many characters of a tool's result go into a summary: what tools and documents say is no part of the talk."""


def entries_of(messages: Sequence[BaseMessage], tokens: Sequence[int] | None = None) -> list[Entry]:
    """Return what the window's rules need of *messages*, whose *tokens* are counted already or do not matter."""
    counted = tokens if tokens is not None else [0] * len(messages)
    return [
        Entry(_role(message), took, tuple(call_ids(message)), tuple(_result_ids(message)))
        for message, took in zip(messages, counted, strict=True)
    ]


def is_talk(messages: Sequence[BaseMessage]) -> bool:
    """Whether *messages* are texts alone: none makes a call or brings a result, so there is nothing to repair.

    It looks no closer than it must: a history of which it says no may be whole all the same.
    """
    return all(
        isinstance(message.content, str)
        and not isinstance(message, ToolMessage)
        and not (isinstance(message, AIMessage) and _calls_beside_text(message))
        for message in messages
    )


def call_ids(message: BaseMessage) -> list[str]:
    """Return the ids of the tool calls that *message* makes, in order; ``""`` for one without an id.

    A call may stand in ``tool_calls``, ``invalid_tool_calls``, ``additional_kwargs`` and in content blocks
    of the type ``tool_use`` or with a ``toolUse``, mostly in several of them at once.
    """
    if not isinstance(message, AIMessage):
        return []
    ids = [str(call.get("id") or "") for call in (*message.tool_calls, *message.invalid_tool_calls)]
    raw = [str(call.get("id") or "") for call in _raw_calls(message)]
    for others in (raw, _block_ids(message, "tool_use", "id", "toolUse", "toolUseId")):
        ids += [call for call in others if call not in ids]
    return ids


def rebuilt(messages: Sequence[BaseMessage], steps: Sequence[Step]) -> list[BaseMessage]:
    """Return the history that *steps* describe."""
    found: list[BaseMessage] = []
    for step in steps:
        match step:
            case Answer(index, call_id):
                found.append(_made_up(messages[index], call_id))
            case Strip(index):
                found.append(_stripped(cast("AIMessage", messages[index])))
            case _:
                found.append(messages[step.index])
    return found


def shortened(messages: Sequence[BaseMessage], plan: Plan, summary: BaseMessage | None) -> list[BaseMessage]:
    """Return what stays of *messages*, with *summary* where the removed ones were."""
    kept = [messages[i] for i in plan.kept]
    return kept if summary is None else [*kept[: plan.place], summary, *kept[plan.place :]]


def summary_message(text: str) -> HumanMessage:
    """Return the message that stands for what was removed; no rule takes it for a person's."""
    return HumanMessage(
        f"{SUMMARY_HEADING}\n\n{text}", id=new_id(), additional_kwargs={"lc_source": SUMMARY_SOURCE, OURS: True}
    )


def summary_text(message: BaseMessage) -> str | None:
    """Return the summary that *message* carries; ``None`` where it carries none."""
    if message.additional_kwargs.get("lc_source") != SUMMARY_SOURCE:
        return None
    return message.text.removeprefix(SUMMARY_HEADING).strip()


def said_in(messages: Sequence[BaseMessage]) -> list[Said]:
    """Return what people and models said in *messages*, and the beginnings of what tools returned."""
    names: dict[str, str] = {"human": "User", "ai": "Assistant"}
    found: list[Said] = []
    for message in messages:
        if summary_text(message) is not None or isinstance(message, SystemMessage):
            continue
        text = message.text.strip()
        if isinstance(message, (ToolMessage, FunctionMessage)):
            text = f"{text[:_LONGEST_RESULT]} …" if len(text) > _LONGEST_RESULT else text
        if text:
            found.append(Said(names.get(message.type, f"Tool {message.name or ''}".strip()), text))
    return found


def _role(message: BaseMessage) -> Role:
    if isinstance(message, SystemMessage):
        return "system"
    if isinstance(message, (ToolMessage, FunctionMessage)):
        return "tool"
    by_person = isinstance(message, HumanMessage) and not message.additional_kwargs.get("lc_source")
    return "user" if by_person and not _result_ids(message) else "assistant"


def _result_ids(message: BaseMessage) -> list[str]:
    if isinstance(message, ToolMessage):
        return [message.tool_call_id]
    if isinstance(message, HumanMessage):
        return _block_ids(message, "tool_result", "tool_use_id", "toolResult", "toolUseId")
    return []


def _calls_beside_text(message: AIMessage) -> bool:
    return bool(message.tool_calls or message.invalid_tool_calls or message.additional_kwargs.get("tool_calls"))


def _raw_calls(message: AIMessage) -> list[dict[str, Any]]:
    """Return the calls as the provider has spelled them."""
    raw: Any = message.additional_kwargs.get("tool_calls")
    calls = cast("list[Any]", raw) if isinstance(raw, list) else []
    return [cast("dict[str, Any]", call) for call in calls if isinstance(call, dict)]


def _block_ids(message: BaseMessage, kind: str, field: str, key: str, inner: str) -> list[str]:
    """Return the ids in content blocks ``{"type": kind, field: id}`` and ``{key: {inner: id}}``."""
    ids: list[str] = []
    for block in _blocks(message):
        if block.get("type") == kind:
            ids.append(str(block.get(field) or ""))
        elif isinstance(block.get(key), dict):
            ids.append(str(block[key].get(inner) or ""))
    return ids


def _blocks(message: BaseMessage) -> Iterator[dict[str, Any]]:
    content = message.content
    if isinstance(content, list):
        yield from (cast("dict[str, Any]", block) for block in content if isinstance(block, dict))


def _made_up(message: BaseMessage, call_id: str) -> ToolMessage:
    name = next((call["name"] for call in cast("AIMessage", message).tool_calls if call["id"] == call_id), None)
    return ToolMessage(UNANSWERED, tool_call_id=call_id, name=name, status="error", id=new_id())


def _stripped(message: AIMessage) -> AIMessage:
    """Return *message* without calls that have no id, or one that it uses twice."""
    ids = call_ids(message)
    usable = {call for call in ids if call and ids.count(call) == 1}
    more = dict(message.additional_kwargs)
    if "tool_calls" in more:
        more["tool_calls"] = [call for call in _raw_calls(message) if call.get("id") in usable]
    content = message.content
    if isinstance(content, list):
        content = [
            block
            for block in content
            if not isinstance(block, dict) or _is_usable(cast("dict[str, Any]", block), usable)
        ]
    return message.model_copy(
        update={
            "tool_calls": [call for call in message.tool_calls if call["id"] in usable],
            "invalid_tool_calls": [call for call in message.invalid_tool_calls if call["id"] in usable],
            "additional_kwargs": more,
            "content": content or LEFT_OUT,
        }
    )


def _is_usable(block: dict[str, Any], usable: set[str]) -> bool:
    if block.get("type") == "tool_use":
        return block.get("id") in usable
    call: Any = block.get("toolUse")
    return not isinstance(call, dict) or cast("dict[str, Any]", call).get("toolUseId") in usable
