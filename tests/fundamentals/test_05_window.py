"""Chapter 5: a long thread stays within the model's context."""

from __future__ import annotations

from langchain.agents import create_agent
from langchain_core.messages import AnyMessage

import threadkeep
from tests.fundamentals.conversation import turn
from threadkeep.testing import ScriptedModel


class TestCompact:
    def test_older_messages_give_way_to_one_summary(self, tk: threadkeep.Threadkeep) -> None:
        """The newest question stays."""
        model = ScriptedModel()
        window = tk.window(max_tokens=1_000)
        agent = create_agent(model, [], middleware=[window], checkpointer=tk.checkpointer)
        config = tk.config(user_id="ana@x.org", thread_id="1")

        state: dict[str, list[AnyMessage]] = {}
        for number in range(12):
            state = agent.invoke(turn(f"{number}: " + "We talk about the hills. " * 20), config)

        texts = [message.text for message in state["messages"]]
        assert sum(text.startswith("Summary of the conversation") for text in texts) == 1
        assert any(text.startswith("11: ") for text in texts)
        assert not any(text.startswith("0: ") for text in texts)
