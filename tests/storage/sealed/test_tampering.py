"""What somebody does to the rows who has the file and not the keys."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, Final

import pytest

from tests.storage.sealed.world import ANA, BOB, NOTES, Files, commit, get, note, text_of
from threadkeep.errors import DamagedItemError
from threadkeep.storage.encryption.key_store import verify
from threadkeep.storage.encryption.storage import EncryptedStorage
from threadkeep.storage.interface import Due, Item, Ref

HOUR: Final = timedelta(hours=1)


def row_of(files: Files, storage: EncryptedStorage, key: str) -> int:
    """Return the number of the row in which ANA's item *key* is."""
    assert storage._deployment is not None
    held = storage._key_cache._cached[storage._deployment.pid(ANA)]
    assert held.cipher is not None
    stored = held.cipher.key(key)
    ((found,),) = files.rows("SELECT item FROM items WHERE key = ?", f'"{stored}"')
    return found


def sealed_text(files: Files, row: int) -> bytes:
    ((found,),) = files.rows("SELECT embedding FROM items WHERE item = ?", row)
    return found


class TestTampering:
    """It is told as damage, by everything that reads the row; the other rows are read as before."""

    @pytest.mark.parametrize("at", [0, 3, 4, 11, 12, 23, 24, 60, -17, -16, -1])
    async def test_a_byte_that_was_flipped(self, files: Files, at: int) -> None:
        """In the header, the key's id, the nonce, the text, and the tag."""
        async with files.opened() as storage:
            await commit(storage, note("1"), note("2", "likes rain"))
            row = row_of(files, storage, "1")
            text = bytearray(sealed_text(files, row))
            text[at] ^= 1
            files.change("UPDATE items SET embedding = ? WHERE item = ?", bytes(text), row)

            with pytest.raises(DamagedItemError, match="keys check --remove") as told:
                await get(storage, "1")
            with pytest.raises(DamagedItemError):
                await storage.scan(ANA)
            with pytest.raises(DamagedItemError):
                await storage.changes(ANA, None)
            assert await text_of(storage, "2") == "likes rain"
            assert "likes tea" not in f"{told.value} {told.value.details}"

    @pytest.mark.parametrize(
        "change",
        [
            "namespace = (SELECT namespace FROM items AS other WHERE other.item <> items.item LIMIT 1)",
            "key = '\"elsewhere\"'",
            "paths = '[]'",
            "ttl = ttl * 1000",
            "ttl = NULL, expires_at = NULL",
            "due_at = due_at - 1",
            "due_kind = NULL",
            "updated_at = updated_at + 1",
            "embedding = NULL, model = NULL, dims = NULL",
            "embedding = zeroblob(64), dims = 1",
        ],
    )
    async def test_what_a_row_says_beside_its_text(self, files: Files, change: str) -> None:
        """Where it is, whether it is searched, how long it lives, which work it stands for, when it was put."""
        async with files.opened() as storage:
            due = Due("capture", files.clock.now())
            await commit(storage, note("1", ttl=HOUR, due=due), note("2", namespace=("else",)))
            row = row_of(files, storage, "1")

            assert files.change(f"UPDATE items SET {change} WHERE item = ?", row) == 1

            with pytest.raises(DamagedItemError):
                await storage.scan(ANA)
            (other,) = await storage.get([Ref(ANA, ("else",), "2")])
            assert other is not None
            assert other.value == {"data": "likes tea"}

    @pytest.mark.parametrize(
        "change",
        [
            "data = NULL",
            "data = zeroblob(0)",
            "data = zeroblob(112)",
            "data = substr(data, 1, length(data) - 1)",
            "data = (SELECT data FROM items AS other WHERE other.item <> items.item AND data IS NOT NULL LIMIT 1)",
        ],
    )
    async def test_data_cannot_be_changed(self, files: Files, change: str) -> None:
        """Removed, emptied, cut, or replaced by another item's."""
        async with files.opened() as storage:
            await commit(storage, note("1", data=b"secret"), note("2", data=b"other"), note("3"))
            row = row_of(files, storage, "1")

            assert files.change(f"UPDATE items SET {change} WHERE item = ?", row) == 1

            with pytest.raises(DamagedItemError):
                await get(storage, "1")
            second, third = await storage.get([Ref(ANA, NOTES, key) for key in ("2", "3")])
            assert second is not None
            assert second.data == b"other"
            assert third is not None
            assert third.data is None

    async def test_data_cannot_be_added(self, files: Files) -> None:
        """An item without data takes none from another one."""
        async with files.opened() as storage:
            await commit(storage, note("1"), note("2", data=b"other"))
            row = row_of(files, storage, "1")

            files.change("UPDATE items SET data = (SELECT data FROM items WHERE data IS NOT NULL) WHERE item = ?", row)

            with pytest.raises(DamagedItemError):
                await get(storage, "1")

    async def test_old_data_cannot_be_restored(self, files: Files) -> None:
        """Data of an earlier version of the same item does not fit the present one."""
        async with files.opened() as storage:
            await commit(storage, note("1", data=b"old"))
            row = row_of(files, storage, "1")
            ((old,),) = files.rows("SELECT data FROM items WHERE item = ?", row)
            await commit(storage, note("1", data=b"new"))

            files.change("UPDATE items SET data = ? WHERE item = ?", old, row)

            with pytest.raises(DamagedItemError):
                await get(storage, "1")

    async def test_rows_that_were_swapped(self, files: Files) -> None:
        """Of one owner, in one namespace, written at one moment."""
        async with files.opened() as storage:
            await commit(storage, note("1", "first"), note("2", "second"), note("3", "third"))
            one, two = row_of(files, storage, "1"), row_of(files, storage, "2")
            first, second = sealed_text(files, one), sealed_text(files, two)
            files.change("UPDATE items SET embedding = ? WHERE item = ?", second, one)
            files.change("UPDATE items SET embedding = ? WHERE item = ?", first, two)

            for key in ("1", "2"):
                with pytest.raises(DamagedItemError):
                    await get(storage, key)
            assert await text_of(storage, "3") == "third"

    async def test_an_old_text_that_was_put_back(self, files: Files) -> None:
        """What a row said before is no answer to what it says."""
        async with files.opened() as storage:
            await commit(storage, note("1", "lives in Lisbon"), note("2"))
            row = row_of(files, storage, "1")
            old = sealed_text(files, row)
            files.clock.advance(HOUR)
            await commit(storage, note("1", "lives in Berlin"))

            files.change("UPDATE items SET embedding = ? WHERE item = ?", old, row)

            with pytest.raises(DamagedItemError):
                await get(storage, "1")
            assert await text_of(storage, "2") == "likes tea"

    async def test_a_row_that_was_copied_to_another_owner(self, files: Files) -> None:
        """Nobody reads what was sealed for somebody else."""
        async with files.opened() as storage:
            await commit(storage, note("1", "of ana"))
            await commit(storage, note("1", "of bob"), partition=BOB)
            row = row_of(files, storage, "1")
            files.change(
                "UPDATE items SET embedding = ?, namespace = (SELECT namespace FROM items WHERE item = ?),"
                " key = (SELECT key FROM items WHERE item = ?) WHERE item <> ? AND embedding IS NOT NULL",
                *(sealed_text(files, row), row, row, row),
            )

            with pytest.raises(DamagedItemError):
                await storage.scan(BOB)
            assert await text_of(storage, "1") == "of ana"

    async def test_one_damaged_row_does_not_stop_everybody_s_work(
        self, files: Files, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Work that waits is read across owners: what does not open is left out, and logged once."""
        async with files.opened() as storage:
            now = files.clock.now()
            await commit(storage, note("1", due=Due("capture", now - HOUR)))
            await commit(storage, note("2", due=Due("capture", now)), partition=BOB)
            files.change("UPDATE items SET embedding = zeroblob(64) WHERE item = ?", row_of(files, storage, "1"))

            with caplog.at_level(logging.ERROR, "threadkeep"):
                for _ in range(3):
                    found = await storage.due("capture", now=now, limit=1)
                    assert [item.ref.partition for item in found] == [BOB]

            assert len(caplog.records) == 1
            assert await storage.partitions() in ((ANA, BOB), (BOB, ANA))

    async def test_damage_is_found_and_removed(self, files: Files) -> None:
        """A check says whose it is; removing takes what does not open, and nothing else."""
        async with files.opened() as storage:
            await commit(storage, note("1"), note("2"))
            await commit(storage, note("1"), partition=BOB)
            files.change("UPDATE items SET embedding = zeroblob(64) WHERE item = ?", row_of(files, storage, "1"))

            found = await verify(storage.inner, storage.keys)
            assert (found.items, found.damaged, found.sound) == (2, {ANA: 1}, False)
            assert (await verify(storage.inner, storage.keys, remove=True)).removed == 1

            assert (await verify(storage.inner, storage.keys)).sound
            assert [item.ref.key for item in (await storage.scan(ANA)).items] == ["2"]

    async def test_a_namespace_that_was_renamed_is_not_listed(self, files: Files) -> None:
        """A name that nobody sealed is no name."""
        async with files.opened() as storage:
            await commit(storage, note("1"), note("2", namespace=("else",)))
            row = row_of(files, storage, "1")
            ((text,),) = files.rows("SELECT namespace FROM items WHERE item = ?", row)
            files.change("UPDATE items SET namespace = ? WHERE item = ?", text.replace("=", "=A"), row)

            assert await storage.namespaces() == (("else",),)


class TestRowsInTheClear:
    """A row that was not sealed is not read."""

    async def test_one_that_was_slipped_in(self, files: Files) -> None:
        """With the right place and a readable value."""
        async with files.opened() as storage:
            await commit(storage, note("1", "sealed"))
            row = row_of(files, storage, "1")
            forged: dict[str, Any] = {"value": '{"data":"forged"}', "row": row}
            files.change("UPDATE items SET value = ?, embedding = NULL WHERE item = ?", *forged.values())

            with pytest.raises(DamagedItemError):
                await get(storage, "1")

    async def test_what_stands_beside_the_sealed_text_is_not_read(self, files: Files) -> None:
        """The backend's value is empty and stays unread."""
        async with files.opened() as storage:
            await commit(storage, note("1", "sealed"))
            files.change("UPDATE items SET value = ?", '{"data":"forged"}')

            item = await get(storage, "1")

            assert isinstance(item, Item)
            assert (item.value, item.ref) == ({"data": "sealed"}, Ref(ANA, NOTES, "1"))
