"""A key that is destroyed takes everything with it that was sealed with it, wherever there is a copy."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.storage.sealed.world import ANA, BOB, KEY, NOTES, Files, commit, get, note, text_of
from threadkeep.errors import PartitionErasedError, SealError
from threadkeep.storage.encryption.key_store import verify
from threadkeep.storage.encryption.storage import EncryptedStorage
from threadkeep.storage.interface import Batch, Due, Partition, Position, Put
from threadkeep.storage.sqlite.storage import SqliteStorage

CARL: Final = Partition("owner", ("", "carl"))


async def destroy(storage: EncryptedStorage, partition: Partition) -> None:
    """Destroy the key of *partition* and stop there, as a process does that is killed in the middle."""
    assert storage._deployment is not None
    await storage.keys.destroy(storage._deployment.pid(partition))


@pytest.fixture
async def copied(files: Files, tmp_path: Path) -> Path:
    """A copy of the items' file from when ANA and BOB were in it; since then ANA was erased."""
    async with files.opened() as storage:
        await commit(storage, note("1", "lives in Lisbon", due=Due("capture", files.clock.now())))
        await commit(storage, note("1", "of bob"), partition=BOB)
    copy = tmp_path / "copy.db"
    shutil.copy(files.items, copy)
    async with files.opened() as storage:
        assert await storage.erase(ANA) == 1
    return copy


class TestACopyOfEarlier:
    """A backup that is put back says nothing of who was erased."""

    async def test_it_cannot_be_read(self, files: Files, copied: Path) -> None:
        """Not by any method: the owner reads as erased, and everybody else as before."""
        async with files.opened(items=copied) as storage:
            since = Position("an older epoch", 1)
            changes = await storage.changes(ANA, since)

            assert await get(storage, "1") is None
            assert (await storage.scan(ANA)).items == ()
            assert (changes.reset, changes.puts, changes.removed) == (True, (), ())
            assert await storage.due("capture", now=files.clock.now(), limit=10) == ()
            assert await storage.namespaces() == (NOTES,)  # bob's is spelled the same in this test
            assert await storage.partitions() == (BOB,)
            assert await text_of(storage, "1", BOB) == "of bob"

    async def test_nor_with_the_keys_of_today_in_hand(self, files: Files, copied: Path) -> None:
        """The rows are there, and no key that is anywhere opens them."""
        async with files.opened(items=copied) as storage:
            found = await verify(storage.inner, storage.keys)
            removed = await verify(storage.inner, storage.keys, remove=True)

            assert (found.items, found.erased, found.sound) == (1, 1, True)
            assert removed.removed == 1
            assert (await verify(storage.inner, storage.keys)).erased == 0

    async def test_the_key_is_in_no_file(self, files: Files, copied: Path) -> None:
        """Overwritten, not only unlinked: the wrapped key of the copy's time is not among today's bytes."""
        async with files.opened() as storage:
            await commit(storage, note("1"), partition=CARL)
            assert storage._deployment is not None
            inner = storage.keys.storage
            assert isinstance(inner, SqliteStorage)
            kept = await inner.due(f".keys:{storage.keys.masters.current}", now=files.clock.now(), limit=10)
            (wrapped,) = [
                item.value["data"] for item in kept if item.ref.partition.parts[1] == storage._deployment.pid(CARL)
            ]
            assert wrapped.encode() in files.raw()

            await storage.erase(CARL)

            assert wrapped.encode() not in files.raw()

    async def test_who_comes_back_begins_anew(self, files: Files, copied: Path) -> None:
        """With another key, beside the old rows, which stay unread."""
        async with files.opened(items=copied) as storage:
            await commit(storage, note("1", "lives in Berlin"), note("2"))

            assert await text_of(storage, "1") == "lives in Berlin"
            assert sorted(item.ref.key for item in (await storage.scan(ANA)).items) == ["1", "2"]
            assert len((await storage.changes(ANA, None)).puts) == 2
            assert (await verify(storage.inner, storage.keys)).erased == 1


class TestErasing:
    """The key goes first; everything else can be repeated."""

    async def test_stopped_after_the_key_it_reads_as_erased(self, files: Files) -> None:
        """Whoever opens the storage next reads nothing, and erasing again takes the rows."""
        async with files.opened() as storage:
            await commit(storage, note("1"), note("2"))
            await destroy(storage, ANA)
        async with files.opened() as storage:
            assert await get(storage, "1") is None
            assert (await storage.stats()).items == 2

            assert await storage.erase(ANA) == 2
            assert (await storage.stats()).items == 0

    async def test_stopped_before_the_key_was_overwritten_it_is_used_no_more(self, files: Files) -> None:
        """That it was destroyed is noted first."""
        async with files.opened() as storage:
            await commit(storage, note("1"))
            assert storage._deployment is not None
            pid = storage._deployment.pid(ANA)
            key_id = storage._key_cache._cached[pid].cipher
            assert key_id is not None
            put = Put((".destroyed",), "key", {"ids": [key_id.key_id.hex()]})
            await storage.keys.storage.commit(Batch(Partition("root", (".destroyed", pid)), [put]))
        async with files.opened() as storage:
            assert await get(storage, "1") is None
            await commit(storage, note("1", "anew"))
            assert await text_of(storage, "1") == "anew"
        async with files.opened() as storage:
            assert await text_of(storage, "1") == "anew"

    async def test_another_process_notices(self, files: Files) -> None:
        """It has the old key in hand: what it reads and writes next is under the new one."""
        async with files.opened() as storage, files.opened() as beside:
            await commit(storage, note("1"))
            assert await text_of(beside, "1") == "likes tea"
            position = await beside.position(ANA)
            await storage.erase(ANA)
            await commit(storage, note("1", "anew"))

            assert await text_of(beside, "1") == "anew"
            assert [item.value["data"] for item in (await beside.scan(ANA, prefix=NOTES)).items] == ["anew"]
            assert (await beside.changes(ANA, position)).reset
            assert await beside.namespaces() == (NOTES,)

    async def test_another_process_writes_with_the_new_key(self, files: Files) -> None:
        """Its first write after the erasure is not lost to the old key."""
        async with files.opened() as storage, files.opened() as beside:
            await commit(beside, note("1"))
            await storage.erase(ANA)

            await commit(beside, note("2", "written later"))

            assert await text_of(storage, "2") == "written later"
        async with files.opened() as storage:
            assert await text_of(storage, "2") == "written later"

    async def test_a_page_of_before_is_refused(self, files: Files) -> None:
        """Reading on where an erasure came between says so."""
        async with files.opened() as storage:
            await commit(storage, note("1"), note("2"))
            page = await storage.scan(ANA, limit=1)
            await storage.erase(ANA)
            await commit(storage, note("3"), note("4"))

            with pytest.raises(PartitionErasedError):
                await storage.scan(ANA, limit=1, after=page.after)

    async def test_what_was_erased_stays_so_without_its_key(self, files: Files, tmp_path: Path) -> None:
        """Erasing somebody whose key is lost is how to let him begin anew."""
        async with files.opened() as storage:
            await commit(storage, note("1"))
            await storage.keys.storage.erase(Partition("root", (".keys", storage._pid(ANA))))
        async with files.opened(KEY) as storage:
            with pytest.raises(SealError, match="restore the keys"):
                await get(storage, "1")
            with pytest.raises(SealError):
                await commit(storage, note("2"))
            assert (await verify(storage.inner, storage.keys, remove=True)).no_key == [storage._pid(ANA)]
            assert (await storage.stats()).items == 1

            await storage.erase(ANA)

            await commit(storage, note("1", "anew"))
            assert await text_of(storage, "1") == "anew"
