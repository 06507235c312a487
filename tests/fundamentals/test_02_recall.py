"""Chapter 2: one line in an agent, and a second thread knows what the first one taught."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent

import threadkeep
from tests.fundamentals.conversation import ASKED, TAUGHT, read_question, turn
from threadkeep.testing import ScriptedModel


class TestRecall:
    """The block stands in front of the question."""

    def test_invoke(self, tk: threadkeep.Threadkeep) -> None:
        """A sync agent recalls in thread two what was said in thread one."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)

        agent.invoke(turn(TAUGHT), tk.config(user_id="ana@x.org", thread_id="1"))
        tk.sync.drain()
        agent.invoke(turn(ASKED), tk.config(user_id="ana@x.org", thread_id="2"))

        assert TAUGHT in read_question(model)

    async def test_ainvoke(self, tk: threadkeep.Threadkeep) -> None:
        """So does an async one."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)

        await agent.ainvoke(turn(TAUGHT), tk.config(user_id="ana@x.org", thread_id="1"))
        await tk.drain()
        await agent.ainvoke(turn(ASKED), tk.config(user_id="ana@x.org", thread_id="2"))

        assert TAUGHT in read_question(model)

    async def test_invoke_inside_a_running_loop(self, tk: threadkeep.Threadkeep) -> None:
        """So does a sync one that is called where a loop runs already, as in a notebook cell."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)

        agent.invoke(turn(TAUGHT), tk.config(user_id="ana@x.org", thread_id="1"))
        tk.sync.drain()
        agent.invoke(turn(ASKED), tk.config(user_id="ana@x.org", thread_id="2"))

        assert TAUGHT in read_question(model)

    @pytest.mark.slow
    async def test_deep_agent(self, tk: threadkeep.Threadkeep) -> None:
        """So does a deep agent."""
        from deepagents import create_deep_agent

        model = ScriptedModel()
        agent = create_deep_agent(model, middleware=[tk.middleware()], checkpointer=tk.checkpointer)

        await agent.ainvoke(turn(TAUGHT), tk.config(user_id="ana@x.org", thread_id="1"))
        await tk.drain()
        await agent.ainvoke(turn(ASKED), tk.config(user_id="ana@x.org", thread_id="2"))

        assert TAUGHT in read_question(model)


class TestIsolate:
    """Each user has a memory of their own."""

    def test_another_user_recalls_nothing(self, tk: threadkeep.Threadkeep) -> None:
        """Ids that a careless store confuses are different owners here."""
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        agent.invoke(turn(TAUGHT), tk.config(user_id="a.b@x.org", thread_id="1"))
        tk.sync.drain()

        for number, other in enumerate(("a_b@x_org", "a.b@x.or", "a.b@x.org2", "A.B@X.ORG")):
            agent.invoke(turn(ASKED), tk.config(user_id=other, thread_id=f"other-{number}"))

            assert read_question(model) == ASKED
