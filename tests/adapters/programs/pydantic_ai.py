"""Two conversations of one user, and one of another, with an agent of Pydantic AI; prints what was seen."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import threadkeep
from threadkeep.adapters.pydantic_ai import MemoryCapability


async def main() -> None:
    prompts: list[str] = []

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompts.append(str(messages[-1]))
        return ModelResponse(parts=[TextPart("Noted.")])

    def fail(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        message = "the model is away"
        raise RuntimeError(message)

    async with threadkeep.open("memory://", embedder="none") as tk:

        async def turn(user: str, thread_id: str, text: str) -> str:
            memory = MemoryCapability(tk.for_owner(user), thread_id=thread_id)
            result = await Agent(FunctionModel(reply), capabilities=[memory]).run(text)
            await tk.drain()
            return str(result.all_messages())

        await turn("ana", "monday", "I am allergic to walnuts.")
        history = await turn("ana", "tuesday", "What am I allergic to?")
        await turn("bob", "tuesday", "What am I allergic to?")
        with suppress(RuntimeError):
            memory = MemoryCapability(tk.for_owner("cleo"), thread_id="failed")
            await Agent(FunctionModel(fail), capabilities=[memory]).run("I play the cello.")
        await tk.drain()
        seen = {
            "hard": [one.text for one in await tk.memories.list(owner="cleo") if one.kind == "semantic"],
            "prompts": ["walnuts" in one for one in prompts],
            "kept": "walnuts" in history,
            "memories": [one.text for one in await tk.memories.list(owner="ana") if one.kind == "semantic"],
        }
    print(json.dumps(seen))


def run_documented_example() -> None:
    """Follow the framework's example of a message history: a joke, and a second run that asks to explain it.

    The agent is given its history and has the memory, too; a third run, without the history, has the memory alone.
    """
    prompts: list[str] = []

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompts.append(str(messages))
        return ModelResponse(parts=[TextPart("Why do cellos never get lost? They follow the score.")])

    with threadkeep.open("memory://", embedder="none") as tk:
        memory = MemoryCapability(tk.for_owner("ana"), thread_id="jokes")
        agent = Agent(FunctionModel(reply), instructions="Be a helpful assistant.", capabilities=[memory])
        first = agent.run_sync("I play the cello. Tell me a joke about it.")
        second = agent.run_sync("Explain?", message_history=first.new_messages())
        tk.sync.drain()
        agent.run_sync("Which instrument do I play?")
        tk.sync.drain()
        history = [message.kind for message in second.all_messages()]
        memories = [one.text for one in tk.sync.memories.list(owner="ana") if one.kind == "semantic"]
    print(json.dumps({"prompts": ["I play the cello" in one for one in prompts], "history": history, "of": memories}))


if "example" in sys.argv:
    run_documented_example()
else:
    asyncio.run(main())
