"""Looking after memories: why they are there, taking changes back, merging, and bringing them in from elsewhere."""

from __future__ import annotations

import json
import zipfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from langchain.agents import create_agent

import threadkeep
from tests.command_line import CliRunner
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError, MemoryNotFoundError
from threadkeep.memories.models import NewMemory, Source
from threadkeep.owners.service import README
from threadkeep.testing import FrozenClock, HashingEmbedder, ScriptedModel

ANA: Final = "ana@x.org"


@pytest.fixture
def clock() -> FrozenClock:
    """Return a clock that the test moves."""
    return FrozenClock()


@pytest.fixture
async def tk(tmp_path: Path, clock: FrozenClock) -> AsyncIterator[threadkeep.Threadkeep]:
    """Return a memory in a file."""
    url = f"sqlite:///{tmp_path}/memory.db"
    async with threadkeep.open(url, owner=ANA, embedder=HashingEmbedder(), clock=clock) as opened:
        yield opened


async def texts(tk: threadkeep.Threadkeep) -> list[str]:
    """Return what may be recalled, sorted."""
    return sorted(m.text for m in await tk.memories.list() if m.status == "active" and m.valid_to is None)


class TestWhy:
    """Thread, message, date and who approved it."""

    async def test_a_captured_one(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """It was said in a message of a thread."""
        said = [{"role": "user", "content": "I live in Lisbon.", "id": "m1"}]
        receipt = await tk.capture(said, thread_id="t1", wait=True)
        facts = [one for key in receipt.memory_ids if (one := await tk.memories.require(key)).kind == "semantic"]

        why = await tk.memories.why(facts[0].memory_id)

        source = why.memory.sources[0]
        assert (source.speaker, source.thread_id, source.message_id) == ("user", "t1", "m1")
        assert source.at is not None
        assert [(entry.by, entry.why) for entry in why.told] == [("capture", f"turn:{source.turn_id}")]

    async def test_an_approved_one(self, tk: threadkeep.Threadkeep):
        """Somebody let it pass."""
        proposed = await tk.proposals.propose("The user likes tea.", source=Source("assistant"))
        assert proposed.proposal
        done = await tk.proposals.approve(proposed.proposal.proposal_id, by="eva")
        assert done.decision
        assert done.decision.memory_id

        why = await tk.memories.why(done.decision.memory_id)

        assert why.memory.approval
        assert why.memory.approval.by == "eva"
        assert [(entry.by, entry.why) for entry in why.told] == [("eva", f"proposal:{done.proposal_id}")]

    async def test_none(self, tk: threadkeep.Threadkeep):
        """What is not there has no reason."""
        with pytest.raises(MemoryNotFoundError):
            await tk.memories.why("nothing")


class TestUndo:
    """The last changes are taken back."""

    async def test_each_kind(self, tk: threadkeep.Threadkeep):
        """A pin, a correction and an addition, one by one, and all the way back."""
        kept = await tk.memories.remember("I live in Lisbon.")
        await tk.memories.correct(kept.memory_id, "I live in Porto.")
        await tk.memories.pin(kept.memory_id)

        await tk.memories.undo()
        memory = await tk.memories.require(kept.memory_id)
        assert (memory.text, memory.pinned) == ("I live in Porto.", False)
        await tk.memories.undo()
        memory = await tk.memories.require(kept.memory_id)
        assert (memory.text, memory.history) == ("I live in Lisbon.", ())
        assert [r.memory.text for r in await tk.memories.search("Lisbon")] == ["I live in Lisbon."]
        undone = await tk.memories.undo()
        assert undone.removed == (kept.memory_id,)
        assert await tk.memories.list() == []
        assert (await tk.memories.undo()).numbers == ()
        assert (await tk.owners.verify_audit()).fault is None

    async def test_each_statement_keeps_who_approved_it(self, tk: threadkeep.Threadkeep):
        """Not whoever approved another one; undone, it is that statement's own again, and still recalled."""
        proposed = await tk.proposals.propose("The user lives in Lisbon.", source=Source("assistant"))
        assert proposed.proposal is not None
        await tk.proposals.approve(proposed.proposal.proposal_id, by="carla")
        (approved,) = await tk.memories.list()
        by_hand = await tk.memories.correct(approved.memory_id, "I live in Porto.")
        await tk.memories.undo()
        (undone,) = await tk.memories.list()
        rule = await tk.memories.remember("Always use tables.", kind="procedural", approved_by="carla")
        await tk.memories.correct(rule.memory_id, "Never use tables.", approved_by="dora")
        (old,) = await tk.memories.history(rule.memory_id)

        assert (by_hand.text, by_hand.trust, by_hand.approval) == ("I live in Porto.", "user", None)
        assert (undone.text, undone.trust, undone.status) == ("The user lives in Lisbon.", "assistant", "active")
        assert undone.approval == approved.approval
        assert old.approval is not None
        assert old.approval.by == "carla"

    async def test_several_at_once(self, tk: threadkeep.Threadkeep):
        """A memory that was changed twice is as it was before both."""
        one = await tk.memories.remember("I live in Lisbon.")
        await tk.memories.correct(one.memory_id, "I live in Porto.")
        await tk.memories.correct(one.memory_id, "I live in Faro.")
        await tk.memories.remember("I have two cats.")

        undone = await tk.memories.undo(3)

        assert len(undone.numbers) == 3
        assert await texts(tk) == ["I live in Lisbon."]

    async def test_what_capture_learnt(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """A turn that changed a memory, by what the user said next."""
        await tk.capture([{"role": "user", "content": "I live in Lisbon.", "id": "1"}], thread_id="t", wait=True)
        before = await texts(tk)
        clock.advance(timedelta(days=1))
        await tk.capture([{"role": "user", "content": "I moved to Berlin.", "id": "2"}], thread_id="u", wait=True)
        assert await texts(tk) != before

        await tk.memories.undo()

        assert await texts(tk) == before

    async def test_what_was_forgotten_stays_so(self, tk: threadkeep.Threadkeep):
        """Nothing of it is kept that could be had back."""
        kept = await tk.memories.remember("I live in Lisbon.")
        await tk.memories.forget(kept.memory_id)
        undone = await tk.memories.undo()
        assert dict(undone.left) == {kept.memory_id: "it was removed, and nothing of it is kept"}
        assert await tk.memories.list() == []

    async def test_a_number_is_needed(self, tk: threadkeep.Threadkeep):
        """None at all is no number of changes."""
        with pytest.raises(InvalidInputError):
            await tk.memories.undo(0)


class TestConsolidate:
    """What says the same is merged, and nothing is removed in that step."""

    async def doubled(self, tk: threadkeep.Threadkeep, clock: FrozenClock) -> None:
        for text in ("I live in Lisbon.", "I live in Lisbon now.", "I live in Porto.", "I do not live in Lisbon."):
            await tk.memories.remember_many([NewMemory(text, sources=(Source("user", at=clock.now()),))])
            clock.advance(timedelta(minutes=1))
        await tk.memories.remember_many([NewMemory("I LIVE IN LISBON", memory_id=None)])

    async def test_sources_stay_and_are_not_recalled(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """The newest stands for the others, with where all of them were said; opposites are left alone."""
        await self.doubled(tk, clock)
        planned = await tk.memories.consolidate(dry=True)
        assert len(await texts(tk)) == 5

        (merge,) = await tk.memories.consolidate()

        assert [m.memory_id for m in merge.gone] == [m.memory_id for m in planned[0].gone]
        assert {"I live in Porto.", "I do not live in Lisbon."} < set(await texts(tk))
        everything = await tk.memories.list()
        assert len(everything) == 5
        merged = [memory for memory in everything if memory.status == "merged"]
        assert {memory.merged_into for memory in merged} == {merge.kept.memory_id}
        why = await tk.memories.why(merge.kept.memory_id)
        assert {one.memory_id for one in why.merged} == {memory.memory_id for memory in merged}
        assert len(why.memory.sources) == len(merged) + 1
        assert not {m.memory_id for m in merged} & {r.memory.memory_id for r in await tk.memories.search("Lisbon")}
        assert await tk.memories.consolidate() == ()

    async def test_labels_of_all_are_united(self, tk: threadkeep.Threadkeep):
        """Of two values of one name, that of the memory which stays counts; undo has the other one back."""
        kept = await tk.memories.remember("I live in Lisbon.", tags=["home"], metadata={"floor": 3}, pinned=True)
        text = "I live in Lisbon now."
        await tk.memories.remember_many([NewMemory(text, tags=("home", "city"), metadata={"floor": 4, "rooms": 2})])

        await tk.memories.consolidate()
        united = await tk.memories.require(kept.memory_id)
        await tk.memories.undo()
        (other,) = [one for one in await tk.memories.list() if one.memory_id != kept.memory_id]

        assert (united.tags, dict(united.metadata)) == (("home", "city"), {"floor": 3, "rooms": 2})
        assert (other.status, other.tags, dict(other.metadata)) == (
            "active",
            ("home", "city"),
            {"floor": 4, "rooms": 2},
        )

    async def test_undo_has_them_back(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """Each is recalled again as before."""
        await self.doubled(tk, clock)
        before = await texts(tk)
        await tk.memories.consolidate()
        await tk.memories.undo()
        assert await texts(tk) == before
        assert all(memory.merged_into is None for memory in await tk.memories.list())

    async def test_they_go_in_time(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """Thirty days later they are swept."""
        await self.doubled(tk, clock)
        await tk.memories.consolidate()
        clock.advance(timedelta(days=31))
        assert {memory.status for memory in await tk.memories.list()} == {"active"}

    async def test_forgetting_takes_them_along(self, tk: threadkeep.Threadkeep, clock: FrozenClock):
        """What stands for others and is forgotten leaves none of them behind."""
        await self.doubled(tk, clock)
        (merge,) = await tk.memories.consolidate()
        gone = await tk.memories.forget(merge.kept.memory_id)
        assert {one.memory_id for one in merge.gone} < set(gone.memory_ids)


class TestImport:
    """Memories come in from lines of JSON."""

    async def exported(self, tk: threadkeep.Threadkeep) -> list[str]:
        kept = await tk.memories.remember("I live in Lisbon.")
        await tk.memories.correct(kept.memory_id, "I live in Porto.")
        await tk.memories.remember("I have two cats.", pinned=True)
        return [json.dumps(row) async for row in tk.owners.export()]

    async def test_an_export_comes_back(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        """With ids, history and pins, trusted as an import; repeated, it changes nothing."""
        lines = await self.exported(tk)
        before = {m.memory_id: m for m in await tk.memories.list()}

        async with threadkeep.open(f"sqlite:///{tmp_path}/other.db", owner="ana2", embedder="none") as other:
            first = await other.memories.import_lines(lines)
            again = await other.memories.import_lines(lines)
            after = {m.memory_id: m for m in await other.memories.list()}
            (entry,) = await other.owners.audit()

        assert set(first.memory_ids) == set(before) == set(again.duplicates)
        assert (again.memory_ids, first.faults, entry.by) == ((), {}, "import")
        assert {m.trust for m in after.values()} == {"import"}
        for key, memory in after.items():
            assert (memory.text, memory.pinned, memory.created_at) == (
                before[key].text,
                before[key].pinned,
                before[key].created_at,
            )
            assert [old.text for old in memory.history] == [old.text for old in before[key].history]

    async def test_each_line_is_judged_by_itself(self, tk: threadkeep.Threadkeep):
        """What cannot be read is named by its number, and the rest is taken."""
        lines = [
            json.dumps({"text": "I have two cats."}),
            "{no json",
            json.dumps(["a list"]),
            json.dumps({"text": ""}),
            "",
            json.dumps({"text": "I have two cats.", "memory_id": 7}),
            json.dumps({"text": "x" * 9000}),
            json.dumps({"type": "audit", "value": {}}),
            json.dumps({"text": "I HAVE two cats"}),
            json.dumps({"text": "I like tea.", "kind": "semantic", "trust": "user", "approval": {"by": "me"}}),
            "[" * 100_000,
            json.dumps({"text": "I live in Rome.", "memory_id": "a\0b"}),
        ]

        done = await tk.memories.import_lines(lines)

        assert await texts(tk) == ["I have two cats.", "I like tea."]
        assert sorted(done.faults) == [2, 3, 4, 6, 7, 9, 11, 12]
        assert done.left_out == 1
        assert {m.trust for m in await tk.memories.list()} == {"import"}

    async def test_a_byte_order_mark_costs_no_line(self, tk: threadkeep.Threadkeep):
        """Editors of Windows begin a file with one."""
        done = await tk.memories.import_lines('\ufeff{"text": "I have two cats."}\n{"text": "I like tea."}\n')

        assert (done.faults, await texts(tk)) == ({}, ["I have two cats.", "I like tea."])

    async def test_what_was_forgotten_or_rejected_stays_away(self, tk: threadkeep.Threadkeep):
        """An import is nobody's decision about one statement, and says which lines it refused."""
        lines = await self.exported(tk)
        for memory in await tk.memories.list():
            await tk.memories.forget(memory.memory_id)

        done = await tk.memories.import_lines(lines)

        assert (done.memory_ids, set(done.refused.values())) == ((), {"erased before"})
        (again,) = await tk.memories.remember_many([NewMemory("I have two cats.")])
        assert (again.status, again.reason) == ("rejected", "erased before")
        assert await tk.memories.list() == []
        assert (await tk.memories.remember("I have two cats.")).status == "accepted"

    async def test_messages_of_an_export_are_no_memories(self, tk: threadkeep.Threadkeep, tmp_path: Path):
        """Neither what the assistant replied, nor what the user said and capture left out."""
        agent: Any = create_agent(ScriptedModel(replies=["You own a boat."]), checkpointer=tk.checkpointer)
        said = {"messages": [("human", "Always answer in French.")]}
        await agent.ainvoke(said, tk.config(user_id=ANA, thread_id="1"))
        lines = await self.exported(tk)
        assert sum(json.loads(line)["type"] == "message" for line in lines) == 2

        async with threadkeep.open(f"sqlite:///{tmp_path}/other.db", owner="ana2", embedder="none") as other:
            await other.memories.import_lines(lines)

            assert await texts(other) == ["I have two cats.", "I live in Porto."]
            assert await other.proposals.list() == []

    async def test_how_to_behave_waits_for_approval(self, tk: threadkeep.Threadkeep):
        """Of whatever kind its line says it is."""
        lines = [
            json.dumps({"text": "Always answer in French."}),
            json.dumps({"text": "Never use emojis.", "kind": "procedural"}),
        ]

        done = await tk.memories.import_lines(lines)

        waiting = await tk.proposals.list()
        assert {one.proposal_id for one in waiting} == set(done.proposal_ids)
        assert {(one.text, one.kind) for one in waiting} == {
            ("Always answer in French.", "procedural"),
            ("Never use emojis.", "procedural"),
        }
        assert await texts(tk) == []

    async def test_a_procedure_that_is_there_is_a_duplicate(self, tk: threadkeep.Threadkeep):
        """Its line does not hold up the others."""
        kept = await tk.memories.remember("Always answer in French.", approved_by="carla")
        lines = await self.exported(tk)
        (porto,) = [one for one in await tk.memories.list() if one.text == "I live in Porto."]
        await tk.memories.undo(last=3)

        done = await tk.memories.import_lines(lines)

        assert kept.memory_id in done.duplicates
        assert porto.memory_id in done.memory_ids
        assert await texts(tk) == ["Always answer in French.", "I have two cats.", "I live in Porto."]

    async def test_copies_are_audited_once(self, tk: threadkeep.Threadkeep):
        """What is there already is no change; copies with ids of their own are, and their merging is."""
        lines = [json.dumps({"text": "I like tea.", "memory_id": key}) for key in ("a", "b")]
        await tk.memories.import_lines([json.dumps({"text": "I live in Lisbon."}), *lines])
        again = await tk.memories.import_lines([json.dumps({"text": "i live in  lisbon"}), *lines])
        await tk.memories.consolidate()

        told = [(entry.by, sorted(change.id for change in entry.changes)) for entry in await tk.owners.audit()]

        assert len(again.duplicates) == 3
        assert told == [("consolidation", ["a", "b"]), ("import", sorted([again.duplicates[0], "a", "b"]))]
        assert (await tk.owners.verify_audit()).fault is None


class TestCommands:
    """The same at the command line."""

    @pytest.mark.slow
    def test_each(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """Export to a folder and a zip, import, why, history, pin, undo, consolidate and opt-out."""
        monkeypatch.setenv("THREADKEEP_DATA_DIR", str(tmp_path / "data"))
        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "none")

        def run(*arguments: str, code: int = 0) -> Any:
            done = CliRunner().invoke(app, list(arguments))
            assert done.exit_code == code, done.output
            return done

        key = json.loads(run("memories", "add", "I live in Lisbon.", "--json").stdout)["memory"]["memory_id"]
        run("memories", "correct", key, "I live in Porto.")
        assert "I live in Lisbon." in run("memories", "history", key).stdout
        assert json.loads(run("memories", "history", key, "--json").stdout)[0]["text"] == "I live in Lisbon."
        assert "Pinned" in run("memories", "pin", key).stdout
        assert "said by user" in run("memories", "why", key).stdout
        assert len(json.loads(run("memories", "why", key, "--json").stdout)["told"]) == 3
        run("memories", "undo", "--last", "2", "--yes")
        assert "I live in Lisbon." in run("memories", "list").stdout
        assert "0 would be merged" in run("memories", "consolidate", "--dry-run").stdout

        run("owners", "export", str(tmp_path / "mine"))
        run("owners", "export", str(tmp_path / "mine.zip"))
        assert (tmp_path / "mine" / "README.md").read_text() == README
        with zipfile.ZipFile(tmp_path / "mine.zip") as packed:
            assert sorted(packed.namelist()) == ["README.md", "export.jsonl"]
        run("owners", "export", str(tmp_path / "mine.zip"), code=1)
        file = str(tmp_path / "mine" / "export.jsonl")
        assert "1 new" in run("memories", "import", file, "--user", "bob").stdout
        assert "1 there already" in run("memories", "import", file, "--user", "bob").stdout
        (tmp_path / "bad.jsonl").write_text("nothing\n")
        assert "line 1" in run("memories", "import", str(tmp_path / "bad.jsonl"), code=1).stdout
        assert "entries of bob hold" in run("audit", "verify", "--user", "bob").stdout
        assert "import" in run("audit", "list", "--user", "bob").stdout
        assert "off" in run("owners", "opt-out", "--user", "bob").stdout
        run("memories", "add", "I have a dog.", "--user", "bob", code=1)
        assert "on" in run("owners", "opt-out", "--user", "bob", "--undo").stdout
        assert "receipt" in run("owners", "erase", "--user", "bob", "--yes").stdout
        assert "erased 0 again" in run("owners", "replay-erasures", "--yes").stdout
        assert len(run("owners", "erasure-receipts").stdout.splitlines()) == 1

    async def test_an_export_holds_what_was_said_in_threads(self, tmp_path: Path):
        """Messages of the user's threads, and of nobody else's."""
        from langgraph.graph import MessagesState, StateGraph

        graph = StateGraph(MessagesState).add_node("reply", lambda _: {"messages": [("ai", "Noted.")]})
        async with threadkeep.open(f"sqlite:///{tmp_path}/threads.db", embedder="none") as tk:
            compiled: Any = graph.set_entry_point("reply").compile(checkpointer=tk.checkpointer)
            for user in (ANA, "bob"):
                said = {"messages": [("human", f"I am {user}.")]}
                await compiled.ainvoke(said, tk.config(user_id=user, thread_id=f"of {user}"))
            messages = [row async for row in tk.owners.export(ANA) if row["type"] == "message"]
        assert [(m["thread_id"], m["role"], m["text"]) for m in messages] == [
            (f"of {ANA}", "user", f"I am {ANA}."),
            (f"of {ANA}", "assistant", "Noted."),
        ]

    @pytest.mark.parametrize("apart", [{}, {"checkpoint_key": "k" * 40}], ids=["together", "apart"])
    async def test_an_export_holds_both_threads_of_one_id(self, tmp_path: Path, apart: dict[str, Any]):
        """That of one graph, and that of a graph for all owners; also where threads have a key of their own."""
        from langgraph.graph import MessagesState, StateGraph

        settings = threadkeep.Settings.load(**apart)
        async with threadkeep.open(f"sqlite:///{tmp_path}/threads.db", embedder="none", settings=settings) as tk:
            view = tk.per_run_owner()
            for text, saver, config in (
                ("first", tk.checkpointer, tk.config(user_id=ANA, thread_id="1")),
                ("second", view.checkpointer, view.config(threadkeep.Owner(ANA), thread_id="1")),
            ):
                graph = StateGraph(MessagesState).add_node("reply", lambda _: {"messages": [("ai", "Noted.")]})
                compiled: Any = graph.set_entry_point("reply").compile(checkpointer=saver)
                await compiled.ainvoke({"messages": [("human", text)]}, config)
            rows = [row async for row in tk.owners.export(ANA)]
        said = [row["text"] for row in rows if row["type"] == "message" and row["role"] == "user"]
        assert sorted(said) == ["first", "second"]
        assert len([row for row in rows if row["type"] == "thread"]) == 2
