"""The agents that are measured: the same model behind the gateway and behind a bare FastAPI application."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from pydantic import BaseModel
from starlette.responses import StreamingResponse
from typing_extensions import override

import threadkeep

LETTERS: Final = str.maketrans("0123456789", "abcdefghij")


class PacedModel(BaseChatModel):
    """Says words at a steady pace, and in each the time at which it says it, in letters."""

    words: int = int(os.environ.get("LOAD_WORDS", "20"))
    pause: float = float(os.environ.get("LOAD_PAUSE", "0"))

    @property
    def _llm_type(self) -> str:
        return "paced"

    @override
    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        del tools, kwargs
        return self

    @override
    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        del messages, args, kwargs
        return ChatResult(generations=[ChatGeneration(message=AIMessage("Noted."))])

    @override
    async def _astream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        del messages, stop, kwargs
        for _ in range(self.words):
            await asyncio.sleep(self.pause)
            word = f"z{time.monotonic_ns()} ".translate(LETTERS) if self.pause else "word "
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word))
            if run_manager is not None:
                await run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk


def graph(tk: threadkeep.Threadkeep) -> Any:
    """Return the agent of the gateway."""
    view = tk.per_run_owner()
    return create_agent(PacedModel(), [], middleware=[view.middleware(events="full")], checkpointer=view.checkpointer)


class Turn(BaseModel):
    """What the bare application takes.

    Attributes:
        message: What the user says.
        thread_id: The thread.
    """

    message: str
    thread_id: str


def bare() -> FastAPI:
    """Return an application that streams the same agent with LangGraph's saver, and nothing else."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncSqliteSaver.from_conn_string(os.environ["LOAD_DATABASE"]) as saver:
            await saver.setup()
            await saver.conn.execute("PRAGMA synchronous=FULL")
            app.state.agent = create_agent(PacedModel(), [], checkpointer=saver)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/api/chat/stream")
    async def stream(turn: Turn) -> StreamingResponse:
        async def events() -> AsyncIterator[str]:
            given = {"messages": [{"role": "user", "content": turn.message}]}
            config: Any = {"configurable": {"thread_id": turn.thread_id}}
            async for message, _ in app.state.agent.astream(given, config, stream_mode="messages"):
                if message.text:
                    yield f"event: token\ndata: {json.dumps({'text': str(message.text)})}\n\n"
            yield "event: done\ndata: {}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    return app
