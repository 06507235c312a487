"""The SQLite storage and the file it lives in."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import sqlite3
import stat
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import threadkeep
from tests.storage.forking import ended_well, forked
from threadkeep.errors import (
    NotAStorageError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    StorageVersionError,
)
from threadkeep.storage.encoding import encode_text, partition_key
from threadkeep.storage.interface import Batch, Delete, Embedding, Namespace, Partition, Put, Ref
from threadkeep.storage.rows import to_row_key
from threadkeep.storage.sqlite import connections
from threadkeep.storage.sqlite.connections import APPLICATION_ID, SCHEMA_VERSION
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing.clock import FrozenClock

ANA = Partition("owner", ("", "ana@example.org"))
NOTES: Namespace = ("memories", "ana@example.org")
SECRET = "the parrot is called Quetzal"
NOBODY = 65534


def put(key: str, text: str = SECRET) -> Put:
    return Put(NOTES, key, {"data": text}, ("data",), Embedding("m", 384, bytes(1536)))


def sqlite(path: Path, **more: Any) -> SqliteStorage:
    return SqliteStorage(path, clock=FrozenClock(), **more)


async def commit(storage: SqliteStorage, *keys: str) -> None:
    await storage.commit(Batch(ANA, [put(key) for key in keys]))


async def made(path: Path, *keys: str) -> None:
    """Make a storage at *path*, with items, and close it."""
    storage = sqlite(path)
    await storage.connect()
    if keys:
        await commit(storage, *keys)
    await storage.close()


async def connected(path: Path) -> None:
    """Do what a program does that starts: connect, write, close."""
    storage = sqlite(path)
    try:
        await storage.connect()
        await commit(storage, "1")
    finally:
        await storage.close()


def delete(key: str) -> Delete:
    return Delete(NOTES, key)


def keys_at(path: Path) -> set[str]:
    """Return the keys of the items in the file at *path*."""
    with closing(sqlite3.connect(path)) as raw:
        return {json.loads(key) for (key,) in raw.execute("SELECT key FROM items")}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def modes_below(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def is_gone(word: bytes, folder: Path) -> bool:
    return word not in bytes_below(folder)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until *condition* holds; the test's own time-out ends it."""
    while not condition():
        await asyncio.sleep(0.005)


def bytes_below(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SqliteStorage]:
    storage = sqlite(tmp_path / "memory.db")
    await storage.connect()
    yield storage
    await storage.close()


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user can enter, other than pytest's."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def make_version_1(path: Path) -> None:
    """Create a file as version 1 did, with one item of ANA's."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.executescript((Path(__file__).with_name("schemas") / "sqlite_1.sql").read_text(encoding="utf-8"))
        digest = partition_key(encode_text(""), ANA.digest)
        raw.execute("INSERT INTO birth (epoch) VALUES ('born')")
        raw.execute(
            "INSERT INTO partitions VALUES (?, ?, 'owner', ?, 'born', 1, 0, 0)",
            (digest, encode_text(""), json.dumps(ANA.parts)),
        )
        raw.execute(
            "INSERT INTO items (partition, namespace, key, value, revision, created_at, updated_at, paths) "
            "VALUES (?, ?, ?, ?, 1, 0, 0, '[]')",
            (digest, *to_row_key(NOTES, "1"), '{"data":"likes tea"}'),
        )
        raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        raw.execute("PRAGMA user_version = 1")


def columns_of(path: Path) -> list[object]:
    """Return the version of a file, and the names and types of the columns of its tables."""
    with closing(sqlite3.connect(path)) as raw:
        tables = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")]
        columns = [raw.execute(f"SELECT * FROM pragma_table_info('{table}')").fetchall() for table in tables]
        return [raw.execute("PRAGMA user_version").fetchall(), tables, columns]


class TestConnect:
    async def test_constructing_does_nothing(self, tmp_path: Path) -> None:
        """No file, no folder, no thread before the first connection."""
        storage = sqlite(tmp_path / "new" / "memory.db")

        assert storage.location == str(tmp_path / "new" / "memory.db")
        assert not (tmp_path / "new").exists()

    async def test_what_is_made_is_for_its_user_only(self, tmp_path: Path) -> None:
        """Missing folders are 0700, the file and its log 0600, whatever the umask lets through."""
        path = tmp_path / "a" / "b" / "memory.db"
        before = os.umask(0)
        try:
            storage = sqlite(path)
            await storage.connect()
            await commit(storage, "1")
        finally:
            os.umask(before)

        modes = modes_below(tmp_path)
        await storage.close()

        assert modes == {
            "a": 0o700,
            "b": 0o700,
            "memory.db": 0o600,
            "memory.db-wal": 0o600,
            "memory.db-shm": 0o600,
        }

    async def test_the_file_says_what_it_is(self, tmp_path: Path) -> None:
        """Application and schema version stand in its header; deleted content is overwritten."""
        await made(tmp_path / "memory.db")

        with closing(sqlite3.connect(tmp_path / "memory.db")) as raw:
            header = [raw.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]

        assert header == [APPLICATION_ID, SCHEMA_VERSION]

    @pytest.mark.parametrize(("synchronous", "number"), [("FULL", 2), ("NORMAL", 1)])
    async def test_durability_is_as_asked(self, tmp_path: Path, synchronous: Any, number: int) -> None:
        """The connection that writes waits for the disk as it was told, and leaves no content behind."""
        storage = sqlite(tmp_path / "memory.db", synchronous=synchronous)
        await storage.connect()
        assert storage._connections

        set_to = {
            name: storage._connections.connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "secure_delete", "journal_mode")
        }
        await storage.close()

        assert set_to == {"synchronous": number, "secure_delete": 1, "journal_mode": "wal"}

    async def test_an_empty_file_becomes_a_storage(self, tmp_path: Path) -> None:
        """Such as a program makes that reserves a name for a temporary file."""
        (tmp_path / "memory.db").touch()

        await made(tmp_path / "memory.db", "1")

    @pytest.mark.parametrize("content", [b"x", b"hello, world\n" * 500, b"SQLite format 3\0" + b"\xff" * 5000])
    async def test_a_file_that_is_no_database_is_not_touched(self, tmp_path: Path, content: bytes) -> None:
        """It is told, and left as it was."""
        path = tmp_path / "memory.db"
        path.write_bytes(content)
        before = path.stat()

        with pytest.raises(NotAStorageError, match=r"memory\.db"):
            await connected(path)

        assert path.read_bytes() == content
        assert path.stat().st_mtime_ns == before.st_mtime_ns
        assert names_in(tmp_path) == ["memory.db"]

    @pytest.mark.parametrize("mode", ["DELETE", "WAL"])
    async def test_a_database_of_another_program_is_not_touched(self, tmp_path: Path, mode: str) -> None:
        """Not a byte, and no log is left beside it."""
        path = tmp_path / "memory.db"
        with closing(sqlite3.connect(path)) as raw:
            raw.execute(f"PRAGMA journal_mode = {mode}")
            raw.execute("CREATE TABLE recipes (name TEXT)")
        before = bytes_below(tmp_path)

        with pytest.raises(NotAStorageError):
            await connected(path)

        assert bytes_below(tmp_path) == before

    async def test_a_folder_is_no_storage(self, tmp_path: Path) -> None:
        """Nor is a place inside a file."""
        (tmp_path / "file").write_text("x")

        with pytest.raises(NotAStorageError):
            await connected(tmp_path)
        with pytest.raises(StorageError, match="Choose another path"):
            await connected(tmp_path / "file" / "memory.db")

    async def test_a_file_of_version_1_is_migrated(self, tmp_path: Path) -> None:
        """Its items stay, and new ones take data; its tables are then like new ones."""
        path = tmp_path / "memory.db"
        make_version_1(path)

        storage = sqlite(path)
        await storage.connect()
        position = await storage.commit(Batch(ANA, [Put(NOTES, "2", {}, data=b"bytes")]))
        old, new = await storage.get([Ref(ANA, NOTES, key) for key in ("1", "2")])
        await storage.close()
        await made(tmp_path / "new.db")

        assert old is not None
        assert (old.value, old.data, position.sequence) == ({"data": "likes tea"}, None, 2)
        assert new is not None
        assert new.data == b"bytes"
        assert columns_of(path) == columns_of(tmp_path / "new.db")

    async def test_a_newer_version_is_not_touched(self, tmp_path: Path) -> None:
        """It is told to upgrade."""
        path = tmp_path / "memory.db"
        await made(path, "1")
        with closing(sqlite3.connect(path, isolation_level=None)) as raw:
            raw.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        before = path.read_bytes()

        with pytest.raises(StorageVersionError, match="Upgrade"):
            await connected(path)

        assert path.read_bytes() == before

    async def test_a_damaged_storage_says_so(self, tmp_path: Path) -> None:
        """Garbage in the middle of the file is no item."""
        path = tmp_path / "memory.db"
        await made(path, *map(str, range(100)))
        with path.open("r+b") as file:
            file.seek(8192)
            file.write(b"\xa5" * (path.stat().st_size - 8192))

        with pytest.raises(NotAStorageError, match="damaged"):
            await connected(path)

    @pytest.mark.linux
    @pytest.mark.parametrize("case", ["no file", "file", "folder", "both"])
    def test_what_cannot_be_written_says_so(self, public_folder: Path, case: str) -> None:
        """A folder or file without write access, as another user than root meets it."""
        path = public_folder / "memory.db"
        if case != "no file":
            asyncio.run(made(path, "1"))
            path.chmod(0o666 if case == "folder" else 0o444)
        public_folder.chmod(0o777 if case == "file" else 0o555)

        def work() -> None:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            with pytest.raises(StorageReadOnlyError, match="write access"):
                asyncio.run(connected(path))

        assert ended_well(forked(work))

    async def test_a_log_that_is_half_in_the_file_is_no_damage(self, tmp_path: Path) -> None:
        """As where a process was killed while it moved the log: the first page counts pages that are not there yet."""
        path, left = tmp_path / "memory.db", tmp_path / "left" / "memory.db"
        left.parent.mkdir()
        storage = sqlite(path)
        await storage.connect()
        before = path.read_bytes()
        await commit(storage, *(str(number) for number in range(100)))
        shutil.copy(tmp_path / "memory.db-wal", left.parent)
        await storage.close()  # the log is in the file
        left.write_bytes(path.read_bytes()[:4096] + before[4096:])

        again = sqlite(left)
        await again.connect()
        found = (await again.scan(ANA, limit=200)).items
        await again.close()

        assert len(found) == 100

    async def test_a_storage_that_failed_to_connect_connects_later(self, tmp_path: Path) -> None:
        """Once what was in the way is gone."""
        path = tmp_path / "memory.db"
        path.write_text("x")
        storage = sqlite(path)
        with pytest.raises(NotAStorageError):
            await storage.connect()
        path.unlink()

        await storage.connect()
        await commit(storage, "1")
        await storage.close()


class TestCommit:
    async def test_a_full_disk_says_so_and_loses_nothing(self, storage: SqliteStorage) -> None:
        """The batch that does not fit is not there, those before it are, and there is a way on."""
        assert storage._connections
        raw = storage._connections.connection
        await commit(storage, "before")
        ((pages,),) = raw.execute("PRAGMA page_count").fetchall()
        raw.execute(f"PRAGMA max_page_count = {pages + 5}")

        with pytest.raises(StorageFullError, match="full"):
            await commit(storage, *(f"{number}" for number in range(100)))

        assert [item.ref.key for item in (await storage.scan(ANA)).items] == ["before"]
        raw.execute("PRAGMA max_page_count = 100000")
        await commit(storage, "after")
        assert len((await storage.scan(ANA)).items) == 2

    @pytest.mark.linux
    def test_a_limit_on_the_size_of_files_says_so_and_loses_nothing(self, tmp_path: Path) -> None:
        """The system refuses to write on in the middle of a commit."""
        path = tmp_path / "memory.db"
        asyncio.run(made(path, "before"))

        async def work() -> None:
            storage = sqlite(path)
            await storage.connect()
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
            with pytest.raises(StorageFullError):
                await commit(storage, *(f"{number}" for number in range(300)))
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await commit(storage, "after")
            await storage.close()

        assert ended_well(forked(lambda: asyncio.run(work())))
        assert keys_at(path) == {"before", "after"}

    async def test_a_lock_that_is_not_let_go_says_so(self, storage: SqliteStorage, tmp_path: Path) -> None:
        """A commit waits and gives up; whoever reads does not wait at all."""
        assert storage._connections
        await commit(storage, "1")
        storage._connections.connection.execute("PRAGMA busy_timeout = 20")
        with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")

            with pytest.raises(StorageUnavailableError, match="locked"):
                await commit(storage, "2")

            assert (await storage.position(ANA)).sequence == 1
            assert len((await storage.scan(ANA)).items) == 1
            assert len((await storage.changes(ANA, None)).puts) == 1
            other.execute("ROLLBACK")
        await commit(storage, "2")

    async def test_reads_do_not_wait_for_a_commit(self, storage: SqliteStorage) -> None:
        """While the writer's thread is held, every reading method answers."""
        assert storage._connections
        await commit(storage, "1")
        held = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hold() -> None:
            loop.call_soon_threadsafe(held.set)
            asyncio.run_coroutine_threadsafe(read(), loop).result(timeout=30)

        async def read() -> None:
            await storage.get([Ref(ANA, NOTES, "1")])
            await storage.scan(ANA)
            await storage.changes(ANA, None)
            await storage.namespaces()
            await storage.stats()

        holding = loop.run_in_executor(storage._connections.writer, hold)
        await held.wait()
        await holding

    async def test_erasures_that_wait_together_share_a_transaction(self, storage: SqliteStorage) -> None:
        """Many runs without a thread end at once, and each deletes its own; a cancelled erasure deletes nothing."""
        assert storage._connections
        statements = list[str]()
        storage._connections.connection.set_trace_callback(statements.append)
        partitions = [Partition("thread", ("", f"{number}")) for number in range(5)]
        for partition in partitions:
            await storage.commit(Batch(partition, [put("1"), put("2")]))
        free, loop = threading.Event(), asyncio.get_running_loop()
        holding = loop.run_in_executor(storage._connections.writer, free.wait)

        erasures = [asyncio.ensure_future(storage.erase(partition)) for partition in partitions]
        await asyncio.sleep(0)
        erasures[2].cancel()
        await asyncio.sleep(0)
        free.set()
        await holding
        erased = await asyncio.gather(*erasures, return_exceptions=True)

        assert [one for one in erased if isinstance(one, int)] == [2, 2, 2, 2]
        assert [len((await storage.scan(partition)).items) for partition in partitions] == [0, 0, 2, 0, 0]
        assert statements.count("BEGIN IMMEDIATE") == 6  # five commits
        assert "VACUUM" not in statements

    async def test_an_erasure_that_fails_fails_alone(self, storage: SqliteStorage) -> None:
        """Those that waited with it are tried again, each in its own transaction."""
        assert storage._connections
        partitions = [Partition("thread", ("", f"{number}")) for number in range(5)]
        for number, partition in enumerate(partitions):
            await storage.commit(Batch(partition, [put(f"{number}")]))
        storage._connections.connection.execute(
            "CREATE TEMP TRIGGER refuse BEFORE DELETE ON items WHEN OLD.key = '\"2\"' "
            "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
        free, loop = threading.Event(), asyncio.get_running_loop()
        holding = loop.run_in_executor(storage._connections.writer, free.wait)

        erasures = [asyncio.ensure_future(storage.erase(partition)) for partition in partitions]
        await asyncio.sleep(0)
        free.set()
        await holding
        erased = await asyncio.gather(*erasures, return_exceptions=True)

        assert [isinstance(one, StorageError) for one in erased] == [False, False, True, False, False]
        assert [len((await storage.scan(partition)).items) for partition in partitions] == [0, 0, 1, 0, 0]

    async def test_each_waiting_erasure_raises_the_failure(self, storage: SqliteStorage, tmp_path: Path) -> None:
        await commit(storage, "1")
        (tmp_path / "memory.db").rename(tmp_path / "moved.db")

        failed = await asyncio.gather(*(storage.erase(ANA) for _ in range(3)), return_exceptions=True)

        assert [type(error) for error in failed] == [StorageUnavailableError] * 3

    async def test_a_file_that_was_removed_takes_no_writes(self, storage: SqliteStorage, tmp_path: Path) -> None:
        """What would be lost is refused."""
        await commit(storage, "1")
        (tmp_path / "memory.db").rename(tmp_path / "moved.db")

        with pytest.raises(StorageUnavailableError, match="moved"):
            await commit(storage, "2")

        (tmp_path / "moved.db").rename(tmp_path / "memory.db")
        await commit(storage, "2")

    async def test_a_glance_that_is_refused_goes_to_a_reader(self, storage: SqliteStorage) -> None:
        """The event loop never waits for a lock: where one is in the way, a thread does."""
        assert storage._connections
        await commit(storage, "1")
        storage._connections.inline.set_progress_handler(lambda: 1, 1)

        assert (
            storage._connections.try_read(
                lambda connection: connection.execute("SELECT 1 FROM items").fetchall(), transaction=False
            )
            is None
        )
        position = await storage.position(ANA)
        assert position.sequence == 1
        assert (await storage.changes(ANA, position)).puts == ()

    async def test_small_scans_and_changes_are_read_without_a_reader(self, storage: SqliteStorage) -> None:
        await commit(storage, "1")
        position = await storage.position(ANA)
        await commit(storage, "2")

        assert len((await storage.scan(ANA, prefix=())).items) == 2
        assert (await storage.changes(ANA, position)).position.sequence == 2
        assert not storage._connections.reading

    async def test_reads_stay_current_however_many_there_were(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """SQLite interrupts a BEGIN after some hundreds of transactions, and leaves the connection in one."""
        monkeypatch.setattr(connections, "_INLINE_STEPS", 1_000)
        storage, one, other = sqlite(tmp_path / "memory.db"), Ref(ANA, NOTES, "one"), Ref(ANA, NOTES, "other")
        await storage.connect()
        revision = 0
        for number in range(2_000):
            await storage.get([one, other])
            if number % 50 == 0:
                revision = (await storage.commit(Batch(ANA, [put("one", str(number))]))).sequence
            (item,) = await storage.get([one])
            assert item is not None
            assert item.revision == revision
        await storage.close()

    async def test_a_long_scan_is_left_to_a_reader(self, storage: SqliteStorage) -> None:
        await storage.commit(Batch(ANA, [Put(NOTES, f"k{number:04}", {"data": "x"}) for number in range(900)]))

        assert len((await storage.scan(ANA, prefix=(), limit=800)).items) == 800
        assert storage._connections.reading


class TestErase:
    async def test_what_was_erased_is_nowhere(self, storage: SqliteStorage, tmp_path: Path) -> None:
        """Neither text nor owner stands in the file or its log when ``erase`` returns."""
        await commit(storage, "a key to look for", *(f"{number}" for number in range(20)))
        assert all(word in bytes_below(tmp_path) for word in (b"Quetzal", b"ana@example.org", b"a key to look for"))

        await storage.erase(ANA)

        assert not any(word in bytes_below(tmp_path) for word in (b"Quetzal", b"ana@example.org", b"a key to look for"))

    async def test_what_was_deleted_leaves_the_log_soon(
        self, storage: SqliteStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A delete lets the log be emptied a little later, without anybody asking."""
        monkeypatch.setattr(connections, "SCRUB_SECONDS", 0.0)
        await commit(storage, "1", "2")

        await storage.commit(Batch(ANA, [delete("1"), delete("2")]))

        await until(lambda: is_gone(b"Quetzal", tmp_path))

    async def test_a_reader_in_the_way_delays_it(
        self, storage: SqliteStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Erasing does not fail over somebody who still reads; the log is emptied when he is gone."""
        monkeypatch.setattr(connections, "SCRUB_SECONDS", 0.01)
        monkeypatch.setattr(connections, "TRUNCATE_SECONDS", 0.0)
        await commit(storage, "1")
        with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as other:
            other.execute("BEGIN")
            other.execute("SELECT count(*) FROM items").fetchall()

            assert await storage.erase(ANA) == 1

            assert (await storage.scan(ANA)).items == ()
            assert b"Quetzal" in bytes_below(tmp_path)
            other.execute("COMMIT")
        await until(lambda: is_gone(b"Quetzal", tmp_path))

    async def test_closing_leaves_one_file(self, storage: SqliteStorage, tmp_path: Path) -> None:
        """The log goes with the last connection, and what was deleted with it."""
        await commit(storage, "1")
        await storage.commit(Batch(ANA, [delete("1")]))

        await storage.close()

        assert names_in(tmp_path) == ["memory.db"]
        assert b"Quetzal" not in bytes_below(tmp_path)


class TestRewrite:
    """SQLite leaves copies of rows in the unused part of a page where it rearranges the page."""

    async def test_copies_of_erased_rows_go(self, storage: SqliteStorage, tmp_path: Path) -> None:
        await _erase_with_copies(storage)

        await storage.scrub(rewrite=True)

        assert is_gone(b"bob", tmp_path)

    async def test_copies_go_when_the_storage_closes(self, storage: SqliteStorage, tmp_path: Path) -> None:
        await _erase_with_copies(storage)

        await storage.close()

        assert is_gone(b"bob", tmp_path)

    async def test_copies_go_after_a_while_without_a_caller(
        self, storage: SqliteStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connections, "REWRITE_SECONDS", 0.0)

        await _erase_with_copies(storage)

        await until(lambda: is_gone(b"bob", tmp_path))

    @pytest.mark.linux
    async def test_copies_that_a_killed_process_left_go_later(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The file notes the erasure in its transaction, so the next process that has it open rewrites it."""
        path = tmp_path / "memory.db"

        async def work() -> None:
            storage = sqlite(path)
            await storage.connect()
            await _erase_with_copies(storage)
            os._exit(0)

        assert ended_well(forked(lambda: asyncio.run(work())))
        monkeypatch.setattr(connections, "REWRITE_SECONDS", 0.0)

        storage = sqlite(path)
        await storage.connect()
        await until(lambda: is_gone(b"bob", tmp_path))
        await storage.close()

    async def test_a_forgotten_item_is_among_them(self, storage: SqliteStorage, tmp_path: Path) -> None:
        """``forget`` empties the log at once; what it deleted is removed from pages like what was erased."""
        await commit(storage, "1", "2")
        await storage.commit(Batch(ANA, [delete("1")]))
        assert _erased_at(tmp_path) is None

        await storage.scrub()

        assert _erased_at(tmp_path) is not None

    async def test_a_file_is_rewritten_once_for_many_erasures(self, storage: SqliteStorage, tmp_path: Path) -> None:
        assert storage._connections
        statements = list[str]()
        for number in range(5):
            await storage.commit(Batch(Partition("thread", ("", f"{number}")), [put("1")]))
        storage._connections.connection.set_trace_callback(statements.append)
        for number in range(5):
            await storage.erase(Partition("thread", ("", f"{number}")))
        assert "VACUUM" not in statements

        await storage.scrub(rewrite=True)
        await storage.scrub(rewrite=True)

        assert statements.count("VACUUM") == 1
        assert _erased_at(tmp_path) is None

    async def test_a_locked_file_is_rewritten_later(
        self,
        storage: SqliteStorage,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        assert storage._connections
        await _erase_with_copies(storage)
        storage._connections.connection.execute("PRAGMA busy_timeout = 20")
        monkeypatch.setattr(connections, "BUSY_SECONDS", 0.02)
        monkeypatch.setattr(connections, "REWRITE_SECONDS", 0.01)
        storage._connections.cancel_timers()
        with closing(sqlite3.connect(tmp_path / "memory.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")

            await storage.scrub(rewrite=True)

            assert "could not be rewritten" in caplog.text
            other.execute("ROLLBACK")
        await until(lambda: is_gone(b"bob", tmp_path))

    async def test_a_large_file_is_left_to_its_operator(
        self,
        storage: SqliteStorage,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(connections, "REWRITE_BYTES", 1)
        await _erase_with_copies(storage)

        await storage.scrub(rewrite=True)
        await storage.scrub(rewrite=True)

        assert caplog.text.count("run VACUUM") == 1
        assert not is_gone(b"bob", tmp_path)


async def _erase_with_copies(storage: SqliteStorage) -> None:
    """Erase Bob after a history, found at random, in which SQLite 3.40 leaves a copy of a row of his in a page."""
    history = [
        ("eve", {"k00": 636, "k01": 1736, "k02": 1107}),
        ("bob", {"k10": 894, "k11": 192}),
        ("ana", {"k20": 23, "k21": 12, "k22": 191}),
        ("bob", {"k30": 1425, "k31": 219, "k32": 2241}),
        ("bob", {"k40": 1761}),
        ("eve", {"k50": 983}),
    ]
    for name, rows in history:
        puts = [Put(("m", name), key, {"d": "x" * size}, ("d",)) for key, size in rows.items()]
        await storage.commit(Batch(Partition("owner", ("", name)), puts))
    await storage.erase(Partition("owner", ("", "bob")))


def _erased_at(folder: Path) -> int | None:
    with closing(sqlite3.connect(folder / "memory.db")) as raw:
        return raw.execute("SELECT erased_at FROM birth").fetchone()[0]


class TestForgotten:
    async def test_a_forgotten_statement_is_in_no_file_afterwards(self, tmp_path: Path):
        """Neither in the database nor in its log, as soon as the call returns."""
        path = tmp_path / "memory.db"
        async with threadkeep.open(f"sqlite:///{path}", embedder="none") as tk:
            kept = await tk.memories.remember("My locker code is quokka-7391.", owner="ana")
            await tk.memories.remember("I like tea.", owner="ana")
            assert _holds(tmp_path, b"quokka-7391")

            await tk.memories.forget(kept.memory_id, owner="ana")

            assert not _holds(tmp_path, b"quokka-7391")


def _holds(folder: Path, text: bytes) -> bool:
    return any(text in file.read_bytes() for file in folder.iterdir())
