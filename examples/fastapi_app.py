r"""An assistant for many users behind FastAPI: each sees and uses their own memories only.

Run it, then talk as two users (the tokens stand for your authentication):

    pip install "threadkeep[local]" fastapi uvicorn
    uvicorn fastapi_app:app
    curl -H "authorization: Bearer token-of-ana" -H "content-type: application/json" \
        -d '{"thread": "1", "text": "I live in Lisbon."}' localhost:8000/chat
    curl -H "authorization: Bearer token-of-ana" localhost:8000/memories

Set THREADKEEP_MODEL=provider:name for real replies; without it an offline stand-in quotes memories.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

import threadkeep
from threadkeep.fastapi import exception_handlers, owner_dependency
from threadkeep.models.langchain import OfflineChatModel, chat_model

USERS = {"token-of-ana": "ana@example.org", "token-of-bob": "bob@example.org"}

tk = threadkeep.open()
app = FastAPI(title="Assistant with memory", exception_handlers=exception_handlers())


def current_user(authorization: Annotated[str, Header()] = "") -> str | None:
    """Return the user of the token; put your own authentication here."""
    return USERS.get(authorization.removeprefix("Bearer "))


Memory = Annotated[threadkeep.Threadkeep, Depends(owner_dependency(tk, current_user))]


class Message(BaseModel):
    """What a user says in a thread."""

    thread: str
    text: str


def model() -> BaseChatModel:
    """Return the chat model that THREADKEEP_MODEL names, or the offline stand-in."""
    name = tk.app.settings.model
    return chat_model(name) if name else OfflineChatModel()


# One agent for all users: the owner of a turn comes from its config.
agent: Any = create_agent(model(), tools=[], middleware=[tk.middleware(), tk.window()], checkpointer=tk.checkpointer)


@app.post("/chat")
async def chat(message: Message, memory: Memory) -> dict[str, str]:
    """Answer a message in one of the user's threads."""
    owner = memory.resolve_owner()
    # A user's thread names are their own: bob's thread "1" is not ana's.
    thread_id = hashlib.sha256(f"{owner.user_id}\n{message.thread}".encode()).hexdigest()
    config = tk.config(user_id=owner.user_id, thread_id=thread_id)
    state = await agent.ainvoke({"messages": [{"role": "user", "content": message.text}]}, config)
    return {"reply": state["messages"][-1].text}


@app.get("/memories")
async def memories(memory: Memory) -> list[dict[str, str]]:
    """List what is remembered about the user."""
    return [{"memory_id": one.memory_id, "text": one.text} for one in await memory.memories.list()]


@app.delete("/memories/{memory_id}")
async def forget(memory_id: str, memory: Memory) -> list[str]:
    """Remove a memory for good."""
    return list((await memory.memories.forget(memory_id)).memory_ids)
