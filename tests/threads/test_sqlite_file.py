"""The file of the checkpoints: new, somebody else's, another version's, locked, full, out of reach."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.threads.checkpoints import aput, config_of, connection_of, put, value_of
from threadkeep.errors import (
    InvalidInputError,
    NotAStorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    StorageVersionError,
)
from threadkeep.identity import Owner
from threadkeep.threads.checkpointers import ThreadkeepCheckpointer

ANA, BOB = Owner("ana"), Owner("bob")
HERE = config_of("1", checkpoint_ns="")
Make = Callable[..., ThreadkeepCheckpointer]


@pytest.fixture
def unprivileged_folder() -> Iterator[Path]:
    """Return a folder that this process may write to only until the test says otherwise; root plays nobody."""
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        shutil.chown(folder, 65534)
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.chmod(0o700)
    shutil.rmtree(folder)


class TestOpening:
    def test_a_new_file_is_this_users_alone(self, make: Make, path: Path):
        """Folder 0700, file 0600, and the log beside it the same."""
        put(make("sqlite"), HERE, 1)

        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}

    def test_writes_are_durable_and_readers_do_not_wait(self, make: Make, path: Path):
        """WAL with synchronous=FULL: what was acknowledged survives a power cut."""
        checkpointer = make("sqlite")
        put(checkpointer, HERE, 1)

        connection = connection_of(checkpointer)

        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)

    def test_what_is_kept_outlives_the_process(self, make: Make):
        """A second checkpointer on the file goes on where the first one stopped."""
        first = make("sqlite")
        put(first, HERE, "kept")
        first.close()

        assert value_of(make("sqlite"), HERE) == "kept"

    def test_a_file_of_the_stock_saver_is_taken_over(self, make: Make, path: Path):
        """Moving in is naming the file, and the stock saver can still read it."""
        path.parent.mkdir()
        connection = sqlite3.connect(path, check_same_thread=False)
        put(SqliteSaver(connection), HERE, "from before")
        connection.close()
        checkpointer = make("sqlite")

        before = value_of(checkpointer, HERE)
        put(checkpointer, HERE, "from now")
        checkpointer.close()

        assert before == "from before"
        connection = sqlite3.connect(path, check_same_thread=False)
        assert value_of(SqliteSaver(connection), HERE) == "from now"
        connection.close()

    @pytest.mark.slow
    def test_processes_that_begin_one_file_together_all_succeed(self, path: Path):
        """Nobody fails because somebody else is just setting the file up."""
        program = (
            "import sys; from pathlib import Path; from threadkeep.event_loop import EventLoopThread\n"
            "from threadkeep.threads.factory import checkpointer_over\n"
            "from threadkeep.threads.sqlite import SqliteCheckpoints\n"
            "from tests.threads.checkpoints import put, config_of\n"
            "checkpointer = checkpointer_over(SqliteCheckpoints(Path(sys.argv[1])), home=EventLoopThread())\n"
            "print('ready', flush=True); sys.stdin.readline()\n"
            "for n in range(20): put(checkpointer, config_of(sys.argv[2]), n)\n"
            "checkpointer.close()\n"
        )
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", program, str(path), str(n)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for n in range(2)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"

        errors = [process.communicate("go\n", timeout=60)[1] for process in processes]

        assert [process.returncode for process in processes] == [0, 0], errors
        other = sqlite3.connect(path)
        counts = other.execute("SELECT thread_id, count(*) FROM checkpoints GROUP BY 1 ORDER BY 1").fetchall()
        other.close()
        assert counts == [("0", 20), ("1", 20)]


class TestRefusing:
    def test_a_file_that_is_no_database_is_not_touched(self, make: Make, path: Path):
        """Its bytes are the same afterwards."""
        path.parent.mkdir()
        path.write_text("Dear diary, " * 100)

        with pytest.raises(NotAStorageError, match="not a SQLite file"):
            put(make("sqlite"), HERE, 1)

        assert path.read_text() == "Dear diary, " * 100

    def test_another_programs_database_is_not_touched(self, make: Make, path: Path):
        """No table of ours appears in it, and its journal mode stays."""
        path.parent.mkdir()
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE bookmarks (url)")
        other.close()
        before = path.read_bytes()

        with pytest.raises(NotAStorageError, match="another program"):
            put(make("sqlite"), HERE, 1)

        assert path.read_bytes() == before

    def test_a_newer_versions_file_is_refused(self, make: Make, path: Path):
        """It says to upgrade."""
        first = make("sqlite")
        put(first, HERE, 1)
        first.close()
        other = sqlite3.connect(path)
        other.execute("PRAGMA user_version = 99")
        other.close()

        with pytest.raises(StorageVersionError, match="newer version"):
            put(make("sqlite"), HERE, 2)

    def test_a_folder_is_no_file(self, make: Make, path: Path):
        """The message says what it is."""
        path.mkdir(parents=True)

        with pytest.raises(NotAStorageError, match="is a folder"):
            put(make("sqlite"), HERE, 1)

    def test_a_folder_that_cannot_be_made_is_one_sentence(self, make: Make, tmp_path: Path):
        """A file stands where the folder should be."""
        (tmp_path / "file").write_text("")

        with pytest.raises(StorageUnavailableError, match="cannot be created"):
            put(make("sqlite", path=tmp_path / "file" / "checkpoints.sqlite3"), HERE, 1)

    def test_a_folder_without_write_access_is_read_only(self, make: Make, unprivileged_folder: Path):
        """A data folder of somebody else's."""
        unprivileged_folder.chmod(0o555)

        with pytest.raises(StorageReadOnlyError, match="write access"):
            put(make("sqlite", path=unprivileged_folder / "checkpoints.sqlite3"), HERE, 1)

    def test_a_file_without_write_access_is_read_only(self, make: Make, unprivileged_folder: Path):
        """It was writable the day before."""
        path = unprivileged_folder / "checkpoints.sqlite3"
        first = make("sqlite", path=path)
        put(first, HERE, 1)
        first.close()
        path.chmod(0o444)
        unprivileged_folder.chmod(0o555)

        with pytest.raises(StorageReadOnlyError, match="write access"):
            put(make("sqlite", path=path), HERE, 2)


class TestFailingWrites:
    def test_a_full_disk_is_said_and_loses_nothing(self, make: Make):
        """The write that does not fit is refused whole; when there is room again, the thread goes on."""
        checkpointer = make("sqlite")
        saved = put(checkpointer, HERE, "before")
        connection = connection_of(checkpointer)
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")

        with pytest.raises(StorageFullError, match="full"):
            checkpointer.put_writes(saved, [("x", "small"), ("x", "large" * 20_000)], "task")
        with pytest.raises(StorageFullError, match="full"):
            put(checkpointer, HERE, "large" * 20_000)

        connection.execute("PRAGMA max_page_count = 100000")
        found = checkpointer.get_tuple(HERE)
        assert found is not None
        assert found.checkpoint["channel_values"]["x"] == "before"
        assert found.pending_writes == []
        put(checkpointer, HERE, "after")
        assert value_of(checkpointer, HERE) == "after"

    def test_half_of_a_tasks_writes_are_never_kept(self, make: Make):
        """A task whose writes are there counts as done when its run is resumed, so they are all there or none."""
        checkpointer = make("sqlite")
        saved = put(checkpointer, HERE, "before")

        with pytest.raises(InvalidInputError, match="surrogate"):
            checkpointer.put_writes(saved, [("x", 1), ("half\ud800", 2)], "task")
        put(checkpointer, config_of("other"), "commits")

        found = checkpointer.get_tuple(HERE)
        assert found is not None
        assert found.pending_writes == []

    def test_another_processs_lock_is_said_and_loses_nothing(self, make: Make, path: Path):
        """A writer that does not come to its turn in time may try again."""
        checkpointer = make("sqlite")
        put(checkpointer, HERE, "before")
        connection = connection_of(checkpointer)
        connection.execute("PRAGMA busy_timeout = 1")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        with pytest.raises(StorageUnavailableError, match="Another process"):
            put(checkpointer, HERE, "refused")
        reading = value_of(checkpointer, HERE)
        other.execute("ROLLBACK")
        other.close()
        put(checkpointer, HERE, "after")

        assert reading == "before"
        assert value_of(checkpointer, HERE) == "after"


def held_in(folder: Path) -> bytes:
    """Return what all files of *folder* hold."""
    return b"".join(file.read_bytes() for file in folder.iterdir())


class TestDeleting:
    def test_a_deleted_threads_words_are_in_no_byte_of_the_files(self, make: Make, path: Path):
        """Erasing is physical: pages are overwritten and the log is emptied."""
        checkpointer = make("sqlite")
        put(checkpointer, config_of("other"), "stays")
        saved = put(checkpointer, HERE, "my secret is marzipan " * 400)
        checkpointer.put_writes(saved, [("x", "marzipan, really")], "task")
        put(checkpointer, saved, "marzipan again")

        checkpointer.delete_thread("1")

        assert [file.name for file in path.parent.iterdir() if b"marzipan" in file.read_bytes()] == []
        assert value_of(checkpointer, config_of("other")) == "stays"

    async def test_an_erased_owners_words_are_in_no_byte_of_the_file(self, make: Make, path: Path):
        """Pages may hold what SQLite moved, or what another program deleted there, so the file is written anew."""
        checkpointer = make("sqlite")
        for thread in ("1", "2", "3"):
            await aput(checkpointer.scoped(ANA), config_of(thread, checkpoint_ns=""), "marzipan")
            await aput(checkpointer.scoped(BOB), config_of(thread, checkpoint_ns=""), "nougat")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("PRAGMA secure_delete = OFF")
            other.execute("DELETE FROM checkpoints WHERE rowid = 1")
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        left_there = held_in(path.parent)

        await checkpointer.adelete_of_owner(["1", "2", "3"], owner=ANA)

        held = held_in(path.parent)
        assert b"marzipan" in left_there
        assert b"nougat" in held
        assert b"marzipan" not in held
