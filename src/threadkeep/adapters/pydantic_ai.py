"""Memory of one owner for agents of Pydantic AI, as a capability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
from pydantic_ai.tools import AgentDepsT, RunContext
from typing_extensions import override

from threadkeep.adapters.owned_items import require_owner
from threadkeep.adapters.turns import SpokenText, learn

if TYPE_CHECKING:
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.run import AgentRunResult

    from threadkeep.client import Threadkeep
    from threadkeep.recall.models import Recall


@dataclass
class MemoryCapability(AbstractCapability[AgentDepsT]):
    """Puts what is remembered before the newest user prompt of each model request, and learns from each run.

    The history of the agent never holds the block.

    Args:
        tk: A client that is locked to the owner: ``tk.for_owner(owner)``.
        thread_id: The conversation that the runs belong to; ``None``: they belong to none.
    """

    tk: Threadkeep
    thread_id: str | None = None
    _found: dict[str, Recall] = field(default_factory=dict[str, "Recall"], init=False, repr=False)

    def __post_init__(self) -> None:
        require_owner(self.tk)

    @override
    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractCapability[AgentDepsT]:
        return replace(self)  # what one run recalls, no other run sees

    @override
    async def before_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        messages = list(request_context.messages)
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            if isinstance(message, ModelRequest) and (question := _question(message)):
                if question not in self._found:
                    self._found[question] = await self.tk.recall(question, thread_id=self.thread_id)
                messages[place] = _with_text(message, self._found[question].text)
                request_context.messages = messages
                break
        return request_context

    @override
    async def after_run(self, ctx: RunContext[AgentDepsT], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        await self._learn(_said(result.all_messages()))
        return result

    @override
    async def on_run_error(self, ctx: RunContext[AgentDepsT], *, error: BaseException) -> AgentRunResult[Any]:
        """Learn what the user said to a run that fails; one that is cancelled waits for nothing more."""
        if isinstance(error, Exception):
            said = _said(ctx.messages)
            asked = _question(ModelRequest(parts=[] if ctx.prompt is None else [UserPromptPart(ctx.prompt)]))
            await self._learn(said if not asked or ("user", asked) in said[-1:] else [*said, ("user", asked)])
        raise error

    async def _learn(self, said: Sequence[SpokenText]) -> None:
        recalled = [one.memory.text for found in self._found.values() for one in found.memories]
        await learn(self.tk, said, thread_id=self.thread_id, recalled=recalled)


def _question(message: ModelRequest) -> str:
    return "\n".join(_text(part) for part in message.parts if isinstance(part, UserPromptPart)).strip()


def _text(part: UserPromptPart) -> str:
    if isinstance(part.content, str):
        return part.content
    return "\n".join(one for one in part.content if isinstance(one, str))


def _with_text(message: ModelRequest, text: str) -> ModelRequest:
    """Return a copy of *message* with *text* in front of its first user prompt."""
    if not text:
        return message
    parts = list(message.parts)
    place = next(number for number, part in enumerate(parts) if isinstance(part, UserPromptPart))
    part = parts[place]
    assert isinstance(part, UserPromptPart)  # noqa: S101 - the line above has found one
    content = f"{text}\n\n{part.content}" if isinstance(part.content, str) else [text, *part.content]
    parts[place] = replace(part, content=content)
    return replace(message, parts=parts)


def _said(messages: Sequence[ModelMessage]) -> list[SpokenText]:
    said: list[SpokenText] = []
    for message in messages:
        if isinstance(message, ModelRequest) and (question := _question(message)):
            said.append(("user", question))
        elif isinstance(message, ModelResponse):
            text = "".join(part.content for part in message.parts if isinstance(part, TextPart)).strip()
            if text:
                said.append(("assistant", text))
    return said
