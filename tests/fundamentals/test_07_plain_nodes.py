"""Chapter 7: recall and capture in a node of your own."""

from __future__ import annotations

from dataclasses import dataclass

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

import threadkeep
from tests.fundamentals.conversation import ASKED, TAUGHT, read_question, turn
from threadkeep.testing import ScriptedModel


class TestNode:
    async def test_plain_graph(self, tk: threadkeep.Threadkeep) -> None:
        """Two calls in a node do what the middleware does."""

        @dataclass
        class Ctx:
            user_id: str

        model = ScriptedModel()

        async def chat(state: MessagesState, runtime: Runtime[Ctx]) -> dict[str, list[AIMessage]]:
            found = await tk.recall(state["messages"], owner=runtime.context.user_id)
            reply = await model.ainvoke(found.into(state["messages"]))
            thread_id = runtime.execution_info.thread_id if runtime.execution_info else None
            await tk.capture([*state["messages"], reply], owner=runtime.context.user_id, thread_id=thread_id)
            return {"messages": [reply]}

        builder = StateGraph(MessagesState, context_schema=Ctx)
        builder.add_node(chat)
        builder.add_edge(START, "chat")
        graph = builder.compile(checkpointer=tk.checkpointer)

        await graph.ainvoke(turn(TAUGHT), {"configurable": {"thread_id": "1"}}, context=Ctx("ana@x.org"))
        await tk.drain()
        await graph.ainvoke(turn(ASKED), {"configurable": {"thread_id": "2"}}, context=Ctx("ana@x.org"))

        assert TAUGHT in read_question(model)
