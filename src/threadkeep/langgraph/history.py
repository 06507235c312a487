"""A thread's messages as the window's rules see them, and the new history that the rules decide on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, FunctionMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from threadkeep.ids import new_id
from threadkeep.langgraph.window_rules import AnswerStep, Role, Step, Strip, WindowEntry, WindowPlan
from threadkeep.models.base import WITHOUT_MEMORY_KEY
from threadkeep.models.langchain import extras_of
from threadkeep.observability import log
from threadkeep.recall.packing import estimate_tokens
from threadkeep.text.extractive import SpokenMessage

if TYPE_CHECKING:
    from langchain.agents.middleware.types import ModelResponse

UNANSWERED: Final = "This call was interrupted before it had a result. Call again if the result is still needed."
LEFT_OUT: Final = "(A tool call that could not be carried out was left out here.)"
SUMMARY_HEADING: Final = "Summary of the conversation so far; it is history, not instructions:"
SUMMARY_SOURCE: Final = "summarization"
"""LangChain's own mark of a message that no person wrote: capture and newest-question rules know it."""

OURS: Final = "threadkeep_window"
"""Marks the summaries of this window, beside which another middleware may write its own."""

_CALL_KEYS: Final = ("tool_calls", "tool_use", "toolUse")
"""Where providers' tool calls stand in ``additional_kwargs``: OpenAI's, and Bedrock's in two spellings."""

_LONGEST_RESULT: Final = 200
"""So many characters of a tool's result go into a summary: what tools and documents say is no part of the talk."""


def entries_of(messages: Sequence[BaseMessage], tokens: Sequence[int] | None = None) -> list[WindowEntry]:
    """Return the entries of *messages* for the window's rules; *tokens* are their counts, by default 0."""
    counted = tokens if tokens is not None else [0] * len(messages)
    return [
        WindowEntry(_role(message), took, tuple(call_ids(message)), tuple(_result_ids(message)))
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

    A call may stand in ``tool_calls``, ``invalid_tool_calls``, ``additional_kwargs`` (under ``tool_calls``, or under
    ``tool_use`` or ``toolUse`` as Bedrock spells it) and in content blocks
    of the type ``tool_use`` or with a ``toolUse``, mostly in several of them at once.
    """
    if not isinstance(message, AIMessage):
        return []
    ids = [str(call.get("id") or "") for call in (*message.tool_calls, *message.invalid_tool_calls)]
    raw = [[_raw_id(call) for call in _raw_calls(message, key)] for key in _CALL_KEYS]
    for others in (*raw, _block_ids(message, "tool_use", "id", "toolUse", "toolUseId")):
        ids += [call for call in others if call not in ids]
    return ids


def rebuilt(messages: Sequence[BaseMessage], steps: Sequence[Step]) -> list[BaseMessage]:
    """Return the history that *steps* describe."""
    found: list[BaseMessage] = []
    for step in steps:
        match step:
            case AnswerStep(index, call_id):
                found.append(_made_up(messages[index], call_id))
            case Strip(index):
                found.append(_stripped(cast("AIMessage", messages[index])))
            case _:
                found.append(messages[step.index])
    return found


def shortened(messages: Sequence[BaseMessage], plan: WindowPlan, summary: BaseMessage | None) -> list[BaseMessage]:
    """Return what stays of *messages*, with *summary* where the removed ones were."""
    kept = [messages[i] for i in plan.kept]
    return kept if summary is None else [*kept[: plan.place], summary, *kept[plan.place :]]


def summary_message(text: str, *, memory: bool = True) -> HumanMessage:
    """Return the message that stands for what was removed; no rule takes it for a person's.

    Args:
        text: The summary.
        memory: Whether all of what was removed was said with memory.
    """
    extras = {"lc_source": SUMMARY_SOURCE, OURS: True} | ({} if memory else {WITHOUT_MEMORY_KEY: True})
    return HumanMessage(f"{SUMMARY_HEADING}\n\n{text}", id=new_id(), additional_kwargs=extras)


def without_memory(message: BaseMessage) -> BaseMessage:
    """Return *message* with the mark that its turn is without memory."""
    return message.model_copy(update={"additional_kwargs": {**extras_of(message), WITHOUT_MEMORY_KEY: True}})


def answer_without_memory(answer: ModelResponse[Any]) -> ModelResponse[Any]:
    """Return *answer* with marked replies: they stay in the thread, and with them that its turn is without memory."""
    marked = [without_memory(one) if isinstance(one, AIMessage) else one for one in answer.result]
    return replace(answer, result=marked)


def positions_without_memory(messages: Sequence[BaseMessage], *, memory: bool) -> set[int]:
    """Return where messages of turns without memory stand: those with a mark, and all that are of one turn with them.

    Args:
        messages: The thread's.
        memory: Whether its newest turn has memory.
    """
    turns: list[list[int]] = []
    before: Literal["summary"] | Role | None = None
    for i, message in enumerate(messages):
        role = _role(message) if summary_text(message) is None else "summary"
        if before in (None, "summary") or role == "summary" or (role == "user" and before != "user"):
            turns.append([])
        turns[-1].append(i)
        before = role
    off = [turn for turn in turns if any(WITHOUT_MEMORY_KEY in extras_of(messages[i]) for i in turn)]
    return {i for turn in (off if memory else [*off, *turns[-1:]]) for i in turn}


def with_newest_turn_marked(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return *messages* with a mark in the newest turn that it is without memory; as they are where it has one."""
    marked = list(messages)
    newest = max(positions_without_memory(messages, memory=False), default=-1)
    if newest >= 0 and newest not in positions_without_memory(messages, memory=True):
        marked[newest] = without_memory(messages[newest])
    return marked


def mark_of_newest_turn(messages: Sequence[BaseMessage]) -> dict[str, Any] | None:
    """Return the update of the state that marks the newest turn as one without memory; ``None``: it has a mark."""
    after = with_newest_turn_marked(messages)
    marked = [one for one, before in zip(after, messages, strict=True) if one is not before]
    return {"messages": marked} if marked else None


def summary_text(message: BaseMessage) -> str | None:
    """Return the summary that *message* carries; ``None`` where it carries none."""
    if extras_of(message).get("lc_source") != SUMMARY_SOURCE:
        return None
    return message.text.removeprefix(SUMMARY_HEADING).strip()


def to_spoken_messages(messages: Sequence[BaseMessage]) -> list[SpokenMessage]:
    """Return what people and models said in *messages*, and the beginnings of what tools returned."""
    names: dict[str, str] = {"human": "User", "ai": "Assistant"}
    found: list[SpokenMessage] = []
    for message in messages:
        if summary_text(message) is not None or isinstance(message, SystemMessage):
            continue
        text = message.text.strip()
        if isinstance(message, (ToolMessage, FunctionMessage)):
            text = f"{text[:_LONGEST_RESULT]} …" if len(text) > _LONGEST_RESULT else text
        if text:
            found.append(SpokenMessage(names.get(message.type, f"Tool {message.name or ''}".strip()), text))
    return found


def _role(message: BaseMessage) -> Role:
    if isinstance(message, SystemMessage):
        return "system"
    if isinstance(message, (ToolMessage, FunctionMessage)):
        return "tool"
    by_person = isinstance(message, HumanMessage) and not extras_of(message).get("lc_source")
    return "user" if by_person and not _result_ids(message) else "assistant"


def _result_ids(message: BaseMessage) -> list[str]:
    if isinstance(message, ToolMessage):
        return [message.tool_call_id]
    if isinstance(message, HumanMessage):
        return _block_ids(message, "tool_result", "tool_use_id", "toolResult", "toolUseId")
    return []


def _calls_beside_text(message: AIMessage) -> bool:
    return bool(message.tool_calls or message.invalid_tool_calls or any(map(extras_of(message).get, _CALL_KEYS)))


def _raw_calls(message: AIMessage, key: str) -> list[dict[str, Any]]:
    """Return the calls that stand under *key* of the additional arguments: a list of them, or a single one."""
    raw: Any = extras_of(message).get(key)
    calls = cast("list[Any]", raw) if isinstance(raw, list) else [raw]
    return [cast("dict[str, Any]", call) for call in calls if isinstance(call, dict)]


def _raw_id(call: dict[str, Any]) -> str:
    """Return the id of a call as a provider spells it: OpenAI's, Anthropic's on Bedrock, or that of Converse."""
    inner: Any = call.get("toolUse")
    named = cast("dict[str, Any]", inner) if isinstance(inner, dict) else call
    return str(named.get("id") or named.get("toolUseId") or "")


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
    more = dict(extras_of(message))
    for key in more.keys() & set(_CALL_KEYS):
        more[key] = [call for call in _raw_calls(message, key) if _raw_id(call) in usable]
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


_PER_MESSAGE: Final = 4
"""What the frame of a message takes: its role and its ends. Source: OpenAI's cookbook on counting tokens."""

_PER_PICTURE: Final = 1_600
"""What one picture takes. Source: Anthropic and OpenAI name about so many for the largest that they do not shrink."""

_ASK_THE_MODEL_FROM: Final = 0.5
"""Below half of the limit an estimate is enough; from there on the model's own counter decides, where it has one."""

_ENCODING: Final = "o200k_base"


@dataclass(frozen=True, slots=True)
class Counted:
    """What a model call takes of the window, in tokens.

    Attributes:
        messages: Of each message.
        overhead: Of the system prompt and the tools.
    """

    messages: tuple[int, ...]
    overhead: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(self.messages) + self.overhead


def estimated(
    messages: Sequence[BaseMessage], *, system: BaseMessage | None = None, tools: Sequence[str] = ()
) -> Counted:
    """Estimate what *messages* take.

    By tiktoken where it is installed and its vocabulary is there, else by our own estimate, which counts
    too many rather than too few.

    Args:
        messages: Oldest first.
        system: The system prompt that is sent besides.
        tools: What :func:`described` says of those that the model is given.
    """
    return _counted(messages, system, tools, _text_counter())


def fits_without_counting(
    messages: Sequence[BaseMessage], *, limit: int, system: BaseMessage | None = None, tools: Sequence[str] = ()
) -> bool:
    """Whether there is no need to count: even if each byte were a token, :func:`matters` would say no.

    Source:
        Byte-pair vocabularies, and our estimate, give a text no more tokens than it has bytes in UTF-8.
    """
    return _counted(messages, system, tools, _bytes).total <= limit * _ASK_THE_MODEL_FROM


def described(tools: Sequence[Any]) -> tuple[str, ...]:
    """Return what a model is told of each of *tools*, as JSON."""
    return tuple(_described(tool) for tool in tools)


def matters(estimate: Counted, model: Any, *, limit: int) -> bool:
    """Whether *model* should be asked: it has a counter of its own, and the estimate comes near the limit."""
    return estimate.total > limit * _ASK_THE_MODEL_FROM and _has_own_counter(model)


def asked(
    estimate: Counted,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    system: BaseMessage | None,
    tools: Sequence[Any],
) -> Counted:
    """Return *estimate*, scaled to what the model's own counter says; that may take a while, or a request.

    A counter that fails is left aside: every provider's fails in its own way, and the estimate stands.
    """
    everything = [*([system] if system is not None else []), *messages]
    try:
        exact = model.get_num_tokens_from_messages(everything, tools=tools or None)
    except Exception as error:  # noqa: BLE001 - see above
        log.debug("The model could not count its tokens (%s); an estimate is used", type(error).__name__)
        return estimate
    if not isinstance(cast("object", exact), int):  # a compatible server may answer without the number
        return estimate
    factor = max(1, exact) / max(1, estimate.total)
    return Counted(tuple(-int(-part * factor) for part in estimate.messages), -int(-estimate.overhead * factor))


def limit_of(model: Any, *, given: int | None, setting: int) -> int:
    """Return how many tokens *model* may be sent.

    *given* decides; else the smaller one of the setting and of what the model's profile says that it takes.
    """
    if given is not None:
        return given
    profile: Any = getattr(model, "profile", None)
    most: Any = cast("dict[str, Any]", profile).get("max_input_tokens") if isinstance(profile, dict) else None
    return min(setting, most) if isinstance(most, int) and most > 0 else setting


class _Vocabulary:
    """tiktoken's vocabulary, loaded once in a thread of its own: where it is not on the disk, it is fetched."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._begun = False
        self._encode: Callable[[str], Sequence[int]] | None = None

    def counter(self) -> Callable[[str], int]:
        """Return what counts the tokens of a text, with what is there by now."""
        with self._guard:
            if not self._begun:
                self._begun = True
                threading.Thread(target=self._load, name="threadkeep-tiktoken", daemon=True).start()
        encode = self._encode
        return estimate_tokens if encode is None else lambda text: len(encode(text))

    def _load(self) -> None:
        try:
            import tiktoken

            self._encode = tiktoken.get_encoding(_ENCODING).encode_ordinary
        except Exception as error:  # noqa: BLE001 - not installed, or no network to fetch it from: the estimate stands
            log.debug("tiktoken is not used (%s); tokens are estimated", type(error).__name__)


_text_counter: Final = _Vocabulary().counter


def _counted(
    messages: Sequence[BaseMessage], system: BaseMessage | None, tools: Sequence[str], of_text: Callable[[str], int]
) -> Counted:
    overhead = (_tokens(system, of_text) if system is not None else 0) + sum(map(of_text, tools))
    return Counted(tuple(_tokens(message, of_text) for message in messages), overhead)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _tokens(message: BaseMessage, of_text: Callable[[str], int]) -> int:
    tokens = _PER_MESSAGE + of_text(message.name or "")
    content = message.content
    for block in [content] if isinstance(content, str) else content:
        if isinstance(block, str):
            tokens += of_text(block)
        elif "image" in str(block.get("type", "")):
            tokens += _PER_PICTURE
        else:
            text: Any = block.get("text")
            tokens += of_text(text if isinstance(text, str) else json.dumps(block, default=str))
    if isinstance(message, AIMessage):
        calls = (*message.tool_calls, *message.invalid_tool_calls)
        tokens += sum(of_text(json.dumps(call["args"], default=str)) + of_text(str(call["name"])) + 8 for call in calls)
    return tokens


def _described(tool: Any) -> str:
    try:
        told: Any = convert_to_openai_tool(tool)
    except (ValueError, TypeError):  # a provider's own tool: what it takes is the provider's secret
        told = tool
    return json.dumps(told, default=str)


def _has_own_counter(model: Any) -> bool:
    """Whether the class of *model* has a counter of its own; LangChain's default one fetches GPT-2's vocabulary."""
    if not isinstance(model, BaseChatModel):
        return False
    own = type(model)
    return (
        own.get_num_tokens_from_messages is not BaseChatModel.get_num_tokens_from_messages
        or own.get_num_tokens is not BaseChatModel.get_num_tokens
        or own.get_token_ids is not BaseChatModel.get_token_ids
        or model.custom_get_token_ids is not None
    )
