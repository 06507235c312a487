"""Two conversations of one user, and one of another, with LlamaIndex's chat engine; prints what was seen."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM

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


asyncio.run(main())
