"""An export of mem0 becomes memories, each of the very user that it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.moving.world import commit, items_of
from tests.moving.world import memory_of as storage_of
from threadkeep.errors import InvalidInputError
from threadkeep.identity import Owner
from threadkeep.ids import MemoryId
from threadkeep.memories.codec import memory_of
from threadkeep.memories.models import Approval
from threadkeep.proposals.models import DUE, proposal_of
from threadkeep.storage.interface import Put, Storage
from threadkeep.testing import FrozenClock, HashingEmbedder
from threadkeep.transfer.copying import Moving
from threadkeep.transfer.importer import Labels
from threadkeep.transfer.sources import ForeignSource, foreign_reader, reading_from

ROW: dict[str, Any] = {
    "id": "892db2ae-06d9-49e5-8b3e-585ef9b85b8e",
    "memory": "Likes green tea",
    "hash": "24e466b5e173706fefe6edbd42e1ca46",
    "user_id": "a.b_c@x.org",
    "run_id": "thread-7",
    "metadata": {"type": "preference"},
    "categories": ["food"],
    "created_at": "2024-07-26T08:44:41.039788-07:00",
    "updated_at": "2024-07-27T08:44:41+00:00",
}


async def moved(
    path: Path, approval: Approval | None = None, into: Storage | None = None, **options: Any
) -> tuple[Storage, Any]:
    clock = FrozenClock()
    storage = into or storage_of(clock)
    reader = foreign_reader(f"mem0:{path}")
    assert reader is not None
    source = ForeignSource(reader, Labels({}), approval)
    async with reading_from(source):
        await source.require_labels()
        copied = await Moving(storage, HashingEmbedder(dims=16), clock).copy(source, **options)
    return storage, copied


@pytest.mark.parametrize(
    "spelled",
    [
        json.dumps,
        lambda rows: json.dumps({"results": rows, "relations": []}),
        lambda rows: json.dumps({"memories": rows}),
        lambda rows: "\n".join(json.dumps(row) for row in rows) + "\n",
    ],
    ids=["list", "get_all", "platform", "lines"],
)
async def test_each_form_of_export_is_read(tmp_path: Path, spelled: Any):
    (tmp_path / "export.json").write_text(spelled([ROW, {**ROW, "id": "2", "user_id": "bob"}]))

    storage, copied = await moved(tmp_path / "export.json")

    assert (copied.read, copied.written, copied.complete) == (2, 2, True)
    assert copied.shapes == {"memory: data": 2}
    assert set(await storage.partitions()) == {Owner("a.b_c@x.org").partition, Owner("bob").partition}


async def test_a_memory_keeps_what_it_says_and_when(tmp_path: Path):
    """Text, times, thread, metadata; the user id is one, underscores and periods included."""
    (tmp_path / "export.json").write_text(json.dumps([ROW]))

    storage, copied = await moved(tmp_path / "export.json")

    (item,) = (await items_of(storage)).values()
    memory = memory_of(item)
    assert memory is not None
    assert (memory.text, memory.memory_id, memory.kind) == ("Likes green tea", ROW["id"], "semantic")
    assert memory.sources[0].thread_id == "thread-7"
    assert memory.created_at.isoformat() == "2024-07-26T15:44:41.039788+00:00"
    assert item.updated_at.isoformat() == "2024-07-27T08:44:41+00:00"
    assert item.value["metadata"] == {"type": "preference"}
    assert item.embedding is not None
    assert copied.without_vectors == 0


async def test_kind_and_end_are_understood(tmp_path: Path):
    rows = [
        {**ROW, "id": "1", "metadata": {"memory_type": "procedural_memory"}},
        {**ROW, "id": "2", "expiration_date": "2199-12-31"},
        {name: field for name, field in ROW.items() if name not in ("id", "updated_at", "run_id")},
    ]
    (tmp_path / "export.json").write_text(json.dumps(rows))

    storage, copied = await moved(tmp_path / "export.json")

    held = {place[2]: item for place, item in (await items_of(storage)).items()}
    assert copied.complete
    assert len(held) == 3
    assert copied.shapes == {"memory: data": 2, "proposal: it waits for approval": 1}
    assert str(held["2"].expires_at) == "2199-12-31 23:59:59.999999+00:00"


async def test_how_to_behave_waits_for_approval(tmp_path: Path):
    """It is a proposal like any other, the same one whenever it comes, and a memory once somebody approves it."""
    late = {"created_at": "9999-12-31T00:00:00+00:00", "updated_at": None}
    asked = {**ROW, **late, "id": "1", "memory": "Always answers in French"}
    rows = [{**asked, "metadata": {"memory_type": "procedural_memory"}}]
    (tmp_path / "export.json").write_text(json.dumps(rows))

    storage, _ = await moved(tmp_path / "export.json")
    again, _ = await moved(tmp_path / "export.json")

    (item,) = (await items_of(storage)).values()
    proposal = proposal_of(item)
    assert proposal is not None
    assert (proposal.state, proposal.kind, proposal.trust) == ("pending", "procedural", "import")
    assert (proposal.text, proposal.memory_id) == ("Always answers in French", "1")
    assert item.due is not None
    assert item.due.kind == DUE
    assert [one.value for one in (await items_of(again)).values()] == [item.value]


async def test_how_to_behave_waits_whatever_its_kind(tmp_path: Path):
    """A row need not say that it is procedural."""
    rows = [{**ROW, "id": "1", "memory": "Always answer in French."}, {**ROW, "id": "2"}]
    (tmp_path / "export.json").write_text(json.dumps(rows))

    storage, copied = await moved(tmp_path / "export.json")

    waiting = [one for item in (await items_of(storage)).values() if (one := proposal_of(item)) is not None]
    assert [(one.text, one.kind, one.state) for one in waiting] == [
        ("Always answer in French.", "procedural", "pending")
    ]
    assert copied.shapes == {"memory: data": 1, "proposal: it waits for approval": 1}


async def test_what_was_decided_stands(tmp_path: Path):
    """Copied again, even over what is there, the same is not asked anew."""
    asked = {**ROW, "id": "1", "metadata": {"memory_type": "procedural_memory"}}
    (tmp_path / "export.json").write_text(json.dumps([asked]))
    storage, _ = await moved(tmp_path / "export.json")
    (item,) = (await items_of(storage)).values()
    value = {**item.value, "state": "rejected"}
    await commit(storage, item.ref.partition, Put(item.ref.namespace, item.ref.key, value))

    _, copied = await moved(tmp_path / "export.json", into=storage, merge=True, overwrite=True)

    (after,) = (await items_of(storage)).values()
    assert (copied.written, copied.present, copied.complete) == (0, 1, True)
    assert after.value["state"] == "rejected"


async def test_approver_of_the_import_is_recorded(tmp_path: Path):
    """Then how to behave is kept, with the name; what needs no approval has none."""
    rows = [ROW, {**ROW, "id": "1", "metadata": {"memory_type": "procedural_memory"}}]
    (tmp_path / "export.json").write_text(json.dumps(rows))
    approval = Approval("carla", FrozenClock().now())

    storage, copied = await moved(tmp_path / "export.json", approval)

    kept = {memory.memory_id: memory for memory in map(memory_of, (await items_of(storage)).values()) if memory}
    assert copied.complete
    assert (kept[MemoryId("1")].status, kept[MemoryId("1")].approval) == ("active", approval)
    assert kept[MemoryId(ROW["id"])].approval is None


async def test_what_is_no_memory_of_a_user_is_left_out(tmp_path: Path):
    """With its id and the reason; the others are taken."""
    rows: list[Any] = [
        ROW,
        {**ROW, "id": "agent", "user_id": None, "agent_id": "x"},
        {**ROW, "id": "empty", "memory": " "},
        {**ROW, "id": "timeless", "created_at": "yesterday"},
        "text",
    ]
    (tmp_path / "export.json").write_text(json.dumps(rows))

    storage, copied = await moved(tmp_path / "export.json")

    assert len(await items_of(storage)) == 1
    assert {left.key for left in copied.left_out} == {"agent", "empty", "timeless", "None"}
    assert not copied.complete


@pytest.mark.parametrize("text", ["", "{}", '{"results": 1}', "1", '{"a": 1}\n{"b"'])
async def test_a_file_that_is_no_export_is_refused(tmp_path: Path, text: str):
    (tmp_path / "export.json").write_text(text)

    with pytest.raises(InvalidInputError):
        await moved(tmp_path / "export.json")


async def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(InvalidInputError, match=r"export\.json cannot be read"):
        await moved(tmp_path / "export.json")


async def test_without_a_model_it_comes_without_vectors(tmp_path: Path):
    (tmp_path / "export.json").write_text(json.dumps([ROW]))

    _, copied = await moved(tmp_path / "export.json", vectors=False)

    assert (copied.without_vectors, copied.complete) == (1, True)
