"""Two conversations of one user, and one of another, with LlamaIndex's chat engine; prints what was seen."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.llms.mock import MockFunctionCallingLLM

import threadkeep
from threadkeep.adapters.llama_index import ThreadkeepMemory


class Listening(MockLLM):
    """Answers with the prompt, and keeps it."""

    def __init__(self, prompts: list[str]) -> None:
        super().__init__()
        self._prompts = prompts

    async def achat(self, messages: Any, **options: Any) -> Any:
        self._prompts.append(str(messages))
        response = await super().achat(messages, **options)
        response.message.blocks[0].text = "Noted."
        return response


async def main() -> None:
    prompts: list[str] = []
    async with threadkeep.open("memory://", embedder="none") as tk:

        async def turn(user: str, thread_id: str, text: str) -> str:
            memory = ThreadkeepMemory.for_client(tk.for_owner(user), thread_id=thread_id, tokenizer_fn=str.split)
            await SimpleChatEngine.from_defaults(llm=Listening(prompts), memory=memory).achat(text)
            await tk.drain()
            return str(await memory.aget_all())

        await turn("ana", "monday", "I am allergic to walnuts.")
        history = await turn("ana", "tuesday", "What am I allergic to?")
        await turn("bob", "tuesday", "What am I allergic to?")
        memory = ThreadkeepMemory.for_client(tk.for_owner("cleo"), thread_id="long", tokenizer_fn=str.split)
        await memory.aput(ChatMessage("I play the cello.", role=MessageRole.USER))
        for _ in range(24):
            await memory.aput(ChatMessage("nothing", role=MessageRole.TOOL))
        await memory.aput(ChatMessage("Noted.", role=MessageRole.ASSISTANT))
        await tk.drain()
        seen = {
            "hard": [one.text for one in await tk.memories.list(owner="cleo") if one.kind == "semantic"],
            "prompts": ["walnuts" in one for one in prompts],
            "kept": "walnuts" in history,
            "memories": [one.text for one in await tk.memories.list(owner="ana") if one.kind == "semantic"],
        }
    print(json.dumps(seen))


async def run_documented_example() -> None:
    """Follow the framework's guide of memory: an agent with tools is run with a memory, then with another session's.

    The guide's other example follows: a small token limit, so that old messages leave the short-term memory.
    """
    prompts: list[str] = []

    def reply(messages: Any, **_options: Any) -> ChatMessage:
        prompts.append(str(messages))
        return ChatMessage("Noted.", role=MessageRole.ASSISTANT)

    def look_up(word: str) -> str:
        """Look a word up."""
        return word

    async with threadkeep.open("memory://", embedder="none") as tk:
        mine = tk.for_owner("ana")
        agent = FunctionAgent(llm=MockFunctionCallingLLM(response_generator=reply), tools=[look_up])
        options: dict[str, Any] = {"token_limit": 40_000, "tokenizer_fn": str.split}
        first = ThreadkeepMemory.for_client(mine, thread_id="my_session", **options)
        await agent.run("I am allergic to walnuts.", memory=first)
        await tk.drain()
        await agent.run(
            "What am I allergic to?", memory=ThreadkeepMemory.for_client(mine, thread_id="second", **options)
        )

        small = {"token_limit": 50, "chat_history_token_ratio": 0.7, "token_flush_size": 10}
        memory = ThreadkeepMemory.for_client(mine, thread_id="small", tokenizer_fn=str.split, **small)
        for _ in range(20):
            await memory.aput_messages(
                [
                    ChatMessage("Hello, my world!", role=MessageRole.USER),
                    ChatMessage("Hello!", role=MessageRole.ASSISTANT),
                ]
            )
        seen = {
            "prompts": ["walnuts" in one for one in prompts],
            "kept": [message.role.value for message in await first.aget_all()],
            "short": len(await memory.aget()) < len(await memory.aget_all()) == 40,
        }
    print(json.dumps(seen))


asyncio.run(run_documented_example() if "example" in sys.argv else main())
