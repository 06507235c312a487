"""A Redis that is killed, stalls, loses data or is resharded: no acknowledged commit is lost or done twice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
import redis
from redis.crc import key_slot

from tests.fakes.faults import FaultProxy
from tests.redis_cluster import RedisCluster
from tests.storage.forking import ended_well, forked
from tests.storage.redis_world import ANA, BOB, NOTES, commit, get, note, opened, patient
from threadkeep.errors import (
    ClosedError,
    PartitionErasedError,
    RevisionConflictError,
    StorageDeniedError,
    StorageError,
    StorageUnavailableError,
)
from threadkeep.storage.interface import Batch, Partition, Put, Ref
from threadkeep.storage.redis.client import COMMIT, ERASE
from threadkeep.storage.redis.codec import RedisKeys, to_digest
from threadkeep.storage.redis.storage import RedisStorage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract.changes import Follower
from threadkeep_conformance.servers import RedisServer

RECOVERY_SECONDS = 30.0
"""How long a test waits for what has to happen: far longer than it takes, also on a machine that is busy."""
Behind: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]


@pytest.fixture(scope="module")
def keeper() -> Iterator[ThreadPoolExecutor]:
    """The thread that starts the server again: a server ends with the thread that started it."""
    with ThreadPoolExecutor(1, "keeper") as keeper:
        yield keeper


@pytest.fixture(scope="module")
def server(keeper: ThreadPoolExecutor) -> Iterator[RedisServer]:
    """A server of this module's own that syncs before it answers."""
    server = RedisServer(settings={"appendfsync": "always"})
    keeper.submit(server.__enter__).result()
    yield server
    keeper.submit(server.__exit__).result()


@pytest.fixture
def behind(keeper: ThreadPoolExecutor) -> Behind:
    """Runs work on the server in its thread while the event loop of the tests continues."""
    return lambda work: asyncio.get_running_loop().run_in_executor(keeper, work)


@pytest.fixture
def url(server: RedisServer) -> str:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    return server.url


@pytest.fixture
def proxy(server: RedisServer) -> Iterator[FaultProxy]:
    with FaultProxy(server.port) as proxy:
        yield proxy


@pytest_asyncio.fixture
async def storage(url: str, proxy: FaultProxy) -> AsyncIterator[RedisStorage]:
    """A storage behind the proxy that has committed once, so the server knows the script."""
    async with opened(proxy.url_of(url)) as storage:
        await commit(storage, note("0"))
        yield storage


def counter(n: int, by: str, **more: Any) -> Put:
    return Put(NOTES, "counter", {"n": n, "by": by}, **more)


async def counted(storage: RedisStorage, by: str, times: int) -> None:
    """Add one to a counter so many times, and find out after each failure whether it was done."""
    for turn in range(times):
        name, done = f"{by} {turn}", False
        while not done:
            try:
                item = await get(storage, "counter")
                if item and name in item.value["by"].split(","):
                    break
                names = ",".join([*(item.value["by"].split(",") if item else []), name])
                expected = item.revision if item else "absent"
                await commit(storage, counter(item.value["n"] + 1 if item else 1, names, expect=expected))
                done = True
            except (RevisionConflictError, StorageUnavailableError):
                await asyncio.sleep(0)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until *condition* holds, as long as recovering may take."""
    async with asyncio.timeout(RECOVERY_SECONDS):
        while not await condition():
            await asyncio.sleep(0.02)


async def connections_closed() -> None:
    """Let the event loop see that the connections were closed."""
    await asyncio.sleep(0.05)


@asynccontextmanager
async def silent_proxy(url: str) -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """Yield the URL of a proxy before the server, and a function that silences the present connections."""
    silent: set[asyncio.StreamWriter] = set()
    present: set[asyncio.StreamWriter] = set()
    serving: set[asyncio.Task[Any]] = set()
    port = urlsplit(url).port or 0

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if client not in silent:
                writer.write(data)
        writer.close()
        await writer.wait_closed()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        present.add(writer)
        if task := asyncio.current_task():
            serving.add(task)
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, server_writer, writer), pump(server_reader, writer, writer))

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield url.replace(f":{port}", f":{listening.sockets[0].getsockname()[1]}"), lambda: silent.update(present)
    await asyncio.gather(*serving)


class TestKilledServer:
    @pytest.mark.slow
    async def test_acknowledged_commits_survive_and_none_is_done_twice(
        self, server: RedisServer, url: str, behind: Behind
    ) -> None:
        """Killed three times under load: every acknowledged note is there, and every increment once."""
        acknowledged: list[str] = []
        stop = asyncio.Event()

        async def notes(storage: RedisStorage, name: str) -> None:
            number = 0
            while not stop.is_set():
                keys = [f"{name} {number} {part}" for part in range(3)]
                try:
                    await commit(storage, *(note(key) for key in keys), partition=BOB)
                    acknowledged.extend(keys)
                    number += 1
                except StorageUnavailableError:
                    number += 1  # it may or may not be there; it was not acknowledged

        async with opened(url, timeout=patient(300)) as storage, opened(url, timeout=patient(300)) as other:
            increments = [counted(each, f"{n}", 60) for n, each in enumerate((storage, other))]
            work = [asyncio.create_task(each) for each in (*increments, notes(storage, "a"), notes(other, "b"))]
            for _ in range(3):
                seen = len(acknowledged)
                while len(acknowledged) < seen + 30:
                    await asyncio.sleep(0)
                await behind(server.restart)
                recovered = len(acknowledged)

                async def is_back(before: int = recovered) -> bool:
                    return len(acknowledged) > before

                await until(is_back)
            await asyncio.gather(*work[:2])
            stop.set()
            await asyncio.gather(*work[2:])

            item = await get(storage, "counter")
            refs = [Ref(BOB, NOTES, key) for key in acknowledged]
            there = {found.ref.key for found in (await storage.scan(BOB, limit=100_000)).items}
            assert item
            assert item.value["n"] == 120
            assert all(await storage.get(refs))
            assert all(sum(f"{key[:-1]}{part}" in there for part in range(3)) == 3 for key in there)

    async def test_commits_after_a_restart_use_new_connections(
        self, server: RedisServer, url: str, behind: Behind
    ) -> None:
        """The idle connections are dead, and no caller gets an error."""
        async with opened(url) as storage:
            await asyncio.gather(*(commit(storage, note(f"{number}")) for number in range(20)))

            await behind(server.restart)

            await asyncio.gather(*(commit(storage, note(f"{number}", "again")) for number in range(20)))

    async def test_unreachable_server_raises_and_recovers(self, server: RedisServer, url: str, behind: Behind) -> None:
        """Every method raises one sentence; afterwards the same storage works."""
        async with opened(url, timeout=patient(300)) as storage:
            await commit(storage, note("1"))
            await behind(server.kill)
            try:
                calls = [
                    commit(storage, note("2")),
                    storage.get([Ref(ANA, NOTES, "1")]),
                    storage.position(ANA),
                    storage.scan(ANA),
                    storage.changes(ANA, None),
                    storage.namespaces(),
                    storage.partitions(),
                    storage.due("work", now=FrozenClock().now(), limit=1),
                    storage.sweep(now=FrozenClock().now()),
                    storage.erase(ANA),
                    storage.stats(),
                ]
                errors = await asyncio.gather(*calls, return_exceptions=True)
                with pytest.raises(StorageUnavailableError, match="cannot be reached"):
                    async with opened(url, timeout=patient(300)):
                        pass
            finally:
                await behind(server.start)

            assert {type(error) for error in errors} == {StorageUnavailableError}
            assert "Connection refused" in str(errors[0])

            async def reads() -> bool:
                return await get(storage, "1") is not None

            await until(reads)

    async def test_commit_waits_for_a_server_that_restarts(self, server: RedisServer, url: str, behind: Behind) -> None:
        """A short absence raises nothing."""
        async with opened(url, timeout=patient(20_000)) as storage:
            await commit(storage, note("1"))
            await behind(server.kill)
            await connections_closed()
            waiting = asyncio.create_task(commit(storage, note("2", expect="absent")))
            await asyncio.sleep(0.1)

            await behind(server.start)

            await waiting
            assert await get(storage, "2")


class TestServerThatLosesCommits:
    async def test_lost_revisions_are_not_used_again(self) -> None:
        """Followers are reset, and an expectation of a lost revision fails."""
        with RedisServer(settings={"appendonly": "no"}) as server:
            async with opened(server.url) as storage, opened(server.url) as other:
                follower, late = Follower(), Follower()
                await commit(storage, note("1"), note("2"))
                with redis.Redis.from_url(server.url) as client:
                    client.save()
                await commit(storage, note("lost"))
                lost = await commit(storage, note("1", "lost"))
                await follower.follow(storage)

                server.restart()
                assert (await storage.position(ANA)).sequence < lost.sequence
                for number in range(5):
                    await commit(other, note("1", f"{number}"))
                await follower.follow(storage)
                await late.follow(storage)

                assert follower.items == late.items
                assert {item.value["data"] for item in follower.items.values()} == {"4", "likes tea"}
                with pytest.raises(RevisionConflictError):
                    await commit(storage, note("1", expect=lost.sequence))
                assert (await commit(storage, note("3"))).sequence == late.position.sequence + 1  # type: ignore[union-attr]

    async def test_empty_server_begins_a_new_epoch(self) -> None:
        """Commits of the old epoch are refused, and followers are reset."""
        with RedisServer(settings={"appendonly": "no"}) as server:
            async with opened(server.url) as storage:
                before = await commit(storage, note("1"))
                never = await storage.position(BOB)
                follower = Follower()
                await follower.follow(storage)

                server.restart()
                await connections_closed()

                with pytest.raises(PartitionErasedError):
                    await commit(storage, note("2"), epoch=before.epoch)
                with pytest.raises(PartitionErasedError):
                    await commit(storage, note("2"), partition=BOB, epoch=never.epoch)
                after = await commit(storage, note("3"))
                await follower.follow(storage)
                assert after.epoch != before.epoch
                assert [key for _, key in follower.items] == ["3"]
                assert (await storage.position(BOB)).epoch == after.epoch


class TestBrokenConnection:
    async def test_commit_with_a_lost_reply_is_done_once_and_acknowledged(
        self, storage: RedisStorage, proxy: FaultProxy
    ) -> None:
        """It is sent again, and the server returns the result that it kept: an expectation does not fail on itself."""
        cut = proxy.cut_at(COMMIT.digest.encode(), delivered=True)

        position = await commit(storage, note("1", expect="absent"))

        assert cut.is_set()
        assert position.sequence == 2
        assert await storage.position(ANA) == position
        with pytest.raises(RevisionConflictError):
            await commit(storage, note("1", expect="absent"))
        assert await storage.position(ANA) == position

    async def test_commit_with_all_replies_lost_is_done_once(self, url: str, proxy: FaultProxy) -> None:
        """The caller gets an error because the outcome is unknown, and a retry that expects something is refused."""
        async with opened(url) as other, opened(proxy.url_of(url), timeout=patient(300)) as storage:
            await commit(storage, note("0"))
            cuts = [proxy.cut_at(COMMIT.digest.encode(), delivered=True) for _ in range(1_000)]

            with pytest.raises(StorageUnavailableError):
                await commit(storage, note("1", expect="absent"))

            assert cuts[1].is_set()
            assert (await other.position(ANA)).sequence == 2
            with pytest.raises(RevisionConflictError):
                await commit(other, note("1", expect="absent"))

    async def test_commit_after_an_unknown_one_is_not_taken_for_it(
        self, storage: RedisStorage, proxy: FaultProxy
    ) -> None:
        """Each commit has a token of its own, also where another one comes between the two attempts."""
        proxy.cut_at(COMMIT.digest.encode(), delivered=True)

        positions = await asyncio.gather(*(commit(storage, note(f"{number}")) for number in range(10)))

        assert sorted(position.sequence for position in positions) == list(range(2, 12))
        assert (await storage.position(ANA)).sequence == 11

    @pytest.mark.parametrize("pattern", ["the digest", "the middle of it"])
    async def test_commit_that_is_cut_off_is_sent_again(
        self, storage: RedisStorage, proxy: FaultProxy, pattern: str
    ) -> None:
        """Before it arrives, or half way through a megabyte; the whole batch is there once."""
        half = "x" * 500_000
        batch = [note("1", expect="absent"), note("2", f"{half}the middle of it{half}", expect="absent")]
        cut = proxy.cut_at(COMMIT.digest.encode() if pattern == "the digest" else pattern.encode(), delivered=False)

        position = await commit(storage, *batch)

        assert cut.is_set()
        assert position.sequence == 2
        assert await storage.position(ANA) == position
        assert await get(storage, "1")
        assert await get(storage, "2")

    @pytest.mark.parametrize("delivered", [True, False])
    async def test_read_is_sent_again(self, storage: RedisStorage, proxy: FaultProxy, delivered: bool) -> None:
        """The caller gets the answer."""
        for pattern in (b"HMGET", b"HGET", b"EVALSHA"):
            cut = proxy.cut_at(pattern, delivered=delivered)
            assert await get(storage, "0")
            assert (await storage.position(ANA)).sequence == 1
            assert len((await storage.scan(ANA)).items) == 1
            assert cut.is_set()

    async def test_erasure_with_a_lost_reply_is_done_once(self, storage: RedisStorage, proxy: FaultProxy) -> None:
        """It returns how many items there were, and begins one new epoch."""
        await storage.erase(BOB)
        cut = proxy.cut_at(ERASE.digest.encode(), delivered=True)

        assert await storage.erase(ANA) == 1

        assert cut.is_set()
        assert await storage.erase(ANA) == 0
        assert await get(storage, "0") is None

    async def test_results_of_writes_expire_by_themselves(self, storage: RedisStorage, url: str) -> None:
        """A minute later than the last attempt; they hold an epoch and numbers, nothing of the items."""
        await commit(storage, note("a key", "a text"))
        await storage.erase(ANA)

        with redis.Redis.from_url(url) as client:
            keys = list(client.scan_iter("*:results:*"))
            assert len(keys) == 3
            assert all(60 <= client.ttl(key) <= 90 for key in keys)
            contents = [bytes(client.get(key) or b"") for key in keys]
            assert not any(word in content for content in contents for word in (b"a key", b"a text", b"ana"))

    async def test_all_waiting_callers_get_an_error(self, storage: RedisStorage, proxy: FaultProxy) -> None:
        """When the network returns, all connections are made again."""
        proxy.refuse()
        hasty = [asyncio.wait_for(get(storage, "0"), RECOVERY_SECONDS) for _ in range(40)]
        failed = await asyncio.gather(*hasty, return_exceptions=True)
        proxy.accept()

        assert {type(error) for error in failed} == {StorageUnavailableError}
        assert all(await asyncio.gather(*(get(storage, "0") for _ in range(40))))


class TestStalledServer:
    async def test_each_call_takes_its_timeout_at_most(self, server: RedisServer, url: str) -> None:
        """Connections stay open and no reply comes; the storage works again when the server does."""
        async with opened(url, timeout=patient(20_000)) as storage, opened(url, timeout=patient(150)) as hasty:
            await commit(storage, note("1"))
            server.pause()
            try:
                async with asyncio.timeout(RECOVERY_SECONDS):
                    with pytest.raises(StorageUnavailableError, match="did not answer in time"):
                        await get(hasty, "1")
                    with pytest.raises(StorageUnavailableError, match="THREADKEEP_REDIS_TIMEOUT_MS"):
                        await commit(hasty, note("2", expect="absent"))
            finally:
                server.resume()

            async def reads() -> bool:
                try:
                    return await get(hasty, "1") is not None
                except StorageUnavailableError:
                    return False

            await until(reads)
            assert await get(storage, "1")

    async def test_waiting_for_a_connection_counts_to_the_timeout(self, url: str, proxy: FaultProxy) -> None:
        """Two calls without a reply use both connections; the other calls time out, too."""
        few = f"{proxy.url_of(url)}?max_connections=2"
        async with opened(few, timeout=patient(20_000)) as storage, opened(few, timeout=patient(150)) as hasty:
            await asyncio.gather(*(commit(storage, note(f"{number}")) for number in range(50)))
            proxy.stall()
            try:
                waiting = (get(hasty, f"{number}") for number in range(50))
                async with asyncio.timeout(RECOVERY_SECONDS):
                    failed = await asyncio.gather(*waiting, return_exceptions=True)
            finally:
                proxy.flow()

            assert {type(error) for error in failed} == {StorageUnavailableError}
            assert all(await asyncio.gather(*(get(storage, f"{number}") for number in range(50))))

    async def test_silent_connections_cost_one_timeout(self, url: str) -> None:
        """As behind a firewall that dropped them: the call that times out closes all idle connections."""
        async with silent_proxy(url) as (through, fall_silent), opened(through, timeout=patient(800)) as storage:
            await asyncio.gather(*(commit(storage, note(f"{number}")) for number in range(5)))
            fall_silent()

            with pytest.raises(StorageUnavailableError, match="did not answer in time"):
                await get(storage, "1")
            assert all(await asyncio.gather(*(get(storage, f"{number}") for number in range(5))))

    async def test_cancelled_callers_leak_no_connection(self, url: str) -> None:
        """After hundreds of cancellations, no caller gets the reply of another and none waits for ever."""
        dice = random.Random(7)
        async with opened(f"{url}?max_connections=3") as storage:
            await commit(storage, *(note(f"{number}", f"{number}") for number in range(40)))
            for _ in range(40):
                tasks = {number: asyncio.create_task(get(storage, f"{number}")) for number in range(20)}
                for _ in range(dice.randrange(12)):
                    await asyncio.sleep(0)
                for number in dice.sample(range(20), 10):
                    tasks[number].cancel()
                results = await asyncio.gather(*tasks.values(), return_exceptions=True)
                for number, item in zip(tasks, results, strict=True):
                    if not isinstance(item, asyncio.CancelledError):
                        assert not isinstance(item, BaseException)
                        assert item
                        assert item.value == {"data": f"{number}"}

            assert all(await asyncio.gather(*(get(storage, f"{number}") for number in range(40))))

    async def test_close_waits_for_running_calls(self, url: str) -> None:
        """Running commits are done; later ones raise ClosedError."""
        storage = RedisStorage(url, clock=FrozenClock())
        await storage.connect()
        commits = [asyncio.create_task(commit(storage, note(f"{number}"))) for number in range(60)]
        await asyncio.sleep(0)

        await storage.close()

        results = await asyncio.gather(*commits, return_exceptions=True)
        assert all(not isinstance(result, BaseException) or isinstance(result, ClosedError) for result in results)
        async with opened(url) as other:
            done = sum(not isinstance(result, BaseException) for result in results)
            assert len((await other.scan(ANA)).items) == done


@pytest.mark.linux
class TestProcesses:
    @pytest.mark.slow
    def test_eight_processes_increment_one_counter(self, url: str) -> None:
        """Each expects the revision that it read; every increment counts once."""

        async def work(name: str) -> None:
            async with opened(url, timeout=patient(20_000)) as storage:
                await counted(storage, name, 15)

        children = [forked(lambda name=f"{name}": asyncio.run(work(name))) for name in range(8)]

        async def total() -> tuple[int, int]:
            async with opened(url) as storage:
                item = await get(storage, "counter")
                assert item
                return item.value["n"], (await storage.position(ANA)).sequence

        assert [ended_well(child) for child in children] == [True] * 8
        assert asyncio.run(total()) == (120, 120)

    def test_forked_child_cannot_use_the_storage(self, url: str) -> None:
        """It raises ClosedError, the child opens its own, and the parent continues."""

        async def inherited(storage: RedisStorage) -> None:
            with pytest.raises(ClosedError, match="fork"):
                await commit(storage, note("never"))
            await storage.close()
            async with opened(url) as own:
                await commit(own, note("child"))

        loop = asyncio.new_event_loop()
        storage = RedisStorage(url, clock=FrozenClock())
        loop.run_until_complete(storage.connect())
        loop.run_until_complete(commit(storage, note("before")))

        child = forked(lambda: asyncio.run(inherited(storage)))

        assert ended_well(child)
        loop.run_until_complete(commit(storage, note("after")))
        page = loop.run_until_complete(storage.scan(ANA))
        loop.run_until_complete(storage.close())
        loop.close()
        assert {item.ref.key for item in page.items} == {"before", "child", "after"}


class TestCluster:
    async def test_owners_are_spread_over_the_nodes(self, redis_cluster: RedisCluster) -> None:
        """Reads across owners see them all."""
        async with opened(redis_cluster.url) as storage:
            owners = [Partition("owner", ("", f"{number}")) for number in range(40)]
            await asyncio.gather(*(commit(storage, note("1"), partition=owner) for owner in owners))

            assert all(redis_cluster.ask(place, "DBSIZE") > 40 for place in range(2))
            assert set(await storage.partitions()) == set(owners)
            assert (await storage.stats()).items == 40
            found = await storage.get([Ref(owner, NOTES, "1") for owner in owners])
            assert [item and item.ref.partition for item in found] == owners

    async def test_commits_follow_a_moving_slot(self, redis_cluster: RedisCluster) -> None:
        """The slot moves key by key; no commit is lost or done twice."""
        keys = RedisKeys("").partition(to_digest(ANA))
        slot = key_slot(keys.heads)
        here = 0 if slot < 8_192 else 1
        there = 1 - here
        async with opened(redis_cluster.url, timeout=patient(20_000)) as storage:
            await commit(storage, *(note(f"{number}") for number in range(20)))
            counting = asyncio.create_task(counted(storage, "a", 60))
            ids = [redis_cluster.ask(place, "CLUSTER", "MYID") for place in range(2)]
            try:
                redis_cluster.ask(there, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[here])
                redis_cluster.ask(here, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[there])
                port = redis_cluster.nodes[there].port
                while moving := redis_cluster.ask(here, "CLUSTER", "GETKEYSINSLOT", slot, 1):
                    await asyncio.sleep(0.01)
                    redis_cluster.ask(here, "MIGRATE", "127.0.0.1", port, moving[0], 0, 5000)
                for place in (there, here):
                    redis_cluster.ask(place, "CLUSTER", "SETSLOT", slot, "NODE", ids[there])
                await counting

                item = await get(storage, "counter")
                assert item
                assert item.value["n"] == 60
                assert len((await storage.scan(ANA)).items) == 21
            finally:
                counting.cancel()
                redis_cluster.ask(there, "FLUSHALL")
                for place in range(2):
                    redis_cluster.ask(place, "CLUSTER", "SETSLOT", slot, "NODE", ids[here])

    async def test_reads_of_a_moving_owner_are_answered(self, redis_cluster: RedisCluster) -> None:
        """All keys have moved and the slot has not: every read follows ASK, with its ASKING on the same connection."""
        keys = RedisKeys("").partition(to_digest(ANA))
        slot = key_slot(keys.heads)
        here = 0 if slot < 8_192 else 1
        there = 1 - here
        ids = [redis_cluster.ask(place, "CLUSTER", "MYID") for place in range(2)]
        owners = [Partition("owner", ("", f"{number}")) for number in range(40)]
        async with opened(redis_cluster.url, timeout=patient(20_000)) as storage:
            await commit(storage, *(note(f"{number}") for number in range(20)))
            await asyncio.gather(*(storage.position(owner) for owner in owners))  # several connections to each node
            try:
                redis_cluster.ask(there, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[here])
                redis_cluster.ask(here, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[there])
                for key in redis_cluster.ask(here, "CLUSTER", "GETKEYSINSLOT", slot, 100):
                    redis_cluster.ask(here, "MIGRATE", "127.0.0.1", redis_cluster.nodes[there].port, key, 0, 5000)

                items = await asyncio.gather(*(get(storage, f"{number}") for number in range(20)))

                assert all(items)
                assert (await storage.position(ANA)).sequence == 1
            finally:
                redis_cluster.ask(there, "FLUSHALL")
                for place in range(2):
                    redis_cluster.ask(place, "CLUSTER", "SETSLOT", slot, "NODE", ids[here])

    async def test_missing_right_to_info_is_named(self, redis_cluster: RedisCluster) -> None:
        """Without INFO the storage does not know that it is a cluster."""
        for place in range(2):
            redis_cluster.ask(place, "ACL", "SETUSER", "blind", "on", ">pw", "~*", "+@all", "-info")
        url = redis_cluster.url.replace("//", "//blind:pw@")

        async def write() -> None:
            for number in range(20):
                async with opened(url, key_prefix=f"{number}") as storage:
                    await commit(storage, note("1"))

        with pytest.raises(StorageDeniedError, match=r"grant \+info"):
            await write()

    @pytest.mark.slow
    async def test_unreachable_node_recovers(self, redis_cluster: RedisCluster) -> None:
        """Its owners wait or get an error; the owners of other nodes continue."""
        owners = [Partition("owner", ("", f"{number}")) for number in range(30)]
        slots = [key_slot(RedisKeys("").partition(to_digest(owner)).heads) for owner in owners]
        away = next(owner for owner, slot in zip(owners, slots, strict=True) if slot >= 8_192)
        home = next(owner for owner, slot in zip(owners, slots, strict=True) if slot < 8_192)
        async with opened(redis_cluster.url, timeout=patient(300)) as storage:
            for owner in (away, home):
                await storage.commit(Batch(owner, [note("1")]))
            node = redis_cluster.nodes[1]
            node.kill()
            try:
                with pytest.raises(StorageError):
                    await commit(storage, note("2"), partition=away)
                assert await get(storage, "1", home)
            finally:
                node.start()

            async def writes() -> bool:
                try:
                    await commit(storage, note("3"), partition=away)
                except StorageUnavailableError:
                    return False
                return True

            await until(writes)
            assert await get(storage, "1", away)
