"""A whole memory that is sealed: a person notices nothing, and the files say nothing."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage

import threadkeep
from threadkeep.errors import SealError, SettingsError
from threadkeep.settings import Settings
from threadkeep.storage.encryption.cipher import new_master_key
from threadkeep.testing import HashingEmbedder, ScriptedModel

ANA = "ana.maria@canary.org"
TAUGHT = "I live in Lisbon and my parrot is called Kukulkan."
CANARIES = (b"Lisbon", b"Kukulkan", b"parrot", b"ana.maria", b"canary", b"memories", b"capture", b"hashing")


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    """A master key, set."""
    made = new_master_key()
    monkeypatch.setenv("THREADKEEP_MASTER_KEY", made)
    return made


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., threadkeep.Threadkeep]:
    """Open the memory of this test, in one file."""
    return lambda **more: threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder(), **more)


def raw(folder: Path) -> bytes:
    """Return every byte of the items and of their keys, and not of the threads, which are apart."""
    return b"".join(path.read_bytes() for path in folder.glob("memory*") if "checkpoints" not in path.name)


class TestSealed:
    """The same turns, the same answers."""

    def test_a_second_thread_knows_and_the_files_do_not(
        self, key: str, opened: Callable[..., threadkeep.Threadkeep], tmp_path: Path
    ) -> None:
        """What one thread taught is recalled in the next, after a restart, from files that hold none of it."""
        config = {"thread_id": "a thread of a canary"}
        with opened() as tk:
            agent = create_agent(ScriptedModel(), [], middleware=[tk.middleware()], checkpointer=tk.checkpointer)
            agent.invoke({"messages": [HumanMessage(TAUGHT)]}, tk.config(user_id=ANA, **config))
            while_open = raw(tmp_path)
            tk.sync.drain()
            tk.store.put(("notes", "of a canary"), "Kukulkan", {"text": "feed the parrot"})
            assert tk.store.list_namespaces(prefix=("notes",)) == [("notes", "of a canary")]
        afterwards = raw(tmp_path)

        with opened() as tk:
            found = tk.sync.recall("Where do I live?", owner=ANA)
            exported = tk.sync.owners.export(ANA)
            threads = tk.sync.owners.show(ANA).threads

        assert "I live in Lisbon" in found.text
        assert any("Kukulkan" in str(row) for row in exported)
        assert threads == ("a thread of a canary",)
        for dump in (while_open, afterwards):
            assert [canary for canary in (*CANARIES, key.encode()) if canary in dump] == []

    def test_erasing_takes_the_copies_with_it(
        self, key: str, opened: Callable[..., threadkeep.Threadkeep], tmp_path: Path
    ) -> None:
        """With the keys apart, a copy of the items from before says nothing of who was erased."""
        with opened() as tk:
            tk.sync.memories.remember(TAUGHT, owner=ANA)
            tk.sync.memories.remember("I live in Berlin.", owner="bob")
        shutil.copy(tmp_path / "memory.db", tmp_path / "copy.db")
        with opened() as tk:
            assert tk.sync.owners.erase(ANA).items > 0
        shutil.copy(tmp_path / "copy.db", tmp_path / "memory.db")

        with opened() as tk:
            assert tk.sync.memories.list(owner=ANA) == []
            assert tk.sync.recall("Where do I live?", owner=ANA).text == ""
            assert len(tk.sync.memories.list(owner="bob")) == 1
            tk.sync.memories.remember("I live in Faro now.", owner=ANA)
            assert [memory.text for memory in tk.sync.memories.list(owner=ANA)] == ["I live in Faro now."]

    def test_keys_are_where_they_are_said_to_be(
        self, key: str, opened: Callable[..., threadkeep.Threadkeep], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """In a file of one's own, by path or by URL; the items' file may be the same one."""
        for name, place in (("a", "{}/safe/keys.db"), ("b", "sqlite:///{}/safe/keys.db"), ("c", "{}/c.db")):
            monkeypatch.setenv("THREADKEEP_KEYS", place.format(tmp_path))
            settings = Settings.load(store_key_prefix=name)
            with threadkeep.open(f"sqlite:///{tmp_path}/{name}.db", settings=settings, embedder="none") as tk:
                tk.sync.memories.remember(TAUGHT, owner=ANA)
                assert len(tk.sync.memories.list(owner=ANA)) == 1
        assert not list(tmp_path.glob("*-keys*"))
        with closing(sqlite3.connect(tmp_path / "safe/keys.db")) as connection:
            assert connection.execute("SELECT count(*) FROM items").fetchone() == (4,)

    async def test_memory_in_ram_may_be_sealed_too(self, key: str) -> None:
        """A deployment is sealed or not, whatever it keeps its items in."""
        async with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            await tk.memories.remember(TAUGHT, owner=ANA)

            assert tk.app.sealed is not None
            assert len(await tk.memories.list(owner=ANA)) == 1


class TestWhatIsRefused:
    """One sentence, before anything is read or written."""

    def test_without_the_key(
        self, opened: Callable[..., threadkeep.Threadkeep], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A sealed file is not written to in the clear."""
        monkeypatch.setenv("THREADKEEP_MASTER_KEY", new_master_key())
        with opened() as tk:
            tk.sync.memories.remember(TAUGHT, owner=ANA)
        monkeypatch.delenv("THREADKEEP_MASTER_KEY")

        with opened() as tk, pytest.raises(SealError, match="THREADKEEP_MASTER_KEY"):
            tk.sync.memories.remember("I live in Berlin.", owner=ANA)

    def test_with_a_key_for_what_is_in_the_clear(
        self, opened: Callable[..., threadkeep.Threadkeep], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What is there is not sealed in place."""
        with opened() as tk:
            tk.sync.memories.remember(TAUGHT, owner=ANA)
        monkeypatch.setenv("THREADKEEP_MASTER_KEY", new_master_key())

        with opened() as tk, pytest.raises(SealError, match="not encrypted"):
            tk.sync.ready()

    @pytest.mark.parametrize(
        ("given", "sentence"),
        [
            ({"THREADKEEP_MASTER_KEY": "hunter2"}, "THREADKEEP_MASTER_KEY has an invalid key"),
            ({"THREADKEEP_KEYS": "/tmp/keys.db"}, "THREADKEEP_MASTER_KEY"),
            ({"THREADKEEP_MASTER_KEY_FILE": "/nowhere/at/all"}, "THREADKEEP_MASTER_KEY_FILE names a file"),
            ({"THREADKEEP_MASTER_KEY": "x", "THREADKEEP_MASTER_KEY_FILE": "y"}, "both set"),
        ],
    )
    def test_settings_that_are_wrong(
        self, given: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They stop it before anything is stored in the clear; the key is not repeated."""
        for variable, value in given.items():
            monkeypatch.setenv(variable, value)

        with pytest.raises(SettingsError, match=sentence) as told:
            threadkeep.open("memory://", embedder="none")

        assert "hunter2" not in str(told.value)

    def test_the_key_may_be_in_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """One a line, the present one first."""
        path = tmp_path / "master.key"
        path.write_text(f"# this year's\n{new_master_key()}\n{new_master_key()}\n")
        monkeypatch.setenv("THREADKEEP_MASTER_KEY_FILE", str(path))

        with threadkeep.open("memory://", embedder="none") as tk:
            assert tk.app.sealed is not None
            assert len(tk.app.sealed.keys.masters.ids) == 2

    def test_no_setting_shows_the_key(self, key: str) -> None:
        """Not in its text, nor where the doctor lists it."""
        from threadkeep.settings import resolved

        settings: Any = Settings.load()

        assert key not in f"{settings!r} {resolved(settings)}"
