"""Extraction schemas of an application: fields that a scripted model fills, kept as metadata."""

from __future__ import annotations

import json
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

import threadkeep
from threadkeep.errors import InvalidInputError
from threadkeep.settings import Settings
from threadkeep.testing import FrozenClock, HashingEmbedder, ScriptedModel


class Area(Enum):
    WORK = "work"
    HOME = "home"


class Preference(BaseModel):
    """What a fact is about."""

    area: Area
    strength: int = Field(ge=1, le=5, description="How much it matters, from 1 to 5.")
    until: str | None = None
    certain: bool = True


JSON_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "area": {"enum": ["work", "home"]},
        "strength": {"type": "integer", "description": "How much it matters, from 1 to 5."},
        "until": {"type": ["string", "null"]},
        "certain": {"type": "boolean"},
    },
    "required": ["area", "strength"],
}
FIELDS = {"area": "work", "strength": 4, "until": None, "certain": True}
SAID = "We deploy with ArgoCD on prod-west."


def reply(text: str, fields: object = FIELDS, replaces: int | None = None) -> str:
    fact = {"text": text, "kind": "semantic", "replaces": replaces, "fields": fields}
    return json.dumps({"facts": [fact], "episode": ""})


def opened(model: Any, schema: Any = Preference, **more: Any) -> threadkeep.Threadkeep:
    settings = Settings.load(**{"store_type": "memory", "enable_fact_extraction": "true", **more})
    return threadkeep.open(
        settings=settings,
        owner="ana",
        model=model,
        embedder=HashingEmbedder(),
        clock=FrozenClock(),
        extraction_schema=schema,
    )


async def learn(tk: threadkeep.Threadkeep, text: str = SAID) -> threadkeep.Receipt:
    return await tk.capture([("user", text), ("assistant", "Fine.")], thread_id="t1", wait=True)


class TestFields:
    @pytest.mark.parametrize("schema", [Preference, JSON_SCHEMA], ids=["pydantic", "json schema"])
    async def test_the_fields_of_a_fact_are_its_metadata(self, schema: Any) -> None:
        model = ScriptedModel(replies=[reply(SAID)])
        async with opened(model, schema) as tk:
            receipt = await learn(tk)

            (memory,) = await tk.memories.list(kind="semantic", metadata={"area": "work"})
            assert await tk.memories.list(kind="semantic", metadata={"area": "home"}) == []
        assert (memory.text, memory.metadata) == (SAID, FIELDS)
        prompt = model.prompts[0][0].text
        assert "How much it matters, from 1 to 5." in prompt
        assert receipt.usage[0].prompt.startswith("structured-1+")

    async def test_an_update_takes_the_newer_fields_and_keeps_others(self) -> None:
        replies = [
            reply("My on-call day is Monday"),
            reply("My on-call day is Friday", {"area": "home", "strength": 1, "certain": False}, replaces=1),
        ]
        async with opened(ScriptedModel(replies=replies)) as tk:
            await learn(tk, "My on-call day is Monday.")
            (memory,) = await tk.memories.list(kind="semantic")
            await tk.memories.label(memory.memory_id, metadata={**memory.metadata, "own": 1})
            await learn(tk, "My on-call day is Friday.")

            (memory,) = await tk.memories.list(kind="semantic")
        assert memory.text == "My on-call day is Friday"
        assert memory.metadata == {"area": "home", "strength": 1, "until": None, "certain": False, "own": 1}

    async def test_a_proposal_keeps_them_until_it_is_approved(self) -> None:
        async with opened(ScriptedModel(replies=[reply("The office has a sauna.")])) as tk:
            receipt = await learn(tk)
            (proposal_id,) = receipt.proposal_ids
            await tk.proposals.approve(proposal_id, by="ana")

            (memory,) = await tk.memories.list(kind="semantic")
        assert (memory.text, memory.metadata) == ("The office has a sauna.", FIELDS)

    @pytest.mark.parametrize(
        "fields",
        [
            {"area": "sea", "strength": 4},
            {"area": "work", "strength": 9},
            {"area": "work"},
            {"area": "work", "strength": 1, "until": "x" * 1_001},
            None,
        ],
    )
    async def test_another_answer_is_a_failure_and_nothing_is_lost(self, fields: object) -> None:
        async with opened(ScriptedModel(replies=[reply(SAID, fields)]), capture_tries=1) as tk:
            receipt = await learn(tk)

            assert (receipt.status, await tk.memories.list()) == ("failed", [])
            assert [turn.state for turn in await tk.queue.list()] == ["dead"]

    async def test_without_a_schema_there_are_none(self) -> None:
        fact = {"text": SAID, "kind": "semantic", "replaces": None}
        model = ScriptedModel(replies=[json.dumps({"facts": [fact], "episode": ""})])
        async with opened(model, None) as tk:
            await learn(tk)
            (memory,) = await tk.memories.list(kind="semantic")
        assert memory.metadata == {}


class _Nested(BaseModel):
    topics: list[str]


class _Empty(BaseModel):
    pass


class _Choice(BaseModel):
    area: Literal["work"] | None


BAD: list[tuple[Any, str]] = [
    (7, "pydantic model or a JSON schema, got int"),
    ("{}", "got str"),
    ({}, "JSON schema of an object"),
    ({"type": "array"}, "JSON schema of an object"),
    ({"type": "object", "properties": {}}, "1 to 32 fields, got 0"),
    (_Empty, "1 to 32 fields, got 0"),
    (_Nested, "field 'topics' of extraction_schema"),
    ({"type": "object", "properties": {"a b": {"type": "string"}}}, "field 'a b'"),
    ({"type": "object", "properties": {"a": {"type": "array"}}}, "field 'a'"),
    ({"type": "object", "properties": {"a": {"enum": []}}}, "field 'a'"),
    ({"type": "object", "properties": {"a": 3}}, "field 'a'"),
    ({"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(33)}}, "1 to 32 fields, got 33"),
]


class TestSchema:
    @pytest.mark.parametrize(("schema", "message"), BAD)
    def test_a_bad_schema_is_refused_by_name(self, schema: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            opened(ScriptedModel(), schema)

    def test_choices_that_may_be_missing_are_allowed(self) -> None:
        opened(ScriptedModel(), _Choice).close()

    def test_it_needs_the_structured_extractor(self) -> None:
        for more in ({"enable_fact_extraction": "false"}, {"extractor": "langmem"}):
            with pytest.raises(InvalidInputError, match="needs the structured extractor"):
                opened(ScriptedModel(), **more)
