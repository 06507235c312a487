"""The public surface as an application uses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

import threadkeep
from threadkeep import Forgotten, Health, Kept, Memory, Owner, Recall, Recalled, Receipt, Threadkeep


@dataclass
class Ctx:
    """What an application's runs carry."""

    user_id: str


async def application(model: BaseChatModel) -> None:
    """Touch every public name once."""
    async with threadkeep.open("memory://", owner="ana") as tk:
        assert_type(tk, Threadkeep)
        assert_type(await tk.ready(), Health)
        assert_type(await tk.memories.remember("I live in Lisbon."), Kept)
        assert_type(await tk.memories.list(), list[Memory])
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
