"""Bytes beside an item's value: ``Put.data`` and ``Item.data``."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.storage.interface import MAX_BATCH_BYTES, MAX_DATA_BYTES, Batch, Due, Storage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract.world import ANA, VECTOR, World, commit, get, keys, note, plain, require, touch

EVERY_BYTE = bytes(range(256))

DATA: dict[str, bytes] = {
    "empty": b"",
    "every byte": EVERY_BYTE,
    "zeros": bytes(1_000),
    "JSON": b'{"a": 1}',
    "long": EVERY_BYTE * 8_000,
}


class ItemBytes(World):
    """Data comes back byte for byte, whichever method reads the item."""

    @pytest.mark.parametrize("data", DATA.values(), ids=DATA.keys())
    async def test_data_comes_back(self, storage: Storage, data: bytes) -> None:
        """Empty data is not missing data."""
        await commit(storage, plain("1", data=data), plain("2"))

        assert (await require(storage, "1")).data == data
        assert (await require(storage, "2")).data is None

    async def test_largest_data_comes_back(self, storage: Storage) -> None:
        """At the limit, to the last byte."""
        data = os.urandom(1024) * (MAX_DATA_BYTES // 1024)
        await commit(storage, plain("1", data=data))

        assert (await require(storage, "1")).data == data

    async def test_every_method_returns_data(self, storage: Storage, clock: FrozenClock) -> None:
        """``get``, ``scan``, ``changes`` and ``due`` return the same item."""
        before = await storage.position(ANA)
        await commit(storage, note("1", data=EVERY_BYTE, embedding=VECTOR, due=Due("work", clock.now())))

        item = await require(storage, "1")
        assert item.data == EVERY_BYTE
        assert item.embedding == VECTOR
        assert (await storage.scan(ANA)).items == (item,)
        assert tuple((await storage.changes(ANA, None)).puts) == (item,)
        assert tuple((await storage.changes(ANA, before)).puts) == (item,)
        assert await storage.due("work", now=clock.now(), limit=1) == (item,)

    async def test_many_changes_have_their_data(self, storage: Storage) -> None:
        """Also more changes than fit in one answer."""
        await commit(storage, *(note(f"{number}", data=b"%d" % number) for number in range(1_200)))

        puts = (await storage.changes(ANA, None)).puts

        assert {item.ref.key: item.data for item in puts} == {f"{n}": b"%d" % n for n in range(1_200)}

    async def test_put_replaces_data(self, storage: Storage) -> None:
        """A put without data removes what was there: it writes the whole item."""
        await commit(storage, plain("1", data=b"old"), plain("2", data=b"old"))

        await commit(storage, plain("1", data=b"new"), plain("2"))

        assert (await require(storage, "1")).data == b"new"
        assert (await require(storage, "2")).data is None

    async def test_touch_keeps_data(self, storage: Storage, clock: FrozenClock) -> None:
        """A touch changes the expiry and the revision only."""
        await commit(storage, plain("1", data=b"kept", ttl=timedelta(minutes=2)))
        clock.advance(timedelta(minutes=1))
        before = await require(storage, "1")

        position = await commit(storage, touch("1"))

        expires_at = clock.now() + timedelta(minutes=2)
        assert await require(storage, "1") == replace(before, revision=position.sequence, expires_at=expires_at)

    async def test_scan_pages_have_their_data(self, storage: Storage) -> None:
        """Each item has its own data, with a filter and without."""
        await commit(storage, *(plain(f"{number}", {"n": number}, data=b"%d" % number) for number in range(10)))

        page = await storage.scan(ANA, filter={"n": {"$gte": 5}}, limit=3)

        assert len(page.items) == 3
        assert [item.data for item in page.items] == [key.encode() for key in keys(page.items)]

    @pytest.mark.parametrize("bad", ["text", 1, bytearray(b"x"), memoryview(b"x")], ids=lambda bad: type(bad).__name__)
    async def test_only_bytes_are_data(self, storage: Storage, bad: Any) -> None:
        """Other types are refused, and nothing of their batch is written."""
        with pytest.raises(InvalidInputError, match="data must be bytes"):
            await commit(storage, plain("good"), plain("1", data=bad))

        assert await get(storage, "good") is None

    async def test_data_that_is_too_large_is_refused(self, storage: Storage) -> None:
        """One item's, and that of a batch together."""
        with pytest.raises(TooLargeError, match=r"\d,\d{3}"):
            await commit(storage, plain("1", data=bytes(MAX_DATA_BYTES * 2)))
        data = bytes(MAX_DATA_BYTES)
        puts = [plain(f"{number}", data=data) for number in range(MAX_BATCH_BYTES // MAX_DATA_BYTES + 1)]
        with pytest.raises(TooLargeError, match="Commit it in parts"):
            await storage.commit(Batch(ANA, puts))

        assert (await storage.stats()).items == 0
