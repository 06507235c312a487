"""The public surface as an application uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, assert_type

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.graph.state import CompiledStateGraph

import threadkeep
from threadkeep import Forgotten, Health, Memory, Owner, Recall, Recalled, Receipt, RememberResult, Threadkeep
from threadkeep.capture.models import QueuedTurn
from threadkeep.collections.models import Passages
from threadkeep.langgraph.threads import ThreadPage
from threadkeep.memories.models import MemoryPage
from threadkeep.proposals.models import ProposalPage
from threadkeep.runs import Run


@dataclass
class Ctx:
    """What an application's runs carry."""

    user_id: str


async def application(model: BaseChatModel) -> None:
    """Touch every public name once."""
    async with threadkeep.open("memory://", owner="ana") as tk:
        assert_type(tk, Threadkeep)
        assert_type(await tk.ready(), Health)
        assert_type(await tk.memories.remember("I live in Lisbon."), RememberResult)
        assert_type(await tk.memories.list(), MemoryPage)
        assert_type(await tk.memories.search("Lisbon"), list[Recalled])
        assert_type(await tk.memories.get("1"), Memory | None)
        assert_type(await tk.memories.forget("1"), Forgotten)
        assert_type(await tk.recall("Where do I live?", owner=Owner("ana")), Recall)
        assert_type(await tk.capture([], thread_id="1"), Receipt)
        assert_type(tk.tools(), list[BaseTool])
        assert_type(tk.for_owner("ana"), Threadkeep)
        middleware = tk.middleware()
        create_agent(model, [], middleware=[middleware], context_schema=Ctx)
        create_agent(model, tk.tools(), middleware=[tk.middleware()], checkpointer=tk.checkpointer, store=tk.store)


def blocking_application(model: BaseChatModel) -> None:
    """Touch the sync face in every room: what an ``await`` gives, without one."""
    with threadkeep.open("memory://", owner="ana", model=model, embedder="none") as tk:
        assert_type(tk.sync.ready(), Health)
        assert_type(tk.sync.recall("Where do I live?"), Recall)
        assert_type(tk.sync.capture([("user", "I live in Lisbon.")], thread_id="1", wait=True), Receipt)
        assert_type(tk.sync.memories.remember("I live in Lisbon."), RememberResult)
        assert_type(tk.sync.memories.list(), MemoryPage)
        assert_type(tk.sync.memories.walk(), list[Memory])
        assert_type(tk.sync.proposals.list(), ProposalPage)
        assert_type(tk.sync.queue.retry(), list[QueuedTurn])
        assert_type(tk.sync.owners.export(), list[dict[str, Any]])
        assert_type(tk.sync.collections.search("handbook", "leave"), Passages)
        assert_type(tk.sync.threads.list(), ThreadPage)
        assert_type(tk.sync.runs.get(tk.graph(), thread_id="1"), Run)
        assert_type(tk.sync.runs.once("pay", len), int)
        assert_type(tk.sync.agents.supervisor(), CompiledStateGraph[Any, Any, Any, Any])
        assert_type(tk.graph(), CompiledStateGraph[Any, Any, Any, Any])
