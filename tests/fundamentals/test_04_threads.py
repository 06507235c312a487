"""Chapter 4: threads belong to one owner, are listed, forked and deleted."""

from __future__ import annotations

import pytest
from langchain.agents import create_agent

import threadkeep
import threadkeep.errors
from tests.fundamentals.conversation import ASKED, TAUGHT, turn
from threadkeep.testing import ScriptedModel


class TestOwn:
    def test_a_thread_belongs_to_its_first_owner(self, tk: threadkeep.Threadkeep) -> None:
        """Knowing a thread's id is not enough to read it."""
        agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        agent.invoke(turn(TAUGHT), tk.config(user_id="ana@x.org", thread_id="1"))

        with pytest.raises(threadkeep.errors.OwnerMismatchError):
            agent.invoke(turn(ASKED), tk.config(user_id="bob@x.org", thread_id="1"))


class TestManage:
    def test_a_fork_continues_on_its_own(self, tk: threadkeep.Threadkeep) -> None:
        """The fork has the messages; deleting it leaves the first thread."""
        agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        agent.invoke(turn(TAUGHT), tk.config(user_id="ana@x.org", thread_id="1"))

        tk.sync.threads.fork("1", "2", owner="ana@x.org")
        state = agent.invoke(turn(ASKED), tk.config(user_id="ana@x.org", thread_id="2"))
        tk.sync.threads.delete(["2"], owner="ana@x.org")

        assert [message.text for message in state["messages"] if message.type == "human"] == [TAUGHT, ASKED]
        assert [thread.thread_id for thread in tk.sync.threads.list("ana@x.org")] == ["1"]
