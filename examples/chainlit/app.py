"""A page by Chainlit: sign in, talk, see what was recalled beside the reply, and go back to earlier conversations.

Chainlit pins many packages, so it gets an environment of its own:

    python -m venv .venv-chainlit
    .venv-chainlit/bin/pip install -r examples/chainlit/requirements.txt
    export CHAINLIT_AUTH_SECRET=$(.venv-chainlit/bin/chainlit create-secret | grep -o '".*"' | tr -d '"')
    export CHAINLIT_USERS=ana:a-long-password,bo:another-long-password
    .venv-chainlit/bin/chainlit run examples/chainlit/app.py

Set THREADKEEP_MODEL=provider:name for real replies. Who began which thread is known to this process: run one.
"""

from __future__ import annotations

import hmac
import os
from datetime import UTC, datetime
from typing import Any

import chainlit as cl
from chainlit.data.base import BaseDataLayer
from chainlit.types import PageInfo, PaginatedResponse, Pagination, ThreadDict, ThreadFilter
from chainlit.user import PersistedUser
from langchain_core.messages import AIMessageChunk

import threadkeep
from threadkeep.errors import ThreadNotFoundError
from threadkeep.models.langchain import OfflineChatModel, chat_model

tk = threadkeep.open()
view = tk.per_run_owner()
model = chat_model(tk.app.settings.model) if tk.app.settings.model else OfflineChatModel(notice="")
agent = view.graph(model=model)
users = dict(one.split(":", 1) for one in os.environ.get("CHAINLIT_USERS", "").split(",") if ":" in one)
authors: dict[str, str] = {}
"""The user of each thread that this process knows; a thread is read with the name of its user only."""


@cl.password_auth_callback
async def sign_in(name: str, password: str) -> cl.User | None:
    """Return the user, if the password is right."""
    expected = users.get(name)
    if expected is None or not hmac.compare_digest(expected.encode(), password.encode()):
        return None
    return cl.User(identifier=name)


@cl.on_chat_resume
async def resume(thread: ThreadDict) -> None:
    """Chainlit shows the messages that the data layer returned; the agent has them in its thread."""


@cl.on_message
async def answer(message: cl.Message) -> None:
    """Stream the reply of a turn, with the memories that were recalled for it."""
    user, thread_id = cl.user_session.get("user"), cl.context.session.thread_id
    reply = cl.Message("")
    config = view.config(user.identifier, thread_id=thread_id)
    said = {"messages": [("user", message.content)]}
    async for mode, part in agent.astream(said, config, stream_mode=["messages", "custom"]):
        if mode == "custom" and part.get("type") == "recalled":
            reply.elements = await recalled(part["memories"], user.identifier)
        elif mode == "messages" and isinstance(part[0], AIMessageChunk):
            await reply.stream_token(str(part[0].text))
    await reply.send()


async def recalled(memories: list[dict[str, Any]], owner: str) -> list[Any]:
    """Return the memories as elements beside the message."""
    known = await tk.memories.get_many([one["id"] for one in memories], owner=owner)
    lines = [f"- {known[one['id']].text} ({one['score']:.2f})" for one in memories if one["id"] in known]
    return [cl.Text(name="Recalled", content="\n".join(lines), display="side")] if lines else []


class Threads(BaseDataLayer):
    """The conversations of Chainlit's sidebar are the threads of the agent; nothing is stored twice."""

    async def get_user(self, identifier: str) -> PersistedUser | None:
        """Users come from CHAINLIT_USERS."""
        if identifier not in users:
            return None
        return PersistedUser(id=identifier, identifier=identifier, createdAt=datetime.now(UTC).isoformat())

    async def create_user(self, user: cl.User) -> PersistedUser | None:
        """Return the user that has signed in."""
        return await self.get_user(user.identifier)

    async def list_threads(self, pagination: Pagination, filters: ThreadFilter) -> PaginatedResponse[ThreadDict]:
        """Return a page of the user's threads, the last turn first; *search* finds words of titles."""
        owner = filters.userId or ""
        page = await tk.for_owner(owner).threads.list(
            title=filters.search or "", limit=pagination.first, cursor=pagination.cursor
        )
        authors.update({one.thread_id: owner for one in page})
        info = PageInfo(hasNextPage=page.cursor is not None, startCursor=pagination.cursor, endCursor=page.cursor)
        return PaginatedResponse(pageInfo=info, data=[_thread(one, owner) for one in page])

    async def get_thread(self, thread_id: str) -> ThreadDict | None:
        """Return a thread with its messages."""
        owner = authors.get(thread_id, "")
        if not owner:
            return None
        threads = tk.for_owner(owner).threads
        try:
            thread, messages = await threads.require(thread_id), await threads.messages(thread_id)
        except ThreadNotFoundError:
            return None
        steps = [
            {
                "id": one.message_id or f"{thread_id}-{place}",
                "threadId": thread_id,
                "name": owner if one.role == "user" else "agent",
                "type": "user_message" if one.role == "user" else "assistant_message",
                "output": one.text,
                "createdAt": _at(thread.created_at),
            }
            for place, one in enumerate(messages)
            if one.text and one.role in ("user", "assistant")
        ]
        return {**_thread(thread, owner), "steps": steps}

    async def get_thread_author(self, thread_id: str) -> str:
        """Return the user of a thread; Chainlit refuses it to others."""
        return authors.get(thread_id, "")

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread; what was learnt in it stays."""
        await tk.for_owner(authors.pop(thread_id)).threads.delete([thread_id])

    async def update_thread(
        self, thread_id: str, name: str | None = None, user_id: str | None = None, **_: Any
    ) -> None:
        """Note who begins a thread, and rename one that is listed."""
        if user_id:
            authors.setdefault(thread_id, user_id)
        owner = authors.get(thread_id)
        if name and owner and await tk.for_owner(owner).threads.get(thread_id):
            await tk.for_owner(owner).threads.update(thread_id, title=name[:200])

    async def build_debug_url(self) -> str:
        """There is none."""
        return ""

    async def close(self) -> None:
        """End what the memory has begun."""
        await tk.aclose()

    async def _nothing(self, *args: Any, **kwargs: Any) -> Any:
        """Messages are in the thread already; there is no feedback, and elements are not stored."""

    async def get_favorite_steps(self, *_: Any, **__: Any) -> list[Any]:
        """There are none."""
        return []

    create_step = update_step = delete_step = _nothing
    create_element = get_element = delete_element = _nothing
    upsert_feedback = delete_feedback = _nothing


@cl.data_layer
def data_layer() -> Threads:
    """Return what Chainlit reads threads from."""
    return Threads()


def _thread(thread: Any, owner: str) -> ThreadDict:
    return {
        "id": thread.thread_id,
        "createdAt": _at(thread.last_turn_at or thread.created_at),
        "name": thread.title,
        "userId": owner,
        "userIdentifier": owner,
        "tags": [],
        "metadata": {},
        "steps": [],
        "elements": [],
    }


def _at(moment: datetime | None) -> str:
    return (moment or datetime.now(UTC)).isoformat()
