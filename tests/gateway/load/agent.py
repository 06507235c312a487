"""The agents that are measured: the same model behind the gateway and behind a bare FastAPI application."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI, Request
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel
from starlette.responses import StreamingResponse
from typing_extensions import override

import threadkeep

LETTERS: Final = str.maketrans("0123456789", "abcdefghij")

BROKEN: Final = " (the model fails now)"
"""The end of a message for which the model fails in the middle of the turn."""

TASKS_FILE: Final = "LOAD_TASKS_FILE"
"""The variable with the file that the number of tasks of all event loops is written to, at SIGUSR1."""


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
        del stop, kwargs
        broken = messages[-1].text.endswith(BROKEN)
        for word_number in range(self.words):
            if broken and word_number == self.words // 2:
                msg = "The model failed."
                raise ConnectionError(msg)
            await asyncio.sleep(self.pause)
            word = f"z{time.monotonic_ns()} ".translate(LETTERS) if self.pause else "word "
            chunk = ChatGenerationChunk(message=AIMessageChunk(content=word))
            if run_manager is not None:
                await run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk


def graph(tk: threadkeep.Threadkeep) -> Any:
    """Return the agent of the gateway."""
    if file := os.environ.get(TASKS_FILE):
        signal.signal(signal.SIGUSR1, lambda *_: _write_tasks(Path(file)))
    view = tk.per_run_owner()
    return create_agent(PacedModel(), [], middleware=[view.middleware()], checkpointer=view.checkpointer)


def _write_tasks(file: Path) -> None:
    counted = file.with_suffix(".new")
    tasks: Any = asyncio.tasks
    while not counted.exists():
        with suppress(RuntimeError):  # another thread began a task meanwhile
            counted.write_text(str(sum(not task.done() for task in [*tasks._all_tasks])))
    counted.rename(file)


class Turn(BaseModel):
    """What the bare application takes.

    Attributes:
        message: What the user says.
        thread_id: The thread.
    """

    message: str
    thread_id: str


@asynccontextmanager
async def opened_saver(database: str) -> AsyncGenerator[Any]:
    """Open LangGraph's saver for a file or a PostgreSQL URL, as durable as the gateway's."""
    if database.startswith("postgresql://"):
        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        async with AsyncConnectionPool(database, min_size=1, max_size=10, kwargs=options) as pool:
            postgres = AsyncPostgresSaver(pool)  # type: ignore[arg-type]
            await postgres.setup()
            yield postgres
        return
    async with AsyncSqliteSaver.from_conn_string(database) as sqlite:
        await sqlite.setup()
        await sqlite.conn.execute("PRAGMA synchronous=FULL")
        yield sqlite


async def events_of(agent: Any, turn: Turn) -> AsyncIterator[str]:
    """Yield the events of a turn."""
    given = {"messages": [{"role": "user", "content": turn.message}]}
    config: Any = {"configurable": {"thread_id": turn.thread_id}}
    async for message, _ in agent.astream(given, config, stream_mode="messages"):
        if message.text:
            yield f"event: token\ndata: {json.dumps({'text': str(message.text)})}\n\n"
    yield "event: done\ndata: {}\n\n"


def bare() -> FastAPI:
    """Return an application that streams the same agent with LangGraph's saver, and nothing else."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with opened_saver(os.environ["LOAD_DATABASE"]) as saver:
            app.state.agent = create_agent(PacedModel(), [], checkpointer=saver)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/api/chat/stream")
    async def stream(turn: Turn) -> StreamingResponse:
        return StreamingResponse(events_of(app.state.agent, turn), media_type="text/event-stream")

    @app.post("/api/chat/stream_files")
    async def stream_files(request: Request) -> StreamingResponse:
        async with request.form() as form:
            file: Any = form["files"]
            text = (await file.read()).decode()
            turn = Turn(message=f"{form['message']}\n\n{text}", thread_id=str(form["thread_id"]))
        return StreamingResponse(events_of(app.state.agent, turn), media_type="text/event-stream")

    return app
