"""The Redis storage: keys that share a hash slot, scripts that change all or nothing, and long replies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio
import redis
from redis.crc import key_slot

from tests.conftest import missing
from tests.storage.redis_world import ANA, BOB, NOTES, VECTOR, commit, contents, get, lasting, note, opened
from threadkeep.errors import (
    ClosedError,
    NotAStorageError,
    StorageDeniedError,
    StorageFullError,
    StorageVersionError,
)
from threadkeep.ids import new_id
from threadkeep.storage.interface import Batch, Delete, Due, Embedding, Partition, Put, Touch
from threadkeep.storage.redis.codec import RedisKeys, to_digest
from threadkeep.storage.redis.storage import RedisStorage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.texts import NASTY_TEXTS
from threadkeep_conformance.servers import RedisServer

MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest_asyncio.fixture
async def storage(redis_url: str, clock: FrozenClock) -> AsyncIterator[RedisStorage]:
    async with opened(redis_url, clock=clock) as storage:
        yield storage


def companion_of(partition: Partition) -> Partition:
    """Return another partition of the same group."""
    others = (Partition("owner", ("", f"user {number}")) for number in range(10_000))
    return next(other for other in others if other.digest[0] == partition.digest[0] and other != partition)


class TestKeys:
    @pytest.mark.parametrize("prefix", ["", "staging", "a:b", "{x}", "}{", *NASTY_TEXTS])
    def test_all_keys_of_a_commit_share_a_hash_slot(self, prefix: str) -> None:
        """A cluster lets one script write them, with any prefix."""
        for number in range(50):
            digest = to_digest(Partition("owner", ("", f"{number}")))
            keys = (*RedisKeys(prefix).partition(digest), RedisKeys(prefix).result(digest, "a token"))

            assert len({key_slot(key) for key in keys}) == 1
            assert len(set(keys)) == len(keys)

    def test_groups_are_spread_over_the_slots(self) -> None:
        """Each node of a cluster of six gets its share."""
        slots = [key_slot(key) for key in RedisKeys("").groups("heads")]

        shares = [sum(part * 16_384 // 6 <= slot < (part + 1) * 16_384 // 6 for slot in slots) for part in range(6)]
        assert min(shares) > 25

    async def test_all_keys_begin_with_the_prefix(self, redis_url: str, clock: FrozenClock) -> None:
        """An access list can name them, and deployments do not share keys."""
        async with opened(redis_url, clock=clock, key_prefix="team a") as storage:
            await commit(storage, note("1", ttl=MINUTE, due=Due("work", clock.now())))
            await commit(storage, Delete(NOTES, "1"))

        assert contents(redis_url)
        assert all(key.startswith(b"threadkeep:team%20a:") for key in contents(redis_url))

    async def test_the_server_expires_nothing_itself(
        self, storage: RedisStorage, redis_url: str, clock: FrozenClock
    ) -> None:
        """Redis's own expiry would bypass the order and the change log; the storage's clock decides."""
        await commit(storage, note("1", ttl=timedelta(microseconds=1)))

        with redis.Redis.from_url(redis_url) as client:
            assert all(client.ttl(key) == -1 for key in client.scan_iter() if b":results:" not in key)
        clock.advance(MINUTE)
        assert await get(storage, "1") is None
        assert await storage.sweep(now=clock.now()) == 1

    async def test_erased_partition_leaves_no_text(self, storage: RedisStorage, redis_url: str) -> None:
        """The digest, a new epoch and the sequence remain."""
        before = contents(redis_url)
        await commit(storage, note("a key", "a text", ttl=MINUTE, due=Due("work", FrozenClock().now())))
        assert await storage.erase(ANA) == 1

        left = contents(redis_url)

        assert [key for key in lasting(left) if key not in before] == [RedisKeys("").partition(to_digest(ANA)).heads]
        assert not any(word in repr(left) for word in ("a key", "a text", "ana", "work"))

    @pytest.mark.slow
    async def test_rewritten_append_only_file_has_no_erased_text(self, clock: FrozenClock) -> None:
        """As docs/storage.md says: the log of commands has the text until BGREWRITEAOF."""

        def in_files(server: RedisServer) -> bool:
            return any(b"planted canary" in path.read_bytes() for path in server.folder.rglob("*") if path.is_file())

        if lacking := RedisServer.missing():
            missing(", ".join(lacking))
        with RedisServer(settings={"appendfsync": "always"}) as server, redis.Redis.from_url(server.url) as client:
            async with opened(server.url, clock=clock) as storage:
                await commit(storage, note("1", "planted canary"))
                await storage.erase(ANA)
            assert in_files(server)

            client.bgrewriteaof()
            async with asyncio.timeout(30):
                while client.info("persistence")["aof_rewrite_in_progress"] or in_files(server):
                    await asyncio.sleep(0.02)

    async def test_deleted_items_leave_no_text(self, storage: RedisStorage, redis_url: str, clock: FrozenClock) -> None:
        """Only heads and partitions remain."""
        empty = contents(redis_url)
        await commit(storage, Put(NOTES, "1", {"data": "a text"}, ttl=MINUTE, due=Due("work", clock.now())))
        await commit(storage, Delete(NOTES, "1"))
        await commit(storage, Put(NOTES, "2", {"data": "a text"}, ttl=MINUTE))
        await storage.sweep(now=clock.advance(MINUTE))

        left = {key.rpartition(b":")[2] for key in lasting(contents(redis_url)) if key not in empty}

        assert left == {b"heads", b"partitions"}

    async def test_partitions_of_one_group_do_not_mix(self, storage: RedisStorage, clock: FrozenClock) -> None:
        """Erasing or sweeping one of them leaves the members of the other in the shared indexes."""
        other, due = companion_of(ANA), Due("work", clock.now())
        for partition in (ANA, other):
            await commit(storage, note("1", ttl=MINUTE, due=due), note("2", due=due), partition=partition)
        await commit(storage, note("3", ttl=MINUTE * 2), partition=other)

        assert await storage.erase(ANA) == 2

        found = await storage.due("work", now=clock.now(), limit=10)
        assert {(item.ref.partition, item.ref.key) for item in found} == {(other, "1"), (other, "2")}
        assert await storage.namespaces() == (NOTES,)
        assert (await storage.partitions(), (await storage.stats()).items) == ((other,), 3)
        assert await storage.sweep(now=clock.advance(MINUTE)) == 1
        assert (await storage.stats()).items == 2


class TestLayout:
    @pytest.mark.parametrize(
        ("put", "mark", "body"),
        [
            (
                note("1", ttl=MINUTE, due=Due("work", FrozenClock().now())),
                b"0000000000000001" + 2 * b"101741944413589793" + b"101741944473589793" + b"1" + b"101741944413589793"
                b'000000000060000000"work"',
                b'\x14\0\0\0\x08\0\0\0\x0b\0\0\0{"data":"likes tea"}["data"]2 "hashing"\0\0\x80?\0\0\0\0',
            ),
            (
                Put(NOTES, "1", {}),
                b"0000000000000001" + 2 * b"101741944413589793" + 18 * b"9" + b"0" + 18 * b"9" + 18 * b"0",
                b"\x02\0\0\0\x02\0\0\0\0\0\0\0{}[]",
            ),
        ],
    )
    async def test_rows_of_layout_1_do_not_change(
        self, storage: RedisStorage, redis_url: str, put: Put, mark: bytes, body: bytes
    ) -> None:
        """Storages of earlier versions stay readable, and theirs read what this one writes."""
        await commit(storage, put)

        fields = contents(redis_url)[RedisKeys("").partition(to_digest(ANA)).items]

        assert fields == {b'm["memories","ana"]\n"1"': mark, b'b["memories","ana"]\n"1"': body}
        item = await get(storage, "1")
        assert item
        assert (item.value, item.index, item.embedding) == (put.value, put.index, put.embedding)
        assert (item.ttl, item.due, item.revision) == (put.ttl, put.due, 1)


class TestLongReplies:
    async def test_follower_misses_no_write_between_the_parts(self, storage: RedisStorage) -> None:
        """A long reply comes in parts and has the position of the last part."""
        await storage.commit(Batch(ANA, [note(f"{number}") for number in range(5_000)]))
        since = await commit(storage, note("last"))
        await storage.commit(Batch(ANA, [note(f"{number}", "again") for number in range(4_000)]))

        async def write() -> None:
            for number in range(150):
                await commit(
                    storage, note(f"{number}", "newest"), Delete(NOTES, f"{3_999 - number}"), note(f"new {number}")
                )

        whole, part, _ = await asyncio.gather(storage.changes(ANA, None), storage.changes(ANA, since), write())

        for changes in (whole, part):
            held = {f"{number}": "likes tea" for number in range(5_000)} if changes is part else {}
            for _, key in changes.removed:
                held.pop(key, None)
            held.update((item.ref.key, item.value["data"]) for item in changes.puts)
            rest = await storage.changes(ANA, changes.position)
            for _, key in rest.removed:
                held.pop(key, None)
            held.update((item.ref.key, item.value["data"]) for item in rest.puts)
            held.pop("last", None)
            now = {item.ref.key: item.value["data"] for item in (await storage.changes(ANA, None)).puts}
            now.pop("last")
            assert held == now
            revisions = [item.revision for item in changes.puts]
            assert revisions == sorted(revisions)

    async def test_reply_of_many_megabytes_is_complete(self, storage: RedisStorage) -> None:
        """Large rows come a few at a time."""
        large = Embedding("model", 250_000, bytes(1_000_000))
        puts = [Put(NOTES, f"{number}", {"n": number}, ("n",), large) for number in range(12)]
        await storage.commit(Batch(ANA, puts))

        changes = await storage.changes(ANA, None)
        page = await storage.scan(ANA, limit=12)

        assert sorted(item.value["n"] for item in changes.puts) == list(range(12))
        assert sorted(item.value["n"] for item in page.items) == list(range(12))
        assert all(item.embedding == large for item in (*changes.puts, *page.items))

    async def test_scan_continues_past_items_that_do_not_match(self, storage: RedisStorage, clock: FrozenClock) -> None:
        """Thousands of items of other namespaces, all expired, are between the two that match."""
        await commit(storage, note("first"))
        await storage.commit(Batch(ANA, [Put(("else",), f"{number}", {}, ttl=MINUTE) for number in range(9_000)]))
        await commit(storage, note("last"))
        clock.advance(MINUTE)

        assert [item.ref.key for item in (await storage.scan(ANA, prefix=NOTES)).items] == ["last", "first"]
        assert [item.ref.key for item in (await storage.scan(ANA, direction="oldest", limit=2)).items] == [
            "first",
            "last",
        ]

    async def test_due_work_is_found_behind_expired_items(self, storage: RedisStorage, clock: FrozenClock) -> None:
        """It comes in the order in which it became due."""
        long_ago = clock.now() - MINUTE
        await storage.commit(
            Batch(ANA, [note(f"{number}", ttl=MINUTE, due=Due("work", long_ago)) for number in range(600)])
        )
        now = clock.advance(MINUTE)
        await commit(storage, note("second", due=Due("work", now)), partition=companion_of(ANA))
        await commit(storage, note("first", due=Due("work", now - MINUTE / 2)), partition=BOB)

        assert [item.ref.key for item in await storage.due("work", now=now, limit=1)] == ["first"]
        assert [item.ref.key for item in await storage.due("work", now=now, limit=9)] == ["first", "second"]

    async def test_due_returns_ten_thousand_items(self, storage: RedisStorage, clock: FrozenClock) -> None:
        """They are the longest due, and more than one Lua call can unpack."""
        due = [Due("work", clock.now() + timedelta(microseconds=number)) for number in range(10_000)]
        await storage.commit(Batch(ANA, [Put(NOTES, f"{n}", {}, due=due[n]) for n in range(10_000)]))
        await commit(storage, *(Put(NOTES, f"{n}", {}, due=Due("work", clock.now())) for n in range(9)), partition=BOB)

        found = await storage.due("work", now=clock.now() + MINUTE, limit=10_000)

        assert len(found) == 10_000
        assert "9999" not in {item.ref.key for item in found}

    async def test_thousands_are_swept(self, storage: RedisStorage, clock: FrozenClock) -> None:
        """The sweep commits in parts, and a follower gets every removal."""
        begun = await storage.commit(Batch(ANA, [note(f"{number}", ttl=MINUTE) for number in range(2_500)]))
        await commit(storage, note("kept"))

        assert await storage.sweep(now=clock.advance(MINUTE)) == 2_500

        assert len((await storage.changes(ANA, begun)).removed) == 2_500
        assert (await storage.stats()).items == 1


class TestAllOrNothing:
    KEYS = ("heads", "partitions", "namespaces", "due", "expiring", "items", "order", "searchable", "removed")

    @pytest.mark.parametrize("kind", KEYS)
    async def test_a_key_of_another_type_refuses_the_whole_batch(
        self, storage: RedisStorage, redis_url: str, clock: FrozenClock, kind: str
    ) -> None:
        """The script checks all nine keys before it writes."""
        with redis.Redis.from_url(redis_url) as client:
            client.set(getattr(RedisKeys("").partition(to_digest(ANA)), kind), "of another application")
        before = contents(redis_url)

        with pytest.raises(NotAStorageError, match="LANGGRAPH_STORE_KEY_PREFIX"):
            await commit(storage, note("1", ttl=MINUTE, due=Due("work", clock.now())), note("2"))
        with pytest.raises(NotAStorageError, match="LANGGRAPH_STORE_KEY_PREFIX"):
            await storage.erase(ANA)

        assert contents(redis_url) == before

    @pytest.mark.parametrize("right", ["hset", "hincrby", "zadd", "zrem", "unlink", "zremrangebyscore", "hdel", "set"])
    async def test_a_missing_right_refuses_the_whole_batch(
        self, redis_url: str, clock: FrozenClock, right: str
    ) -> None:
        """A user who lacks one command writes nothing."""
        user = f"user-{new_id()}"
        with redis.Redis.from_url(redis_url) as client:
            client.execute_command("ACL", "SETUSER", user, "on", ">pw", "~threadkeep:*", "+@all", f"-{right}")
        async with opened(redis_url, clock=clock) as storage:
            await commit(storage, note("0"), note("1"))
        before = contents(redis_url)

        async with opened(redis_url.replace("//", f"//{user}:pw@"), clock=clock) as limited:
            with pytest.raises(StorageDeniedError, match=right):
                await commit(limited, note("1", ttl=MINUTE), Delete(NOTES, "0"))
            with pytest.raises(StorageDeniedError, match=right):
                await limited.erase(ANA)
            assert (await get(limited, "1")) is not None

        assert contents(redis_url) == before

    async def test_documented_rights_are_enough(self, redis_url: str, clock: FrozenClock) -> None:
        """INFO and CONFIG are not among them."""
        user = f"user-{new_id()}"
        rights = "+@read +@write +eval +evalsha +select +ping"
        with redis.Redis.from_url(redis_url) as client:
            client.execute_command("ACL", "SETUSER", user, "on", ">pw", "~threadkeep:*", *rights.split())

        async with opened(redis_url.replace("//", f"//{user}:pw@"), clock=clock) as storage:
            await commit(storage, note("1", due=Due("work", clock.now())))
            assert (await commit(storage, note("2"))).sequence == 2
            assert await storage.due("work", now=clock.now(), limit=1)
            assert "does not say" in " ".join(await storage.advice())
        async with opened(redis_url, clock=clock) as other:
            assert (await commit(other, note("3"))).sequence == 3

    async def test_full_server_refuses_writes_that_add(self, storage: RedisStorage, redis_url: str) -> None:
        """At maxmemory a batch that adds is refused whole; reading, deleting, forgetting and erasing go on."""
        position = await commit(storage, note("1"), note("2"), note("3"))
        with redis.Redis.from_url(redis_url) as client:
            client.config_set("maxmemory", 1)
            try:
                before = contents(redis_url)
                unheard = Put(("audit",), "1", {"forgotten": 0})
                for batch in (
                    [note("4"), Delete(NOTES, "1")],
                    [Delete(NOTES, "1"), note("4")],
                    [Touch(NOTES, "1")],
                    [Delete(NOTES, "9"), unheard],
                ):
                    with pytest.raises(StorageFullError, match="maxmemory"):
                        await storage.commit(Batch(ANA, batch))
                assert contents(redis_url) == before

                assert await get(storage, "1")
                assert (await storage.changes(ANA, None)).position == position
                await commit(storage, Delete(NOTES, "1"))
                await commit(storage, Put(("audit",), "1", {"forgotten": 1}), Delete(NOTES, "2"))
                assert await storage.erase(ANA) == 2
            finally:
                client.config_set("maxmemory", 0)

        await commit(storage, note("1"))
        assert await get(storage, "1")

    async def test_batch_that_reaches_maxmemory_half_way_is_complete(
        self, storage: RedisStorage, redis_url: str
    ) -> None:
        """The server checks its memory before the first write, never between two."""
        with redis.Redis.from_url(redis_url) as client:
            limit = int(client.info("memory")["used_memory"]) + 10_000_000  # what is sent counts, too
            client.config_set("maxmemory", limit)
            try:
                await storage.commit(Batch(ANA, [note(f"{number}", "x" * 2_000) for number in range(3_000)]))
                assert int(client.info("memory")["used_memory_peak"]) > limit
            finally:
                client.config_set("maxmemory", 0)

        assert (await storage.stats()).items == 3_000
        assert len((await storage.changes(ANA, None)).puts) == 3_000

    async def test_missing_script_is_sent_again(self, storage: RedisStorage, redis_url: str) -> None:
        """This holds for every script, also among concurrent calls."""
        with redis.Redis.from_url(redis_url) as client:
            client.script_flush()

        await asyncio.gather(*(commit(storage, note(f"{number}")) for number in range(20)))
        with redis.Redis.from_url(redis_url) as client:
            client.script_flush()

        assert len((await storage.scan(ANA)).items) == 20
        assert len((await storage.changes(ANA, None)).puts) == 20
        assert await storage.namespaces() == (NOTES,)
        assert (await storage.stats()).items == 20
        assert await storage.due("work", now=FrozenClock().now(), limit=1) == ()
        assert await storage.erase(ANA) == 20


class TestBytes:
    @pytest.mark.parametrize("vector", [None, VECTOR])
    @pytest.mark.parametrize("data", [b"", bytes(range(256)), b"x" * 5_000_000])
    async def test_bytes_are_stored_as_they_are(
        self, storage: RedisStorage, redis_url: str, data: bytes, vector: Embedding | None
    ) -> None:
        """They end the body, behind the vectors, and every read returns them."""
        paths = ("data",) if vector else ()
        await commit(storage, Put(NOTES, "1", {"data": "tea"}, paths, vector, data=data))

        body = contents(redis_url)[RedisKeys("").partition(to_digest(ANA)).items][b'b["memories","ana"]\n"1"']
        items = [await get(storage, "1"), *(await storage.scan(ANA)).items, *(await storage.changes(ANA, None)).puts]

        assert body.endswith(data)
        assert len(body) < len(data) + 100
        assert len(items) == (3 if vector else 2)
        assert all(item and (item.data, item.embedding) == (data, vector) for item in items)


class TestOpening:
    async def test_newer_layout_is_refused(self, redis_url: str) -> None:
        """The error names the layout."""
        async with opened(redis_url):
            pass
        with redis.Redis.from_url(redis_url) as client:
            client.hset("threadkeep::storage", "layout", 2)
        before = contents(redis_url)

        with pytest.raises(StorageVersionError, match="layout 2"):
            async with opened(redis_url):
                pass

        assert contents(redis_url) == before

    @pytest.mark.parametrize("found", ["a string", {"layout": "x", "birth": "y"}])
    async def test_foreign_storage_key_is_refused(self, redis_url: str, found: str | dict[str, str]) -> None:
        """Another key prefix works."""
        with redis.Redis.from_url(redis_url) as client:
            if isinstance(found, str):
                client.set("threadkeep::storage", found)
            else:
                client.hset("threadkeep::storage", mapping=found)
        before = contents(redis_url)

        with pytest.raises(NotAStorageError, match="LANGGRAPH_STORE_KEY_PREFIX"):
            async with opened(redis_url):
                pass

        assert contents(redis_url) == before
        async with opened(redis_url, key_prefix="mine") as storage:
            await commit(storage, note("1"))

    async def test_commit_before_connect_is_refused(self, redis_url: str) -> None:
        """The constructor does no I/O."""
        storage = RedisStorage(redis_url, clock=FrozenClock())

        with pytest.raises(ClosedError, match="connect"):
            await commit(storage, note("1"))

    async def test_databases_of_one_server_are_separate(self, redis_url: str) -> None:
        """The URL ends with the number of the database."""
        other = redis_url.removesuffix("/0") + "/1"
        async with opened(redis_url) as first, opened(other) as second:
            await commit(first, note("1"))

            assert await get(second, "1") is None
            assert await second.erase(ANA) == 0
            assert await get(first, "1")

    async def test_vector_of_any_bytes_is_returned(self, storage: RedisStorage) -> None:
        """All 256 values survive."""
        vector = Embedding("model", 64, bytes(range(256)))
        await commit(storage, Put(NOTES, "1", {"data": "x"}, ("data",), vector))

        item = await get(storage, "1")
        assert item
        assert item.embedding == vector
        assert vector != VECTOR
