"""The audit: every change leaves an entry in its own commit, entries hang together, and they say nothing of anybody."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import threadkeep
from threadkeep.container import Container
from threadkeep.errors import InvalidInputError, RevisionConflictError
from threadkeep.identity import Owner
from threadkeep.memories.audited_writer import AUDIT, AuditEntry
from threadkeep.memories.codec import head_ref
from threadkeep.memories.models import NewMemory, Source
from threadkeep.settings import Settings
from threadkeep.storage.interface import Batch, Delete, Item, Position, Put
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import FrozenClock, HashingEmbedder

ANA = Owner("ana@x.org")
LABEL = ANA.label


@pytest.fixture
async def tk(tmp_path: Path) -> AsyncIterator[threadkeep.Threadkeep]:
    """Return a memory in a file."""
    url = f"sqlite:///{tmp_path}/memory.db"
    async with threadkeep.open(url, owner=ANA, embedder=HashingEmbedder(), clock=FrozenClock()) as opened:
        yield opened


async def told(tk: threadkeep.Threadkeep) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Return who did what and why, oldest first."""
    entries = reversed(await tk.owners.audit())
    return [(e.by, e.why.partition(":")[0], [(c.what, c.thing) for c in e.changes]) for e in entries]


async def rows_of(tk: threadkeep.Threadkeep) -> list[Item]:
    page = await tk.app.storage.scan(ANA.partition, prefix=(AUDIT, LABEL), direction="oldest", limit=1000)
    return list(page.items)


class Counting(InMemoryStorage):
    """Counts the commits that it refused."""

    refused = 0

    async def commit(self, batch: Batch) -> Position:
        try:
            return await super().commit(batch)
        except RevisionConflictError:
            self.refused += 1
            raise


class TestEveryChange:
    """Whatever is changed, by whichever door, an entry of the same commit tells of it."""

    async def test_each_interface_is_reported(self, tk: threadkeep.Threadkeep):
        """Remembering, correcting, pinning, forgetting, the LangGraph store, capture, proposals and policies."""
        kept = await tk.memories.remember("I live in Lisbon.")
        await tk.memories.correct(kept.memory_id, "I live in Porto.")
        await tk.memories.pin(kept.memory_id)
        await tk.store.aput(("memories", LABEL), "k", {"data": "I have two cats."})
        await tk.store.adelete(("memories", LABEL), "k")
        await tk.store.aput(("summaries", LABEL), "s", {"summary": "About cats."})
        said: Any = [{"role": "user", "content": "I work at the harbour.", "id": "m1"}]
        await tk.capture(said, thread_id="t", wait=True)
        first = await tk.proposals.propose("The user likes tea.", source=Source("assistant"))
        second = await tk.proposals.propose("The user likes rye bread.", source=Source("tool"))
        assert first.proposal
        assert second.proposal
        await tk.proposals.approve(first.proposal.proposal_id, by="eva")
        await tk.proposals.reject(second.proposal.proposal_id, by="eva")
        (tombstone,) = await tk.proposals.tombstones()
        await tk.proposals.lift(tombstone.tombstone_id)
        await tk.proposals.set_policy("assistant=never")
        await tk.memories.remember_many([NewMemory("I have a parrot."), NewMemory("I have a boat.")])
        await tk.memories.forget(kept.memory_id)

        captured = [change for by, _, changes in await told(tk) if by == "capture" for change in changes]
        assert set(captured) == {("added", "memory")}
        assert [row for row in await told(tk) if row[0] != "capture"] == [
            ("user", "", [("added", "memory")]),
            ("user", "", [("changed", "memory")]),
            ("user", "", [("changed", "memory")]),
            ("store", "", [("written", "memory")]),
            ("store", "", [("removed", "memory")]),
            ("store", "", [("written", "summary")]),
            ("assistant", "", [("added", "proposal")]),
            ("tool", "", [("added", "proposal")]),
            ("eva", "proposal", [("added", "memory"), ("changed", "proposal")]),
            ("eva", "proposal", [("changed", "proposal"), ("written", "tombstone")]),
            ("user", "", [("removed", "tombstone")]),
            ("user", "", [("written", "policy")]),
            ("user", "", [("added", "memory"), ("added", "memory")]),
            ("user", "", [("removed", "memory"), ("written", "tombstone"), ("written", "tombstone")]),
        ]
        assert (await tk.owners.verify_audit()).fault is None

    async def test_revisions_before_and_after(self, tk: threadkeep.Threadkeep):
        """An entry's own revision is the memory's after the change; the one before is in it."""
        kept = await tk.memories.remember("I live in Lisbon.")
        corrected = await tk.memories.correct(kept.memory_id, "I live in Porto.")

        after, before = await tk.owners.audit()

        assert (before.revision, before.changes[0].before) == (kept.memory.revision, None)
        assert (after.revision, after.changes[0].before) == (corrected.revision, kept.memory.revision)
        assert after.changes[0].state == {"versions": 1}

    async def test_a_change_that_was_refused_leaves_no_entry(self, tk: threadkeep.Threadkeep):
        """Entry and change are one commit."""
        kept = await tk.memories.remember("I live in Lisbon.")
        audited_writer = (await tk.app.event_loop.run(tk.app.connect())).audited_writer
        put = Put(("memories", LABEL), kept.memory_id, {"data": "x"}, expect=999)

        with pytest.raises(RevisionConflictError):
            await tk.app.event_loop.run(audited_writer.commit(ANA, [put], by="user"))

        assert len(await tk.owners.audit()) == 1

    async def test_no_entry_says_what_a_memory_says(self, tk: threadkeep.Threadkeep):
        """After forgetting, nothing of the statement is in the audit; a key that says something is a digest."""
        kept = await tk.memories.remember("I keep a quokka.")
        await tk.memories.correct(kept.memory_id, "I keep two quokkas.")
        await tk.store.aput(("memories", LABEL), "my quokka", {"data": "The quokka is old."})
        proposed = await tk.proposals.propose("The quokka sleeps.", source=Source("assistant"))
        assert proposed.proposal
        await tk.proposals.reject(proposed.proposal.proposal_id, comment="no quokka here")
        await tk.memories.forget(kept.memory_id)

        assert not any("quokka" in str((item.ref.key, item.value)) for item in await rows_of(tk))

    async def test_turn_that_was_learnt_from_moves_the_end_that_others_write_at(self):
        """One process knows one end of an owner's chain: its next change is not refused and read again first."""
        clock = FrozenClock()
        storage = Counting(clock=clock)
        app = Container(Settings(), storage, None, clock)
        async with threadkeep.Threadkeep(app, owner=ANA) as tk:
            kept = await tk.memories.remember("I keep bees.")
            said: Any = [{"role": "user", "content": "I work at the harbour.", "id": "m1"}]
            await tk.capture(said, thread_id="t", wait=True)

            await tk.memories.pin(kept.memory_id)

            assert len(await tk.owners.audit()) == 3
            assert storage.refused == 0

    async def test_writers_at_once_make_one_chain(self, tmp_path: Path):
        """Two processes' worth of writers of one owner: every write is there and told of once."""
        url = f"sqlite:///{tmp_path}/memory.db"
        async with (
            threadkeep.open(url, owner=ANA, embedder="none") as one,
            threadkeep.open(url, owner=ANA, embedder="none") as other,
        ):
            writes = [
                tk.store.aput(("memories", LABEL), f"{name}{n}", {"data": f"Fact {name} {n}."})
                for n in range(15)
                for name, tk in (("a", one), ("b", other))
            ]
            await asyncio.gather(*writes)
            verified = await one.owners.verify_audit()
            assert (verified.entries, verified.fault, verified.untold) == (30, None, ())
            assert len(await one.memories.list()) == 30


class TestVerify:
    """Whoever changes, takes out or adds an entry is found out."""

    async def written(self, tk: threadkeep.Threadkeep) -> list[Item]:
        for n in range(4):
            await tk.memories.remember(f"I have {n + 2} cats.")
        return await rows_of(tk)

    async def tampered(self, tk: threadkeep.Threadkeep, *operations: Put | Delete) -> str | None:
        await tk.app.event_loop.run(tk.app.storage.commit(Batch(ANA.partition, operations)))
        return (await tk.owners.verify_audit()).fault

    @pytest.mark.parametrize("field", ["at", "by", "why", "changes"])
    async def test_a_changed_entry(self, tk: threadkeep.Threadkeep, field: str):
        """Each field is part of the chain."""
        rows = await self.written(tk)
        value = {**rows[1].value, field: []}

        fault = await self.tampered(tk, Put((AUDIT, LABEL), rows[1].ref.key, value))

        assert fault == "entry 2 is not what was written, or the one before it is not"

    async def test_a_missing_entry(self, tk: threadkeep.Threadkeep):
        """From the middle, and from the end."""
        rows = await self.written(tk)
        assert await self.tampered(tk, Delete((AUDIT, LABEL), rows[3].ref.key)) == "entry 4 is missing"
        assert await self.tampered(tk, Delete((AUDIT, LABEL), rows[1].ref.key)) == "entry 2 is missing"

    async def test_an_entry_too_many(self, tk: threadkeep.Threadkeep):
        """One that is put behind the end."""
        rows = await self.written(tk)
        key = f"{5:012}"
        assert await self.tampered(tk, Put((AUDIT, LABEL), key, rows[3].value)) is not None

    async def test_an_end_that_was_cut_shows_by_an_anchor(self, tk: threadkeep.Threadkeep):
        """Who cuts the chain and its end hangs together again, but not with what was noted elsewhere."""
        rows = await self.written(tk)
        anchor = (await tk.owners.verify_audit()).anchor
        end = {"entries": 3, "chain": rows[2].value["chain"]}
        head = head_ref(ANA)

        assert (
            await self.tampered(tk, Delete((AUDIT, LABEL), rows[3].ref.key), Put(head.namespace, head.key, end)) is None
        )
        assert (await tk.owners.verify_audit(anchor=anchor)).fault == "entry 4 is not the one that was noted"

    async def test_what_no_entry_tells_of(self, tk: threadkeep.Threadkeep):
        """A memory that was written past the audit is named."""
        await self.written(tk)
        assert await self.tampered(tk, Put(("memories", LABEL), "smuggled", {"data": "I owe you money."})) is None
        assert (await tk.owners.verify_audit()).untold == ("smuggled",)

    async def test_an_anchor_has_a_form(self, tk: threadkeep.Threadkeep):
        """One sentence says what it is."""
        with pytest.raises(InvalidInputError, match="earlier check"):
            await tk.owners.verify_audit(anchor="twelve")

    async def test_nothing_is_fine(self, tk: threadkeep.Threadkeep):
        """An owner about whom nothing was written."""
        verified = await tk.owners.verify_audit()
        assert (verified.entries, verified.fault, verified.anchor) == (0, None, "0:")
        assert (await tk.owners.verify_audit(anchor=verified.anchor)).fault is None


class TestEntry:
    """What an entry is."""

    async def test_it_stays_out_of_recall(self, tk: threadkeep.Threadkeep):
        """The index holds the memories alone."""
        await tk.memories.remember("I live in Lisbon.")
        changes = await tk.app.event_loop.run(tk.app.storage.changes(ANA.partition, None))
        assert [item.ref.namespace[0] for item in changes.puts] == ["memories"]

    async def test_it_is_small(self, tk: threadkeep.Threadkeep):
        """A quarter of a kilobyte for a memory, however long that is."""
        await tk.memories.remember("I live in Lisbon. " * 100)
        (row,) = await rows_of(tk)
        assert len(str(row.value)) < 300

    async def test_every_owner_has_a_chain(self, tk: threadkeep.Threadkeep):
        """One owner's entries do not hang on another's."""
        bob = replace(ANA, user_id="bob")
        for owner in (ANA, bob, ANA):
            await tk.memories.remember(f"I am {owner.user_id}, said at {id(object())}.", owner=owner)
        entries: list[AuditEntry] = await tk.owners.audit(bob)
        assert [entry.number for entry in entries] == [1]
