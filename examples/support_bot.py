"""A support bot that learns from its customers, and asks a colleague before it learns how to behave.

    pip install "threadkeep[local]"
    python examples/support_bot.py say --user ana "My order is A-17. Always answer me in French."
    python examples/support_bot.py review --user ana            # shows what waits
    python examples/support_bot.py review --user ana --by carla --approve 03e7   # or --reject 03e7
    python examples/support_bot.py say --user ana "Which order is mine?"

What a customer tells about themselves is remembered at once. How the bot is to behave, and what only a ticket or a tool
said, waits for a person. Set THREADKEEP_MODEL=provider:name for real replies.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from langchain.agents import create_agent
from langchain_core.tools import tool

import threadkeep
from threadkeep.ids import new_id
from threadkeep.models.langchain import OfflineChatModel, chat_model

TICKETS = {"A-17": "Delivered on Monday to Rua Augusta 12, Lisbon. The parcel was damaged."}


@tool
def look_up_ticket(order: str) -> str:
    """Return what the ticket system says about an order."""
    return TICKETS.get(order, "There is no such order.")


def build(tk: threadkeep.Threadkeep) -> Any:
    """Compile the agent; its model may propose memories, and never decides about them."""
    name = tk.app.settings.model
    model = chat_model(name) if name else OfflineChatModel(notice="")
    tools = [look_up_ticket, *tk.tools("search_memory", "propose_memory_update")]
    return create_agent(model, tools, middleware=[tk.middleware(), tk.window()], checkpointer=tk.checkpointer)


async def say(tk: threadkeep.Threadkeep, user: str, text: str) -> str:
    """Run a turn in a new thread, and wait until it is learnt from."""
    config = tk.config(user_id=user, thread_id=new_id())
    state = await build(tk).ainvoke({"messages": [("user", text)]}, config)
    await tk.drain()
    return state["messages"][-1].text


async def review(tk: threadkeep.Threadkeep, user: str, by: str, approve: str | None, reject: str | None) -> None:
    """Decide about a proposal, and show what waits."""
    for proposal in await tk.proposals.list(owner=user):
        if approve and proposal.proposal_id.startswith(approve):
            await tk.proposals.approve(proposal.proposal_id, owner=user, by=by)
        elif reject and proposal.proposal_id.startswith(reject):
            await tk.proposals.reject(proposal.proposal_id, owner=user, by=by, comment="not in our style")
        else:
            print(f"{proposal.proposal_id[:8]}  {proposal.action} “{proposal.text}”, said by the {proposal.trust}")
    for memory in await tk.memories.list(owner=user, kind="procedural"):
        approved_by = memory.approval.by if memory.approval else "nobody"
        print(f"in force: {memory.text} (approved by {approved_by})")


async def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    saying, reviewing = commands.add_parser("say"), commands.add_parser("review")
    for command in (saying, reviewing):
        command.add_argument("--user", required=True)
    saying.add_argument("text")
    reviewing.add_argument("--by", default="support", help="who decides")
    reviewing.add_argument("--approve", metavar="ID")
    reviewing.add_argument("--reject", metavar="ID")
    given = parser.parse_args()
    async with threadkeep.open() as tk:
        if given.command == "say":
            print(await say(tk, given.user, given.text))
        else:
            await review(tk, given.user, given.by, given.approve, given.reject)


if __name__ == "__main__":
    asyncio.run(main())
