"""How much of a model's window messages take, and how large that window is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from threadkeep.observability import log
from threadkeep.recall.selection import estimate_tokens

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


def has_room(
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
    return estimate.total > limit * _ASK_THE_MODEL_FROM and _counts_itself(model)


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


def _counts_itself(model: Any) -> bool:
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
