"""``threadkeep threads move`` and ``storage copy``: threads that got a key or a storage of their own later."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

import threadkeep
from tests.command_line import CliRunner
from threadkeep.checkpoints.codec import HEAD
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError, OwnerMismatchError, SealError, StorageUnavailableError
from threadkeep.langgraph.thread_models import ThreadSummary
from threadkeep.storage.base import StorageBase
from threadkeep.storage.encryption.storage import EncryptedStorage
from threadkeep.storage.interface import Batch, Delete, Position

ANA, BOB = threadkeep.Owner("ana"), threadkeep.Owner("bob")
KEY = "k" * 40
LONG = "canary " + "long " * 40_000

pytestmark = pytest.mark.usefixtures("folder")


class Said(TypedDict):
    said: str
    answer: str


def asking(saver: Any) -> Any:
    """Compile a graph that asks the user."""
    graph = StateGraph(Said)
    graph.add_node("ask", lambda _: {"answer": interrupt("well?")})
    graph.add_edge(START, "ask")
    return graph.compile(checkpointer=saver)


def answer(*words: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def warnings() -> list[str]:
    rows = answer("doctor")["checks"]
    return [row["detail"] for row in rows if row["state"] == "warning" and row["what"] == "threads"]


def begin() -> list[ThreadSummary]:
    """Begin threads of Ana, one of them scoped, one of Bob and one without an owner; return those of Ana."""
    with threadkeep.open() as tk:
        tk.sync.memories.remember("Likes canary yellow.", owner=ANA)
        tk.sync.threads.create("1", owner=ANA, title="Kept", metadata={"colour": "red"})
        tk.sync.threads.update("1", owner=ANA, pinned=True)
        graph = asking(tk.checkpointer)
        graph.invoke({"said": LONG}, tk.config(user_id="ana", thread_id="1"))
        graph.invoke({"said": "of bob"}, tk.config(user_id="bob", thread_id="2"))
        graph.invoke({"said": "of none"}, {"configurable": {"thread_id": "3"}})
        asking(tk.for_owner(ANA).checkpointer).invoke({"said": "scoped"}, {"configurable": {"thread_id": "1"}})
        return [*tk.sync.threads.list(ANA)]


def require_all(listed: list[ThreadSummary], *, user: str = "ana") -> None:
    """Check that the threads go on as before, for their owners only."""
    with threadkeep.open() as tk:
        assert [*tk.sync.threads.list(ANA)] == listed
        graph = asking(tk.checkpointer)
        with pytest.raises(OwnerMismatchError):
            graph.invoke(Command(resume="mine"), tk.config(user_id="bob", thread_id="1"))
        done = graph.invoke(Command(resume="yes"), tk.config(user_id=user, thread_id="1"))
        assert done == {"said": LONG, "answer": "yes"}
        assert graph.get_state({"configurable": {"thread_id": "3"}}).values["said"] == "of none"
        scoped = asking(tk.for_owner(ANA).checkpointer)
        assert scoped.invoke(Command(resume="no"), {"configurable": {"thread_id": "1"}})["said"] == "scoped"
        assert [thread.thread_id for thread in tk.sync.threads.list(BOB)] == ["2"]
        assert [memory.text for memory in tk.sync.memories.list(owner=ANA)] == ["Likes canary yellow."]


def attempts_of(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a command until it ends well, each time with one more commit before the disk is gone; return how often."""
    whole = StorageBase.commit
    for attempt in range(100):
        left = attempt

        async def commit(storage: StorageBase, batch: Batch) -> Position:
            nonlocal left
            left -= 1
            if left < 0:
                msg = "The disk is gone."
                raise StorageUnavailableError(msg)
            return await whole(storage, batch)

        with monkeypatch.context() as breaking:
            breaking.setattr(StorageBase, "commit", commit)
            result = CliRunner().invoke(app, words)
        if result.exit_code == 0:
            return attempt
        assert isinstance(result.exception, StorageUnavailableError), result.exception
    raise AssertionError("It never ended.")


@pytest.fixture(params=["key", "file", "key of a file"])
def apart(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings that threads get later."""
    file = {
        "LANGGRAPH_CHECKPOINT_TYPE": "sqlite",
        "LANGGRAPH_CHECKPOINT_SQLITE_PATH": str(folder / "threads.db"),
    }
    if request.param == "key of a file":
        for name, value in file.items():
            monkeypatch.setenv(name, value)
    return file if request.param == "file" else {"THREADKEEP_CHECKPOINT_KEY": KEY}


class TestMove:
    def test_threads_are_moved_with_their_owners_and_places(
        self, apart: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
    ):
        """Where they were nothing of them is left; doctor sends people here, and has nothing to say afterwards."""
        listed = begin()
        for name, value in apart.items():
            monkeypatch.setenv(name, value)
        (said,) = warnings()
        assert "threadkeep threads move" in said

        moves = answer("threads", "move", "--yes")

        assert sum(move["threads"] for move in moves) == 4
        assert [move["left"] for move in moves] == [[]] * len(moves)
        assert warnings() == []
        require_all(listed)
        held = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
        assert (b"canary long" in held) == ("THREADKEEP_CHECKPOINT_KEY" not in apart)

    def test_without_a_terminal_it_refuses(self, apart: dict[str, str], monkeypatch: pytest.MonkeyPatch):
        begin()
        for name, value in apart.items():
            monkeypatch.setenv(name, value)

        refused = CliRunner().invoke(app, ["threads", "move"], input="y\n")

        assert refused.exit_code == 1
        assert "--yes" in refused.stderr
        assert len(warnings()) == 1

    @pytest.mark.slow
    @pytest.mark.parametrize("kind", ["postgres", "redis", "mongodb"])
    def test_threads_of_a_server_are_moved(
        self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str
    ):
        """They are in the same database, under another prefix."""
        variable = {"postgres": "POSTGRES_DSN", "redis": "REDIS_URL", "mongodb": "MONGODB_URI"}[kind]
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", kind)
        monkeypatch.setenv(f"LANGGRAPH_STORE_{variable}", request.getfixturevalue(f"{kind}_url"))
        listed = begin()
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", KEY)
        assert len(warnings()) == 1

        (move,) = answer("threads", "move", "--yes")

        assert (move["threads"], move["left"]) == (4, [])
        assert warnings() == []
        require_all(listed)

    def test_a_move_that_was_interrupted_goes_on(self, monkeypatch: pytest.MonkeyPatch):
        """After each commit of it in turn: nothing is lost, no part of a thread is seen, and nothing stays behind."""
        listed = begin()
        with monkeypatch.context() as later:
            later.setenv("THREADKEEP_CHECKPOINT_KEY", KEY)
            attempts = attempts_of(["threads", "move", "--yes"], monkeypatch)

            assert attempts > 5
            require_all(listed)
        with threadkeep.open() as tk:
            assert [*tk.sync.threads.list(ANA), *tk.sync.threads.list(BOB)] == []

    def test_a_thread_that_was_begun_anew_after_a_part_was_copied_is_left(self, monkeypatch: pytest.MonkeyPatch):
        """The move was interrupted before the head, so that a run in the new place saw no thread."""
        begin()
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", KEY)
        whole = EncryptedStorage.commit

        async def commit(storage: EncryptedStorage, batch: Batch) -> Position:
            if any((operation.namespace, operation.key) == HEAD for operation in batch.operations):
                msg = "The disk is gone."
                raise StorageUnavailableError(msg)
            return await whole(storage, batch)

        with monkeypatch.context() as breaking:
            breaking.setattr(EncryptedStorage, "commit", commit)
            assert CliRunner().invoke(app, ["threads", "move", "--yes"]).exit_code != 0
        with threadkeep.open() as tk:
            for user, thread_id in (("ana", "1"), ("bob", "2")):
                asking(tk.checkpointer).invoke({"said": "anew"}, tk.config(user_id=user, thread_id=thread_id))
            scoped = asking(tk.for_owner(ANA).checkpointer)
            scoped.invoke({"said": "anew"}, {"configurable": {"thread_id": "1"}})
            asking(tk.checkpointer).invoke({"said": "anew"}, {"configurable": {"thread_id": "3"}})

        (move,) = answer("threads", "move", "--yes", code=1)

        assert (move["threads"], len(move["left"])) == (0, 4)

    @pytest.mark.parametrize("there", [False, True], ids=["here", "here and there"])
    def test_a_thread_that_went_on_where_it_was_after_it_was_copied(
        self, monkeypatch: pytest.MonkeyPatch, *, there: bool
    ):
        """The move was interrupted before it removed anything, and a process with the earlier settings went on.

        It is copied again, unless a run went on with the copy, too: then it is left, and the reason says what to do.
        """
        begin()
        whole = StorageBase.commit

        async def commit(storage: StorageBase, batch: Batch) -> Position:
            if any(isinstance(one, Delete) and (one.namespace, one.key) == HEAD for one in batch.operations):
                msg = "The disk is gone."
                raise StorageUnavailableError(msg)
            return await whole(storage, batch)

        def go_on(said: str) -> None:
            with threadkeep.open() as tk:
                asking(tk.checkpointer).invoke(Command(resume=said), tk.config(user_id="ana", thread_id="1"))
                tk.sync.threads.update("1", owner=ANA, title=said)

        with monkeypatch.context() as breaking:
            breaking.setenv("THREADKEEP_CHECKPOINT_KEY", KEY)
            breaking.setattr(StorageBase, "commit", commit)
            assert CliRunner().invoke(app, ["threads", "move", "--yes"]).exit_code != 0
        go_on("yes")
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", KEY)
        if there:
            go_on("no")

        (move,) = answer("threads", "move", "--yes", code=int(there))

        left = "runs went on with it both here and there after it was copied; delete it in one of the two places, "
        assert [(one["key"], one["reason"]) for one in move["left"]] == [("1", f"{left}and repeat the command.")][
            :there
        ]
        expected = "no" if there else "yes"
        with threadkeep.open() as tk:
            kept = asking(tk.checkpointer).get_state(tk.config(user_id="ana", thread_id="1"))
            assert kept.values["answer"] == expected
            assert expected in [thread.title for thread in tk.sync.threads.list(ANA)]
        monkeypatch.delenv("THREADKEEP_CHECKPOINT_KEY")
        with threadkeep.open() as tk:
            kept = asking(tk.checkpointer).get_state({"configurable": {"thread_id": "1"}})
            assert kept.values.get("answer") == ("yes" if there else None)

    def test_a_thread_that_was_begun_anew_or_deleted_or_runs_is_left(self, monkeypatch: pytest.MonkeyPatch):
        """The reason is said, the exit code is 1, and each is where it was."""
        begin()
        with threadkeep.open() as tk:
            tk.sync.threads.create("4", owner=BOB)
            tk.sync.threads.create("5", owner=BOB)
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", KEY)
        with threadkeep.open() as tk:
            asking(tk.checkpointer).invoke({"said": "anew"}, tk.config(user_id="bob", thread_id="2"))
            tk.sync.threads.create("4", owner=BOB)
            tk.sync.threads.delete(["4"], owner=BOB)

        (move,) = answer("threads", "move", "--yes", code=1)

        assert {one["key"]: one["reason"] for one in move["left"]} == {
            "2": "another thread with this id has been begun there.",
            "4": "a thread with this id was deleted there.",
        }
        assert move["threads"] == 4
        (said,) = warnings()
        assert said.startswith("2 threads")
        with threadkeep.open() as tk:
            assert asking(tk.checkpointer).get_state(tk.config(user_id="bob", thread_id="2")).values["said"] == "anew"

    async def test_a_thread_of_a_run_is_left_until_the_run_ends(self, monkeypatch: pytest.MonkeyPatch):
        """A process with the earlier settings goes on with it."""
        async with threadkeep.open() as earlier:
            graph = StateGraph(Said)
            moved: list[Any] = []

            async def move(_: Said) -> Any:
                monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", KEY)
                moved.append(await asyncio.to_thread(lambda: answer("threads", "move", "--yes", code=1)))
                return {"answer": "fine"}

            graph.add_node("move", move)
            compiled = graph.add_edge(START, "move").compile(checkpointer=earlier.checkpointer)
            await compiled.ainvoke({"said": "running"}, earlier.config(user_id="ana", thread_id="1"))

        assert [one["reason"][:21] for one in moved[0][0]["left"]] == ["a run is at work on i"]
        (move_,) = await asyncio.to_thread(lambda: answer("threads", "move", "--yes"))
        assert move_["threads"] == 1

    @pytest.mark.parametrize("key", ["", KEY], ids=["plain", "encrypted"])
    def test_threads_of_another_storage_are_moved(self, folder: Path, monkeypatch: pytest.MonkeyPatch, key: str):
        """The settings named that one before, with the same key."""
        if key:
            monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", key)
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "sqlite")
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", str(folder / "one.db"))
        listed = begin()
        words = ("threads", "move", "--from", f"sqlite:///{folder}/one.db", "--yes")
        with pytest.raises(InvalidInputError, match="in two ways"):
            CliRunner().invoke(app, words, catch_exceptions=False)
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", str(folder / "two.db"))

        (move,) = answer(*words)

        assert (move["threads"], move["left"]) == (4, [])
        require_all(listed)
        assert answer(*words)[0]["threads"] == 0
        with pytest.raises(InvalidInputError, match=r"none\.db does not exist"):
            CliRunner().invoke(app, ["threads", "move", "--from", "sqlite:///none.db"], catch_exceptions=False)
        assert not (folder / "none.db").exists()

    def test_encrypted_threads_are_not_moved_without_their_key(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "sqlite")
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", str(folder / "one.db"))
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", KEY)
        listed = begin()
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", str(folder / "two.db"))
        words = ("threads", "move", "--from", f"sqlite:///{folder}/one.db", "--yes")

        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", "o" * 40)
        with pytest.raises(SealError):
            CliRunner().invoke(app, words, catch_exceptions=False)
        monkeypatch.delenv("THREADKEEP_CHECKPOINT_KEY")
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", str(folder / "three.db"))
        assert answer(*words)[0]["threads"] == 0

        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", str(folder / "one.db"))
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", KEY)
        require_all(listed)

    def test_one_storage_that_is_named_in_two_ways_stays_as_it_is(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        """The threads are there already, and must not be removed as those from before."""
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(folder / "m.db"))
        listed = begin()
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "sqlite")
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", "m.db")

        with pytest.raises(InvalidInputError, match="one storage in two ways"):
            CliRunner().invoke(app, ["threads", "move", "--yes"], catch_exceptions=False)

        require_all(listed)

    def test_nothing_is_moved_where_threads_have_always_been(self):
        """No question is asked."""
        begin()

        assert answer("threads", "move") == []


class TestCopy:
    @pytest.mark.parametrize("sealed", [False, True])
    def test_threads_with_a_key_come_along_with_their_memories(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, sealed: bool
    ):
        """A copy of the storage was without them."""
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", KEY)
        if sealed:
            monkeypatch.setenv("THREADKEEP_MASTER_KEY", CliRunner().invoke(app, ["keys", "new"]).stdout.strip())
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(folder / "one.db"))
        listed = begin()
        words = ("storage", "copy", "--from", f"sqlite:///{folder}/one.db", "--to", f"sqlite:///{folder}/two.db")

        counted = answer(*words, "--dry-run")
        assert not (folder / "two-threads.sqlite3").exists()
        done = answer(*words)

        assert counted["threads"]["read"] == done["threads"]["verified"] > 0
        assert counted["threads"]["checksum"] == done["threads"]["checksum"]
        assert done["complete"]
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(folder / "two.db"))
        for path in folder.glob("one*"):
            path.unlink()
        require_all(listed)

    def test_a_copy_that_was_interrupted_goes_on(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        """Also among the threads, when the memories are there already."""
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", KEY)
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(folder / "one.db"))
        listed = begin()
        words = ["storage", "copy", "--from", f"sqlite:///{folder}/one.db", "--to", f"sqlite:///{folder}/two.db"]

        assert attempts_of(words, monkeypatch) > 5

        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(folder / "two.db"))
        require_all(listed)

    def test_a_place_with_other_threads_is_refused_each_time(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        """They are those of another deployment: the command that is repeated does not go on among them."""
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", KEY)
        for name in ("two", "one"):
            monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(folder / f"{name}.db"))
            begin()
        for path in (*folder.glob("two.db*"), *folder.glob("two-keys*")):
            path.unlink()
        words = ["storage", "copy", "--from", f"sqlite:///{folder}/one.db", "--to", f"sqlite:///{folder}/two.db"]

        for _ in range(2):
            with pytest.raises(InvalidInputError, match=r"already has .* items; give an empty target"):
                CliRunner().invoke(app, words, catch_exceptions=False)

    def test_threads_of_another_storage_stay_there(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        """The settings name one storage of threads for both."""
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "sqlite")
        monkeypatch.setenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", str(folder / "threads.db"))
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(folder / "one.db"))
        listed = begin()

        done = answer("storage", "copy", "--from", f"sqlite:///{folder}/one.db", "--to", f"sqlite:///{folder}/two.db")

        assert done["threads"] is None
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(folder / "two.db"))
        require_all(listed)
