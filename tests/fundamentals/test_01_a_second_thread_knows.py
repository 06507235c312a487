"""What one conversation teaches, the next one knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.runtime import Runtime

import threadkeep
import threadkeep.errors
from threadkeep.testing import ScriptedModel

TAUGHT = "I live in Lisbon."
ASKED = "Which city do I live in?"


def said(text: str) -> dict[str, Any]:
    """Return the input of a turn."""
    return {"messages": [{"role": "user", "content": text}]}


def question_as_the_model_saw_it(model: ScriptedModel) -> str:
    """Return the newest human message of the model's last prompt."""
    return [message for message in model.prompts[-1] if message.type == "human"][-1].text


class TestRecall:
    """One line in the agent, and the second thread knows."""

    def test_invoke(self, tk: threadkeep.Threadkeep) -> None:
        """A sync agent recalls in thread two what was said in thread one."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)

        agent.invoke(said(TAUGHT), tk.config(user_id="ana@x.org", thread_id="1"))
        tk.sync.drain()
        agent.invoke(said(ASKED), tk.config(user_id="ana@x.org", thread_id="2"))

        assert TAUGHT in question_as_the_model_saw_it(model)

    async def test_ainvoke(self, tk: threadkeep.Threadkeep) -> None:
        """So does an async one."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)

        await agent.ainvoke(said(TAUGHT), tk.config(user_id="ana@x.org", thread_id="1"))
        await tk.drain()
        await agent.ainvoke(said(ASKED), tk.config(user_id="ana@x.org", thread_id="2"))

        assert TAUGHT in question_as_the_model_saw_it(model)

    async def test_invoke_inside_a_running_loop(self, tk: threadkeep.Threadkeep) -> None:
        """So does a sync one that is called where a loop runs already, as in a notebook cell."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)

        agent.invoke(said(TAUGHT), tk.config(user_id="ana@x.org", thread_id="1"))
        tk.sync.drain()
        agent.invoke(said(ASKED), tk.config(user_id="ana@x.org", thread_id="2"))

        assert TAUGHT in question_as_the_model_saw_it(model)

    @pytest.mark.slow
    async def test_deep_agent(self, tk: threadkeep.Threadkeep) -> None:
        """So does a deep agent."""
        from deepagents import create_deep_agent

        model = ScriptedModel()
        agent = create_deep_agent(model, middleware=[tk.middleware()], checkpointer=tk.checkpointer)

        await agent.ainvoke(said(TAUGHT), tk.config(user_id="ana@x.org", thread_id="1"))
        await tk.drain()
        await agent.ainvoke(said(ASKED), tk.config(user_id="ana@x.org", thread_id="2"))

        assert TAUGHT in question_as_the_model_saw_it(model)

    async def test_plain_graph(self, tk: threadkeep.Threadkeep) -> None:
        """So does a graph without middleware, by two calls in its node."""

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

        await graph.ainvoke(said(TAUGHT), {"configurable": {"thread_id": "1"}}, context=Ctx("ana@x.org"))
        await tk.drain()
        await graph.ainvoke(said(ASKED), {"configurable": {"thread_id": "2"}}, context=Ctx("ana@x.org"))

        assert TAUGHT in question_as_the_model_saw_it(model)


class TestIsolate:
    """What is one user's is no other's."""

    def test_another_user_is_told_nothing(self, tk: threadkeep.Threadkeep) -> None:
        """Ids that a careless store confuses are different owners here."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        agent.invoke(said(TAUGHT), tk.config(user_id="a.b@x.org", thread_id="1"))
        tk.sync.drain()

        for number, other in enumerate(("a_b@x_org", "a.b@x.or", "a.b@x.org2", "A.B@X.ORG")):
            agent.invoke(said(ASKED), tk.config(user_id=other, thread_id=f"other-{number}"))

            assert question_as_the_model_saw_it(model) == ASKED

    def test_a_thread_is_its_first_owners(self, tk: threadkeep.Threadkeep) -> None:
        """Who knows a thread's id cannot read it."""
        agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        agent.invoke(said(TAUGHT), tk.config(user_id="ana@x.org", thread_id="1"))

        with pytest.raises(threadkeep.errors.OwnerMismatchError):
            agent.invoke(said(ASKED), tk.config(user_id="bob@x.org", thread_id="1"))
