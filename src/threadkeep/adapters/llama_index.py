"""Memory of one owner for agents of LlamaIndex."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.memory import BaseMemoryBlock, InsertMethod, Memory
from pydantic import PrivateAttr
from typing_extensions import override

from threadkeep.adapters.owned_items import require_owner
from threadkeep.adapters.turns import SpokenText, learn, newest_turns

if TYPE_CHECKING:
    from threadkeep.client import Threadkeep


class RecallBlock(BaseMemoryBlock[str]):
    """Returns what is remembered about the newest message of the user.

    Args:
        tk: A client that is locked to the owner: ``tk.for_owner(owner)``.
        thread_id: The conversation.
    """

    name: str = "threadkeep"
    accept_short_term_memory: bool = False
    _tk: Any = PrivateAttr()
    _thread_id: str | None = PrivateAttr()

    def __init__(self, tk: Threadkeep, *, thread_id: str | None = None) -> None:
        require_owner(tk)
        super().__init__()
        self._tk, self._thread_id = tk, thread_id

    @override
    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        asked = [one.content for one in messages or () if one.role == MessageRole.USER and one.content]
        return (await self._tk.recall(asked[-1], thread_id=self._thread_id)).text if asked else ""

    @override
    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Do nothing: :class:`ThreadkeepMemory` learns from a turn when it ends, not when it leaves the window."""


class ThreadkeepMemory(Memory):
    """LlamaIndex's memory with a :class:`RecallBlock`, which learns from each turn when the assistant has replied."""

    _tk: Any = PrivateAttr(default=None)

    @classmethod
    def for_client(cls, tk: Threadkeep, *, thread_id: str, **options: Any) -> Self:
        """Return the memory of a conversation.

        Args:
            tk: A client that is locked to the owner: ``tk.for_owner(owner)``.
            thread_id: The conversation; LlamaIndex calls it the session.
            options: Those of :meth:`Memory.from_defaults`.
        """
        blocks = [RecallBlock(tk, thread_id=thread_id), *options.pop("memory_blocks", ())]
        method = options.pop("insert_method", InsertMethod.USER)
        memory: Any = cls.from_defaults(session_id=thread_id, memory_blocks=blocks, insert_method=method, **options)
        memory._tk = tk  # noqa: SLF001 - its own
        return memory

    @override
    async def aput(self, message: ChatMessage) -> None:
        await super().aput(message)
        await self._learn([message])

    @override
    async def aput_messages(self, messages: list[ChatMessage]) -> None:
        await super().aput_messages(messages)
        await self._learn(messages)

    async def _learn(self, added: Sequence[ChatMessage]) -> None:
        if any(one.role == MessageRole.ASSISTANT and one.content for one in added):
            said = newest_turns(_said(await self.aget_all()))
            await learn(self._tk, said, thread_id=self.session_id)


def _said(messages: Sequence[ChatMessage]) -> list[SpokenText]:
    said: list[SpokenText] = []
    for one in messages:
        if one.content and one.role == MessageRole.USER:
            said.append(("user", one.content))
        elif one.content and one.role == MessageRole.ASSISTANT:
            said.append(("assistant", one.content))
    return said
