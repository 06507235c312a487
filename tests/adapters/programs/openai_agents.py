"""Two conversations of one user, and one of another, with an agent of the OpenAI Agents SDK; prints what was seen."""

from __future__ import annotations

import asyncio
import json
import sys

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, set_tracing_disabled
from openai import AsyncOpenAI

import threadkeep
from threadkeep.adapters.openai_agents import ThreadkeepSession

ARGUMENTS_OF_MAIN = 2


async def main(base_url: str) -> None:
    agent = helper(base_url)
    async with threadkeep.open("memory://", embedder="none") as tk:

        async def turn(user: str, session_id: str, text: str) -> ThreadkeepSession:
            session = ThreadkeepSession(tk.for_owner(user), session_id)
            config = RunConfig(call_model_input_filter=session.add_memory)
            await Runner.run(agent, text, session=session, run_config=config)
            await tk.drain()
            return session

        await turn("ana", "monday", "I am allergic to walnuts.")
        await turn("ana", "monday", "Thanks.")
        session = await turn("ana", "tuesday", "What am I allergic to?")
        other = await turn("bob", "monday", "What am I allergic to?")
        await tk.owners.opt_out("bob")
        await turn("bob", "monday", "I own a boat.")
        seen = {
            "monday": len(await ThreadkeepSession(tk.for_owner("ana"), "monday").get_items()),
            "newest": len(await ThreadkeepSession(tk.for_owner("ana"), "monday").get_items(1)),
            "tuesday": [one.get("role") for one in await session.get_items()],
            "kept": "Notes about the user" in str(await session.get_items()),
            "other": len(await other.get_items()),
            "memories": [one.text for one in await tk.memories.list(owner="ana") if one.kind == "semantic"],
            "of_bob": [one.text for one in await tk.memories.list(owner="bob")],
        }
        long = ThreadkeepSession(tk.for_owner("cleo"), "long")
        await long.add_items([{"role": "user", "content": "I play the cello."}])
        for number in range(12):
            call = {"type": "function_call", "call_id": str(number), "name": "look", "arguments": "{}"}
            await long.add_items([call, {"type": "function_call_output", "call_id": str(number), "output": "nothing"}])
        await long.add_items([{"role": "assistant", "content": "Noted."}])
        at_once = [
            ThreadkeepSession(tk.for_owner("dan"), "busy").add_items(
                [{"role": "user", "content": f"I own boat {number}."}, {"role": "assistant", "content": "Noted."}]
            )
            for number in range(12)
        ]
        await asyncio.gather(*at_once)
        await tk.drain()
        seen["long"] = [one.text for one in await tk.memories.list(owner="cleo") if one.kind == "semantic"]
        seen["at_once"] = len([one for one in await tk.memories.list(owner="dan") if one.kind == "semantic"])
        seen["popped"] = (await session.pop_item() or {}).get("role")
        await session.clear_session()
        seen["cleared"] = await session.get_items()
    print(json.dumps(seen))


def helper(base_url: str) -> Agent:
    set_tracing_disabled(True)
    model = OpenAIChatCompletionsModel(model="scripted", openai_client=AsyncOpenAI(base_url=base_url, api_key="none"))
    return Agent(name="helper", model=model)


def run_documented_example(base_url: str, folder: str) -> None:
    """Follow the SDK's quick start of sessions: a city, its state, its population; then take a question back.

    The last turn opens the storage again and runs blocking, as in a script that is started anew.
    """
    url, thread = f"sqlite:///{folder}/memory.db", "conversation_123"

    async def two_turns() -> list[str]:
        async with threadkeep.open(url, embedder="none") as tk:
            session = ThreadkeepSession(tk.for_owner("ana"), thread)
            questions = ("Which city has the Golden Gate Bridge?", "Which state is it in?")
            return [(await Runner.run(helper(base_url), text, session=session)).final_output for text in questions]

    answers = asyncio.run(two_turns())
    with threadkeep.open(url, embedder="none") as tk:
        session = ThreadkeepSession(tk.for_owner("ana"), thread)
        last = Runner.run_sync(helper(base_url), "How many people live there?", session=session)

        async def corrected() -> list[str]:
            reply, question = await session.pop_item(), await session.pop_item()
            return [str((item or {}).get("role")) for item in (reply, question, *await session.get_items())]

        roles = asyncio.run(corrected())
    print(json.dumps({"answers": [*answers, last.final_output], "roles": roles}))


if len(sys.argv) > ARGUMENTS_OF_MAIN:
    run_documented_example(*sys.argv[1:])
else:
    asyncio.run(main(sys.argv[1]))
