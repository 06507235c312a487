"""LangGraph's own stores are moved in whole, as their own classes have written them."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import PutOp

from tests.moving.world import items_of
from threadkeep.clock import SystemClock
from threadkeep.errors import InvalidInputError, NotAStorageError, StorageUnavailableError
from threadkeep.identity import Owner
from threadkeep.storage.interface import Storage
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.storage.sqlite.storage import SqliteStorage
from threadkeep.testing import HashingEmbedder
from threadkeep.testing.models import HashingEmbeddings
from threadkeep.transfer.copying import Moving
from threadkeep.transfer.importer import Copied, Labels, mapping_of
from threadkeep.transfer.sources import PAGE, ForeignSource, Reader, foreign_reader, reading_from

EMBEDDER = HashingEmbedder(dims=16)
INDEX: Any = {"dims": 16, "embed": HashingEmbeddings(dims=16)}
CAIPE = {"data": "likes green tea", "source_thread": "t1", "timestamp": 1_700_000_000.5}
PRYNAI = {
    "text": "asked about tea",
    "type": "episodic",
    "source_thread": "t1",
    "timestamp": "2024-01-02T03:04:05+00:00",
}
LANGMEM = {"kind": "Memory", "content": {"content": "rides a red bike"}}
MANY = PAGE + 30

Items = dict[tuple[tuple[str, ...], str], dict[str, Any]]
WRITTEN: Items = {
    (("memories", "a_b@x_org"), "1"): CAIPE,
    (("memories", "a_b@x_org"), "2"): LANGMEM,
    (("summaries", "a_b@x_org"), "1"): {"summary": "talked about tea", "thread_id": "t1", "timestamp": 1_700_000_000},
    (("users", "bob", "memories", "episodic"), "1"): PRYNAI,
    (("memories", "bob"), "tool"): {"content": "has a cat"},
    (("docs", "日本語", "x-y"), "a/b:c"): {"title": "Tea", "deep": {"n": [1, 2.5, None, True, "日本語"]}},
    **{(("many",), f"{number:04}"): {"n": number} for number in range(MANY)},
}
MAPPING = '{"a_b@x_org": "a.b@x.org"}'


@dataclass
class Stock:
    """A stock store that was written to, and where it is."""

    url: str
    expires: bool


PUTS = [PutOp(namespace, key, value) for (namespace, key), value in WRITTEN.items()]
MORTAL = PutOp(("mortal",), "k", {"n": 1}, ttl=60)


@asynccontextmanager
async def sqlite_store(tmp_path: Path) -> AsyncGenerator[Stock]:
    from langgraph.store.sqlite import SqliteStore

    path = tmp_path / "stock.db"
    with SqliteStore.from_conn_string(str(path)) as store:
        store.setup()
        store.batch([*PUTS, MORTAL])
    yield Stock(f"langgraph+sqlite:///{path}", expires=True)


@asynccontextmanager
async def postgres_store(url: str) -> AsyncGenerator[Stock]:
    from langgraph.store.postgres import AsyncPostgresStore

    pool: Any = {"min_size": 1, "max_size": 4}
    async with AsyncPostgresStore.from_conn_string(url, pool_config=pool, index=INDEX) as store:
        await store.setup()
        await store.abatch([*PUTS, MORTAL])
    yield Stock(f"langgraph+{url}", expires=True)


@asynccontextmanager
async def redis_store(url: str) -> AsyncGenerator[Stock]:
    from langgraph.store.redis.aio import AsyncRedisStore
    from redis.asyncio import Redis

    options: Any = {"index": INDEX, "store_prefix": "mine", "vector_prefix": "mine_vectors"}
    async with Redis.from_url(url) as client, AsyncRedisStore(redis_client=client, **options) as store:
        await store.setup()
        for start in range(0, len(PUTS), 50):
            await store.abatch(PUTS[start : start + 50])
        await store.abatch([MORTAL])
    yield Stock(f"langgraph+{url}?store_prefix=mine", expires=True)


@asynccontextmanager
async def mongodb_store(url: str) -> AsyncGenerator[Stock]:
    from langgraph.store.mongodb import MongoDBStore
    from pymongo import MongoClient

    server, _, database = url.rpartition("/")
    with MongoClient[dict[str, Any]](server) as client:
        store = MongoDBStore(client[database]["store"])
        store.batch(PUTS)
    yield Stock(f"langgraph+{url}?collection=store", expires=False)


def source_of(url: str, mapping: str = MAPPING, **options: Any) -> ForeignSource:
    reader = foreign_reader(url)
    assert reader is not None
    return ForeignSource(reader, Labels(mapping_of(mapping), **options))


async def move_in(stock: Stock, target: Storage, **options: Any) -> Copied:
    source = source_of(stock.url)
    async with reading_from(source):
        await source.require_labels()
        return await Moving(target, EMBEDDER, SystemClock()).copy(source, **options)


async def require_moved(stock: Stock, tmp_path: Path) -> None:
    """Move in, twice, and look at everything."""
    target = SqliteStorage(tmp_path / "target.db", clock=SystemClock())
    await target.connect()
    try:
        copied = await move_in(stock, target)
        held = await items_of(target)
        again = await move_in(stock, target, merge=True)
    finally:
        await target.close()

    count = len(WRITTEN) + stock.expires
    assert (copied.read, copied.written, copied.verified, copied.left_out) == (count, count, count, [])
    assert copied.complete
    assert copied.without_vectors == 0
    assert copied.shapes["memory: data"] == copied.shapes["memory: LangMem's manager"] == copied.shapes["summary"] == 1
    assert (again.present, again.written, again.checksum) == (count, 0, copied.checksum)
    ana = Owner("a.b@x.org")
    by_place = {(item.ref.namespace, item.ref.key): item for item in held.values()}
    for (namespace, key), value in WRITTEN.items():
        there = (namespace[0], ana.label, *namespace[2:]) if namespace[1:2] == ("a_b@x_org",) else namespace
        item = by_place[there, key]
        assert item.value == value
        assert item.embedding is not None
        assert timedelta(0) <= SystemClock().now() - item.created_at < timedelta(minutes=10)
        assert item.created_at <= item.updated_at
    assert by_place[("memories", ana.label), "1"].ref.partition == ana.partition
    if stock.expires:
        mortal = by_place[("mortal",), "k"]
        assert mortal.ttl is not None
        assert mortal.expires_at is not None
        assert abs(mortal.ttl - timedelta(hours=1)) < timedelta(seconds=2)
        assert timedelta(minutes=40) < mortal.expires_at - SystemClock().now() < timedelta(minutes=61)


class TestMovingIn:
    """From each of the stock stores: namespaces, times, lives, shapes, vectors of the model in use."""

    @pytest.mark.slow
    async def test_sqlite(self, tmp_path: Path):
        async with sqlite_store(tmp_path) as stock:
            await require_moved(stock, tmp_path)

    @pytest.mark.slow
    async def test_postgres(self, tmp_path: Path, postgres_url: str):
        async with postgres_store(postgres_url) as stock:
            await require_moved(stock, tmp_path)

    @pytest.mark.slow
    async def test_redis(self, tmp_path: Path, redis_stack_url: str):
        async with redis_store(redis_stack_url) as stock:
            await require_moved(stock, tmp_path)

    @pytest.mark.slow
    async def test_mongodb(self, tmp_path: Path, mongodb_url: str):
        async with mongodb_store(mongodb_url) as stock:
            await require_moved(stock, tmp_path)


class TestLabels:
    @pytest.fixture
    async def stock(self, tmp_path: Path) -> AsyncGenerator[Stock]:
        async with sqlite_store(tmp_path) as stock:
            yield stock

    async def test_a_label_that_may_be_two_stops_it(self, stock: Stock):
        """Before anything is written; the message names the labels."""
        source = source_of(stock.url, "{}")
        async with reading_from(source):
            with pytest.raises(InvalidInputError, match=r"1 labels have '_'.*'a_b@x_org'"):
                await source.require_labels()

    async def test_a_dry_run_tells_what_would_come(self, stock: Stock):
        target = InMemoryStorage(clock=SystemClock())
        source = source_of(stock.url, "{}")
        async with reading_from(source):
            copied = await Moving(target, None, SystemClock()).copy(source, dry=True)

        assert copied.read == len(WRITTEN) + 1 - 3
        assert {left.namespace[1] for left in copied.left_out} == {"a_b@x_org"}
        assert (await target.stats()).items == 0

    async def test_one_may_be_left_out(self, stock: Stock):
        target = InMemoryStorage(clock=SystemClock())
        source = source_of(stock.url, '{"a_b@x_org": null}')
        async with reading_from(source):
            await source.require_labels()
            copied = await Moving(target, None, SystemClock()).copy(source)

        assert copied.written == len(WRITTEN) + 1 - 3
        assert len(copied.left_out) == 3
        assert not copied.unequal


class TestWhatIsNoStore:
    async def test_a_file_of_something_else(self, tmp_path: Path):
        """Or none at all; nothing is made there."""
        with pytest.raises(InvalidInputError, match="does not exist"):
            await reader(f"langgraph+sqlite:///{tmp_path}/none.db").connect()
        (tmp_path / "text.db").write_text("no database, but long enough to be looked at")
        with pytest.raises(StorageUnavailableError):
            await reader(f"langgraph+sqlite:///{tmp_path}/text.db").connect()
        sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (x)").connection.close()
        with pytest.raises(NotAStorageError, match="no store of LangGraph's"):
            await reader(f"langgraph+sqlite:///{tmp_path}/other.db").connect()
        assert not (tmp_path / "none.db").exists()

    async def test_a_row_that_cannot_be_read_is_left_out(self, tmp_path: Path):
        async with sqlite_store(tmp_path) as stock:
            connection = sqlite3.connect(tmp_path / "stock.db")
            connection.execute("UPDATE store SET value = '{' WHERE prefix = 'many' AND key = '0001'")
            connection.commit()
            connection.close()
            source = source_of(stock.url)
            async with reading_from(source):
                copied = await Moving(InMemoryStorage(clock=SystemClock()), None, SystemClock()).copy(source)

        assert [(left.namespace, left.key) for left in copied.left_out] == [(("many",), "0001")]

    @pytest.mark.slow
    async def test_a_database_without_one(self, postgres_url: str, redis_stack_url: str, mongodb_url: str):
        for url in (postgres_url, redis_stack_url, mongodb_url):
            found = reader(f"langgraph+{url}")
            try:
                with pytest.raises(NotAStorageError, match="no store of LangGraph's"):
                    await found.connect()
            finally:
                await found.close()

    async def test_a_server_that_is_not_there_is_named_without_its_password(self):
        """In the name and in the message."""
        for url in ("postgresql://u:secret@127.0.0.1:1/x", "redis://u:secret@127.0.0.1:1/0"):
            found = reader(f"langgraph+{url}")
            try:
                with pytest.raises(StorageUnavailableError) as refused:
                    await found.connect()
            finally:
                await found.close()
            assert "secret" not in str(refused.value) + found.name
            assert "127.0.0.1:1" in found.name

    @pytest.mark.parametrize("url", ["langgraph+oracle://x", "langgraph+sqlite://host/x", "langgraph+sqlite:///"])
    def test_a_url_that_names_none_is_refused(self, url: str):
        with pytest.raises(InvalidInputError):
            foreign_reader(url)

    def test_our_own_are_not_foreign(self):
        assert foreign_reader("sqlite:///m.db") is None


def reader(url: str) -> Reader:
    found = foreign_reader(url)
    assert found is not None
    return found
