"""Models for tests: a chat model with scripted replies, and embedders that need no model at all."""

from __future__ import annotations

import asyncio
import hashlib
import re
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field, PrivateAttr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from threadkeep.errors import EmbedderUnavailableError

HASHING_NAME: Final = "hashing@1"
COORDINATES_PER_WORD: Final = 4

_WORD: Final = re.compile(r"\w+")
_PIECE: Final = re.compile(r"\s*\S+|\s+\Z")


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """A reply that is not given before its event is set.

    Attributes:
        until: What releases it. An ``asyncio.Event`` holds asynchronous calls only.
        reply: What is said then.
    """

    until: asyncio.Event | threading.Event
    reply: str | AIMessage | Sequence[str] = "released"


Reply: TypeAlias = "str | AIMessage | Sequence[str] | BaseException | Held"
"""A text (streamed word by word), a message (with tool calls, say; streamed whole), the very chunks to stream (none:
the stream is empty), an exception to raise, or one of the former held back."""


class ScriptedModel(BaseChatModel):
    """Gives the replies it was given, in order; the last one again and again.

    Attributes:
        replies: What to say, call by call; see ``Reply``.
        prompts: What it was asked, call by call.
        tools: What was bound last.
    """

    any_event_loop: ClassVar[bool] = True
    replies: Sequence[Any] = Field(default=("Noted.",), min_length=1)
    prompts: list[list[BaseMessage]] = Field(default_factory=list)
    tools: list[Any] = Field(default_factory=list)
    _guard: threading.Lock = PrivateAttr(default_factory=threading.Lock)

    @property
    def _llm_type(self) -> str:
        return "threadkeep-scripted"

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> Any:
        """Note *tools* and return this model, so that one script serves the whole run."""
        del tool_choice, kwargs
        self.tools = list(tools)
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager, kwargs
        return _whole(self._released(messages))

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        del stop, run_manager, kwargs
        return _whole(await self._areleased(messages))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        del stop, kwargs
        for chunk in _chunks(self._released(messages)):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        del stop, kwargs
        for chunk in _chunks(await self._areleased(messages)):
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    def _next(self, messages: list[BaseMessage]) -> Any:
        with self._guard:
            self.prompts.append(list(messages))
            return self.replies[min(len(self.prompts), len(self.replies)) - 1]

    def _released(self, messages: list[BaseMessage]) -> Any:
        reply = self._next(messages)
        if isinstance(reply, Held):
            if isinstance(reply.until, asyncio.Event):
                msg = "An asyncio.Event works in asynchronous calls only; use a threading.Event."
                raise TypeError(msg)
            reply.until.wait()
            reply = reply.reply
        return _raised(reply)

    async def _areleased(self, messages: list[BaseMessage]) -> Any:
        reply = self._next(messages)
        if isinstance(reply, Held):
            if isinstance(reply.until, asyncio.Event):
                await reply.until.wait()
            else:
                await asyncio.to_thread(reply.until.wait)
            reply = reply.reply
        return _raised(reply)


class HashingEmbedder:
    """An embedder made of arithmetic: texts that share words are near, and the same text has the same vector.

    Attributes:
        calls: The texts of every call.
        error: Set it, and every call raises it.
    """

    def __init__(self, *, dims: int = 64, remote: bool = False) -> None:
        """Choose the length of a vector and what the embedder says about itself."""
        self.name: str = f"{HASHING_NAME}:{dims}"
        self.dims: int | None = dims
        self.remote: bool = remote
        self.calls: list[list[str]] = []
        self.error: EmbedderUnavailableError | None = None

    async def ready(self) -> None:
        """Do nothing, or raise what was set."""
        if self.error is not None:
            raise self.error

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors of shape ``(len(texts), dims)``, or raise what was set."""
        self.calls.append(list(texts))
        await self.ready()
        return hashed(texts, dims=self.dims or 0)


class HashingEmbeddings(Embeddings):
    """The same vectors as LangChain's ``Embeddings``."""

    def __init__(self, *, dims: int = 64) -> None:
        """Choose the length of a vector."""
        self.dims = dims

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return a unit vector for each text."""
        return [[float(number) for number in row] for row in hashed(texts, dims=self.dims)]

    def embed_query(self, text: str) -> list[float]:
        """Return the text's unit vector."""
        return self.embed_documents([text])[0]


def hashed(texts: Sequence[str], *, dims: int) -> NDArray[np.float32]:
    """Return unit vectors, shape ``(len(texts), dims)``: each word adds ±1 at a few places that its hash chooses.

    A text without words has the first unit vector.
    """
    rows = np.zeros((len(texts), dims), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        for word in _WORD.findall(text.casefold()):
            for place, sign in _coordinates(word, dims):
                row[place] += sign
        if not row.any():
            row[0] = 1
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@lru_cache(maxsize=65_536)
def _coordinates(word: str, dims: int) -> tuple[tuple[int, int], ...]:
    numbers = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4 * COORDINATES_PER_WORD).digest()
    found: list[tuple[int, int]] = []
    for start in range(0, len(numbers), 4):
        number = int.from_bytes(numbers[start : start + 4], "big")
        found.append(((number >> 1) % dims, 1 if number & 1 else -1))
    return tuple(found)


def _raised(reply: Any) -> Any:
    if isinstance(reply, BaseException):
        raise reply
    return reply


def _whole(reply: Any) -> ChatResult:
    if isinstance(reply, AIMessage):
        message = reply.model_copy()
    else:
        message = AIMessage(reply if isinstance(reply, str) else "".join(reply))
    return ChatResult(generations=[ChatGeneration(message=message)])


def _chunks(reply: Any) -> Iterator[ChatGenerationChunk]:
    if isinstance(reply, AIMessage):
        fields = reply.model_dump(exclude={"type"})
        yield ChatGenerationChunk(message=AIMessageChunk(**fields))
        return
    for piece in _PIECE.findall(reply) if isinstance(reply, str) else reply:
        yield ChatGenerationChunk(message=AIMessageChunk(content=piece))
