"""The window middleware: every model call fits, no tool call is orphaned, and what goes leaves a summary."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import BaseMessage
from langgraph.config import get_config
from langgraph.types import Command

from threadkeep.errors import OwnerRequiredError
from threadkeep.langgraph.compaction import Compaction, History, Talk
from threadkeep.langgraph.history import OURS, summary_text
from threadkeep.langgraph.identity import owner_from, thread_id_of
from threadkeep.langgraph.tokens import limit_of

if TYPE_CHECKING:
    from threadkeep.library import OwnerSource, Threadkeep

_OVERFLOW: Final = re.compile(
    r"context_length_exceeded|maximum (?:context|prompt) length|context window|prompt (?:is )?too long"
    r"|input is too long|too long to fit|too many (?:input )?tokens"
    r"|exceed(?:s|ed)? (?:the |its )?(?:model's |model |available |configured )?(?:maximum|max|context|token|limit)"
    r"|(?:greater|longer) than the (?:model's )?context length|range of input length"
    r"|reduce the (?:length|input token count)|expected maxLength|`inputs` tokens",
    re.IGNORECASE,
)
"""What providers say of a context that is too long. Source: each one's words stand in the window's tests."""

_AT_ITS_RATE: Final = re.compile(
    r"throttl|rate.?limit|please wait|quota|per (?:min(?:ute)?|hour|day)\b|[TR]P[MD]\b", re.IGNORECASE
)
"""What they say where too much was sent in too short a time: a shorter context is no answer to that."""

_CODE: Final = "context_length_exceeded"


class ThreadkeepWindow(AgentMiddleware[Any, Any, Any]):
    """Keeps a thread's messages within what the model reads, and every tool call with its result.

    Before a model call the history is repaired in place, and where it fills four fifths of the limit,
    older messages give way to a summary of them, in one update of the thread's state. A model that
    refuses a context all the same is asked once more, with less. Beside another middleware that summarises
    it only repairs.

    Args:
        tk: Where summaries are kept for other threads, and turns are recorded before they go.
        max_tokens: The limit; ``None``: the setting, or less where the model's profile says so.
        keep_messages: How many of the newest messages stay, as far as they fit.
        owner: Whose threads these are; ``None``: the runtime says.
        compress: Whether older messages may give way.
    """

    def __init__(
        self,
        tk: Threadkeep,
        *,
        max_tokens: int | None,
        keep_messages: int,
        owner: OwnerSource | None,
        compress: bool,
    ) -> None:
        super().__init__()
        self._tk = tk
        self._compaction = Compaction(tk)
        self._max_tokens = max_tokens
        self._keep = keep_messages
        self._owner = owner if owner is not None else tk.owner_source
        self._compress = compress

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Call the model with a history that is whole and fits."""
        home, talk = self._tk.app.home, self._talk(request)
        seen = home.run_sync(self._compaction.fitting(talk))
        try:
            answer = handler(_showing(request, seen))
        except Exception as error:
            if not self._compress or not is_overflow(error):
                raise
            seen = home.run_sync(self._compaction.smaller(talk, seen))
            answer = handler(_showing(request, seen))
        return _with_state(request, seen, answer)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Call the model with a history that is whole and fits."""
        talk = self._talk(request)
        seen = await self._compaction.fitting(talk)
        try:
            answer = await handler(_showing(request, seen))
        except Exception as error:
            if not self._compress or not is_overflow(error):
                raise
            seen = await self._compaction.smaller(talk, seen)
            answer = await handler(_showing(request, seen))
        return _with_state(request, seen, answer)

    def _talk(self, request: ModelRequest[Any]) -> Talk:
        config = get_config()
        owner, thread_id = None, None
        try:
            owner = self._tk.whose(owner_from(self._owner, runtime=request.runtime, config=config))
            thread_id = thread_id_of(request.runtime, config)
        except OwnerRequiredError:  # it works all the same, and keeps no summary
            pass
        return Talk(
            request.messages,
            request.model,
            limit_of(request.model, given=self._max_tokens, setting=self._tk.app.settings.max_context_tokens),
            self._keep,
            system=request.system_message,
            tools=list(request.tools),
            owner=owner,
            thread_id=thread_id,
            compress=self._compress and not _somebody_else_summarises(request),
        )


def is_overflow(error: BaseException) -> bool:
    """Whether a model refused a context for its length; providers that LangChain does not know say it in words."""
    if isinstance(error, ContextOverflowError) or getattr(error, "code", None) == _CODE:
        return True
    said = str(error)
    return _OVERFLOW.search(said) is not None and _AT_ITS_RATE.search(said) is None


def _somebody_else_summarises(request: ModelRequest[Any]) -> bool:
    """Whether another middleware shortens this thread: two that do would each summarise the other's summary."""
    if request.state.get("_summarization_event"):
        return True
    return any(summary_text(one) is not None and not one.additional_kwargs.get(OURS) for one in request.messages)


def _showing(request: ModelRequest[Any], seen: History) -> ModelRequest[Any]:
    """Return *request* with *seen* in the place of its messages."""
    return request.override(messages=cast("Any", list(seen.messages)))


def _with_state(request: ModelRequest[Any], seen: History, answer: ModelResponse[Any]) -> Any:
    """Return *answer*, and with it the new history for the thread's state, in one update.

    Other middleware may show the model messages that are not the thread's, a recalled block in front of a
    question for instance: what is the thread's is taken from the thread.
    """
    if not seen.changed:
        return answer
    given, kept = list(request.messages), {id(message) for message in seen.messages}
    state: Sequence[BaseMessage] = request.state.get("messages", [])
    if [message.id for message in given] != [message.id for message in state]:
        return answer
    own = {id(shown): held for shown, held in zip(given, state, strict=True) if id(shown) in kept}
    history = [own.get(id(message), message) for message in seen.messages]
    update = {"messages": [*History(history, changed=True).update, *answer.result]}
    return ExtendedModelResponse(model_response=answer, command=Command(update=update))
