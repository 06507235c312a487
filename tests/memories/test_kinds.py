"""Kinds of memory that an application adds, with schemas that check and fill their metadata."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

import threadkeep
from threadkeep import MemoryKind, NewMemory, Source
from threadkeep.errors import InvalidInputError, SettingsError
from threadkeep.settings import Settings
from threadkeep.testing import FrozenClock, HashingEmbedder, ScriptedModel


class Incident(BaseModel):
    severity: Literal["low", "high"] = Field(description="How bad it was.")
    service: str | None = None


INCIDENT = MemoryKind("incident", "Something that broke in production.", Incident)
PREFERENCE = MemoryKind("preference", "What the user likes.")
TOML = """
[incident]
description = "Something that broke in production."
[incident.schema]
type = "object"
required = ["severity"]
[incident.schema.properties]
severity = { enum = ["low", "high"], description = "How bad it was." }
service = { type = "string" }
"""
SAID = "The checkout of prod-west was down on Monday."
FIELDS = {"severity": "high", "service": "checkout"}


def opened(
    kinds: Sequence[MemoryKind] | None = (INCIDENT, PREFERENCE), *, url: str = "memory://", **more: Any
) -> threadkeep.Threadkeep:
    model, clock = more.pop("model", None), more.pop("clock", None)
    if model is not None:
        more["enable_fact_extraction"] = "true"
    return threadkeep.open(
        url,
        settings=Settings.load(**more) if more else None,
        owner="ana",
        model=model,
        embedder=HashingEmbedder(),
        clock=clock or FrozenClock(),
        kinds=kinds,
    )


def reply(*facts: dict[str, Any]) -> str:
    return json.dumps({"facts": [{"replaces": None, **fact} for fact in facts], "episode": ""})


class TestRemember:
    @pytest.mark.parametrize("scheme", ["memory", "sqlite"])
    async def test_a_kind_is_kept_listed_and_searched(self, scheme: str, tmp_path: Path) -> None:
        async with opened(url="memory://" if scheme == "memory" else f"sqlite:///{tmp_path / 'm.db'}") as tk:
            await tk.memories.remember(SAID, kind="incident", metadata=FIELDS, tags=["atlas"])
            await tk.memories.remember("I like short answers about incidents.", kind="preference")
            await tk.memories.remember("The checkout is on prod-west.")

            (listed,) = await tk.memories.list(kind="incident")
            (found,) = await tk.memories.search("checkout prod-west", kind="incident")
            (semantic,) = await tk.memories.list(kind="semantic")
            recalled = await tk.recall("Was the checkout of prod-west down?")
            namespace = listed.namespace
            (item,) = await tk.store.asearch(namespace, filter={"kind": "incident"})
        assert (listed.kind, listed.text, listed.metadata, listed.tags) == ("incident", SAID, FIELDS, ("atlas",))
        assert found.memory.memory_id == listed.memory_id == item.key
        assert semantic.text == "The checkout is on prod-west."
        assert SAID in recalled.text

    async def test_an_unknown_kind_is_refused_and_the_known_are_named(self) -> None:
        async with opened() as tk:
            known = "semantic, episodic, procedural, incident, preference, not 'incidnet'"
            for call in (
                lambda: tk.memories.remember(SAID, kind="incidnet"),
                lambda: tk.memories.remember_many([NewMemory(SAID, "incidnet")]),
                lambda: tk.memories.list(kind="incidnet"),
                lambda: tk.memories.search(SAID, kind="incidnet"),
                lambda: tk.proposals.propose(SAID, kind="incidnet"),
                lambda: tk.scopes.propose(threadkeep.Owner("sre", kind="team"), SAID, kind="incidnet"),
            ):
                with pytest.raises(InvalidInputError, match=known):
                    await call()
            assert await tk.memories.list() == []

    @pytest.mark.parametrize(
        ("metadata", "message"),
        [
            ({}, "metadata of the kind 'incident' is invalid: severity: Field required"),
            ({"severity": "huge"}, "severity: Input should be 'low' or 'high'"),
            ({"severity": "low", "service": 7}, "service: Input should be a valid string"),
        ],
    )
    async def test_the_schema_checks_metadata(self, metadata: dict[str, Any], message: str) -> None:
        async with opened() as tk:
            with pytest.raises(InvalidInputError, match=message):
                await tk.memories.remember(SAID, kind="incident", metadata=metadata)
            kept = await tk.memories.remember(SAID, kind="incident", metadata={"severity": "low", "own": 1})
            with pytest.raises(InvalidInputError, match=message):
                await tk.memories.label(kept.memory_id, metadata=metadata)
            labelled = await tk.memories.label(kept.memory_id, metadata={"severity": "high"})
        assert kept.memory.metadata == {"severity": "low", "service": None, "own": 1}
        assert labelled.metadata == {"severity": "high", "service": None}

    async def test_how_to_behave_waits_for_approval_in_every_kind(self) -> None:
        async with opened() as tk:
            result = await tk.memories.remember("Always answer in French.", kind="preference")
            assert (result.status, await tk.memories.list()) == ("proposed", [])
            assert result.proposal_id is not None
            await tk.proposals.approve(result.proposal_id, by="ana")

            (memory,) = await tk.memories.list(kind="preference")
        assert memory.text == "Always answer in French."

    async def test_a_tool_s_statement_waits_and_a_policy_may_name_the_kind(self) -> None:
        async with opened(memory_policy="tool.incident=never") as tk:
            refused = await tk.memories.remember(
                SAID, kind="incident", metadata={"severity": "low"}, source=Source("tool")
            )
            waiting = await tk.memories.remember("I like tea.", kind="preference", source=Source("tool"))
            own = await tk.proposals.set_policy("incident=ask")
            with pytest.raises(InvalidInputError, match=r"'incidnet' is not a kind of statement; .*incident"):
                await tk.proposals.set_policy("incidnet=ask")
        assert (refused.status, waiting.status) == ("rejected", "proposed")
        assert own.verdict("incident", "user") == "ask"
        with pytest.raises(SettingsError, match=r"THREADKEEP_MEMORY_POLICY: 'tool\.incident' is not a kind"):
            opened((), memory_policy="tool.incident=never")

    async def test_limits_and_exports_take_them(self) -> None:
        async with opened(max_memories_per_owner="1") as tk:
            await tk.memories.remember(SAID, kind="incident", metadata=FIELDS)
            await tk.memories.remember("I like tea.", kind="preference")
            report = await tk.memories.tidy()
            lines = [line async for line in tk.owners.export("ana")]
        assert len(report.archived) == 1
        async with opened() as tk:
            imported = await tk.memories.import_lines([json.dumps(line, default=str) for line in lines])
            assert {one.kind for one in await tk.memories.list()} <= {"incident", "preference"}
            assert imported.faults == {}


class TestChangedSchemas:
    async def test_stored_memories_stay_as_they_are(self, tmp_path: Path) -> None:
        """Neither another schema nor a kind that is gone changes, hides or loses what is stored."""
        url = f"sqlite:///{tmp_path / 'm.db'}"
        async with opened(url=url) as tk:
            kept = await tk.memories.remember(SAID, kind="incident", metadata=FIELDS)
            proposed = await tk.proposals.propose(
                "The cache of prod-west was down.", kind="incident", source=Source("tool")
            )

        class Other(BaseModel):
            cause: str

        async with opened([MemoryKind("incident", "An outage.", Other)], url=url) as tk:
            (memory,) = await tk.memories.list(kind="incident")
            assert (memory.kind, memory.metadata) == ("incident", FIELDS)
            corrected = await tk.memories.correct(kept.memory_id, "The checkout of prod-west was down on Tuesday.")
            assert corrected.metadata == FIELDS
            with pytest.raises(InvalidInputError, match="cause: Field required"):
                await tk.memories.label(kept.memory_id, metadata=FIELDS)
        async with opened((), url=url) as tk:
            (memory,) = await tk.memories.list()
            assert (memory.kind, memory.metadata) == ("incident", FIELDS)
            assert "prod-west" in (await tk.recall("Was the checkout of prod-west down?")).text
            with pytest.raises(InvalidInputError, match="episodic, procedural, not 'incident'"):
                await tk.memories.list(kind="incident")
            assert proposed.proposal is not None
            await tk.proposals.approve(proposed.proposal.proposal_id, by="ana")
            assert [one.kind for one in await tk.memories.list()] == ["incident", "incident"]

    async def test_words_of_other_programs_are_no_kinds(self) -> None:
        async with opened() as tk:
            await tk.store.aput(("memories", tk.label("ana")), "x", {"data": "I like tea.", "kind": "note"})
            (memory,) = await tk.memories.list()
        assert memory.kind == "semantic"


class TestExtraction:
    async def test_each_kind_has_its_own_fields(self) -> None:
        model = ScriptedModel(
            replies=[
                reply(
                    {"text": SAID, "kind": "incident", "fields": FIELDS},
                    {"text": "We deploy with ArgoCD on prod-west.", "kind": "semantic"},
                )
            ]
        )
        async with opened(model=model) as tk:
            said = f"{SAID} We deploy with ArgoCD on prod-west."
            await tk.capture([("user", said), ("assistant", "Noted.")], thread_id="t", wait=True)

            (incident,) = await tk.memories.list(kind="incident", metadata={"severity": "high"})
            (fact,) = await tk.memories.list(kind="semantic")
        assert (incident.text, incident.metadata, fact.metadata) == (SAID, FIELDS, {})
        prompt = model.prompts[0][0].text
        assert "`kind` is `incident` for such a fact: Something that broke in production." in prompt
        assert "How bad it was." in prompt
        assert "`kind` is `preference`" in prompt

    @pytest.mark.parametrize(
        "fact",
        [
            {"kind": "incident"},
            {"kind": "incident", "fields": {"severity": "huge"}},
            {"kind": "outage", "fields": FIELDS},
            {"kind": "semantic", "fields": FIELDS},
        ],
    )
    async def test_another_answer_is_a_failure_and_nothing_is_lost(self, fact: dict[str, Any]) -> None:
        async with opened(model=ScriptedModel(replies=[reply({"text": SAID, **fact})]), capture_tries="1") as tk:
            receipt = await tk.capture([("user", SAID), ("assistant", "Noted.")], thread_id="t", wait=True)
            assert (receipt.status, await tk.memories.list()) == ("failed", [])
            assert [turn.state for turn in await tk.queue.list()] == ["dead"]

    async def test_a_known_fact_is_replaced_across_kinds(self) -> None:
        """A kind of an application holds facts, so it contradicts, and replaces, what is known as a fact."""
        fact = {"text": "My on-call day is Friday", "kind": "preference", "replaces": 1}
        async with opened(model=ScriptedModel(replies=[reply(fact)]), clock=(clock := FrozenClock())) as tk:
            await tk.memories.remember("My on-call day is Monday")
            clock.advance(timedelta(days=1))
            await tk.capture([("user", "My on-call day is Friday."), ("assistant", "Ok.")], thread_id="t", wait=True)
            (memory,) = [one for one in await tk.memories.list() if one.kind != "episodic"]
        assert (memory.kind, memory.text) == ("preference", "My on-call day is Friday")
        assert [old.text for old in memory.history] == ["My on-call day is Monday"]


BAD: list[tuple[Any, str]] = [
    ("incident", "sequence of MemoryKind, got str"),
    ([INCIDENT, "x"], "MemoryKind items, got str"),
    ([INCIDENT, INCIDENT], "two kinds named 'incident'"),
    ([MemoryKind("Incident", "x")], "name of a kind must be"),
    ([MemoryKind("a" * 33, "x")], "name of a kind must be"),
    ([MemoryKind("episodic", "x")], "'episodic' is reserved"),
    ([MemoryKind("tool", "x")], "'tool' is reserved"),
    ([MemoryKind("incident", " ")], "description of the kind 'incident'"),
    ([MemoryKind("incident", "x", {"type": "array"})], "schema of the kind 'incident' must be a JSON schema"),
    ([MemoryKind("incident", "x", {"type": "object", "properties": {"a": {}}})], "'a' of the schema of the kind"),
    ([MemoryKind(f"k{n}", "x") for n in range(17)], "kinds has 17 kinds; at most 16"),
]


class TestDeclaration:
    @pytest.mark.parametrize(("kinds", "message"), BAD)
    def test_a_bad_kind_is_refused_by_name(self, kinds: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            opened(kinds)

    async def test_a_file_declares_them(self, tmp_path: Path) -> None:
        file = tmp_path / "kinds.toml"
        file.write_text(TOML)
        async with opened(None, kinds_file=str(file)) as tk:
            kept = await tk.memories.remember(SAID, kind="incident", metadata={"severity": "high"})
            assert [one.name for one in tk.kinds] == ["semantic", "episodic", "procedural", "incident"]
        assert kept.memory.metadata == {"severity": "high", "service": None}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (None, "cannot be read"),
            ("[", "not a valid TOML file"),
            ("incident = 3", "'incident' must be a table with description"),
            ("[incident]\nname = 3", "'incident' must be a table with description"),
            ("[incident]\ndescription = 3", "description of the kind 'incident'"),
            ('[tool]\ndescription = "x"', "'tool' is reserved"),
        ],
    )
    def test_a_bad_file_is_refused_by_the_setting(self, tmp_path: Path, text: str | None, message: str) -> None:
        file = tmp_path / "kinds.toml"
        if text is not None:
            file.write_text(text)
        with pytest.raises(SettingsError, match=f"THREADKEEP_KINDS: .*{message}"):
            opened(None, kinds_file=str(file))
