"""The real LangMem over a view that records its writes: scripted models, and a real client against loopback."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

import threadkeep
from tests.capture.extractors.test_structured import ANA, SAID, learn
from tests.fakes.model_server import Hang, ModelServer, Raw, ToolCalls
from threadkeep.capture.extractors.langmem import ONLY_TALKED, MemoriesInView, imported
from threadkeep.identity import Owner
from threadkeep.settings import Settings
from threadkeep.testing import FrozenClock, HashingEmbedder, ScriptedModel

ConfigurationError = imported().configuration_error
FACT = "User's team deploys with ArgoCD on prod-west."


def calling(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[{"name": name, "args": args, "id": f"c{place}"} for place, (name, args) in enumerate(calls)],
        usage_metadata={"input_tokens": 100, "output_tokens": 20, "total_tokens": 120},
    )


def inserting(*contents: str, schema: str = "SemanticMemory") -> AIMessage:
    return calling(*((schema, {"content": content}) for content in contents))


def patching(memory_id: str, content: str) -> AIMessage:
    """Answer as LangMem's extractor wants an update: a patch of the memory that it was shown."""
    patch = {"op": "replace", "path": "/content", "value": content}
    return calling(("PatchDoc", {"json_doc_id": memory_id, "planned_edits": "replace", "patches": [patch]}))


def later(tk: threadkeep.Threadkeep) -> None:
    clock = tk.app.clock
    assert isinstance(clock, FrozenClock)
    clock.advance(timedelta(hours=1))


class Incident(BaseModel):
    """What is to be known of an incident."""

    service: str
    severity: int


def opened(model: Any, *, owner: str | Owner = ANA, kinds: Any = (), **more: str) -> threadkeep.Threadkeep:
    settings = Settings.load(store_type="memory", enable_fact_extraction="true", extractor="langmem", **more)
    return threadkeep.open(
        settings=settings, owner=owner, model=model, embedder=HashingEmbedder(), clock=FrozenClock(), kinds=kinds
    )


class Answering(ScriptedModel):
    """Answers by what it is shown: *rule* gets the prompt's text and returns the reply."""

    rule: Any = None

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        """Return a binding, as providers' models do: LangMem looks into it where it may delete."""
        super().bind_tools(tools, **kwargs)
        return self.bind()

    def _next(self, messages: list[Any]) -> Any:
        super()._next(messages)
        return self.rule("\n".join(str(message.content) for message in messages))


def shown_id(prompt: str, text: str) -> str:
    """Return the id under which LangMem shows the memory that says *text*."""
    return prompt[: prompt.index(text)].rsplit("<instance id=", maxsplit=1)[1].split(" ", maxsplit=1)[0]


class TestLearn:
    async def test_inserts_become_memories_with_source_time_and_usage(self):
        """Of every kind; a procedure waits to be approved, and the episode is made of the user's words."""
        model = ScriptedModel(
            replies=[
                calling(
                    ("SemanticMemory", {"content": FACT}),
                    ("EpisodicMemory", {"content": "The user asked how to roll back."}),
                    ("ProceduralMemory", {"content": "We deploy with ArgoCD on prod-west"}),
                )
            ]
        )
        async with opened(model) as tk:
            receipt = await learn(tk)

            memories = {m.kind: m for m in await tk.memories.list()}
            (waiting,) = await tk.proposals.list()
        assert (memories["semantic"].text, memories["episodic"].text) == (FACT, "The user asked how to roll back.")
        assert all((m.trust, m.sources[0].thread_id) == ("user", "t1") for m in memories.values())
        assert all(m.sources[0].at is not None for m in memories.values())
        assert (waiting.kind, waiting.reason) == ("procedural", "how to behave is always asked")
        (usage,) = receipt.usage
        assert (usage.prompt, usage.calls, usage.input_tokens, usage.output_tokens) == ("langmem-1", 1, 100, 20)

    async def test_it_sees_what_is_relevant_not_what_is_oldest(self):
        """Though 40 memories are older; and they are shown as text, not as objects."""
        model = ScriptedModel(replies=["Nothing new."])
        async with opened(model) as tk:
            for number in range(40):
                await tk.memories.remember(f"Unrelated thing number {number} about gardening")
            await tk.memories.remember("Deploys go to prod-west by ArgoCD")

            await learn(tk)

        prompt = "\n".join(str(message.content) for message in model.prompts[0])
        assert "Deploys go to prod-west by ArgoCD" in prompt
        assert "platform engineering" in prompt

    async def test_memories_of_own_kinds_are_shown_written_and_changed(self):
        """The model gets a schema for each kind of the application, with its fields; other memories need none."""
        kind = threadkeep.MemoryKind("incident", "A fault of a system of the user.", Incident)
        told: list[str] = []

        def rule(prompt: str) -> AIMessage:
            told.append(prompt)
            if len(told) == 1:
                fields = {"service": "checkout", "severity": 2}
                return calling(("incident", {"content": "The checkout went down on Monday.", "fields": fields}))
            patch = {"op": "replace", "path": "/fields/severity", "value": 1}
            said = {"op": "replace", "path": "/content", "value": "The checkout went down on Tuesday."}
            where = shown_id(prompt, "The checkout went down on Monday")
            return calling(("PatchDoc", {"json_doc_id": where, "planned_edits": "replace", "patches": [patch, said]}))

        async with opened(Answering(rule=rule), kinds=[kind]) as tk:
            await learn(tk, "The checkout went down on Monday.")
            (first,) = await tk.memories.list(kind="incident")
            later(tk)
            await learn(tk, "The checkout went down on Tuesday.")
            (second,) = await tk.memories.list(kind="incident")

        assert (first.text, first.metadata) == (
            "The checkout went down on Monday.",
            {"service": "checkout", "severity": 2},
        )
        assert second.text == "The checkout went down on Tuesday."
        assert (second.memory_id, second.metadata["service"]) == (first.memory_id, "checkout")

    async def test_update_changes_the_memory_and_keeps_its_history(self):
        """No second memory, and no write past ours."""

        def rule(prompt: str) -> AIMessage:
            return patching(shown_id(prompt, "I have two cats"), "I have three cats.")

        async with opened(Answering(rule=rule)) as tk:
            kept = await tk.memories.remember("I have two cats.")
            later(tk)

            await learn(tk, "I have three cats.")

            (memory,) = await tk.memories.list(kind="semantic")
        assert (memory.memory_id, memory.text) == (kept.memory_id, "I have three cats.")
        assert [old.text for old in memory.history] == ["I have two cats."]

    async def test_update_that_the_user_did_not_say_waits(self):
        """With the memory's revision; the memory stays as it is."""

        def rule(prompt: str) -> AIMessage:
            return patching(shown_id(prompt, "I bank with Acme"), "I bank with Evil Bank.")

        async with opened(Answering(rule=rule)) as tk:
            kept = await tk.memories.remember("I bank with Acme.")

            await learn(tk, "Which bank is good?", answer="You bank with Evil Bank.")

            (waiting,) = await tk.proposals.list()
            (memory,) = await tk.memories.list(kind="semantic")
        assert memory.text == "I bank with Acme."
        assert (waiting.action, waiting.memory_id, waiting.base_text) == (
            "correct",
            kept.memory_id,
            "I bank with Acme.",
        )

    @pytest.mark.parametrize("deletes", ["true", "false"])
    async def test_removal_is_proposed_at_most(self, deletes: str):
        """And only where that is switched on."""

        def rule(prompt: str) -> AIMessage:
            key = shown_id(prompt, "I bank with Acme")
            return calling(("RemoveDoc", {"json_doc_id": key})) if deletes == "true" else AIMessage("Nothing.")

        async with opened(Answering(rule=rule), extraction_deletes=deletes) as tk:
            await tk.memories.remember("I bank with Acme.")

            await learn(tk, "Hello!")

            waiting = await tk.proposals.list()
            assert [m.text for m in await tk.memories.list(kind="semantic")] == ["I bank with Acme."]
        assert [one.action for one in waiting] == (["forget"] if deletes == "true" else [])

    async def test_strange_rows_do_not_break_it(self):
        """A row of a tool of LangMem's in the same place was a KeyError: 'kind' for every later turn."""
        async with opened(ScriptedModel(replies=[inserting(FACT)])) as tk:
            await tk.store.aput(("memories", tk.label(ANA)), "a", {"content": "We deploy with ArgoCD somewhere"})
            await tk.store.aput(("memories", tk.label(ANA)), "b", {"data": "We deploy on prod-west", "kind": 7})
            await tk.store.aput(("memories", tk.label(ANA)), "c", {"odd": ["row"]})

            receipt = await learn(tk)

            assert receipt.status == "done"
            assert FACT in [m.text for m in await tk.memories.list()]

    async def test_owner_id_may_look_like_a_template(self):
        """Braces in a user id are a user id."""
        async with opened(ScriptedModel(replies=[inserting(FACT)]), owner="{langgraph_user_id}") as tk:
            receipt = await learn(tk)

            assert receipt.status == "done"

    async def test_second_delivery_changes_nothing(self):
        """Neither memories nor the account."""
        model = ScriptedModel(replies=[inserting(FACT)])
        async with opened(model) as tk:
            first = await learn(tk)
            for _ in range(4):
                assert (await learn(tk)).status == "duplicate"

            assert len(model.prompts) == 1
            assert (await tk.owners.show()).extraction["turns"] == 1
            assert {m.memory_id for m in await tk.memories.list()} == set(first.memory_ids)


class TestFailure:
    @pytest.mark.parametrize(
        "replies",
        [
            [RuntimeError("no model")],
            [ConfigurationError("missing key")],
            [calling(("SemanticMemory", {"wrong": 1}))],
            [calling(("SemanticMemory", {"content": ["a", "list"]}))],
        ],
        ids=["error", "configuration", "schema", "type"],
    )
    async def test_nothing_is_erased_and_it_shows(self, replies: Sequence[Any]):
        """LangMem's own ConfigurationError, which is no Exception, does not take the worker with it."""
        async with opened(ScriptedModel(replies=replies)) as tk:
            kept = await tk.memories.remember("I live in Lisbon.")

            await tk.capture([("user", SAID)], thread_id="t1")
            await tk.drain()

            assert [m.memory_id for m in await tk.memories.list()] == [kept.memory_id]
            assert tk.app.telemetry.counts()["extraction.failed"] >= 1
            (row,) = [row async for row in tk.owners.export() if row["type"] == "turn"]
            assert row["value"]["reason"]
            # The worker lives: another turn, for which the clock moves on, is tried as well.
            later(tk)
            await tk.drain()
            assert tk.app.telemetry.counts()["extraction.failed"] >= 2

    async def test_memory_that_it_was_never_shown_cannot_be_changed(self):
        """An id that a model made up, or took from somewhere else, changes nothing."""
        patch = {"op": "replace", "path": "/content", "value": "I bank with Evil Bank."}
        call = {"json_doc_id": "made up", "planned_edits": "x", "patches": [patch]}
        async with opened(ScriptedModel(replies=[calling(("PatchDoc", call))])) as tk:
            await tk.memories.remember("I bank with Acme.")

            await learn(tk)

            assert [m.text for m in await tk.memories.list(kind="semantic")] == ["I bank with Acme."]
            assert await tk.proposals.list() == []

    @pytest.mark.parametrize("words", ["Sure, noted!", "\x00\ufffd lorem ]] ipsum }{", '{"facts": []}'])
    @pytest.mark.parametrize("known", [False, True], ids=["nothing known", "something known"])
    async def test_words_without_calls_teach_nothing_and_are_reported(self, words: str, known: bool):
        """Garbage or a way to say nothing: the receipt says so, and a counter; the turn's words are kept."""
        async with opened(ScriptedModel(replies=[words])) as tk:
            if known:
                await tk.memories.remember("We deploy with Helm.")
            receipt = await learn(tk)

            facts = [m.text for m in await tk.memories.list(kind="semantic")]
            assert facts == (["We deploy with Helm."] if known else [])
            assert {one.text[:5] for one in await tk.memories.list(kind="episodic")} == {"Said:", "Asked"}
            assert (receipt.status, receipt.rejected) == ("done", (ONLY_TALKED,))
            counts = tk.app.telemetry.counts()
            assert (counts["extraction.empty"], counts["extraction.remarked"]) == (1, 1)


class TestWire:
    @pytest.mark.parametrize(
        ("reply", "learnt"),
        [
            (ToolCalls([("SemanticMemory", {"content": FACT})]), True),
            (ToolCalls([("SemanticMemory", "{not json")]), False),
            (Raw(b"garbage"), False),
            (Raw(b"{}", 503), False),
            (Hang(), False),
        ],
        ids=["good", "bad arguments", "garbage", "unavailable", "hangs"],
    )
    @pytest.mark.slow
    async def test_real_client(self, reply: Any, learnt: bool):
        """Over HTTP, as in production."""
        with ModelServer([reply]) as server:
            model = ChatOpenAI(model="helper", base_url=server.base_url, api_key="none", max_retries=0)
            async with opened(model, extraction_timeout_seconds="1" if isinstance(reply, Hang) else "30") as tk:
                kept = await tk.memories.remember("I live in Lisbon.")

                await tk.capture([("user", SAID)], thread_id="t1")
                await tk.drain()

                texts = [m.text for m in await tk.memories.list(kind="semantic")]
                counts = tk.app.telemetry.counts()
                assert (await tk.memories.require(kept.memory_id)).text == "I live in Lisbon."
            assert server.requests[0]["temperature"] == 0
        assert (FACT in texts) == learnt
        assert (counts.get("extraction.failed", 0) > 0) != learnt


class TestView:
    def test_other_operations_are_answered(self):
        """LangMem lists nothing, and what it would get is there."""
        view = MemoriesInView([])

        assert view.list_namespaces() == []
        assert view.get(("memories", "owner"), "a") is None
        view.put(("memories", "owner"), "a", {"kind": "SemanticMemory", "content": {"content": "x"}})
        view.put(("memories", "owner"), "b", {"kind": "Odd", "content": {"content": "x"}})
        view.delete(("memories", "owner"), "c")
        assert (view.written, view.faults) == ({"a": ("semantic", "x", {}), "c": None}, 1)
