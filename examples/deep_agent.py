"""A deep agent with memory, and a sub-agent that works with the tools of an MCP server.

    pip install "threadkeep[local,agents]"
    python examples/deep_agent.py --user ana "I work on the second floor." "Which ticket concerns my floor?"

The supervisor recalls and learns. The sub-agent finds tickets by `tickets_server.py`, which is started for each call,
and reads the user's memories. Set THREADKEEP_MODEL=provider:name for a real model; without it a stand-in delegates
each question and repeats what the sub-agent found.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

import threadkeep
from threadkeep.ids import new_id
from threadkeep.models.langchain import chat_model

AGENTS = """\
[tickets]
description = "Finds tickets."
prompt = "You find tickets. Quote their numbers."
command = {command}
tools = ["find_ticket"]
"""


class StandIn(BaseChatModel):
    """Delegates a question to the sub-agent, which calls its tool; each then repeats what came back."""

    tools: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "stand-in"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        """Return a model that knows the names of its tools."""
        return StandIn(tools=tuple(getattr(one, "name", "") for one in tools))

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        question = next(message for message in reversed(messages) if message.type == "human").text
        newest = messages[-1]
        if isinstance(newest, ToolMessage):
            reply = AIMessage(newest.text)
        elif "find_ticket" in self.tools:
            reply = call("find_ticket", words=question)
        elif "task" in self.tools and question.rstrip().endswith("?"):
            reply = call("task", subagent_type="tickets", description=question)
        else:
            reply = AIMessage("Noted.")
        return ChatResult(generations=[ChatGeneration(message=reply)])


def call(tool: str, **arguments: str) -> AIMessage:
    """Return a message that calls a tool."""
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": new_id()}])


def declared(folder: str) -> Path:
    """Write the declaration of the sub-agent."""
    server = [sys.executable, str(Path(__file__).with_name("tickets_server.py"))]
    file = Path(folder, "agents.toml")
    file.write_text(AGENTS.format(command=json.dumps(server)), "utf-8")
    return file


async def main() -> None:
    """Run a turn for each argument."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--user", required=True)
    parser.add_argument("texts", nargs="+", metavar="TEXT")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        async with threadkeep.open() as tk:
            name = tk.app.settings.model
            agent = await tk.agents.supervisor(file=declared(folder), model=chat_model(name) if name else StandIn())
            for text in given.texts:
                config = tk.config(user_id=given.user, thread_id=new_id())
                state = await agent.ainvoke({"messages": [("user", text)]}, config)
                await tk.drain()
                print(f"{given.user}: {text}\nagent: {state['messages'][-1].text}\n")


if __name__ == "__main__":
    asyncio.run(main())
