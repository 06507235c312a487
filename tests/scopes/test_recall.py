"""Reading shared scopes beside one's own memory: only what the application grants, marked, and fair."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
from langchain.agents import create_agent

import threadkeep
from threadkeep.errors import InvalidInputError, ScopeNotFoundError
from threadkeep.identity import Owner
from threadkeep.testing import FrozenClock, HashingEmbedder, ScriptedModel

TEAM: Final = Owner("platform", kind="team")
AGENT: Final = Owner("ops", kind="agent")
QUESTION: Final = "Where does the staging cluster run?"
FACT: Final = "The staging cluster runs on Hetzner."


@pytest.fixture
async def tk() -> AsyncIterator[threadkeep.Threadkeep]:
    """Return a memory with a team and an agent that know something."""
    async with threadkeep.open("memory://", embedder=HashingEmbedder(), clock=FrozenClock()) as opened:
        for scope in (TEAM, AGENT):
            await opened.scopes.create(scope)
        await opened.memories.remember(FACT, owner=TEAM, approved_by="carla")
        await opened.memories.remember("The staging cluster restarts at noon.", owner=AGENT, approved_by="carla")
        yield opened


async def ask(agent: Any, model: ScriptedModel, config: Any, face: str = "async") -> str:
    """Run a turn with the question and return what the model was given."""
    inputs = {"messages": [("user", QUESTION)]}
    if face == "async":
        await agent.ainvoke(inputs, config)
    else:
        import asyncio

        await asyncio.to_thread(agent.invoke, inputs, config)
    return str(model.prompts[-1][-1].text)


class TestGrant:
    async def test_granted_scope_is_marked_in_the_block(self, tk: threadkeep.Threadkeep):
        found = await tk.recall(QUESTION, owner="ana", read_scopes=[TEAM])

        assert f'- "{FACT}" (2025-03-14, team platform)' in found.text
        assert "noon" not in found.text

    async def test_scope_that_is_not_granted_is_not_read(self, tk: threadkeep.Threadkeep):
        found = await tk.recall(QUESTION, owner="ana")

        assert found.memories == ()

    async def test_several_scopes_and_the_own_memory(self, tk: threadkeep.Threadkeep):
        await tk.memories.remember("My staging cluster runs in Porto.", owner="ana")

        found = await tk.recall(QUESTION, owner="ana", read_scopes=[TEAM, AGENT])

        assert next(one.text for one in found.memories) == "My staging cluster runs in Porto."
        assert "team platform" in found.text
        assert "agent ops" in found.text

    @pytest.mark.parametrize(
        ("scope", "error", "words"),
        [
            (Owner("ana"), InvalidInputError, "the owner of the run itself"),
            (Owner("bob"), InvalidInputError, "shared scopes only"),
            (Owner("platform", "acme", "team"), InvalidInputError, "another tenant"),
            (Owner("unknown", kind="team"), ScopeNotFoundError, "team 'unknown' was not found"),
        ],
    )
    @pytest.mark.parametrize("face", ["recall", "async", "sync", "config"])
    async def test_scope_that_cannot_be_read_is_one_clear_error(
        self, tk: threadkeep.Threadkeep, scope: Owner, error: type[Exception], words: str, face: str
    ):
        """Before the model is called, however the scope is named."""
        model = ScriptedModel(replies=("Noted.",))
        view = tk.per_run_owner()

        async def run() -> None:
            if face == "recall":
                await tk.recall(QUESTION, owner="ana", read_scopes=[scope])
            elif face == "config":
                agent: Any = create_agent(model, [], middleware=[view.middleware()])
                await ask(agent, model, view.config("ana", thread_id="1", read_scopes=[scope]))
            else:
                agent = create_agent(model, [], middleware=[tk.middleware(owner="ana", read_scopes=[scope])])
                await ask(agent, model, tk.config(user_id="ana", thread_id="1"), face)

        with pytest.raises(error, match=words):
            await run()
        assert model.prompts == []


class TestMiddleware:
    @pytest.mark.parametrize("face", ["async", "sync"])
    async def test_scopes_of_the_middleware(self, tk: threadkeep.Threadkeep, face: str):
        model = ScriptedModel(replies=("Noted.",))
        agent = create_agent(model, [], middleware=[tk.middleware(read_scopes=[TEAM])])

        prompt = await ask(agent, model, tk.config(user_id="ana", thread_id="1"), face)

        assert "team platform" in prompt
        assert "agent ops" not in prompt

    async def test_scopes_by_a_function_of_the_runtime(self, tk: threadkeep.Threadkeep):
        model = ScriptedModel(replies=("Noted.",))
        agent = create_agent(model, [], middleware=[tk.middleware(read_scopes=lambda _runtime: [AGENT])])

        prompt = await ask(agent, model, tk.config(user_id="ana", thread_id="1"))

        assert "agent ops" in prompt

    async def test_scopes_of_a_run_of_a_graph_for_all_owners(self, tk: threadkeep.Threadkeep):
        model, view = ScriptedModel(replies=("Noted.",)), tk.per_run_owner()
        agent = create_agent(model, [], middleware=[view.middleware()], checkpointer=view.checkpointer)

        granted = await ask(agent, model, view.config("ana", thread_id="1", read_scopes=[TEAM]))
        other = await ask(agent, model, view.config("bob", thread_id="1"))

        assert "team platform" in granted
        assert "team platform" not in other

    @pytest.mark.parametrize("value", ["platform", ["platform"], [{"user_id": "platform", "kind": "team"}]])
    async def test_json_of_a_client_grants_nothing(self, tk: threadkeep.Threadkeep, value: object):
        model, view = ScriptedModel(replies=("Noted.",)), tk.per_run_owner()
        agent = create_agent(model, [], middleware=[view.middleware()])
        config = view.config("ana", thread_id="1")
        config["configurable"]["threadkeep_read_scopes"] = value  # pyright: ignore[reportTypedDictNotRequiredAccess]

        with pytest.raises(InvalidInputError, match="tuple of Owner objects"):
            await ask(agent, model, config)

    async def test_turn_of_a_team_is_refused(self, tk: threadkeep.Threadkeep):
        model = ScriptedModel(replies=("Noted.",))
        agent = create_agent(model, [], middleware=[tk.middleware(owner=TEAM)])

        with pytest.raises(InvalidInputError, match="pass the team as read_scopes"):
            await ask(agent, model, {"configurable": {"thread_id": "1"}})

    async def test_forgotten_statement_of_a_scope_is_not_given_again(self, tk: threadkeep.Threadkeep):
        """The next model call of the same turn, too, looks whether it still holds."""
        recalled = await tk.recall(QUESTION, owner="ana", read_scopes=[TEAM])
        services = await tk.app.connect()
        assert await tk.app.event_loop.run(services.recalls.are_unchanged(recalled.memories, owner=Owner("ana")))

        await tk.memories.forget(recalled.memories[0].memory.memory_id, owner=TEAM)

        assert not await tk.app.event_loop.run(services.recalls.are_unchanged(recalled.memories, owner=Owner("ana")))


class TestFairness:
    async def test_large_scope_does_not_drown_the_own_memory(self, tk: threadkeep.Threadkeep):
        """Two hundred statements of the team that are as near to the question; the own one is in the block."""
        await tk.memories.remember("My staging cluster runs in Porto.", owner="ana")
        for number in range(200):
            text = f"The staging cluster {number} runs on host {number}."
            await tk.memories.remember(text, owner=TEAM, approved_by="carla")

        found = await tk.recall(QUESTION, owner="ana", read_scopes=[TEAM])

        assert found.memories[0].text == "My staging cluster runs in Porto."
        assert len(found.memories) > 5
