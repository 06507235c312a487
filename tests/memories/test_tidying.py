"""Memories that nobody uses, or that are too many, are laid aside: seen, told of, and had back."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import SecretStr

import threadkeep
from tests.command_line import CliRunner
from threadkeep.cli.main import app
from threadkeep.errors import PartitionErasedError
from threadkeep.identity import Owner
from threadkeep.memories.codec import USES
from threadkeep.memories.models import NewMemory, Source
from threadkeep.settings import Settings
from threadkeep.storage.encryption.cipher import new_master_key
from threadkeep.storage.interface import Batch, iterate_items
from threadkeep.testing import FrozenClock, HashingEmbedder

ANA: Final = Owner("ana@x.org")
BOB: Final = Owner("bob")
EVA: Final = Owner("eva")
DAY: Final = timedelta(days=1)


@pytest.fixture
def clock() -> FrozenClock:
    """Return a clock that the test moves."""
    return FrozenClock()


def opened(folder: Path, clock: FrozenClock, **limits: Any) -> threadkeep.Threadkeep:
    """Open the memory in *folder* with these limits."""
    settings = Settings.load(store_type="sqlite", store_sqlite_path=folder / "memory.db", **limits)
    return threadkeep.open(settings=settings, owner=ANA, embedder=HashingEmbedder(), clock=clock)


@pytest.fixture
async def tk(tmp_path: Path, clock: FrozenClock) -> AsyncIterator[threadkeep.Threadkeep]:
    """Return a memory that archives what was not used for 80 days."""
    async with opened(tmp_path, clock, inactive_days=80) as memory:
        await swept(memory)
        yield memory


async def active(tk: threadkeep.Threadkeep, owner: Owner = ANA) -> list[str]:
    """Return what is active, sorted."""
    return sorted(one.text for one in await tk.memories.list(owner=owner, limit=1000) if one.status == "active")


async def commits(tk: threadkeep.Threadkeep, owner: Owner = ANA) -> int:
    """Return how often something of an owner's was written."""
    return (await tk.app.event_loop.run(tk.app.storage.position(owner.partition))).sequence


def last_row(folder: Path) -> int:
    """Return the number of the row that was written last."""
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        ((row,),) = connection.execute("SELECT max(item) FROM items").fetchall()
    return row


def damage(folder: Path, rows: range) -> None:
    """Change what is sealed in these rows, as somebody who has the file and not the keys might."""
    with closing(sqlite3.connect(folder / "memory.db", isolation_level=None)) as connection:
        changed = "UPDATE items SET embedding = zeroblob(length(embedding)) WHERE item BETWEEN ? AND ?"
        connection.execute(changed, (rows[0], rows[-1]))


async def swept(tk: threadkeep.Threadkeep) -> None:
    """Wait until the sweep at the start is over: a test moves the clock, and then it would be another one."""
    await tk.ready()
    async with asyncio.timeout(10):
        while "storage.swept" not in tk.app.telemetry.counts():
            await asyncio.sleep(0.005)


async def round_of(tk: threadkeep.Threadkeep) -> int:
    """Do what is done every ten minutes; return how many memories were archived."""
    services = await tk.app.event_loop.run(tk.app.connect())
    return await tk.app.event_loop.run(services.retention.round())


class TestInactive:
    """What nobody uses."""

    async def test_it_is_laid_aside_and_what_is_used_stays(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """Recalled, found, changed, pinned, approved or asked about: each keeps a memory."""
        texts = ("I have two cats.", "My bike is blue.", "I live in Lisbon.", "I play chess.", "I like figs.", "I ski.")
        keys = {text: (await tk.memories.remember(text)).memory_id for text in texts}
        await tk.memories.pin(keys["I play chess."])
        clock.advance(62 * DAY)
        proposed = await tk.proposals.propose("I like figs a lot.", action="correct", memory_id=keys["I like figs."])
        assert proposed.proposal
        recalled = await tk.recall("two cats", max_facts=1)
        assert [one.memory.text for one in recalled.memories] == ["I have two cats."]
        await tk.memories.search("blue bike", limit=1)
        await tk.memories.correct(keys["I live in Lisbon."], "I live in Porto.")
        assert await round_of(tk) == 0
        clock.advance(29 * DAY)

        assert await round_of(tk) == 1

        assert await active(tk) == sorted(
            ["I have two cats.", "My bike is blue.", "I live in Porto.", "I play chess.", "I like figs."]
        )
        (gone,) = [one for one in await tk.memories.list() if one.status == "archived"]
        assert gone.archived
        assert (gone.text, gone.archived.reason) == ("I ski.", "inactive")
        assert "I ski." not in [one.memory.text for one in (await tk.recall("Do I ski?")).memories]
        assert gone.memory_id not in {found.memory.memory_id for found in await tk.memories.search("ski")}
        assert tk.app.telemetry.counts()["memories.archived.inactive"] == 1
        newest, *_ = await tk.owners.audit()
        assert (newest.by, newest.why) == ("time", "inactive")
        assert [(change.id, change.state) for change in newest.changes] == [(gone.memory_id, {"status": "archived"})]
        assert (await tk.owners.verify_audit()).fault is None
        assert dict((await tk.owners.show()).aside) == {"archived": 1}

    async def test_it_comes_back(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """By undo, and by its id; then it is found as before, and counts as used."""
        keys = [(await tk.memories.remember(text)).memory_id for text in ("I ski.", "I play chess.")]
        clock.advance(100 * DAY)
        assert len((await tk.memories.tidy()).archived) == 2

        await tk.memories.undo()
        assert await active(tk) == ["I play chess.", "I ski."]
        assert (await tk.memories.search("ski", limit=1))[0].memory.archived is None
        clock.advance(100 * DAY)
        await tk.memories.tidy()
        restored = await tk.memories.restore(keys[0])

        assert (restored.status, restored.archived) == ("active", None)
        assert await active(tk) == ["I ski."]
        assert "ski" in (await tk.recall("Do I ski?")).text
        assert await round_of(tk) == 0

    async def test_it_goes_for_good_in_time(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """Thirty days later; said again meanwhile, it is a memory of its own."""
        kept = await tk.memories.remember("I ski.")
        clock.advance(100 * DAY)
        await tk.memories.tidy()
        again = await tk.memories.remember("I ski.")
        assert again.status == "accepted"
        clock.advance(31 * DAY)
        assert [one.memory_id for one in await tk.memories.list()] == [again.memory_id]
        assert await tk.memories.get(kept.memory_id) is None

    async def test_forgetting_takes_it_along(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """The memory that says the same now, and when it was used."""
        await tk.memories.remember("I ski.")
        clock.advance(100 * DAY)
        await tk.memories.tidy()
        again = await tk.memories.remember("I ski.")
        clock.advance(50 * DAY)
        await tk.recall("Do I ski?")
        await round_of(tk)
        await tk.memories.forget(again.memory_id)
        assert await tk.memories.list() == []
        rows = iterate_items(tk.app.storage, ANA.partition, prefix=(USES,))
        assert [row async for row in rows] == []

    async def test_what_another_program_wrote_keeps_its_shape(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """LangMem's, for example; and its own fields."""
        value = {"kind": "Memory", "content": {"content": "I ski."}, "mine": 7}
        await tk.store.aput(("memories", ANA.label, "mine"), "k", value)
        clock.advance(100 * DAY)
        await tk.memories.tidy()
        item = await tk.store.aget(("memories", ANA.label, "mine"), "k")
        assert item
        assert {**item.value, **value} == item.value
        assert item.value["status"] == "archived"
        await tk.memories.undo()
        assert await active(tk) == ["I ski."]


class TestUses:
    """When memories were used is kept cheaply, apart from any turn."""

    async def test_a_turn_writes_nothing_and_a_day_writes_little(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """Recalled a hundred times: no commit; noted once in ten days, one commit for all; revisions do not move."""
        await tk.memories.remember_many([NewMemory(f"My cat {n} is called Tom {n}.") for n in range(30)])
        clock.advance(9 * DAY)
        before = await commits(tk)
        for n in range(100):
            await tk.recall(f"What is my cat {n % 30} called?")
        assert await commits(tk) == before
        await round_of(tk)
        assert await commits(tk) == before  # a change nine days ago is near enough
        clock.advance(2 * DAY)
        revisions = {one.memory_id: one.revision for one in await tk.memories.list()}
        for _ in range(5):
            for n in range(30):
                await tk.recall(f"What is my cat {n} called?")
            await round_of(tk)
        assert await commits(tk) == before + 1
        assert {one.memory_id: one.revision for one in await tk.memories.list()} == revisions
        used = (await tk.memories.why((await tk.memories.search("cat 7"))[0].memory.memory_id)).used_at
        assert used == clock.now()

    async def test_closing_keeps_what_was_noted(self, tmp_path: Path, clock: FrozenClock):
        """A process that lives for a minute counts, too."""
        async with opened(tmp_path, clock, inactive_days=80) as tk:
            await tk.memories.remember("I ski.")
            await tk.memories.remember("I play chess.")
        clock.advance(60 * DAY)
        async with opened(tmp_path, clock, inactive_days=80) as tk:
            await tk.memories.search("ski", limit=1)
        clock.advance(60 * DAY)
        async with opened(tmp_path, clock, inactive_days=80) as tk:
            await tk.memories.tidy()
            assert await active(tk) == ["I ski."]

    async def test_uncounted_memory_is_not_penalized(self, tmp_path: Path, clock: FrozenClock):
        """A limit that is set, or set again, counts from then on."""
        async with opened(tmp_path, clock) as tk:
            await tk.memories.remember("I ski.")
        clock.advance(1000 * DAY)
        for _ in range(2):
            async with opened(tmp_path, clock, inactive_days=80) as tk:
                assert (await tk.memories.tidy()).archived == ()
            async with opened(tmp_path, clock) as tk:
                await tk.recall("Do I ski?")
            clock.advance(1000 * DAY)
        async with opened(tmp_path, clock, inactive_days=80) as tk:
            await swept(tk)
            assert (await tk.memories.tidy()).archived == ()
            clock.advance(91 * DAY)
            assert len((await tk.memories.tidy()).archived) == 1

    async def test_nothing_is_noted_of_an_erased_owner(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """Not even when they had been recalled from before, and have come back since."""
        await tk.memories.remember("I ski.")
        clock.advance(60 * DAY)
        await tk.recall("Do I ski?")
        await tk.owners.erase(ANA)
        await tk.memories.remember("I play chess.")
        before = await commits(tk)
        await round_of(tk)
        assert await commits(tk) == before

    async def test_archiving_does_not_outlive_an_erasure(
        self, tk: threadkeep.Threadkeep, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
    ):
        """It carries the epoch that it began in."""
        await tk.memories.remember("I ski.")
        clock.advance(100 * DAY)
        services = await tk.app.event_loop.run(tk.app.connect())
        commit = services.audited_writer.commit

        async def erased_before(owner: Owner, *given: Any, **more: Any) -> Any:
            await services.erasure.erase(owner)
            return await commit(owner, *given, **more)

        monkeypatch.setattr(services.audited_writer, "commit", erased_before)
        with pytest.raises(PartitionErasedError):
            await tk.memories.tidy()
        rows = iterate_items(tk.app.storage, ANA.partition)
        assert [row async for row in rows] == []

    async def test_what_is_being_noted_is_in_use(
        self, tk: threadkeep.Threadkeep, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
    ):
        """Whoever tidies while the sweep still writes what was used sees it; a sweep that is given up loses none."""
        await tk.memories.remember("I ski.")
        clock.advance(100 * DAY)
        await tk.recall("Do I ski?")
        services = await tk.app.event_loop.run(tk.app.connect())
        commit, begun = tk.app.storage.commit, asyncio.Event()

        async def hangs(batch: Batch) -> Any:
            begun.set()
            await asyncio.Event().wait()

        async def given_up() -> None:
            monkeypatch.setattr(tk.app.storage, "commit", hangs)
            writing = asyncio.create_task(services.retention.round())
            await begun.wait()
            monkeypatch.setattr(tk.app.storage, "commit", commit)
            assert (await services.retention.tidy(ANA)).archived == ()
            writing.cancel()
            await asyncio.wait([writing])

        await tk.app.event_loop.run(given_up())

    async def test_what_another_process_laid_aside_unknowing_comes_back(
        self, tk: threadkeep.Threadkeep, tmp_path: Path, clock: FrozenClock
    ):
        """It was recalled here, which is not written yet; what was not used here stays aside."""
        await tk.memories.remember("I ski.")
        await tk.memories.remember("I play chess.")
        clock.advance(91 * DAY)
        await tk.memories.search("ski", limit=1)
        async with opened(tmp_path, clock, inactive_days=80) as other:
            await swept(other)
            assert await active(other) == []

        await round_of(tk)

        assert await active(tk) == ["I ski."]
        assert "ski" in (await tk.recall("Do I ski?")).text
        newest, *_ = await tk.owners.audit()
        assert (newest.by, [change.state for change in newest.changes]) == ("time", [None])
        assert (await tk.owners.verify_audit()).fault is None
        assert await round_of(tk) == 0

    async def test_damaged_owner_does_not_delay_others(self, tmp_path: Path, clock: FrozenClock):
        """Of whom nothing can be read nothing is archived; everybody else is looked at, and what is expired goes."""
        async with opened(tmp_path, clock, inactive_days=80, master_key=SecretStr(new_master_key())) as tk:
            await swept(tk)
            await tk.memories.remember("I ski.", owner=ANA)
            before = last_row(tmp_path)
            await tk.memories.remember("I ski.", owner=BOB)
            damaged = range(before + 1, last_row(tmp_path) + 1)
            await tk.memories.remember("I ski.", owner=EVA)
            clock.advance(100 * DAY)
            for owner in (BOB, EVA):
                await tk.recall("Do I ski?", owner=owner)
            damage(tmp_path, damaged)

            assert await round_of(tk) == 1

            assert await active(tk, ANA) == []
            assert await active(tk, EVA) == ["I ski."]
            assert tk.app.telemetry.counts()["memories.tidying.degraded"] == 1


class TestBudget:
    """An owner has no more than so many."""

    async def test_what_was_used_least_goes(self, tmp_path: Path, clock: FrozenClock):
        """Of one owner, and of no other; what capture adds is held to it by the next round."""
        async with opened(tmp_path, clock, max_memories_per_owner=10) as tk:
            await swept(tk)
            await tk.memories.remember_many([NewMemory(f"My cat {n} is called Tom {n}.") for n in range(10)], owner=BOB)
            await tk.memories.remember("I ski.", pinned=True)
            await tk.memories.remember_many([NewMemory(f"My cat {n} is called Tom {n}.") for n in range(9)])
            assert await round_of(tk) == 0
            clock.advance(2 * DAY)
            for n in range(8):
                said = [{"role": "user", "content": f"I live in house {n} of Main Street.", "id": f"m{n}"}]
                await tk.capture(said, thread_id="t")
            await tk.memories.remember_many([NewMemory(f"My dog {n} is called Rex {n}.") for n in range(8)])
            await tk.drain()
            clock.advance(DAY)
            (found,) = await tk.memories.search("My cat 3 is called Tom 3.", limit=1)
            assert found.memory.text == "My cat 3 is called Tom 3."

            archived = await round_of(tk)

            left = await active(tk)
            assert len(left) == 10
            assert archived > 8
            assert {"I ski.", "My cat 3 is called Tom 3."} < set(left)
            assert len(await active(tk, BOB)) == 10
            why = {one.archived.reason for one in await tk.memories.list() if one.archived}
            assert why == {"budget"}
            assert tk.app.telemetry.counts()["memories.archived.budget"] == archived
            assert await round_of(tk) == 0

    async def test_commits_before_another_writer_are_reported(
        self, tmp_path: Path, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
    ):
        """Each reason is a commit of its own: the second one's conflict takes nothing back from the first."""
        async with opened(tmp_path, clock, inactive_days=80, max_memories_per_owner=1) as tk:
            await swept(tk)
            await tk.memories.remember("I ski.")
            clock.advance(100 * DAY)
            chess = await tk.memories.remember("I play chess.")
            clock.advance(timedelta(hours=1))
            await tk.memories.remember("I like figs.")
            services = await tk.app.event_loop.run(tk.app.connect())
            commit = services.audited_writer.commit

            async def corrected_before(owner: Owner, *given: Any, why: str, **more: Any) -> Any:
                if why == "budget":
                    monkeypatch.setattr(services.audited_writer, "commit", commit)
                    clock.advance(timedelta(hours=1))
                    await tk.memories.correct(chess.memory_id, "I play go.")
                return await commit(owner, *given, why=why, **more)

            monkeypatch.setattr(services.audited_writer, "commit", corrected_before)
            done = await tk.memories.tidy()
            assert sorted(one.text for one, _ in done.archived) == ["I like figs.", "I ski."]
            assert await active(tk) == ["I play go."]

    async def test_the_sweep_does_it(self, tmp_path: Path, clock: FrozenClock):
        """Nobody has to ask for it: an owner who has too many when a process starts has not, soon after."""
        async with opened(tmp_path, clock) as tk:
            await tk.memories.remember_many([NewMemory(f"My cat {n} is called Tom {n}.") for n in range(4)])
        async with opened(tmp_path, clock, max_memories_per_owner=3) as tk:
            await swept(tk)
            assert len(await active(tk)) == 3

    async def test_only_what_changed_is_looked_at(
        self, tmp_path: Path, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
    ):
        """An owner to whom nothing was written costs a round one small read."""
        async with opened(tmp_path, clock, max_memories_per_owner=10) as tk:
            await swept(tk)
            for owner in (ANA, BOB):
                await tk.memories.remember("I ski.", owner=owner)
            await round_of(tk)
            services = await tk.app.event_loop.run(tk.app.connect())
            looked: list[Owner] = []
            tidy = services.retention.tidy

            async def noted(owner: Owner, **given: Any) -> Any:
                looked.append(owner)
                return await tidy(owner, **given)

            monkeypatch.setattr(services.retention, "tidy", noted)
            await round_of(tk)
            assert looked == []
            await tk.memories.remember("I play chess.", owner=BOB)
            await round_of(tk)
            assert looked == [BOB]

    async def test_what_is_left_may_be_too_much(self, tmp_path: Path, clock: FrozenClock):
        """It is told, and nothing of it goes."""
        async with opened(tmp_path, clock, max_memories_per_owner=1) as tk:
            await swept(tk)
            for text in ("I ski.", "I play chess.", "I like figs."):
                await tk.memories.remember(text, pinned=True)
            done = await tk.memories.tidy()
            assert (done.archived, done.active, done.over) == ((), 3, 2)

    async def test_what_waits_for_approval_is_not_counted_and_does_not_go(self, tmp_path: Path, clock: FrozenClock):
        """Proposals are no memories; what one approves is somebody's wish."""
        async with opened(tmp_path, clock, max_memories_per_owner=1) as tk:
            await swept(tk)
            proposed = await tk.proposals.propose("I ski.", source=Source("assistant"))
            assert proposed.proposal
            await tk.memories.remember("I play chess.")
            assert (await tk.memories.tidy()).archived == ()
            await tk.proposals.approve(proposed.proposal.proposal_id, by="eva")
            await tk.memories.tidy()
            assert await active(tk) == ["I ski."]


class TestSettings:
    """What was set wrongly stops start-up."""

    @pytest.mark.parametrize(
        ("variable", "field", "value"),
        [
            ("THREADKEEP_INACTIVE_DAYS", "inactive_days", "soon"),
            ("THREADKEEP_INACTIVE_DAYS", "inactive_days", "-1"),
            ("THREADKEEP_MAX_MEMORIES_PER_OWNER", "max_memories_per_owner", "many"),
        ],
    )
    def test_it_names_the_variable(self, variable: str, field: str, value: str):
        with pytest.raises(threadkeep.errors.SettingsError, match=variable):
            Settings.load(**{field: value})


class TestCommands:
    """What a person sees of it."""

    @pytest.mark.slow
    def test_each(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """``doctor`` and ``owners show`` tell the limits, ``list`` and ``why`` what was archived; it comes back."""
        monkeypatch.setenv("THREADKEEP_DATA_DIR", str(tmp_path / "data"))
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")

        def run(*arguments: str) -> str:
            done = CliRunner().invoke(app, list(arguments))
            assert done.exit_code == 0, done.output
            return done.stdout

        for text in ("I ski.", "I play chess."):
            run("memories", "add", text)
        assert "memories stay until" in run("doctor")
        assert "0 were archived, 2 are active" in run("memories", "tidy")
        monkeypatch.setenv("THREADKEEP_MAX_MEMORIES_PER_OWNER", "1")
        monkeypatch.setenv("THREADKEEP_INACTIVE_DAYS", "90")
        done = json.loads(run("memories", "tidy", "--json"))
        left = [row for row in json.loads(run("memories", "list", "--json")) if row["status"] == "archived"]
        assert [row["text"] for row in left] == ["I ski."]
        assert done["active"] == 1
        key = left[0]["memory_id"]
        assert "archived 20" in run("memories", "list")
        assert ": budget" in run("memories", "why", key)
        shown = run("owners", "show")
        assert "active: 1 of at most 1" in shown
        assert "archived after 90 days without use" in shown
        assert json.loads(run("owners", "show", "--json"))["aside"] == {"archived": 1}
        assert "90 days without use, an owner has at most 1" in run("doctor")
        monkeypatch.setenv("THREADKEEP_MAX_MEMORIES_PER_OWNER", "5")
        assert key in run("memories", "restore", key)
        assert {row["status"] for row in json.loads(run("memories", "list", "--json"))} == {"active"}
