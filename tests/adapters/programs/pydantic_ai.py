"""Two conversations of one user, and one of another, with an agent of Pydantic AI; prints what was seen."""

from __future__ import annotations

import asyncio
import json
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


asyncio.run(main())
