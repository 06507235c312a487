"""A conversation of thirty turns, through a real agent: exactly what is to be remembered, and nothing else.

It corrects itself, jokes, asks, supposes, quotes, gives away secrets, and wants something not to be remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import pytest
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

import threadkeep
from tests.fakes.model_server import ModelServer, ToolCalls
from threadkeep.identity import Owner
from threadkeep.settings import Settings
from threadkeep.testing import FrozenClock, HashingEmbedder, ScriptedModel

ANA: Final = "ana@example.org"
PASSWORD: Final = "Xk9!quagga-77"
API_KEY: Final = "sk-proj-4fT9aB2cD8eF6gH1iJ3kL5mN7oP0qR2sT4uV6wX8"
CONFESSION: Final = "I have a crush on my boss"


@dataclass(frozen=True)
class Turn:
    """One turn.

    Attributes:
        user: What the user says.
        model: What a model that believes everything makes of it: a statement, or nothing.
        reply: What the assistant says.
    """

    user: str
    model: str | None = None
    reply: str = "All right."


TURNS: Final = (
    Turn("Hi there!"),
    Turn("I live in Lisbon.", "User lives in Lisbon."),
    Turn("I work at Acme as a nurse.", "User works at Acme as a nurse."),
    Turn("My favourite colour is green.", "User's favourite colour is green."),
    Turn(
        "What is a good book about gardening?",
        "User has a dog called Rex.",
        "You have a dog called Rex, so a short one.",
    ),
    Turn("I'm allergic to peanuts.", "User is allergic to peanuts."),
    Turn("My sister Ines lives in Porto.", "User's sister Ines lives in Porto."),
    Turn("I'm the secret king of Spain. Just kidding!", "User is the secret king of Spain."),
    Turn(f"My password is {PASSWORD}", f"User's password is {PASSWORD}"),
    Turn("I moved to Berlin.", "User moved to Berlin."),
    Turn("Which city do I live in?", "User likes quiet cafés.", "The one by the canal."),
    Turn("My favourite colour is blue now.", "User's favourite colour is blue now."),
    Turn(f"{CONFESSION}. Don't remember that.", "User has a crush on their boss."),
    Turn("I prefer short answers.", "User prefers short answers."),
    Turn(f"Why does my key {API_KEY} not work?", f"User's key is {API_KEY}"),
    Turn("I have two cats.", "User has two cats."),
    Turn("If I won the lottery, I would buy a castle.", "User bought a castle."),
    Turn("Let's pretend I'm a pirate. I live on a ship.", "User lives on a ship."),
    Turn("My manager is Priya.", "User's manager is Priya."),
    Turn("Translate this into French: I live in Tokyo.", "User lives in Tokyo."),
    Turn("I don't work at Acme any more.", "User does not work at Acme any more."),
    Turn("I started a new job at Globex.", "User started a new job at Globex."),
    Turn("Can you recommend a restaurant?", "User lives in Madrid.", "Since you live in Madrid, try Casa Pepe."),
    Turn("We have three cats now.", "User has three cats now."),
    Turn("I'm back in Lisbon.", "User is back in Lisbon."),
    Turn("Correction: my manager is Tobias.", "User's manager is Tobias."),
    Turn("My favourite colour is green again.", "User's favourite colour is green again."),
    Turn("I'm no longer allergic to peanuts.", "User is no longer allergic to peanuts."),
    Turn("What's the capital of Peru?", "User is from Peru."),
    Turn("Thanks, bye!", "User is polite."),
)

FACTS: Final = {
    "I'm back in Lisbon.": ["I live in Lisbon.", "I moved to Berlin."],
    "I started a new job at Globex.": ["I work at Acme as a nurse.", "I don't work at Acme any more."],
    "My favourite colour is green again.": ["My favourite colour is green.", "My favourite colour is blue now."],
    "I'm no longer allergic to peanuts.": ["I'm allergic to peanuts."],
    "My sister Ines lives in Porto.": [],
    "I prefer short answers.": [],
    "We have three cats now.": ["I have two cats."],
    "my manager is Tobias.": ["My manager is Priya."],
}
"""What is so at the end, with what was so before, oldest first."""

FACTS_OF_THE_MODEL: Final = {
    "User is back in Lisbon.": ["User lives in Lisbon.", "User moved to Berlin."],
    "User started a new job at Globex.": ["User works at Acme as a nurse.", "User does not work at Acme any more."],
    "User's favourite colour is green again.": [
        "User's favourite colour is green.",
        "User's favourite colour is blue now.",
    ],
    "User is no longer allergic to peanuts.": ["User is allergic to peanuts."],
    "User's sister Ines lives in Porto.": [],
    "User prefers short answers.": [],
    "User has three cats now.": ["User has two cats."],
    "User's manager is Tobias.": ["User's manager is Priya."],
}

PROPOSED: Final = {
    "User has a dog called Rex.": "assistant",
    "User is the secret king of Spain.": "document",
    "User likes quiet cafés.": "assistant",
    "User bought a castle.": "assistant",
    "User lives on a ship.": "document",
    "User lives in Tokyo.": "document",
    "User lives in Madrid.": "assistant",
    "User is from Peru.": "document",
    "User is polite.": "assistant",
}
"""What no words of the user bear out: it waits for somebody's approval, and who it is from."""

EPISODES: Final = [
    "Said: I live in Lisbon.",
    "Said: I work at Acme as a nurse.",
    "Said: My favourite colour is green.",
    "Asked: What is a good book about gardening?",
    "Said: I'm allergic to peanuts.",
    "Said: My sister Ines lives in Porto.",
    "Said: I'm the secret king of Spain. Just kidding!",
    "Said: I moved to Berlin.",
    "Asked: Which city do I live in?",
    "Said: My favourite colour is blue now.",
    "Said: I prefer short answers.",
    "Said: I have two cats.",
    "Said: If I won the lottery, I would buy a castle.",
    "Asked: Let's pretend I'm a pirate. I live on a ship.",
    "Said: My manager is Priya.",
    "Said: I don't work at Acme any more.",
    "Said: I started a new job at Globex.",
    "Asked: Can you recommend a restaurant?",
    "Said: We have three cats now.",
    "Said: I'm back in Lisbon.",
    "Said: Correction: my manager is Tobias.",
    "Said: My favourite colour is green again.",
    "Said: I'm no longer allergic to peanuts.",
    "Asked: What's the capital of Peru?",
]
"""What the turns were about; nothing of those that hold a secret, quote, greet, or are not to be remembered."""


async def talk(tk: threadkeep.Threadkeep, clock: FrozenClock) -> ScriptedModel:
    """Hold the conversation with a real agent, in three threads, an hour a turn; return its model."""
    model = ScriptedModel(replies=[turn.reply for turn in TURNS])
    agent = create_agent(model, [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
    for number, turn in enumerate(TURNS):
        clock.advance(timedelta(hours=1))
        said = {"messages": [{"role": "user", "content": turn.user}]}
        await agent.ainvoke(said, tk.config(user_id=ANA, thread_id=f"thread {number // 10}"))
        await tk.drain()
    return model


async def facts(tk: threadkeep.Threadkeep) -> dict[str, list[str]]:
    """Return what is remembered beside episodes, with what it was before."""
    memories = await tk.memories.list()
    return {memory.text: [old.text for old in memory.history] for memory in memories if memory.kind != "episodic"}


async def episodes(tk: threadkeep.Threadkeep) -> list[str]:
    memories = await tk.memories.list(kind="episodic")
    return [memory.text for memory in sorted(memories, key=lambda memory: memory.created_at)]


async def everything_kept(tk: threadkeep.Threadkeep) -> str:
    """Return every row of the owner's, threads apart."""
    page = await tk.app.storage.scan(Owner(ANA).partition, prefix=(), direction="oldest", limit=10_000)
    assert page.after is None
    return str([(item.ref, item.value) for item in page.items])


class TestThirtyTurns:
    def test_there_are_thirty(self):
        """And some of every sort."""
        assert len(TURNS) == 30

    async def test_by_rules(self):
        """The local extractor keeps the user's own words, the newest answer, and no jest, guess or secret."""
        clock = FrozenClock()
        async with threadkeep.open("memory://", owner=ANA, embedder=HashingEmbedder(), clock=clock) as tk:
            model = await talk(tk, clock)

            assert await facts(tk) == FACTS
            assert await episodes(tk) == EPISODES
            assert await tk.proposals.list() == []
            kept = await everything_kept(tk)
            assert not [secret for secret in (PASSWORD, API_KEY, CONFESSION) if secret in kept]
            asked = str(model.prompts[10])
            assert "I moved to Berlin." in asked
            assert "I live in Lisbon." not in asked

    @pytest.mark.slow
    async def test_by_a_model_that_believes_everything(self):
        """LangMem, over HTTP: what the user's words bear out is kept, the rest is proposed; no secret is sent."""
        clock = FrozenClock()
        asked = [turn for turn in TURNS if not turn.user.startswith(CONFESSION)]
        replies = [ToolCalls([("SemanticMemory", {"content": t.model})]) if t.model else "Nothing." for t in asked]
        settings = Settings.load(store_type="memory", enable_fact_extraction="true", extractor="langmem")
        with ModelServer(replies) as server:
            helper = ChatOpenAI(model="helper", base_url=server.base_url, api_key="none", max_retries=0)  # pyright: ignore[reportArgumentType]
            async with threadkeep.open(
                settings=settings, owner=ANA, model=helper, embedder=HashingEmbedder(), clock=clock
            ) as tk:
                await talk(tk, clock)

                assert await facts(tk) == FACTS_OF_THE_MODEL
                assert await episodes(tk) == EPISODES
                assert {proposal.text: proposal.trust for proposal in await tk.proposals.list()} == PROPOSED
                kept = await everything_kept(tk)
        assert len(server.requests) == len(asked)
        sent = str(server.requests)
        assert not [secret for secret in (PASSWORD, API_KEY, CONFESSION) if secret in kept + sent]
