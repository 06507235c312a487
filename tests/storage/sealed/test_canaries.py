"""Nothing that was planted is in any byte that a backend keeps."""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import psycopg
import pytest
from bson.raw_bson import RawBSONDocument
from psycopg import sql
from pymongo import MongoClient
from redis import Redis

from threadkeep.storage.encryption.cipher import new_master_key
from threadkeep.storage.encryption.key_store import KeyStore, MasterKeys
from threadkeep.storage.encryption.storage import EncryptedStorage
from threadkeep.storage.interface import Batch, Delete, Due, Embedding, Partition, Put, Storage
from threadkeep.storage.mongodb.storage import MongoStorage
from threadkeep.storage.postgres.pool import PostgresPool
from threadkeep.storage.postgres.storage import PostgresStorage
from threadkeep.storage.redis.storage import RedisStorage
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing.clock import FrozenClock

WORD: Final = "canary"
VECTOR: Final = struct.pack("<6f", 0.18257419, 0.36514837, 0.54772256, 0.73029674, 0.1111, 0.2222)


class Backend(NamedTuple):
    """A storage to plant in, and every byte that it keeps."""

    open: Callable[[str], Storage]
    dump: Callable[[], bytes]


def sqlite(folder: Path, clock: FrozenClock) -> Backend:
    """Files: the database, its log, and what else is beside."""
    return Backend(
        lambda prefix: SqliteStorage(folder / "memory.db", key_prefix=prefix, clock=clock),
        lambda: b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()),
    )


def redis(url: str, clock: FrozenClock) -> Backend:
    """Every key's name and value; as the server serialises them they may be compressed."""

    def dump() -> bytes:
        with Redis.from_url(url) as client:
            found: list[Any] = []
            for name in client.scan_iter(count=1000):
                found.append(name)
                match client.type(name):
                    case b"hash":
                        found += [part for pair in cast("Any", client.hgetall(name)).items() for part in pair]
                    case b"zset":
                        found += cast("Any", client.zrange(name, 0, -1))
                    case b"set":
                        found += cast("Any", client.smembers(name))
                    case b"string":
                        found.append(client.get(name))
                    case kind:
                        pytest.fail(f"a kind of value that is not dumped here: {kind!r}")
            return b"\n".join(found)

    return Backend(lambda prefix: RedisStorage(url, key_prefix=prefix, clock=clock), dump)


def postgres(url: str, clock: FrozenClock) -> Backend:
    """Every row of every table that is not the server's own, as COPY gives it."""

    def dump() -> bytes:
        with psycopg.connect(url) as connection:
            named = connection.execute(
                "SELECT schemaname, tablename FROM pg_tables"
                " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            ).fetchall()
            return b"\n".join(b"".join(copied(connection, *name)) for name in named)

    def copied(connection: psycopg.Connection, schema: str, table: str) -> Iterator[bytes]:
        query = sql.SQL("COPY (SELECT * FROM {}) TO STDOUT (FORMAT binary)").format(sql.Identifier(schema, table))
        with connection.cursor().copy(query) as rows:
            yield from map(bytes, rows)

    return Backend(lambda prefix: PostgresStorage(PostgresPool(url), key_prefix=prefix, clock=clock), dump)


def mongodb(url: str, clock: FrozenClock) -> Backend:
    """Every document of every collection, as it is on the wire."""

    def dump() -> bytes:
        with MongoClient[RawBSONDocument](url, document_class=RawBSONDocument) as client:
            database = client.get_default_database()
            return b"\n".join(row.raw for name in database.list_collection_names() for row in database[name].find())

    return Backend(lambda prefix: MongoStorage(f"{url}?journal=false", key_prefix=prefix, clock=clock), dump)


OVER_SERVERS: Final = {"redis": redis, "postgres": postgres, "mongodb": mongodb}


@pytest.fixture(params=["sqlite", *OVER_SERVERS])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Each backend in turn, empty."""
    clock = FrozenClock()
    if request.param == "sqlite":
        return sqlite(tmp_path, clock)
    return OVER_SERVERS[request.param](request.getfixturevalue(f"{request.param}_url"), clock)


def spellings(word: str) -> list[bytes]:
    """Return *word* as text, in UTF-16, in hexadecimal, and in base64 at each of the three places it may begin."""
    raw = word.encode()
    shifted = [base64.b64encode(b"\0" * shift + raw)[4 * (shift > 0) : -4] for shift in range(3)]
    return [raw, word.encode("utf-16-le"), raw.hex().encode(), *shifted]


async def planted(storage: Storage, now: FrozenClock) -> None:
    """Write canaries in every place that there is, change and delete some."""
    partition = Partition("owner", (f"{WORD}-tenant", f"{WORD}-user@x.org"))
    namespace = (f"{WORD}-root", f"{WORD}-label")
    put = Put(
        namespace,
        f"{WORD}-key",
        {f"{WORD}-field": f"{WORD}-text", "data": f"my {WORD} sings"},
        index=(f"{WORD}-path",),
        embedding=Embedding(f"{WORD}-model", 3, VECTOR),
        due=Due(f"{WORD}-work", now.now()),
        data=f"{WORD}-data".encode(),
    )
    await storage.commit(
        Batch(partition, [put, Put((f".{WORD}-internal",), f"{WORD}-gone", {"a": f"{WORD}"}, index=("a",))])
    )
    await storage.commit(Batch(partition, [Delete((f".{WORD}-internal",), f"{WORD}-gone"), put]))
    await storage.commit(Batch(Partition("root", (f"{WORD}-root",)), [Put((f"{WORD}-root",), f"{WORD}", {"x": 1})]))


class TestCanaries:
    """Texts, labels, user ids, keys, models, kinds of work, vectors, data."""

    async def test_sealed_there_is_none(self, backend: Backend) -> None:
        """Neither while it is open nor afterwards, in the items or among the keys."""
        clock = FrozenClock()
        key = new_master_key()
        store = KeyStore(backend.open("~keys"), MasterKeys(key, variable="THREADKEEP_MASTER_KEY"), clock)
        storage = EncryptedStorage(backend.open(""), store, clock)
        await storage.connect()
        await planted(storage, clock)
        assert len(await storage.namespaces()) == 2
        held = storage._key_cache._cached.values()
        assert len(held) == 2

        dumps = [backend.dump()]
        await storage.close()
        dumps.append(backend.dump())

        for dump in dumps:
            assert len(dump) > 1_000
            assert [text for text in spellings(WORD) if text in dump] == []
            assert not any(VECTOR[at : at + 8] in dump for at in range(0, len(VECTOR) - 8, 4))
            assert key.encode() not in dump
            assert base64.b64decode(key) not in dump

    async def test_in_the_clear_they_are_found(self, backend: Backend) -> None:
        """So the dump shows what there is, and the test above would."""
        storage = backend.open("")
        await storage.connect()
        await planted(storage, FrozenClock())

        dump = backend.dump()
        await storage.close()

        assert WORD.encode() in dump
        assert VECTOR[:8] in dump or base64.b64encode(VECTOR)[:8] in dump

    def test_spellings_are_found(self) -> None:
        """In base64 wherever the word begins."""
        for text in ("canary", "a canary", "my canary", "the canary sings"):
            assert any(one in base64.b64encode(text.encode()) for one in spellings(WORD))
        assert spellings(WORD)[0] in json.dumps({"a": WORD}).encode()
        assert os.urandom(16) not in base64.b64encode(b"canary")
