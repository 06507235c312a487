"""The structured extractor in a real capture: a scripted model, and a real client against a server on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage
from langchain_openai import ChatOpenAI

import threadkeep
from tests.fakes.model_server import Hang, ModelServer, Raw, ToolCalls
from threadkeep.errors import SettingsError
from threadkeep.settings import Settings
from threadkeep.testing import FrozenClock, HashingEmbedder, Held, ScriptedModel

ANA = "ana@x.org"
SAID = "We deploy with ArgoCD on prod-west. How do I roll back?"


def reply(*facts: str | dict[str, Any], episode: str = "The user asked how to roll back.") -> str:
    rows = [{"text": one, "kind": "semantic", "replaces": None} if isinstance(one, str) else one for one in facts]
    return json.dumps({"facts": rows, "episode": episode})


def opened(model: Any, **more: str) -> threadkeep.Threadkeep:
    settings = Settings.load(store_type="memory", enable_fact_extraction="true", **more)
    return threadkeep.open(settings=settings, owner=ANA, model=model, embedder=HashingEmbedder(), clock=FrozenClock())


async def learn(tk: threadkeep.Threadkeep, text: str = SAID, *, answer: str = "Use the history.") -> threadkeep.Receipt:
    return await tk.capture([("user", text), ("assistant", answer)], thread_id="t1", wait=True)


class EagerModel(ScriptedModel):
    """Takes every sentence that it is shown for a fact."""

    def _next(self, messages: list[BaseMessage]) -> Any:
        super()._next(messages)
        shown = " ".join(one["text"] for one in json.loads(messages[-1].text)["turn"])
        return reply(*(one.strip() for one in shown.split(".") if one.strip()), episode=shown[:200])


REFUSED = (
    "I live in Rome. Please don't save that my locker code is 4711.",
    "I live in Rome.\nPlease don't remember that my\n  locker code is 4711.\n",
    "I live in Rome. Forget that my locker code is 4711.",
    "Ich wohne in Rom. Speichere bitte nicht, dass mein Code 4711 ist.",
)


class TestLearn:
    async def test_facts_and_episode_come_from_one_call(self):
        """With their source, and with what the call took; the prompt names what is known."""
        model = ScriptedModel(replies=[reply("User's team deploys with ArgoCD on prod-west.")])
        async with opened(model) as tk:
            await tk.memories.remember("I work at Acme, where we deploy a lot")

            receipt = await learn(tk)

            memories = {m.kind: m for m in await tk.memories.list() if m.memory_id in receipt.memory_ids}
        assert memories["semantic"].text == "User's team deploys with ArgoCD on prod-west."
        assert memories["episodic"].text == "The user asked how to roll back."
        assert {m.trust for m in memories.values()} == {"user"}
        assert all(m.sources[0].thread_id == "t1" for m in memories.values())
        (prompt,) = model.prompts
        assert "platform engineering" in prompt[0].text
        assert "I work at Acme" in prompt[1].text
        (usage,) = receipt.usage
        assert (usage.model, usage.prompt, usage.calls) == ("ScriptedModel", "structured-1", 1)

    async def test_fact_that_replaces_a_known_one_is_an_update(self):
        """The old statement is history."""
        model = ScriptedModel(
            replies=[
                reply("The user's on-call day is Monday", episode=""),
                reply({"text": "My on-call day is Friday", "kind": "semantic", "replaces": 1}, episode=""),
            ]
        )
        async with opened(model) as tk:
            await learn(tk, "My on-call day is Monday.")
            await learn(tk, "My on-call day is Friday.")

            (memory,) = await tk.memories.list(kind="semantic")
        assert memory.text == "My on-call day is Friday"
        assert [old.text for old in memory.history] == ["The user's on-call day is Monday"]

    async def test_what_the_user_did_not_say_waits(self):
        """From the reply, from nowhere, and how to behave in any case; an episode of it is not kept."""
        model = ScriptedModel(
            replies=[
                reply(
                    "User banks with Evil Bank",
                    {"text": "Always answer in French", "kind": "procedural", "replaces": None},
                    episode="The assistant recommended Evil Bank.",
                )
            ]
        )
        async with opened(model) as tk:
            receipt = await learn(tk, "Which bank is good? Always answer in French.", answer="You bank with Evil Bank.")

            waiting = {one.text: one for one in await tk.proposals.list()}
            memories = await tk.memories.list()
        assert set(waiting) == {"User banks with Evil Bank", "Always answer in French"}
        assert waiting["User banks with Evil Bank"].trust == "assistant"
        assert waiting["Always answer in French"].trust == "user"
        assert set(receipt.proposal_ids) == {one.proposal_id for one in waiting.values()}
        assert [m.text for m in memories] == ["Asked: Which bank is good?"]

    @pytest.mark.parametrize("said", REFUSED)
    async def test_what_the_user_refuses_to_have_remembered_is_shown_to_no_model(self, said: str):
        """Neither in the user's words nor in the reply, which may repeat them; the rest is learnt from."""
        model = EagerModel()
        async with opened(model) as tk:
            await learn(tk, said, answer="I will not remember that your locker code is 4711.")

            waiting = [one.text for one in await tk.proposals.list()]
            memories = [one.text for one in await tk.memories.list()]
        assert "4711" not in str([one.text for prompt in model.prompts for one in prompt])
        assert "4711" not in str((waiting, memories))
        assert "in Rom" in str(memories)

    async def test_no_model_is_asked_about_a_turn_that_only_refuses(self):
        model = EagerModel()
        async with opened(model) as tk:
            receipt = await learn(tk, "Please don't save that my locker code is 4711.")

        assert (receipt.status, receipt.memory_ids, receipt.proposal_ids) == ("done", (), ())
        assert model.prompts == []

    async def test_at_most_three_facts(self):
        """A model that is carried away does not fill the memory."""
        said = [f"My lucky number {n} is {n}{n}." for n in range(6)]
        async with opened(ScriptedModel(replies=[reply(*said, episode="")])) as tk:
            await learn(tk, " ".join(said))

            assert len(await tk.memories.list(kind="semantic")) == 3

    async def test_own_instructions_replace_the_shipped_ones(self, tmp_path: Any):
        """And are accounted for under a name of their own."""
        path = tmp_path / "prompt.md"
        path.write_text("Extract what a vet should know.")
        model = ScriptedModel(replies=[reply(episode="")])
        async with opened(model, extraction_prompt=str(path)) as tk:
            receipt = await learn(tk)

        assert model.prompts[0][0].text == "Extract what a vet should know."
        assert receipt.usage[0].prompt.startswith("own-")


class TestStream:
    @pytest.mark.parametrize("mode", ["messages", "values", "updates", "custom"])
    async def test_nothing_of_it_reaches_the_users_stream(self, mode: str):
        """Neither while the turn that is learnt from still streams, nor after it."""
        helper = ScriptedModel(replies=[reply("User's team deploys with ArgoCD on prod-west.")])
        async with opened(helper) as tk:
            agent = create_agent(ScriptedModel(replies=["Done."]), [], middleware=[tk.middleware()])
            config = tk.config(user_id=ANA, thread_id="t1")
            stream = agent.astream({"messages": [("user", SAID)]}, config, stream_mode=mode)
            shown = [str(event) async for event in stream]

            await tk.drain()

            assert len(helper.prompts) == 1
        assert "User's team" not in "".join(shown)
        assert "facts" not in "".join(shown)

    async def test_worker_started_by_a_run_is_none_of_its_children(self):
        """A run's callbacks do not see the helper's calls."""
        from langchain_core.callbacks import BaseCallbackHandler

        seen: list[str] = []

        class Watch(BaseCallbackHandler):
            def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
                seen.append(str(messages))

        helper = ScriptedModel(replies=[reply(episode="")])
        async with opened(helper) as tk:
            agent = create_agent(ScriptedModel(replies=["Done."]), [], middleware=[tk.middleware()])
            config = {**tk.config(user_id=ANA, thread_id="t1"), "callbacks": [Watch()]}
            await agent.ainvoke({"messages": [("user", SAID)]}, config)
            await tk.drain()

        assert len(helper.prompts) == 1
        assert len(seen) == 1


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def client(server: ModelServer) -> ChatOpenAI:
    return ChatOpenAI(model="small-helper", base_url=server.base_url, api_key="none", max_retries=0, temperature=0.7)


class TestWire:
    async def test_real_client_asks_by_a_strict_schema_at_temperature_0(self, server: ModelServer):
        """One request, with extra fields refused; tokens and their cost are on the owner's account."""
        server.replies = [reply("User's team deploys with ArgoCD on prod-west.")]
        async with opened(client(server), extraction_prices="1.00,10.00") as tk:
            receipt = await learn(tk)

            held = await tk.owners.show()
            counts = tk.app.telemetry.counts()
        (request,) = server.requests
        schema = request["response_format"]["json_schema"]
        assert (request["temperature"], schema["strict"]) == (0, True)
        assert schema["schema"]["additionalProperties"] is False
        (usage,) = receipt.usage
        assert usage.input_tokens > 100
        assert usage.cost_usd == pytest.approx((usage.input_tokens + 10 * usage.output_tokens) / 1e6)
        assert held.extraction["calls"] == 1
        assert held.extraction["input_tokens"] == usage.input_tokens
        assert held.extraction["cost_usd"] == pytest.approx(usage.cost_usd)
        assert counts["extraction.input_tokens"] == usage.input_tokens

    @pytest.mark.parametrize(
        "wrong",
        [
            "",
            "I think the user likes ArgoCD.",
            '{"facts": "many", "episode": 3}',
            '{"facts": [], "episode": "", "secret_extra": 1}',
            '{"facts": [{"text": "x", "kind": "semantic"}], "episode": ""}',
            "[]",
            ToolCalls([("Unknown", {"a": 1})]),
            Raw(b"<html>no JSON at all</html>"),
            Raw(b""),
            Raw(b'{"error": {"message": "key sk-abcdefghijklmnopqrstu is wrong"}}', 401),
            Raw(b"{}", 500),
            {"choices": []},
        ],
        ids=lambda one: str(one)[:24],
    )
    async def test_wrong_answer_changes_nothing_and_shows(self, server: ModelServer, wrong: Any):
        """Nothing is erased, the turn waits to be tried again, and receipt, counters and export say why."""
        server.replies = [wrong]
        async with opened(client(server)) as tk:
            kept = await tk.memories.remember("I live in Lisbon.")

            await tk.capture([("user", SAID)], thread_id="t1")
            await tk.drain()

            assert [m.memory_id for m in await tk.memories.list()] == [kept.memory_id]
            counts = tk.app.telemetry.counts()
            rows = [row async for row in tk.owners.export() if row["type"] == "turn"]
        assert counts["extraction.failed"] >= 1
        (row,) = rows
        assert row["value"]["tries"] >= 1
        assert "extraction model" in row["value"]["reason"]
        assert "sk-" not in str(row)

    async def test_hanging_model_is_given_up(self, server: ModelServer):
        """After the time-out; turns go on meanwhile, and what it failed on is learnt when it answers again."""
        server.replies = [Hang(), reply("User's team deploys with ArgoCD on prod-west.")]
        async with opened(client(server), extraction_timeout_seconds="0.2") as tk:
            await tk.capture([("user", SAID)], thread_id="t1")
            await tk.drain()
            assert "within 0.2 seconds" in str([row async for row in tk.owners.export() if row["type"] == "turn"])
            assert await tk.memories.list() == []
            clock = tk.app.clock
            assert isinstance(clock, FrozenClock)

            for _ in range(4):  # a machine that is busy may take longer than that for an answer, too
                clock.advance(timedelta(hours=4))
                await tk.drain()

            assert [m.text for m in await tk.memories.list(kind="semantic")] == [
                "User's team deploys with ArgoCD on prod-west."
            ]

    async def test_model_that_never_answers_is_parked_with_a_reason(self, server: ModelServer):
        """After five tries; the receipt says failed and why."""
        server.replies = ["no JSON"]
        async with opened(client(server)) as tk:
            receipt = await tk.capture([("user", SAID)], thread_id="t1")
            clock = tk.app.clock
            assert isinstance(clock, FrozenClock)
            for _ in range(6):
                await tk.drain()
                clock.advance(timedelta(hours=4))

            settled = await tk.settle(receipt.turn_ids)

            held = await tk.owners.show()
        assert settled.status == "failed"
        assert settled.reason is not None
        assert "The answer of the extraction model is invalid" in settled.reason
        assert (held.extraction["failed"], held.extraction["turns"]) == (5, 0)


class TestSet:
    def test_it_is_off_by_default(self):
        """The local extractor needs no model."""
        model = ScriptedModel()
        with threadkeep.open("memory://", owner=ANA, model=model, embedder="none") as tk:
            tk.sync.capture([("user", "I live in Lisbon.")], thread_id="t", wait=True)

            assert [m.text for m in tk.sync.memories.list(kind="semantic")] == ["I live in Lisbon."]
        assert model.prompts == []

    @pytest.mark.parametrize(
        ("more", "variable"),
        [
            ({}, "FACT_EXTRACTION_MODEL"),
            ({"extraction_prompt": "/nowhere.md"}, "THREADKEEP_EXTRACTION_PROMPT"),
            ({"extraction_prices": "cheap"}, "THREADKEEP_EXTRACTION_PRICES"),
            ({"extraction_prices": "1,-1"}, "THREADKEEP_EXTRACTION_PRICES"),
        ],
    )
    def test_wrong_setting_stops_start_up(self, more: dict[str, str], variable: str):
        """In a sentence that names the variable."""
        model = ScriptedModel() if more else None
        with pytest.raises(SettingsError, match=variable):
            opened(model, **more)

    async def test_two_turns_do_not_wait_for_each_other(self):
        """A turn is over when it is recorded, however long the helper thinks."""
        release = asyncio.Event()
        helper = ScriptedModel(replies=[Held(release, reply(episode=""))])
        async with opened(helper) as tk:
            receipts = [
                await tk.capture([AIMessage("x"), ("user", f"I like tea {n}.")], thread_id="t") for n in range(3)
            ]

            assert [one.status for one in receipts] == ["queued"] * 3
            await tk.app.event_loop.run(_set(release))
            await tk.drain()


async def _set(event: asyncio.Event) -> None:
    event.set()
