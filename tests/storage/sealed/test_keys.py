"""Which keys open what, and how one master key takes the place of another."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path
from typing import Final

import pytest

from tests.storage.sealed.world import ANA, BOB, KEY, Files, commit, note, text_of
from threadkeep.errors import DamagedItemError, SealError, SettingsError
from threadkeep.storage.encryption import MARKER, refuse_encrypted
from threadkeep.storage.encryption.cipher import new_master_key
from threadkeep.storage.encryption.key_store import MasterKeys, verify
from threadkeep.storage.interface import Partition, Stats
from threadkeep.storage.sqlite.storage import SqliteStorage

OTHER: Final = new_master_key()
VARIABLE: Final = "THREADKEEP_MASTER_KEY"


async def wrapped(files: Files, masters: str) -> dict[str, int]:
    """Return how many keys each of *masters* wraps."""
    async with files.opened(masters) as storage:
        return (await storage.keys.counts()).wrapped


class TestMasterKeys:
    """What is given as a key."""

    @pytest.mark.parametrize("join", [",", " ", "\n", "\n# the one of last year\n", " ,\n"])
    def test_the_first_of_several_is_the_present_one(self, join: str) -> None:
        """However they are parted; a line may be a comment."""
        masters = MasterKeys(f"{KEY}{join}{OTHER}\n", variable=VARIABLE)

        assert masters.ids[0] == masters.current == MasterKeys(KEY, variable=VARIABLE).current
        assert len(masters.ids) == 2

    def test_both_spellings_of_base64_are_read(self) -> None:
        """With ``+/`` and with ``-_``, they are one key."""
        key = b"\xfb\xff" * 16
        plain, url = base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode()

        assert MasterKeys(plain, variable=VARIABLE).current == MasterKeys(url, variable=VARIABLE).current

    @pytest.mark.parametrize(
        "text",
        ["", "# none", "hunter2hunter2", base64.b64encode(os.urandom(16)).decode(), f"{KEY},x", KEY[:-4]],
        ids=["empty", "a comment", "a password", "short", "a good one and a bad one", "cut off"],
    )
    def test_what_is_no_key_is_refused_and_not_repeated(self, text: str) -> None:
        """One sentence that names the variable."""
        with pytest.raises(SettingsError, match=VARIABLE) as told:
            MasterKeys(text, variable=VARIABLE)

        assert not any(word in str(told.value) for word in text.replace(",", " ").split() if len(word) > 6)

    def test_a_key_of_another_place_does_not_unwrap(self) -> None:
        """Nor one that was changed."""
        masters = MasterKeys(KEY, variable=VARIABLE)
        one = masters.wrap(b"secret", bound_to="here")

        assert masters.unwrap(one, bound_to="here") == b"secret"
        with pytest.raises(DamagedItemError):
            masters.unwrap(one, bound_to="there")
        with pytest.raises(DamagedItemError):
            masters.unwrap(one._replace(data="AAAA" + one.data[4:]), bound_to="here")
        with pytest.raises(DamagedItemError):
            masters.unwrap(one._replace(data="é"), bound_to="here")


class TestOpening:
    """A storage is opened by the keys that it was sealed with, or not at all."""

    async def test_with_another_key(self, files: Files) -> None:
        """It says which one is needed."""
        async with files.opened() as storage:
            await commit(storage, note("1"))

        with pytest.raises(SealError, match=MasterKeys(KEY, variable=VARIABLE).current):
            async with files.opened(OTHER):
                pass

    async def test_without_a_key(self, files: Files) -> None:
        """It is not read and not written to."""
        async with files.opened() as storage:
            await commit(storage, note("1"))
        plain = SqliteStorage(files.items, clock=files.clock)
        await plain.connect()

        with pytest.raises(SealError, match="THREADKEEP_MASTER_KEY"):
            await refuse_encrypted(plain)
        await plain.close()

    async def test_in_the_clear_with_a_key(self, files: Files) -> None:
        """Nothing is sealed among what is not."""
        plain = SqliteStorage(files.items, clock=files.clock)
        await plain.connect()
        await refuse_encrypted(plain)
        await commit(plain, note("1"))

        with pytest.raises(SealError, match="not encrypted"):
            async with files.opened():
                pass

        assert await text_of(plain, "1") == "likes tea"
        assert not files.keys.exists()
        await plain.close()

    async def test_with_another_key_and_without_its_owners_keys(self, files: Files, tmp_path: Path) -> None:
        """No file of keys is made for a storage that is refused."""
        async with files.opened() as storage:
            await commit(storage, note("1"))

        with pytest.raises(SealError, match="master key"):
            async with files.opened(OTHER, keys=tmp_path / "elsewhere.db"):
                pass
        assert not (tmp_path / "elsewhere.db").exists()

    async def test_without_its_owners_keys(self, files: Files, tmp_path: Path) -> None:
        """A path that is wrong makes no new keys."""
        async with files.opened() as storage:
            await commit(storage, note("1"))

        with pytest.raises(SealError, match="THREADKEEP_KEYS"):
            async with files.opened(keys=tmp_path / "elsewhere.db"):
                pass
        assert not (tmp_path / "elsewhere.db").exists()

    async def test_with_the_keys_of_another_storage(self, files: Files, tmp_path: Path) -> None:
        """Two storages do not share keys."""
        async with files.opened():
            pass

        with pytest.raises(SealError, match="belong to another storage"):
            async with files.opened(items=tmp_path / "other.db"):
                pass

    async def test_stopped_between_the_two_markers_it_goes_on(self, files: Files, tmp_path: Path) -> None:
        """A storage that is sealed and still empty takes a new place for its keys."""
        async with files.opened():
            pass

        async with files.opened(keys=tmp_path / "new.db") as storage:
            await commit(storage, note("1"))
        async with files.opened(keys=tmp_path / "new.db") as storage:
            assert await text_of(storage, "1") == "likes tea"

    async def test_two_that_come_first_at_once(self, files: Files) -> None:
        """The one counts the other's marker, and does not take it for an item in the clear."""
        first, second = files.storage(), files.storage()
        await first.inner.connect()
        counted = first.inner.stats

        async def late() -> Stats:
            await second.connect()
            return await counted()

        first.inner.stats = late  # type: ignore[method-assign]
        try:
            await first.connect()
            await commit(first, note("1"))
            assert await text_of(second, "1") == "likes tea"
        finally:
            await first.close()
            await second.close()

    async def test_a_marker_that_was_changed(self, files: Files) -> None:
        """It is damage, or of a newer version, and nothing is made anew."""
        async with files.opened():
            pass
        files.change('UPDATE items SET value = replace(value, \'"data":"\', \'"data":"AAAA\')')
        with pytest.raises(DamagedItemError):
            async with files.opened():
                pass
        files.change("UPDATE items SET value = '{\"format\":9}'")
        with pytest.raises(SealError, match="upgrade"):
            async with files.opened():
                pass
        files.change("UPDATE items SET value = '{}'")
        with pytest.raises(DamagedItemError, match="marker"):
            async with files.opened():
                pass


class TestRotation:
    """A new master key in front, then every key wrapped by it, then the old one gone."""

    async def test_the_old_key_is_needed_no_more(self, files: Files) -> None:
        """Everything is read with the new one alone, the storage's own marker included."""
        async with files.opened() as storage:
            await commit(storage, note("1"))
            await commit(storage, note("1", "of bob"), partition=BOB)

        async with files.opened(f"{OTHER},{KEY}") as storage:
            await commit(storage, note("1"), partition=Partition("owner", ("", "carl")))
            assert sorted((await storage.keys.counts()).wrapped.values()) == [1, 2]
            assert await storage.rewrap() == 2
            assert await storage.rewrap() == 0

        async with files.opened(OTHER) as storage:
            assert await text_of(storage, "1") == "likes tea"
            assert await text_of(storage, "1", BOB) == "of bob"
            assert (await verify(storage.inner, storage.keys)).items == 3
        with pytest.raises(SealError):
            async with files.opened(KEY):
                pass

    async def test_everything_goes_on_meanwhile(self, files: Files) -> None:
        """Owners come, write, are erased and come back while their keys are wrapped anew, by two at once."""
        owners = [Partition("owner", ("", f"{number}")) for number in range(40)]
        both = f"{OTHER},{KEY}"
        async with files.opened() as storage:
            for owner in owners[:30]:
                await commit(storage, note("1", owner.parts[1]), partition=owner)

        async with (
            files.opened(both) as storage,
            files.opened(both) as third,
            files.opened(f"{KEY},{OTHER}") as beside,
        ):

            async def live() -> None:
                for owner in owners:
                    await commit(beside, note("2", owner.parts[1]), partition=owner)
                for owner in owners[:5]:
                    await beside.erase(owner)
                    await commit(beside, note("2", owner.parts[1]), partition=owner)

            await asyncio.gather(live(), storage.rewrap(), third.rewrap())
            await storage.rewrap()

            for owner in owners:
                assert await text_of(storage, "2", owner) == owner.parts[1]
                assert await text_of(beside, "2", owner) == owner.parts[1]
        async with files.opened(OTHER) as storage:
            assert (await verify(storage.inner, storage.keys)).sound
            assert (await verify(storage.inner, storage.keys)).items == 40 + 25

    async def test_one_damaged_key_does_not_hold_up_the_others(self, files: Files) -> None:
        """They are wrapped anew, and then it is told."""
        async with files.opened() as storage:
            await commit(storage, note("1"))
            await commit(storage, note("1", "of bob"), partition=BOB)
            damaged_pid = storage._pid(ANA)
            (item, *_) = [
                item
                for item in await storage.keys._wrapped_by(storage.keys.masters.current, limit=10)
                if item.ref.partition.parts[1] == damaged_pid
            ]
        changed = "UPDATE items SET value = replace(value, ?, ?)"
        assert files.change(changed, item.value["data"][:8], "AAAAAAAA", file=files.keys) > 0

        async with files.opened(f"{OTHER},{KEY}") as storage:
            with pytest.raises(DamagedItemError):
                await storage.rewrap()
            with pytest.raises(DamagedItemError, match="restore the keys"):
                await text_of(storage, "1")
        async with files.opened(f"{OTHER},{KEY}") as storage:
            assert await text_of(storage, "1", BOB) == "of bob"
            assert (await verify(storage.inner, storage.keys)).no_key == [damaged_pid]
            counts = await storage.keys.counts()
            assert counts.wrapped[storage.keys.masters.current] == 1


def test_the_marker_says_nothing() -> None:
    """It is an item of its own, in a namespace that is listed nowhere."""
    assert MARKER.namespace[0].startswith(".")
