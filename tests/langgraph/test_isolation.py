"""Many users at once: nobody is given, taught or shown what is another's."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.types import Command

import threadkeep
from threadkeep.errors import OwnerMismatchError
from threadkeep.testing import HashingEmbedder, ScriptedModel

USERS = range(12)
ALIKE = (
    *(
        "ana",
        "Ana",
        "ana ",
        "ana\x00",
        "a.b@x.org",
        "a_b@x_org",
        "a+00002eb",
        "~tk~ana",
        "~tk~~ana",
        "ana~bob",
        "*",
        "..",
    ),
    *("memories", "\ud800", "é", "e\u0301", "/", "ana/../bob", "x" * 1000, "x" * 999),
)


@pytest.fixture
def tk(tmp_path: Path) -> Iterator[threadkeep.Threadkeep]:
    """Return a memory in a file."""
    with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder()) as opened:
        yield opened


@tool
def publish(what: str) -> str:
    """Publish something."""
    return f"published {what}"


class TestTurns:
    """One agent, one middleware, many users at the same time."""

    @pytest.mark.parametrize("face", ["batch", "abatch"])
    async def test_everybody_is_given_their_own_and_teaches_their_own(
        self, tk: threadkeep.Threadkeep, face: str
    ) -> None:
        """The same question at once from all; each prompt and each memory is of one user."""
        await asyncio.gather(*(tk.memories.remember(f"My code word is zebra{n}.", owner=f"u{n}") for n in USERS))
        model = ScriptedModel()
        agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
        inputs: list[Any] = [{"messages": [("user", f"What is my code word? I live in Town{n}.")]} for n in USERS]
        configs = [tk.config(user_id=f"u{n}", thread_id=f"t{n}") for n in USERS]

        if face == "batch":
            await asyncio.to_thread(agent.batch, inputs, configs)
        else:
            await agent.abatch(inputs, configs)
        await tk.drain()

        for prompt in model.prompts:
            numbers = re.findall(r"(?:zebra|Town)(\d+)", prompt[-1].text)
            assert len(numbers) == 2
            assert len(set(numbers)) == 1
        for n in USERS:
            kept = [memory.text for memory in await tk.memories.list(owner=f"u{n}", kind="semantic")]
            assert sorted(kept) == [f"I live in Town{n}.", f"My code word is zebra{n}."]

    def test_an_interrupted_turn_is_its_owners(self, tk: threadkeep.Threadkeep) -> None:
        """Nobody else resumes it, reads it or changes its state."""
        call = AIMessage("", tool_calls=[{"name": "publish", "args": {"what": "it"}, "id": "1"}])
        model = ScriptedModel(replies=[call, "Done."])
        approval = HumanInTheLoopMiddleware(interrupt_on={"publish": True})
        agent: Any = create_agent(
            model, [publish], middleware=[tk.middleware(), approval], checkpointer=tk.checkpointer
        )
        own, others = (tk.config(user_id=user, thread_id="1") for user in ("ana", "bob"))
        agent.invoke({"messages": [("user", "I live in Lisbon.")]}, own)
        approve = Command(resume={"decisions": [{"type": "approve"}]})

        for attempt in (
            lambda: agent.invoke(approve, others),
            lambda: agent.get_state(others),
            lambda: list(agent.get_state_history(others)),
            lambda: agent.update_state(others, {"messages": [("user", "I live in Porto.")]}),
        ):
            with pytest.raises(OwnerMismatchError):
                attempt()
        assert agent.invoke(approve, own)["messages"][-1].text == "Done."


class TestNames:
    """Ids that look like each other, like labels or like places."""

    def test_alike_is_not_the_same(self, tk: threadkeep.Threadkeep) -> None:
        """Each owner's list, search, recall and store hold that owner's row and no other."""
        for number, user in enumerate(ALIKE):
            tk.sync.memories.remember(f"The secret number is {number}.", owner=user)

        for number, user in enumerate(ALIKE):
            own = [f"The secret number is {number}."]
            assert [memory.text for memory in tk.sync.memories.list(owner=user)] == own
            assert [found.memory.text for found in tk.sync.memories.search("secret number", owner=user)] == own
            assert [found.memory.text for found in tk.sync.recall("secret number?", owner=user).memories] == own
            items = tk.for_owner(user).store.search(("memories", tk.label(user)), query="secret number")
            assert [item.value["data"] for item in items] == own
