"""Threads that come from elsewhere: LangGraph's savers, and an earlier version's file."""

from __future__ import annotations

import asyncio
import json
import operator
import shutil
import sqlite3
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from deepagents import create_deep_agent
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

import threadkeep
from tests.checkpoints.checkpoints import ScriptedModel, config_of
from tests.command_line import CliRunner
from threadkeep import testing
from threadkeep.cli.main import app
from threadkeep.errors import (
    InvalidInputError,
    NotAStorageError,
    OwnerMismatchError,
    StorageError,
    StorageUnavailableError,
)
from threadkeep.transfer.threads import CopiedThread, copy_thread, list_thread_ids, open_saver

ANA = threadkeep.Owner("ana@x.org")


@dataclass
class Ticket:
    number: int


class Asked(TypedDict):
    words: Annotated[list[str], operator.add]
    ticket: Ticket


def asking(saver: Any) -> Any:
    """Compile a graph that asks within a subgraph."""
    inner = StateGraph(Asked)
    inner.add_node("ask", lambda _: {"words": [interrupt("well?")], "ticket": Ticket(8)})
    inner.add_edge(START, "ask")
    graph = StateGraph(Asked)
    graph.add_node("inner", inner.compile())
    graph.add_edge(START, "inner")
    return graph.compile(checkpointer=saver)


class Words(TypedDict):
    words: Annotated[list[str], operator.add]


def asking_thrice(saver: Any) -> Any:
    """Compile a graph in which one of two nodes beside each other asks three questions."""
    graph = StateGraph(Words)
    graph.add_node("ask", lambda _: {"words": [interrupt(text) for text in ("one?", "two?", "three?")]})
    graph.add_node("beside", lambda _: {"words": ["other"]})
    graph.add_edge(START, "ask")
    graph.add_edge(START, "beside")
    return graph.compile(checkpointer=saver)


def aged(saver: InMemorySaver, thread_id: str, moment: str) -> None:
    """Write the checkpoints of a thread again, as they would be had they been made at *moment*."""
    for one in [*saver.list(config_of(thread_id))]:
        parent: Any = one.parent_config or {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
        saver.put(parent, {**one.checkpoint, "ts": moment}, one.metadata, one.checkpoint["channel_versions"])


def history(graph: Any, config: Any) -> list[Any]:
    return [(one.values, one.next, one.metadata["source"]) for one in graph.get_state_history(config)]


class TestCopying:
    async def test_a_thread_goes_on_in_the_middle_of_a_question(self):
        """State, history, subgraph, interrupt and objects of the application's classes are those of the source."""
        stock = InMemorySaver()
        asking(stock).invoke({"words": ["a"], "ticket": Ticket(7)}, config_of("1"))
        asking(stock).invoke(Command(resume="b"), config_of("1"))
        asking(stock).invoke({"words": ["c"]}, config_of("1"))
        with threadkeep.open("memory://", embedder="none") as tk:
            assert tk.checkpointer is not None

            copied = await copy_thread(stock, tk.checkpointer, "1")
            again = await copy_thread(stock, tk.checkpointer, "1")

            assert (copied.state, again.state) == ("copied", "present")
            ours = asking(tk.checkpointer)
            assert history(ours, config_of("1")) == history(asking(stock), config_of("1"))
            ended = ours.invoke(Command(resume="d"), config_of("1"))
        assert (ended["words"][-1], ended["ticket"]) == ("d", Ticket(8))

    async def test_a_deep_agents_thread_there_and_back(self):
        """Its messages are kept as changes since a snapshot."""
        stock, back = InMemorySaver(), InMemorySaver()
        model = ScriptedModel(messages=iter([AIMessage(f"reply {n}") for n in range(20)]))
        agent = create_deep_agent(model, checkpointer=stock)
        for n in range(4):
            await agent.ainvoke({"messages": [("user", f"question {n}")]}, config_of("1"))
        before = (await agent.aget_state(config_of("1"))).values["messages"]
        async with threadkeep.open("memory://", embedder="none") as tk:
            assert tk.checkpointer is not None
            await copy_thread(stock, tk.checkpointer, "1")
            await copy_thread(tk.checkpointer, back, "1")

            for saver in (tk.checkpointer, back):
                agent = create_deep_agent(model, checkpointer=saver)
                assert (await agent.aget_state(config_of("1"))).values["messages"] == before
                await agent.ainvoke({"messages": [("user", "more")]}, config_of("1"))

    @pytest.mark.parametrize("answered", [1, 2])
    async def test_answered_questions_there_and_back(self, tmp_path: Path, answered: int):
        """LangGraph's savers on a database put an answer before its question, and others do not."""
        with (
            SqliteSaver.from_conn_string(str(tmp_path / "stock.sqlite3")) as stock,
            SqliteSaver.from_conn_string(str(tmp_path / "back.sqlite3")) as back,
        ):
            asking(stock).invoke({"words": ["a"], "ticket": Ticket(7)}, config_of("1"))
            async with threadkeep.open("memory://", embedder="none") as tk:
                assert tk.checkpointer is not None
                if answered == 2:
                    asking(stock).invoke(Command(resume="b"), config_of("1"))
                    asking(stock).invoke({"words": ["c"]}, config_of("1"))

                there = await copy_thread(stock, tk.checkpointer, "1")
                await asking(tk.checkpointer).ainvoke(Command(resume="d"), config_of("1"))
                await copy_thread(tk.checkpointer, back, "1")
                again = await copy_thread(tk.checkpointer, back, "1")

                assert (there.state, again.state) == ("copied", "present")
                assert history(asking(back), config_of("1")) == history(asking(tk.checkpointer), config_of("1"))

    @pytest.mark.parametrize("stock_kind", ["memory", "sqlite"])
    async def test_repeating_changes_nothing_of_a_thread_that_went_on(self, tmp_path: Path, stock_kind: str):
        """Answers that were given since stay, one by one; going back, they are added to what is there."""
        with ExitStack() as stack:
            database = SqliteSaver.from_conn_string(str(tmp_path / "stock.sqlite3"))
            stock: Any = InMemorySaver() if stock_kind == "memory" else stack.enter_context(database)
            asking_thrice(stock).invoke({"words": ["a"]}, config_of("1"))
            async with threadkeep.open("memory://", embedder="none") as tk:
                assert tk.checkpointer is not None
                ours = asking_thrice(tk.checkpointer)
                await copy_thread(stock, tk.checkpointer, "1")
                asking_thrice(stock).invoke(Command(resume="b"), config_of("1"))
                assert (await copy_thread(stock, tk.checkpointer, "1")).state == "copied"
                last: Any = None
                for word in "cd":
                    last = await ours.ainvoke(Command(resume=word), config_of("1"))

                    again = await copy_thread(stock, tk.checkpointer, "1")
                    assert again.state == "present"
                    assert history(ours, config_of("1")) == history(asking_thrice(tk.checkpointer), config_of("1"))
                back = await copy_thread(tk.checkpointer, stock, "1")

                assert (last["words"], back.state) == (["a", "b", "c", "d", "other"], "copied")
                assert history(asking_thrice(stock), config_of("1")) == history(ours, config_of("1"))
                assert (await copy_thread(tk.checkpointer, stock, "1")).state == "present"

    async def test_one_that_was_interrupted_goes_on(self, monkeypatch: pytest.MonkeyPatch):
        stock = InMemorySaver()
        for word in "abc":
            asking(stock).invoke({"words": [word], "ticket": Ticket(7)}, config_of(word))
        async with threadkeep.open("memory://", embedder="none") as tk:
            assert tk.checkpointer is not None
            await copy_thread(stock, tk.checkpointer, "a")
            await tk.checkpointer.adelete_for_runs([])

            states = [await copy_thread(stock, tk.checkpointer, one) for one in await list_thread_ids(stock)]

        assert [one.state for one in states] == ["present", "copied", "copied"]

    async def test_what_is_read_otherwise_is_an_error(self, monkeypatch: pytest.MonkeyPatch):
        stock, target = InMemorySaver(), InMemorySaver()
        asking(stock).invoke({"words": ["a"], "ticket": Ticket(7)}, config_of("1"))
        monkeypatch.setattr(InMemorySaver, "aput", lambda *_: _nothing())

        with pytest.raises(StorageError, match="not read as they were written"):
            await copy_thread(stock, target, "1")

    async def test_from_a_url(self, tmp_path: Path):
        with SqliteSaver.from_conn_string(str(tmp_path / "stock.sqlite3")) as stock:
            asking(stock).invoke({"words": ["a"], "ticket": Ticket(7)}, config_of("1"))
        async with (
            threadkeep.open("memory://", embedder="none") as tk,
            open_saver(f"sqlite:///{tmp_path}/stock.sqlite3") as saver,
        ):
            assert tk.checkpointer is not None
            assert await copy_thread(saver, tk.checkpointer, "1") == CopiedThread("1", 4, "copied")


class TestCommands:
    def test_threads_come_and_go_with_their_owners(self, tmp_path: Path):
        """Imported by a mapping, then by the metadata, and exported again; a thread without an owner is left."""
        stock = f"sqlite:///{tmp_path}/stock.sqlite3"
        with SqliteSaver.from_conn_string(str(tmp_path / "stock.sqlite3")) as saver:
            for thread_id, owner in (("1", "ana@x.org"), ("2", "bob")):
                config = {**config_of(thread_id), "metadata": {"customer": owner}}
                asking(saver).invoke({"words": [thread_id], "ticket": Ticket(7)}, config)
        mapping = tmp_path / "owners.json"
        mapping.write_text('{"1": {"user_id": "ana@x.org", "tenant": "acme"}}')
        at = ["--data-dir", str(tmp_path / "data"), "--json"]
        importing = ["threads", "import", "--from", stock, "--mapping", str(mapping)]

        first = output(*importing, *at, code=1)
        again = output(*importing, "--owner-key", "customer", *at)
        listed = output("threads", "list", "--user", "bob", *at)
        exported = output("threads", "export", "--to", f"sqlite:///{tmp_path}/back.sqlite3", "--user", "bob", *at)

        assert [(one["thread_id"], one["state"], one["reason"]) for one in first] == [
            ("1", "copied", ""),
            ("2", "left", "its owner is missing; name it with owners= (--mapping FILE) or owner_key= (--owner-key)."),
        ]
        assert first[0]["owner"] == {"user_id": "ana@x.org", "tenant": "acme", "kind": "user"}
        assert [(one["state"], one["owner"]["user_id"]) for one in again] == [
            ("present", "ana@x.org"),
            ("copied", "bob"),
        ]
        assert [one["thread_id"] for one in listed] == ["2"]
        assert [(one["thread_id"], one["state"]) for one in exported] == [("2", "copied")]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"1": "a", "1": "b"}', "twice"),
            ("[]", "JSON object"),
            ('{"1": 7}', "neither a user id"),
            ("{", "no JSON object"),
            ('{"1": "bob", "3": "ana"}', "Thread '3' was not found; nothing was changed"),
            (None, "cannot be read"),
        ],
    )
    def test_a_mapping_that_is_wrong_changes_nothing(self, tmp_path: Path, text: str | None, message: str):
        with threadkeep.open(f"sqlite:///{tmp_path}/memory.sqlite3", embedder="none") as tk:
            asking(tk.checkpointer).invoke({"words": ["1"], "ticket": Ticket(7)}, config_of("1"))
        mapping = tmp_path / "owners.json"
        if text is not None:
            mapping.write_text(text)
        at = ["--data-dir", str(tmp_path)]

        failed = CliRunner().invoke(app, ["threads", "adopt", "--mapping", str(mapping), "--yes", *at])

        assert failed.exit_code == 1
        assert message in str(failed.exception)
        assert output("threads", "list", "--user", "bob", *at, "--json") == []

    def test_a_thread_of_another_owner_is_left_with_the_reason(self, tmp_path: Path):
        """The others are adopted."""
        with threadkeep.open(f"sqlite:///{tmp_path}/memory.sqlite3", embedder="none") as tk:
            config = tk.config(user_id="ana@x.org", thread_id="1")
            asking(tk.checkpointer).invoke({"words": ["1"], "ticket": Ticket(7)}, config)
            asking(tk.checkpointer).invoke({"words": ["2"], "ticket": Ticket(7)}, config_of("2"))
        mapping = tmp_path / "owners.json"
        mapping.write_text('{"1": "bob", "2": "bob"}')
        at = ["--data-dir", str(tmp_path), "--json"]

        adopted = output("threads", "adopt", "--mapping", str(mapping), "--yes", *at, code=1)

        assert [(one["thread_id"], one["state"]) for one in adopted] == [("1", "left"), ("2", "adopted")]
        assert "another owner" in adopted[0]["reason"]
        assert [one["thread_id"] for one in output("threads", "list", "--user", "ana@x.org", *at)] == ["1"]


class TestSources:
    @pytest.mark.parametrize(
        "url",
        ["postgresql://u:secret@127.0.0.1:1/x", "redis://u:secret@127.0.0.1:1/0"],
    )
    async def test_a_server_that_is_away_is_named_without_its_password(self, url: str):
        with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1:1") as failed:
            async with open_saver(url):
                pass
        assert "secret" not in str(failed.value)

    async def test_a_file_that_is_missing_or_another_is_not_touched(self, tmp_path: Path):
        """A typing error creates no database, and does not look like an empty source."""
        other = tmp_path / "other.sqlite3"
        with closing(sqlite3.connect(other)) as connection:
            connection.execute("CREATE TABLE cats (name)")
        before = other.read_bytes()

        with pytest.raises(InvalidInputError, match="does not exist"):
            async with open_saver(f"sqlite:///{tmp_path}/typo.sqlite3"):
                pass
        with pytest.raises(NotAStorageError, match="no checkpoints"):
            async with open_saver(f"sqlite:///{other}"):
                pass

        assert other.read_bytes() == before
        assert not (tmp_path / "typo.sqlite3").exists()

    @pytest.mark.slow
    async def test_a_server_without_checkpoints(self, postgres_url: str):
        """No table is created there."""
        with pytest.raises(NotAStorageError, match="no checkpoints"):
            async with open_saver(postgres_url):
                pass
        async with open_saver(f"langgraph+{postgres_url}", creates=True) as saver:
            assert await list_thread_ids(saver) == []


class TestAdopting:
    """Threads that the application keeps in its own checkpointer."""

    @pytest.fixture
    def stock(self) -> InMemorySaver:
        """Return a checkpointer with a thread of Ana's that nothing names, and one that Bob continued."""
        saver = InMemorySaver()
        agent = create_agent(ScriptedModel(messages=iter([AIMessage("I see.")] * 9)), [], checkpointer=saver)
        for thread_id, users in (
            ("hers", [None]),
            ("taken", [None, "bob"]),
            ("two", ["ana", "bob"]),
            ("named", ["ana"]),
        ):
            for user in users:
                agent.invoke(
                    {"messages": [("user", "I live in Lisbon.")]},
                    config_of(thread_id, **({"user_id": user} if user else {})),
                )
        return saver

    async def test_from_then_on_no_other_owner_continues_it(self, stock: InMemorySaver):
        async with threadkeep.open("memory://", embedder="none") as tk:
            adopted = await tk.threads.adopt(owners={"hers": "ana", "two": None}, source=stock)
            agent: Any = create_agent(testing.ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=stock)

            with pytest.raises(OwnerMismatchError):
                await agent.ainvoke({"messages": [("user", "Hello")]}, tk.config(user_id="bob", thread_id="hers"))
            told = await agent.ainvoke({"messages": [("user", "Hello")]}, tk.config(user_id="ana", thread_id="hers"))

            assert [(one.thread_id, one.state) for one in adopted] == [("hers", "adopted"), ("two", "left")]
            assert [message.text for message in told["messages"]][:2] == ["I live in Lisbon.", "I see."]

    async def test_an_imported_thread_has_the_first_words_of_its_user_as_title(self, stock: InMemorySaver):
        """A title that the user has given since then stays."""
        async with threadkeep.open("memory://", embedder="none") as tk:
            owners = {"hers": "ana", "named": "ana"}
            assert len([one async for one in tk.threads.import_from(stock, ["hers", "named"], owners=owners)]) == 2
            await tk.threads.update("named", title="Where I live", owner="ana")
            assert len([one async for one in tk.threads.import_from(stock, ["hers", "named"], owners=owners)]) == 2

            titles = {thread.thread_id: thread.title for thread in await tk.threads.list("ana")}

        assert titles == {"hers": "I live in Lisbon.", "named": "Where I live"}

    async def test_an_imported_thread_that_waits_for_an_answer_is_listed_so(self):
        """Until it is answered; one with a title that was imported before is listed so, too."""
        stock = InMemorySaver()
        asking(stock).invoke({"words": ["old"]}, config_of("old"))
        async with threadkeep.open("memory://", embedder="none") as tk:
            await tk.threads.create("old", title="Tickets", owner="ana")

            assert len([one async for one in tk.threads.import_from(stock, owner="ana")]) == 1
            (waiting,) = await tk.threads.list("ana")
            await asking(tk.checkpointer).ainvoke(Command(resume="well"), tk.config(user_id="ana", thread_id="old"))
            (answered,) = await tk.threads.list("ana")

        assert (waiting.status, waiting.title) == ("interrupted", "Tickets")
        assert (answered.status, answered.title) == ("idle", "Tickets")

    async def test_an_imported_thread_is_as_old_as_its_last_turn(self):
        """So the list of threads has it where it was; a turn that follows here is the last one from then on."""
        stock = InMemorySaver()
        theirs: Any = create_agent(testing.ScriptedModel(), [], checkpointer=stock)
        theirs.invoke({"messages": [("user", "I live in Lisbon.")]}, config_of("old"))
        aged(stock, "old", "2021-02-03T09:00:00+00:00")
        async with threadkeep.open("memory://", embedder="none") as tk:
            await tk.threads.create("own", owner="ana")

            assert len([one async for one in tk.threads.import_from(stock, owner="ana")]) == 1
            imported = {thread.thread_id: thread.last_turn_at for thread in await tk.threads.list("ana")}
            ours: Any = create_agent(testing.ScriptedModel(), [], checkpointer=tk.checkpointer)
            await ours.ainvoke({"messages": [("user", "Hello.")]}, tk.config(user_id="ana", thread_id="old"))
            await tk.threads.note_turn("old", question="Hello.", owner="ana")
            assert len([one async for one in tk.threads.import_from(stock, owner="ana")]) == 1
            continued = {thread.thread_id: thread.last_turn_at for thread in await tk.threads.list("ana")}

        assert [*imported] == ["own", "old"]
        assert imported["old"] == datetime(2021, 2, 3, 9, tzinfo=UTC)
        assert [*continued] == ["old", "own"]

    @pytest.mark.parametrize("value", [2, [2]])
    async def test_a_thread_with_something_else_under_messages_is_imported_without_a_title(self, value: Any):
        class Counted(TypedDict):
            messages: Any

        builder: Any = StateGraph(Counted)
        builder.add_node("count", lambda _: {"messages": value})
        builder.add_edge(START, "count")
        saver = InMemorySaver()
        builder.compile(checkpointer=saver).invoke({"messages": value}, config_of("1"))

        async with threadkeep.open("memory://", embedder="none") as tk:
            (imported,) = [one async for one in tk.threads.import_from(saver, owner="ana")]
            (thread,) = await tk.threads.list("ana")

        assert (imported.state, thread.title) == ("copied", "")

    async def test_a_name_in_the_metadata_is_no_proof_alone(self, stock: InMemorySaver):
        """Who continued a thread that another began, and a thread with two names, are left."""
        async with threadkeep.open("memory://", embedder="none") as tk:
            by_key = await tk.threads.adopt(owner_key="user_id", source=stock)
            imported = [one async for one in tk.threads.import_from(stock, owner_key="user_id")]

        assert {one.thread_id: one.state for one in by_key} == {
            "hers": "left",
            "named": "adopted",
            "taken": "left",
            "two": "left",
        }
        assert {one.thread_id: one.state for one in imported} == {
            "hers": "left",
            "named": "copied",
            "taken": "left",
            "two": "left",
        }

    async def test_of_two_claims_at_once_one_wins(self, stock: InMemorySaver):
        async with threadkeep.open("memory://", embedder="none") as tk:
            claims = [tk.threads.adopt(owners={"hers": owner}, source=stock) for owner in ("ana", "bob")]

            states = [one.state for adopted in await asyncio.gather(*claims) for one in adopted]

        assert sorted(states) == ["adopted", "left"]

    async def test_nothing_is_imported_without_an_owner(self, stock: InMemorySaver):
        async with threadkeep.open("memory://", embedder="none") as tk:
            with pytest.raises(InvalidInputError, match="to whom the threads belong"):
                await anext(tk.threads.import_from(stock))


def output(*arguments: str, code: int = 0) -> Any:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


async def _nothing() -> None:
    return None


class TestAnEarlierVersion:
    """Its threads were in a file of LangGraph's saver beside the memories."""

    def earlier(self, folder: Path) -> Path:
        path = folder / "memory-checkpoints.sqlite3"
        with SqliteSaver.from_conn_string(str(path)) as stock:
            for thread_id in ("1", "2"):
                asking(stock).invoke({"words": [thread_id], "ticket": Ticket(7)}, config_of(thread_id))
        return path

    async def test_they_are_moved_in_once_and_the_file_stays_as_a_backup(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ):
        path = self.earlier(tmp_path)
        for _ in range(2):
            async with threadkeep.open(f"sqlite:///{tmp_path}/memory.sqlite3", embedder="none") as tk:
                graph = asking(tk.checkpointer)
                assert (await graph.aget_state(config_of("1"))).values["words"] == ["1"]
        assert not path.exists()
        assert path.with_name(f"{path.name}.backup").exists()
        assert [record.message for record in caplog.records if "earlier version" in record.message] == [
            f"2 threads of an earlier version were moved into the storage; {path}.backup is the backup."
        ]

    async def test_one_that_the_settings_name_is_moved_aside_first(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        path = self.earlier(tmp_path).rename(tmp_path / "threads.sqlite3")
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", str(path))

        async with threadkeep.open(f"sqlite:///{tmp_path}/memory.sqlite3", embedder="none") as tk:
            assert (await asking(tk.checkpointer).aget_state(config_of("2"))).values["words"] == ["2"]

        assert (tmp_path / "threads-earlier.sqlite3.backup").exists()

    async def test_an_interrupted_move_is_finished(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """Nothing is lost, and nothing is doubled."""
        path = self.earlier(tmp_path)
        kept = shutil.copy(path, tmp_path / "kept.sqlite3")
        url = f"sqlite:///{tmp_path}/memory.sqlite3"
        monkeypatch.setattr("threadkeep.transfer.earlier_threads.rename_backup", _killed)
        async with threadkeep.open(url, embedder="none") as tk:
            with pytest.raises(KeyboardInterrupt):
                await asking(tk.checkpointer).aget_state(config_of("1"))
        monkeypatch.undo()
        monkeypatch.delenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", raising=False)

        async with threadkeep.open(url, embedder="none") as tk:
            graph = asking(tk.checkpointer)
            with SqliteSaver.from_conn_string(str(kept)) as stock:
                for thread_id in ("1", "2"):
                    assert history(graph, config_of(thread_id)) == history(asking(stock), config_of(thread_id))


def _killed(*_: Any) -> None:
    raise KeyboardInterrupt


class TestThreadsFrom:
    """An application changes its checkpointer and its threads go on."""

    @staticmethod
    def talk(tk: threadkeep.Threadkeep | None, saver: Any, text: str, user: str | None, *, thread: str = "1") -> Any:
        middleware = [] if tk is None else [tk.middleware()]
        agent = create_agent(testing.ScriptedModel(), [], middleware=middleware, checkpointer=saver)
        named = {} if user is None else {"user_id": user}
        return agent.invoke({"messages": [("user", text)]}, {"configurable": {"thread_id": thread, **named}})

    @pytest.fixture
    def stock(self) -> InMemorySaver:
        """A checkpointer with a thread of Ana's, and one that names no owner."""
        saver = InMemorySaver()
        self.talk(None, saver, "I live in Lisbon.", "ana@x.org")
        self.talk(None, saver, "I live in Porto.", None, thread="of no owner")
        return saver

    def test_a_thread_goes_on_at_its_first_use(self, stock: InMemorySaver):
        with threadkeep.open("memory://", embedder="none", threads_from=stock) as tk:
            told = self.talk(tk, tk.checkpointer, "And I work at Acme.", "ana@x.org")
            tk.sync.drain()
            learnt = [one.text for one in tk.sync.memories.list(owner="ana@x.org") if one.kind == "semantic"]

            assert [one.text for one in told["messages"]][::2] == ["I live in Lisbon.", "And I work at Acme."]
            assert sorted(learnt) == ["I live in Lisbon.", "I work at Acme."]
            assert [one.thread_id for one in tk.sync.threads.list(owner="ana@x.org")] == ["1"]

    async def test_it_is_moved_once(self, stock: InMemorySaver):
        """Afterwards the other checkpointer is not read for it, and what it has is not changed."""
        before = len([*stock.list(None)])
        async with threadkeep.open("memory://", embedder="none", threads_from=stock) as tk:
            saver = tk.checkpointer
            assert saver is not None
            config: Any = {"configurable": {"thread_id": "1", "user_id": "ana@x.org"}}
            first = await saver.aget_tuple(config)
            stock.delete_thread("1")

            assert first is not None
            assert (await saver.aget_tuple(config)) == first
            assert before > len([*stock.list(None)])

    @pytest.mark.parametrize("gone_by", ["erasing", "erasing before", "deleting", "pruning"])
    def test_what_was_removed_here_does_not_come_back(self, stock: InMemorySaver, tmp_path: Path, gone_by: str):
        """In the same process and in the next; the other checkpointer still has it."""
        config: Any = {"configurable": {"thread_id": "1", "user_id": "ana@x.org"}}
        for turn in ("first", "again"):
            with threadkeep.open(f"sqlite:///{tmp_path}/m.db", embedder="none", threads_from=stock) as tk:
                if gone_by == "erasing before" and turn == "first":
                    tk.sync.memories.remember("I like tea.", owner="ana@x.org")
                else:
                    self.talk(tk, tk.checkpointer, "And I work at Acme.", "ana@x.org")
                    tk.sync.drain()
                match gone_by, turn:
                    case "deleting", "first":
                        tk.sync.threads.delete(["1"], owner="ana@x.org")
                    case "pruning", "first":
                        tk.sync.threads.prune(["1"], owner="ana@x.org", latest=1)
                    case _, "first":
                        tk.sync.owners.erase("ana@x.org")
                    case _:
                        pass
                saver: Any = tk.checkpointer
                kept = [*saver.list(config)]
        before = {one.checkpoint["id"] for one in stock.list(config)}
        assert before.isdisjoint(one.checkpoint["id"] for one in kept)
        if gone_by != "pruning":
            said = [message.text for message in kept[0].checkpoint["channel_values"]["messages"]]
            assert said[0] == "And I work at Acme."

    @pytest.mark.parametrize(("user", "thread"), [("bob@x.org", "1"), ("ana@x.org", "of no owner")])
    def test_another_owners_thread_stays_where_it_is(self, stock: InMemorySaver, user: str, thread: str):
        """Nothing of it is copied or shown, and the thread is not bound."""
        with threadkeep.open("memory://", embedder="none", threads_from=stock) as tk:
            with pytest.raises(OwnerMismatchError, match=r"another owner|no owner"):
                self.talk(tk, tk.checkpointer, "What did I say?", user, thread=thread)

            assert list(tk.sync.threads.list(owner=user)) == []
            if thread == "1":
                assert self.talk(tk, tk.checkpointer, "Hello.", "ana@x.org")["messages"][0].text == "I live in Lisbon."

    def test_the_key_of_the_owner_is_chosen(self, stock: InMemorySaver):
        with (
            threadkeep.open("memory://", embedder="none", threads_from=stock, owner_key="customer") as tk,
            pytest.raises(OwnerMismatchError, match="'customer'"),
        ):
            self.talk(tk, tk.checkpointer, "What did I say?", "ana@x.org")

    def test_a_thread_that_is_nowhere_begins(self, stock: InMemorySaver):
        with threadkeep.open("memory://", embedder="none", threads_from=stock) as tk:
            assert len(self.talk(tk, tk.checkpointer, "Hello.", "bob@x.org", thread="new")["messages"]) == 2
