"""A sealed storage in files of a test, and ways to get at what the files hold."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

from threadkeep.storage.encryption.cipher import new_master_key
from threadkeep.storage.encryption.key_store import KeyStore, MasterKeys
from threadkeep.storage.encryption.storage import EncryptedStorage
from threadkeep.storage.interface import Batch, Embedding, Item, Operation, Partition, Position, Put, Ref, Storage
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing.clock import FrozenClock

ANA: Final = Partition("owner", ("", "ana.maria@canary.org"))
BOB: Final = Partition("owner", ("", "bob@canary.org"))
NOTES: Final = ("memories", "ana.maria@canary.org")
KEY: Final = new_master_key()


class Files:
    """Where a sealed storage and its keys are."""

    def __init__(self, folder: Path) -> None:
        self.items = folder / "memory.db"
        self.keys = folder / "keys.db"
        self.clock = FrozenClock()

    def storage(self, masters: str = KEY, *, items: Path | None = None, keys: Path | None = None) -> EncryptedStorage:
        """Return a storage that is not connected; *items* and *keys* may be other files."""
        inner = SqliteStorage(items or self.items, clock=self.clock, synchronous="NORMAL")
        key_storage = SqliteStorage(keys or self.keys, clock=self.clock, synchronous="NORMAL")
        store = KeyStore(key_storage, MasterKeys(masters, variable="THREADKEEP_MASTER_KEY"), self.clock)
        return EncryptedStorage(inner, store, self.clock)

    @asynccontextmanager
    async def opened(self, masters: str = KEY, **files: Path) -> AsyncGenerator[EncryptedStorage]:
        """Connect a storage, and close it in the end."""
        storage = self.storage(masters, **files)
        try:
            await storage.connect()
            yield storage
        finally:
            await storage.close()

    def change(self, statement: str, *values: object, file: Path | None = None) -> int:
        """Run *statement* on the items' file, as somebody who has the file might; return how many rows it met."""
        with closing(sqlite3.connect(file or self.items, isolation_level=None)) as connection:
            return connection.execute(statement, values).rowcount

    def rows(self, statement: str, *values: object) -> list[Any]:
        """Return what *statement* selects from the items' file."""
        with closing(sqlite3.connect(self.items)) as connection:
            return connection.execute(statement, values).fetchall()

    def raw(self) -> bytes:
        """Return every byte of the items, of the keys, and of their logs."""
        return b"".join(path.read_bytes() for path in sorted(self.items.parent.iterdir()) if path.is_file())


def note(key: str, text: str = "likes tea", **more: Any) -> Put:
    """Return a put of a searchable item with a vector."""
    fields: dict[str, Any] = {"index": ("data",), "embedding": Embedding("hashing", 2, b"\0\0\x80?\0\0\0\0"), **more}
    return Put(fields.pop("namespace", NOTES), key, {"data": text}, **fields)


async def commit(storage: Storage, *operations: Operation, partition: Partition = ANA) -> Position:
    """Commit *operations* as one batch."""
    return await storage.commit(Batch(partition, operations))


async def get(storage: Storage, key: str, partition: Partition = ANA) -> Item | None:
    """Return one item."""
    (item,) = await storage.get([Ref(partition, NOTES, key)])
    return item


async def text_of(storage: Storage, key: str, partition: Partition = ANA) -> str | None:
    """Return what one item says."""
    item = await get(storage, key, partition)
    return item and item.value["data"]
