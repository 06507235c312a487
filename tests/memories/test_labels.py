"""Tags and metadata of memories: kept, filtered by, carried along, and refused where they cannot be kept."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import threadkeep
from tests.command_line import CliRunner
from threadkeep.cli.main import app
from threadkeep.client import Threadkeep
from threadkeep.errors import InvalidInputError, MemoryNotFoundError
from threadkeep.memories.models import Source

MEETING: dict[str, Any] = {"tags": ("work", "meeting"), "metadata": {"project": "atlas", "week": 3, "open": True}}


@pytest.fixture
async def tk() -> AsyncIterator[Threadkeep]:
    async with threadkeep.open("memory://", owner="ana", embedder="none") as opened:
        yield opened


async def filled(tk: Threadkeep) -> None:
    await tk.memories.remember("The kickoff of Atlas is on Monday.", **MEETING)
    await tk.memories.remember("The kickoff of Basalt is on Friday.", tags=["work"], metadata={"project": "basalt"})
    await tk.memories.remember(
        "The kickoff of the match is at three.", tags=["sport"], metadata={"week": 3.0, "open": 1}
    )


FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {"Atlas", "Basalt", "match"}),
    ({"tags": ["work"]}, {"Atlas", "Basalt"}),
    ({"tags": ["work", "meeting"]}, {"Atlas"}),
    ({"tags": ["work", "sport"]}, set()),
    ({"any_tags": ["meeting", "sport"]}, {"Atlas", "match"}),
    ({"tags": ["work"], "any_tags": ["sport"]}, set()),
    ({"tags": ["Work"]}, set()),
    ({"metadata": {"project": "basalt"}}, {"Basalt"}),
    ({"metadata": {"week": 3}}, {"Atlas", "match"}),
    ({"metadata": {"open": True}}, {"Atlas"}),
    ({"metadata": {"open": None}}, set()),
    ({"metadata": {"project": "atlas", "week": 4}}, set()),
]


class TestFilters:
    @pytest.mark.parametrize(("wanted", "found"), FILTERS)
    async def test_lists_and_searches_filter(self, tk: Threadkeep, wanted: dict[str, Any], found: set[str]) -> None:
        await filled(tk)

        listed = await tk.memories.list(**wanted)
        searched = await tk.memories.search("When is the kickoff?", **wanted)

        for memories in (listed, [one.memory for one in searched]):
            assert {word for one in memories for word in ("Atlas", "Basalt", "match") if word in one.text} == found
            assert len(memories) == len(found)

    async def test_a_search_gives_its_limit_however_rare_the_tag_is(self, tk: Threadkeep) -> None:
        for number in range(60):
            await tk.memories.remember(f"Ticket {number} is about printers.", tags=["rare"] if number % 20 == 0 else [])

        assert len(await tk.memories.search("printers", tags=["rare"], limit=3)) == 3

    async def test_searches_filter_as_lists_do(self, tk: Threadkeep) -> None:
        """By every other filter, over all memories and not over the best only."""
        for number in range(60):
            await tk.memories.remember(f"Ticket {number} is about printers.", source=Source("tool", thread_id="far"))
        last = await tk.memories.remember(
            "A printer stands here.", source=Source("user", thread_id="near"), pinned=True
        )
        assert last.memory is not None
        filters: tuple[dict[str, Any], ...] = (
            {"trust": "user"},
            {"thread_id": "near"},
            {"pinned": True},
            {"since": last.memory.updated_at},
        )

        for wanted in filters:
            found = await tk.memories.search("about printers", limit=1, **wanted)
            assert [one.memory.memory_id for one in found] == [last.memory.memory_id], wanted

    async def test_the_store_filters_by_them(self, tk: Threadkeep) -> None:
        await filled(tk)

        found = await tk.store.asearch(("memories", tk.label("ana")), filter={"tags": ["work", "meeting"]})

        assert [one.value["metadata"]["project"] for one in found] == ["atlas"]


class TestCarriedAlong:
    async def test_correcting_pinning_undoing_and_merging_keep_them(self, tk: Threadkeep) -> None:
        memory = (await tk.memories.remember("I live in Rome.", **MEETING)).memory
        corrected = await tk.memories.correct(memory.memory_id, "I live in Oslo.")
        await tk.memories.pin(memory.memory_id)
        await tk.memories.undo(2)

        after = await tk.memories.require(memory.memory_id)
        assert after.text == "I live in Rome."
        for one in (memory, corrected, after):
            assert (one.tags, one.metadata) == (("work", "meeting"), MEETING["metadata"])

    async def test_export_and_import_keep_them(self, tk: Threadkeep) -> None:
        kept = await tk.memories.remember("I live in Rome.", **MEETING)
        rows = [json.dumps(row, default=str) async for row in tk.owners.export()]

        await tk.memories.import_lines(rows, owner="ben")

        imported = await tk.memories.require(kept.memory_id, owner="ben")
        assert (imported.tags, imported.metadata) == (kept.memory.tags, kept.memory.metadata)

    async def test_an_approved_proposal_has_them(self, tk: Threadkeep) -> None:
        result = await tk.memories.remember("The budget is 90.", source=Source("tool"), **MEETING)
        assert result.proposal_id is not None
        await tk.proposals.approve(result.proposal_id, by="ana")

        (memory,) = await tk.memories.list(tags=["meeting"])
        assert (memory.memory_id, memory.metadata) == (result.memory_id, MEETING["metadata"])

    async def test_label_replaces_what_it_names(self, tk: Threadkeep) -> None:
        memory_id = (await tk.memories.remember("I live in Rome.", **MEETING)).memory_id

        tagged = await tk.memories.label(memory_id, tags=["home", " home "])
        emptied = await tk.memories.label(memory_id, metadata={})

        assert (tagged.tags, tagged.metadata) == (("home",), MEETING["metadata"])
        assert (emptied.tags, emptied.metadata, emptied.text) == (("home",), {}, "I live in Rome.")
        with pytest.raises(MemoryNotFoundError):
            await tk.memories.label(memory_id, owner="ben", tags=["x"])

    async def test_secrets_in_them_are_redacted(self, tk: Threadkeep) -> None:
        secret = "ghp_" + "a1B2" * 9
        memory = (await tk.memories.remember("I live in Rome.", metadata={"note": f"token {secret}"})).memory

        assert secret not in str(memory.metadata)

    async def test_strange_rows_of_other_programs_hide_nothing(self, tk: Threadkeep) -> None:
        value = {"data": "I live in Rome.", "tags": ["a", 7, None, ""], "metadata": {"x": [1], "y": "z"}}
        await tk.store.aput(("memories", tk.label("ana")), "1", value)
        await tk.store.aput(("memories", tk.label("ana")), "2", {"data": "I work.", "tags": "abc", "metadata": 3})

        memories = {one.memory_id: one for one in await tk.memories.list()}
        assert (memories["1"].tags, memories["1"].metadata) == (("a",), {"y": "z"})
        assert (memories["2"].tags, memories["2"].metadata) == ((), {})


BAD: list[tuple[dict[str, Any], str]] = [
    ({"tags": "work"}, "tags must be a list of strings, got str"),
    ({"tags": 7}, "tags must be a list of strings, got int"),
    ({"tags": [7]}, "string of 1 to 64"),
    ({"tags": [" "]}, "string of 1 to 64"),
    ({"tags": ["a" * 65]}, "string of 1 to 64"),
    ({"tags": ["a\0"]}, "without NUL"),
    ({"tags": [f"t{n}" for n in range(33)]}, "33 tags; at most 32"),
    ({"metadata": ["a"]}, "metadata must be a mapping"),
    ({"metadata": {"": 1}}, "Each name of metadata"),
    ({"metadata": {7: 1}}, "Each name of metadata"),
    ({"metadata": {"a": [1]}}, "'a' in metadata must be a string, a number, true, false or null, got list"),
    ({"metadata": {"a": float("nan")}}, "JSON cannot hold"),
    ({"metadata": {"a": 2**60}}, "JSON cannot hold"),
    ({"metadata": {"a": "b\0"}}, "without NUL"),
    ({"metadata": {"a": "b" * 1_001}}, "0 to 1,000"),
    ({"metadata": {f"n{n}": 1 for n in range(33)}}, "33 names; at most 32"),
]


@pytest.mark.parametrize(("labels", "message"), BAD)
async def test_what_cannot_be_kept_is_refused_by_name(tk: Threadkeep, labels: dict[str, Any], message: str) -> None:
    for call in (tk.memories.remember, tk.memories.search):
        with pytest.raises(InvalidInputError, match=message):
            await call("I live in Rome.", **labels)
    with pytest.raises(InvalidInputError, match=message):
        await tk.memories.list(**labels)
    assert await tk.memories.list() == []


@pytest.mark.usefixtures("folder")
def test_the_command_line_sets_and_filters() -> None:
    def answer(*words: str) -> Any:
        result = CliRunner().invoke(app, ["memories", *words, "--json"], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    labels = ["--tag", "work", "--tag", "home", "--metadata", "week=3", "--metadata", "project=atlas"]
    memory_id = answer("add", "I live in Rome.", *labels)["memory"]["memory_id"]
    answer("add", "I live with a cat.")

    assert [one["memory_id"] for one in answer("list", "--tag", "work", "--metadata", "week=3")] == [memory_id]
    assert answer("list", "--tag", "work", "--tag", "sport") == []
    assert [one["memory"]["memory_id"] for one in answer("search", "live", "--any-tag", "home")] == [memory_id]
    assert answer("label", memory_id, "--no-tags")["tags"] == []
    assert answer("label", memory_id, "--tag", "x")["metadata"] == {"week": 3, "project": "atlas"}
    shown = CliRunner().invoke(app, ["memories", "show", memory_id])
    assert ", #x, week=3, project=atlas" in shown.output
    with pytest.raises(InvalidInputError, match="write NAME=VALUE"):
        CliRunner().invoke(app, ["memories", "list", "--metadata", "week"], catch_exceptions=False)
