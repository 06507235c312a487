"""Opening: what is chosen, what is refused with one sentence, and that nothing happens before the first call."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import platformdirs
import pytest

import threadkeep
from threadkeep.errors import (
    ClosedError,
    InvalidInputError,
    NotAStorageError,
    SettingsError,
    StorageReadOnlyError,
)
from threadkeep.functions import create_store
from threadkeep.settings import Settings
from threadkeep.testing import HashingEmbedder


class TestOpen:
    """``threadkeep.open()`` stores arguments; the first operation acquires."""

    def test_nothing_happens_before_the_first_operation(self, tmp_path: Path) -> None:
        """No file, no thread, no folder."""
        threads = threading.active_count()

        tk = threadkeep.open(f"sqlite:///{tmp_path}/deep/er/memory.db", embedder=HashingEmbedder())
        _ = tk.store, tk.checkpointer, tk.middleware(), tk.tools()

        assert list(tmp_path.iterdir()) == []
        assert threading.active_count() == threads
        tk.close()

    def test_the_blocking_client_lists_its_methods(self) -> None:
        """A notebook completes them."""
        with threadkeep.open("memory://", embedder=None) as tk:
            assert {"recall", "capture", "memories"} <= set(dir(tk.sync))
            assert {"remember", "forget"} <= set(dir(tk.sync.memories))

    def test_the_default_is_sqlite_in_the_users_folder(self) -> None:
        """Without any setting memories last, and the place can be asked for."""
        with threadkeep.open(embedder=HashingEmbedder()) as tk:
            health = tk.sync.ready()

        assert health.storage.startswith("sqlite ")
        assert platformdirs.user_data_path("threadkeep").joinpath("memory.sqlite3").is_file()

    @pytest.mark.parametrize(
        ("url", "sentence"),
        [
            ("memory.db", "given as a URL"),
            ("mysql://localhost/x", "'mysql' is not a known storage"),
            ("sqlite://", "sqlite:///relative/path.db"),
            ("sqlite://host/path.db", "sqlite:///relative/path.db"),
            ("postgresql://user:secret%@db/x", "not a PostgreSQL URL"),
            ("postgresql://user:secret[@db/x", "URL is invalid"),
            ("redis://u:secret@localhost/first", "is not a valid Redis URL"),
            ("redis://u:secret@localhost?reads=fast", "has an unknown or invalid option"),
            ("mongodb://u:se%cret@host", "unescaped character"),
            ("mongodb://u:sec[ret@host", "URL is invalid"),
            ("mongodb://u:secret@", "is not a MongoDB URI"),
            ("mongodb://u:secret@host?reads=fast", "has an unknown option"),
            ("mongodb://u:secret@host?timeoutMS=soon", "has an option"),
        ],
    )
    def test_a_bad_url_is_one_sentence(self, url: str, sentence: str) -> None:
        """It says what to give instead, and never repeats a password."""
        with pytest.raises(SettingsError, match=sentence) as refused:
            threadkeep.open(url)

        assert "secret" not in str(refused.value)

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("LANGGRAPH_STORE_TYPE", "cassandra"),
            ("LANGGRAPH_STORE_TTL_MINUTES", "abc"),
            ("LANGGRAPH_STORE_SQLITE_PATH", "sqlite:///memory.db"),
            ("LANGGRAPH_CHECKPOINT_SQLITE_PATH", "sqlite://threads.db"),
            ("LANGGRAPH_STORE_TTL_MINUTES", "-1"),
            ("LANGGRAPH_STORE_TTL_MINUTES", "nan"),
            ("LANGGRAPH_STORE_MAX_MEMORIES", "many"),
            ("LANGGRAPH_STORE_EMBEDDINGS_DIMS", "0"),
            ("LANGGRAPH_CHECKPOINT_TYPE", "paper"),
            ("THREADKEEP_CAPTURE", "perhaps"),
            ("THREADKEEP_SQLITE_SYNCHRONOUS", "OFF"),
            ("THREADKEEP_RECALL_TIMEOUT_MS", "0"),
            ("THREADKEEP_RECALL_TIMEOUT_MS", "9" * 20),
            ("THREADKEEP_RERANK_TIMEOUT_MS", "9" * 20),
            ("THREADKEEP_POSTGRES_STATEMENT_TIMEOUT_MS", "9" * 20),
            ("THREADKEEP_EXTRACTION_TIMEOUT_SECONDS", "9" * 20),
        ],
    )
    def test_a_bad_setting_stops_and_names_the_variable(
        self, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
    ) -> None:
        """It never falls back to anything."""
        monkeypatch.setenv(variable, value)

        with pytest.raises(SettingsError, match=f"^{variable} cannot be '{value}'"):
            threadkeep.open()

    @pytest.mark.parametrize(
        ("kind", "variable"),
        [
            ("redis", "LANGGRAPH_STORE_REDIS_URL"),
            ("postgres", "LANGGRAPH_STORE_POSTGRES_DSN"),
            ("mongodb", "LANGGRAPH_STORE_MONGODB_URI"),
        ],
    )
    def test_a_storage_without_its_location_stops(
        self, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str
    ) -> None:
        """The variable is named."""
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", kind)

        with pytest.raises(SettingsError, match=variable):
            threadkeep.open()

    @pytest.mark.parametrize(
        ("kind", "variable"),
        [
            ("redis", "REDIS_URL"),
            ("postgres", "LANGGRAPH_STORE_POSTGRES_DSN"),
            ("mongodb", "THREADKEEP_STORE_MONGODB_URI"),
        ],
    )
    def test_a_server_without_the_storage_type_is_reported(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str, variable: str
    ) -> None:
        """The warning names the variable, the file that is used instead, and what to set."""
        monkeypatch.setenv(variable, "any://host")

        with threadkeep.open():
            pass
        create_store()

        (in_file, in_ram) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert f"memory.sqlite3. {variable} is set" in in_file
        assert f"set LANGGRAPH_STORE_TYPE to {kind}, or to sqlite" in in_file
        assert in_ram.startswith(f"Memories are kept in RAM. {variable} is set")

    @pytest.mark.parametrize(("variable", "value"), [("LANGGRAPH_STORE_TYPE", "sqlite"), ("", "")])
    def test_a_chosen_storage_type_is_not_reported(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, variable: str, value: str
    ) -> None:
        """The type is set, or a URL is passed."""
        monkeypatch.setenv("REDIS_URL", "redis://cache")
        if variable:
            monkeypatch.setenv(variable, value)

        with threadkeep.open(None if variable else "sqlite:///own.db"):
            pass

        assert [record for record in caplog.records if record.levelname == "WARNING"] == []

    @pytest.mark.parametrize(
        ("kind", "variable", "value", "sentence"),
        [
            ("redis", "REDIS_URL", "x", "is not a valid Redis URL"),
            ("redis", "REDIS_URL", "redis://h?reads=fast", "has an unknown or invalid option"),
            ("postgres", "POSTGRES_DSN", "x", "is not a PostgreSQL URL"),
            ("mongodb", "MONGODB_URI", "x", "is not a MongoDB URI"),
            ("mongodb", "MONGODB_URI", "mongodb://h?timeoutMS=soon", "has an option"),
            ("mongodb", "LANGGRAPH_STORE_MONGODB_URI", "x", "is not a MongoDB URI"),
        ],
    )
    def test_a_bad_location_names_the_variable_that_was_set(
        self, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str, value: str, sentence: str
    ) -> None:
        """The common one as well as Threadkeep's own."""
        monkeypatch.setenv("LANGGRAPH_STORE_TYPE", kind)
        monkeypatch.setenv(variable, value)

        with pytest.raises(SettingsError, match=f"^{variable} {sentence}") as refused:
            threadkeep.open()

        assert refused.value.details["variable"] == variable

    @pytest.mark.parametrize(
        ("url", "driver", "extra"),
        [
            ("redis://u:secret@h", "redis", "redis"),
            ("postgresql://u:secret@h/d", "psycopg", "postgres"),
            ("mongodb+srv://u:secret@h", "pymongo", "mongodb"),
        ],
    )
    def test_a_storage_without_its_driver_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch, url: str, driver: str, extra: str
    ) -> None:
        """It stops at start-up, and never repeats a password."""
        for name in [name for name in sys.modules if name.startswith(f"threadkeep.storage.{extra}")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, driver, None)

        with pytest.raises(SettingsError, match=rf'pip install "threadkeep\[{extra}\]"') as refused:
            threadkeep.open(url)

        assert "secret" not in str(refused.value)

    def test_a_remote_embedder_is_used_only_where_it_is_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A key in the environment alone sends nothing anywhere; a provider without model is refused."""
        monkeypatch.setenv("OPENAI_API_KEY", "sk-not-used")
        with threadkeep.open("memory://") as tk:
            assert tk.app.embedder is None or not tk.app.embedder.remote

        monkeypatch.setenv("EMBEDDINGS_PROVIDER", "openai")
        with pytest.raises(SettingsError, match="EMBEDDINGS_MODEL"):
            threadkeep.open("memory://")

    @pytest.mark.parametrize("prefix", ["", "LANGGRAPH_STORE_"])
    @pytest.mark.parametrize("in_file", [False, True], ids=["environment", "file"])
    def test_an_error_names_the_variable_that_was_set(
        self, prefix: str, in_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Not the other one that means the same."""
        said = {f"{prefix}EMBEDDINGS_PROVIDER": "nope", f"{prefix}EMBEDDINGS_MODEL": "m"}
        file = tmp_path / ".env"
        file.write_text("".join(f"{name}={value}\n" for name, value in said.items() if in_file))
        for name, value in ({} if in_file else said).items():
            monkeypatch.setenv(name, value)

        with pytest.raises(SettingsError) as refused:
            threadkeep.open("memory://", settings=Settings.load(env_file=file))

        assert refused.value.details["variable"] == f"{prefix}EMBEDDINGS_PROVIDER"
        assert f" correct {prefix}EMBEDDINGS_PROVIDER." in str(refused.value)

    def test_no_embedder_is_lexical_and_says_so(self) -> None:
        """Search works by words, and readiness tells that meaning is missing."""
        with threadkeep.open("memory://", embedder="none") as tk:
            tk.sync.memories.remember("My passport is in the blue drawer.", owner="ana")

            assert tk.sync.ready().degraded == ("embedder",)
            assert tk.sync.memories.search("passport", owner="ana")[0].score > 0

    def test_an_embedder_is_an_embedder(self) -> None:
        """Anything else is refused at once."""
        with pytest.raises(InvalidInputError, match="embedder"):
            threadkeep.open("memory://", embedder=42)


class TestReady:
    """``ready()`` says what is wrong with the place."""

    async def test_not_a_database(self, tmp_path: Path) -> None:
        """Another program's file is named and not touched."""
        file = tmp_path / "memory.db"
        file.write_bytes(b"a holiday picture" * 300)
        async with threadkeep.open(f"sqlite:///{file}", embedder=HashingEmbedder()) as tk:
            with pytest.raises(NotAStorageError, match=r"memory\.db"):
                await tk.ready()

        assert file.read_bytes() == b"a holiday picture" * 300

    async def test_a_folder_that_is_a_file(self, tmp_path: Path) -> None:
        """A place that cannot be made is one sentence."""
        (tmp_path / "file").write_text("x")
        async with threadkeep.open(f"sqlite:///{tmp_path}/file/memory.db", embedder=HashingEmbedder()) as tk:
            with pytest.raises(threadkeep.ThreadkeepError, match="file"):
                await tk.ready()

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere; the storage tests cover it as another user")
    def test_a_read_only_folder(self, tmp_path: Path) -> None:
        """Write access is asked for."""
        tmp_path.chmod(0o500)
        tk = threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder())
        with tk, pytest.raises(StorageReadOnlyError):
            tk.sync.ready()
        tmp_path.chmod(0o700)


class TestClose:
    """Closing drains, and a closed memory says so."""

    async def test_what_was_recorded_is_learnt(self, tmp_path: Path) -> None:
        """Nothing that waits is lost by closing."""
        url = f"sqlite:///{tmp_path}/memory.db"
        async with threadkeep.open(url, embedder=HashingEmbedder()) as tk:
            await tk.capture([{"role": "user", "content": "I live in Lisbon."}], owner="ana", thread_id="1")

        async with threadkeep.open(url, embedder=HashingEmbedder()) as tk:
            texts = [memory.text for memory in await tk.memories.list(owner="ana", kind="semantic")]
        assert texts == ["I live in Lisbon."]

    async def test_a_closed_memory_refuses(self) -> None:
        """It does not open again by itself."""
        tk = threadkeep.open("memory://", embedder=HashingEmbedder())
        await tk.memories.list(owner="ana")
        await tk.aclose()
        await tk.aclose()

        with pytest.raises(ClosedError):
            await tk.memories.list(owner="ana")

    @pytest.mark.slow
    def test_the_end_of_the_program_drains(self, tmp_path: Path) -> None:
        """A script that never closes leaves nothing to be learnt."""
        script = (
            "import threadkeep\n"
            "from threadkeep.testing import HashingEmbedder\n"
            f"tk = threadkeep.open('sqlite:///{tmp_path}/memory.db', embedder=HashingEmbedder())\n"
            "said = [{'role': 'user', 'content': 'I live in Lisbon.'}]\n"
            "tk.sync.capture(said, owner='ana', thread_id='1')\n"
        )
        subprocess.run([sys.executable, "-c", script], check=True, timeout=60)

        with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder()) as tk:
            held = tk.sync.owners.show("ana")

        assert (held.turns_waiting, held.memories["semantic"]) == (0, 1)


class TestLoops:
    """One memory serves every loop and every thread."""

    def test_two_loops_and_the_sync_face(self) -> None:
        """Notebook cells, threads and sync code share what is remembered."""
        with threadkeep.open("memory://", embedder=HashingEmbedder()) as tk:
            asyncio.run(tk.memories.remember("I have two cats.", owner="ana"))
            thread = threading.Thread(
                target=lambda: asyncio.run(tk.memories.remember("I live in Lisbon.", owner="ana"))
            )
            thread.start()
            thread.join()

            assert len(tk.sync.memories.list(owner="ana")) == 2

    async def test_many_first_calls_connect_once(self, tmp_path: Path) -> None:
        """Fifty writes that arrive together open one storage."""
        async with threadkeep.open(f"sqlite:///{tmp_path}/memory.db", embedder=HashingEmbedder()) as tk:
            writes = [tk.memories.remember(f"My locker number {i} is green.", owner="ana") for i in range(50)]
            kept = await asyncio.gather(*writes)

            assert len({one.memory_id for one in kept}) == 50
            assert len(await tk.memories.list(owner="ana")) == 50
            assert len([t for t in threading.enumerate() if t.name == "threadkeep-event-loop"]) == 1

    async def test_two_memories_on_one_file(self, tmp_path: Path) -> None:
        """What one process writes the other one finds at once."""
        url = f"sqlite:///{tmp_path}/memory.db"
        async with (
            threadkeep.open(url, embedder=HashingEmbedder()) as one,
            threadkeep.open(url, embedder=HashingEmbedder()) as other,
        ):
            await other.memories.search("cats", owner="ana")
            await one.memories.remember("I have two cats.", owner="ana")

            assert (await other.memories.search("cats", owner="ana"))[0].memory.text == "I have two cats."

    async def test_prefixes_keep_deployments_apart(self, tmp_path: Path) -> None:
        """Reads, capture, export and erasure of one deployment see nothing of the other."""
        place = {"store_type": "sqlite", "store_sqlite_path": tmp_path / "memory.db"}
        said = [{"role": "user", "content": "I live in Lisbon."}]
        async with (
            threadkeep.open(
                settings=threadkeep.Settings.load(**place, store_key_prefix="a"), embedder=HashingEmbedder()
            ) as one,
            threadkeep.open(
                settings=threadkeep.Settings.load(**place, store_key_prefix="b"), embedder=HashingEmbedder()
            ) as other,
        ):
            await one.capture(said, owner="ana", thread_id="1", wait=True)

            assert (await one.recall("Where do I live?", owner="ana")).memories
            assert not (await other.recall("Where do I live?", owner="ana")).memories
            assert (await other.owners.erase("ana")).items == 0
            assert await one.memories.list(owner="ana")
