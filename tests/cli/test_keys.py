"""``threadkeep keys``: made, shown, rotated and checked by the real program, in this process."""

from __future__ import annotations

import base64
import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import MessagesState, StateGraph

import threadkeep
from tests.command_line import CliRunner, Result
from threadkeep.cli.main import app
from threadkeep.errors import InvalidInputError, SealError, SettingsError

USER = "ana.maria@x.org"

pytestmark = pytest.mark.usefixtures("folder")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def answer(*words: str, code: int = 0) -> Any:
    result = run(*words, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


class TestKeys:
    """From a new key to its successor."""

    def test_a_new_key_is_printed_or_written_for_its_owner(self, folder: Path) -> None:
        """32 bytes, another one each time; a file is never overwritten and nobody else's to read."""
        printed = run("keys", "new").stdout.strip()

        assert len(base64.b64decode(printed)) == 32
        assert answer("keys", "new")["key"] != printed
        assert run("keys", "new", "-o", "master.key").exit_code == 0
        assert stat.S_IMODE(Path("master.key").stat().st_mode) == 0o600
        with pytest.raises(InvalidInputError):
            run("keys", "new", "-o", "master.key")

    def test_in_the_clear_it_says_so(self) -> None:
        """And there is nothing to rotate."""
        assert answer("keys", "status") == {"sealed": False}
        assert "not encrypted" in run("keys", "status").output
        assert "not encrypted" in run("doctor").output
        with pytest.raises(SettingsError):
            run("keys", "rotate")

    def test_the_whole_round(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sealed with one key, rotated to the next, readable with that alone."""
        old, new = (run("keys", "new").stdout.strip() for _ in range(2))
        monkeypatch.setenv("THREADKEEP_MASTER_KEY", old)
        answer("memories", "add", "I live in Lisbon.", "--user", USER)
        status = answer("keys", "status")
        assert list(status["wrapped"].values()) == [1]

        monkeypatch.setenv("THREADKEEP_MASTER_KEY", f"{old},{new}")
        assert [line.split("(")[1] for line in run("keys", "status").output.splitlines() if "master key" in line] == [
            "current): wraps 1 keys",
            "not current): wraps 0 keys",
        ]
        monkeypatch.setenv("THREADKEEP_MASTER_KEY", f"{new},{old}")
        assert "run threadkeep keys rotate" in run("keys", "status").output
        assert answer("keys", "rotate") == {"rewrapped": 1}
        monkeypatch.setenv("THREADKEEP_MASTER_KEY", new)

        assert [row["text"] for row in answer("memories", "list", "--user", USER)] == ["I live in Lisbon."]
        assert answer("keys", "status")["master_key"] != status["master_key"]
        told = run("doctor").output
        assert "encrypted; the owners' keys are in sqlite" in told
        assert not any(key in told for key in (old, new))

    @pytest.mark.parametrize("variable", ["THREADKEEP_MASTER_KEY", "THREADKEEP_CHECKPOINT_KEY"])
    def test_keys_of_threads_are_rotated(self, folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
        """Threads of a storage of their own are read with the next key alone; a message names the setting."""
        old, new = (run("keys", "new").stdout.strip() for _ in range(2))
        if variable == "THREADKEEP_MASTER_KEY":
            monkeypatch.setenv("LANGGRAPH_CHECKPOINT_TYPE", "sqlite")
            monkeypatch.setenv("LANGGRAPH_CHECKPOINT_SQLITE_PATH", str(folder / "threads.db"))
        monkeypatch.setenv(variable, old)
        with threadkeep.open() as tk:
            tk.sync.memories.remember("I live in Lisbon.", owner=USER)
            graph = StateGraph(MessagesState).add_node("node", lambda _: {"messages": [("ai", "fine")]})
            compiled = graph.set_entry_point("node").compile(checkpointer=tk.checkpointer)
            compiled.invoke({"messages": [("user", "hello")]}, tk.config(user_id=USER, thread_id="1"))
        before = answer("keys", "status")["threads"]

        monkeypatch.setenv(variable, new)
        with pytest.raises(SealError, match=f"is missing from {variable}"):
            run("threads", "list", "--user", USER)
        monkeypatch.setenv(variable, f"{new},{old}")
        assert answer("keys", "rotate")["rewrapped"] > 0
        after = answer("keys", "status")["threads"]
        assert after["wrapped"] == {after["master_key"]: sum(before["wrapped"].values()), before["master_key"]: 0}
        assert after["master_key"][:12] in run("keys", "status").output
        monkeypatch.setenv(variable, new)

        assert [row["thread_id"] for row in answer("threads", "list", "--user", USER)] == ["1"]

    def test_what_is_in_the_clear_is_copied_into_a_sealed_storage(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And not the other way round, nor as it is, without the key."""
        clear, sealed = f"sqlite:///{folder}/clear.db", f"sqlite:///{folder}/sealed.db"
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(folder / "clear.db"))
        answer("memories", "add", "I live in Lisbon.", "--user", USER)
        monkeypatch.setenv("THREADKEEP_MASTER_KEY", run("keys", "new").stdout.strip())

        done = answer("storage", "copy", "--from", clear, "--from-unsealed", "--to", sealed)
        monkeypatch.setenv("LANGGRAPH_STORE_SQLITE_PATH", str(folder / "sealed.db"))
        assert done["complete"]
        assert [row["text"] for row in answer("memories", "list", "--user", USER)] == ["I live in Lisbon."]
        assert b"Lisbon" not in (folder / "sealed.db").read_bytes()

        monkeypatch.delenv("THREADKEEP_MASTER_KEY")
        for words in (
            ("copy", "--from", sealed, "--to", f"sqlite:///{folder}/other.db"),
            ("copy", "--from", clear, "--to", sealed, "--into-existing"),
            ("sweep", "--url", sealed),
        ):
            with pytest.raises(SealError, match="THREADKEEP_MASTER_KEY"):
                run("storage", *words)

    def test_a_doctor_that_finds_the_storage_in_the_clear_makes_no_keys(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It says what is wrong, and leaves every file as it was."""
        answer("memories", "add", "I live in Lisbon.", "--user", USER)
        before = sorted(path.name for path in folder.rglob("*"))
        monkeypatch.setenv("THREADKEEP_MASTER_KEY", run("keys", "new").stdout.strip())

        assert "are not encrypted, and a master key is set" in run("doctor").stdout

        assert sorted(path.name for path in folder.rglob("*")) == before

    def test_damage_is_reported_and_removed(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """With whose it is, and exit code 1 until it is gone."""
        monkeypatch.setenv("THREADKEEP_MASTER_KEY", run("keys", "new").stdout.strip())
        answer("memories", "add", "I live in Lisbon.", "--user", USER)
        with closing(sqlite3.connect(folder / "data/memory.sqlite3", isolation_level=None)) as connection:
            connection.execute("UPDATE items SET embedding = zeroblob(64) WHERE paths <> '[]'")

        found = answer("keys", "check", code=1)
        assert found["damaged"] == {f"owner//{USER}": 1}
        assert USER in run("keys", "check").output
        assert answer("keys", "check", "--remove", "--yes", code=1)["removed"] == 1

        assert answer("keys", "check")["sound"]
        assert "items open" in run("keys", "check").output

    def test_damage_of_threads_is_reported(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """They have a key of their own; the memories are in the clear."""
        monkeypatch.setenv("THREADKEEP_CHECKPOINT_KEY", "k" * 40)
        with threadkeep.open() as tk:
            tk.sync.memories.remember("I live in Lisbon.", owner=USER)
            tk.sync.threads.create("1", owner=USER)
        assert answer("keys", "check")["sound"]
        with closing(sqlite3.connect(folder / "data/memory-threads.sqlite3", isolation_level=None)) as connection:
            damage = connection.execute("UPDATE items SET embedding = zeroblob(64) WHERE embedding IS NOT NULL")

        found = answer("keys", "check", code=1)

        assert sum(found["damaged"].values()) == damage.rowcount > 0
