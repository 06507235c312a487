"""A plain LangGraph graph with memory: recall before the model call, capture after it, no middleware.

    pip install "threadkeep[local]"
    python examples/plain_graph.py --user ana "I live in Lisbon." "Where do I live?"

Each argument is a turn in a thread of its own. Set THREADKEEP_MODEL=provider:name for real replies; without it an
offline stand-in quotes memories.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

import threadkeep
from threadkeep.ids import new_id
from threadkeep.models.langchain import OfflineChatModel, chat_model


@dataclass
class Context:
    """What the application knows about a run: the authenticated user."""

    user_id: str


def build(tk: threadkeep.Threadkeep, model: BaseChatModel) -> Any:
    """Compile the graph."""

    async def reply(state: MessagesState, runtime: Runtime[Context]) -> dict[str, Any]:
        user_id = runtime.context.user_id
        thread_id = runtime.execution_info.thread_id if runtime.execution_info else None
        recall = await tk.recall(state["messages"], owner=user_id, thread_id=thread_id)
        answer = await model.ainvoke(recall.into(state["messages"]))
        await tk.capture([*state["messages"], answer], owner=user_id, thread_id=thread_id)
        return {"messages": [answer]}

    builder = StateGraph(MessagesState, context_schema=Context)
    builder.add_node("reply", reply)
    builder.add_edge(START, "reply")
    return builder.compile(checkpointer=tk.checkpointer)


async def main() -> None:
    """Run a turn for each argument."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--user", required=True)
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    given = parser.parse_args()
    async with threadkeep.open() as tk:
        name = tk.app.settings.model
        graph = build(tk, chat_model(name) if name else OfflineChatModel(notice=""))
        for text in given.texts:
            config = tk.config(user_id=given.user, thread_id=new_id())
            state = await graph.ainvoke({"messages": [("user", text)]}, config, context=Context(given.user))
            await tk.drain()  # the next turn follows at once, and shall know this one
            print(f"{given.user}: {text}\nagent: {state['messages'][-1].text}\n")


if __name__ == "__main__":
    asyncio.run(main())
