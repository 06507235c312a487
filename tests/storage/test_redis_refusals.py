"""Errors of Redis and of its address: one sentence each that names the remedy and no secret."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from redis import exceptions

from tests.storage.redis_world import ANA, BOB, commit, contents, get, note, opened, patient
from tests.storage.tls import Certificate, certificate_in, port_of, tls
from threadkeep.errors import (
    NotAStorageError,
    SettingsError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from threadkeep.storage.redis.errors import to_storage_error
from threadkeep.storage.redis.storage import RedisStorage, durability_advice
from threadkeep.testing.clock import FrozenClock
from threadkeep_conformance.servers import RedisServer

PASSWORD = "s%cret/of:ana@home"
QUOTED = "s%25cret%2Fof%3Aana%40home"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """A server of this module; its tests change the settings."""
    settings = {"appendonly": "no", "shutdown-timeout": "0", "repl-diskless-sync-delay": "0"}
    with RedisServer(settings=settings) as server:
        yield server


def with_credentials(url: str, credentials: str) -> str:
    return url.replace("//", f"//{credentials}@")


async def refusal(url: str, **options: object) -> StorageError:
    """Return what connecting to *url* raises."""
    with pytest.raises(StorageError) as refused:
        async with opened(url, **options):
            pass
    return refused.value


class TestAddress:
    @pytest.mark.parametrize(
        "url",
        [
            "redis://host/first",
            "redis://host:port/0",
            "redis://:secret@host:99999999/0",
            "http://:secret@host:6379",
            "redis://:secret@host?reads=fast",
            "redis://:secret@host?max_connections=many",
            "",
        ],
    )
    def test_invalid_url_is_refused_without_io(self, url: str) -> None:
        """The error names the setting."""
        with pytest.raises(SettingsError, match=r"^LANGGRAPH_STORE_REDIS_URL ") as refused:
            RedisStorage(url, clock=FrozenClock())

        assert "secret" not in str(refused.value)

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            ("redis://host", "redis://host"),
            (f"redis://ana:{QUOTED}@host:6380/2", "redis://ana:********@host:6380/2"),
            (f"rediss://:{QUOTED}@host", "rediss://:********@host"),
            ("redis://ana@host/1", "redis://ana@host/1"),
            ("unix:///run/redis.sock?password=secret", "unix:///run/redis.sock"),
            ("redis://host?password=secret", "redis://host"),
        ],
    )
    def test_location_masks_the_password(self, url: str, shown: str) -> None:
        """The location goes into messages and logs."""
        assert RedisStorage(url, clock=FrozenClock()).location == shown

    async def test_unreachable_address(self, unused_tcp_port: int) -> None:
        """The error has the system's own reason."""
        error = await refusal(f"redis://127.0.0.1:{unused_tcp_port}", timeout=patient(200))

        assert isinstance(error, StorageUnavailableError)
        assert str(error) == (
            f"Redis at redis://127.0.0.1:{unused_tcp_port} cannot be reached (Connection refused); "
            "see that it runs and that the URL is right."
        )

    async def test_server_that_is_not_redis(self) -> None:
        """A web server answers."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as web:
            error = await refusal(f"redis://127.0.0.1:{web.sockets[0].getsockname()[1]}")

        assert isinstance(error, NotAStorageError)


class TestCredentials:
    async def test_password_with_special_characters(self, server: RedisServer) -> None:
        """Percent-encoded in the URL, ``%`` itself included."""
        with redis.Redis.from_url(server.url) as client:
            client.execute_command("ACL", "SETUSER", "ana", "on", f">{PASSWORD}", "~*", "+@all")

        async with opened(with_credentials(server.url, f"ana:{QUOTED}"), key_prefix="credentials") as storage:
            await commit(storage, note("1"))

    @pytest.mark.parametrize("credentials", ["ana:wrong-secret", "nobody:wrong-secret", ":wrong-secret"])
    async def test_wrong_password_is_neither_shown_nor_retried(self, server: RedisServer, credentials: str) -> None:
        """The error says what to correct."""
        with redis.Redis.from_url(server.url) as client:
            client.execute_command("ACL", "SETUSER", "ana", "on", f">{PASSWORD}", "~*", "+@all")

        error = await refusal(with_credentials(server.url, credentials))

        assert isinstance(error, StorageDeniedError)
        assert "correct them in the URL" in str(error)
        assert "wrong-secret" not in f"{error}{error.details}"

    async def test_missing_password(self, server: RedisServer) -> None:
        """It is the same error."""
        with redis.Redis.from_url(server.url) as client:
            client.config_set("requirepass", PASSWORD)
            try:
                error = await refusal(server.url)
            finally:
                client.config_set("requirepass", "")

        assert isinstance(error, StorageDeniedError)


class TestReplica:
    async def test_read_only_replica_reads_and_refuses_writes(self, server: RedisServer) -> None:
        """The error names the remedy, and nothing is written."""
        async with opened(server.url, key_prefix="replicated") as primary:
            await commit(primary, note("1"))
        with RedisServer(settings={"replicaof": f"127.0.0.1 {server.port}"}) as replica:
            with redis.Redis.from_url(replica.url) as client:
                await until(lambda: client.info("replication")["master_link_status"] == "up" and client.dbsize() > 0)
            before = contents(server.url)

            async with opened(replica.url, key_prefix="replicated") as storage:
                assert await get(storage, "1")
                assert any("read-only replica" in sentence for sentence in await storage.advice())
                assert (await storage.position(BOB)).sequence == 0
                with pytest.raises(StorageReadOnlyError, match="give the address of the primary"):
                    await commit(storage, note("2"))
                with pytest.raises(StorageReadOnlyError, match="give the address of the primary"):
                    await storage.erase(ANA)
            assert isinstance(await refusal(replica.url, key_prefix="new here"), StorageReadOnlyError)
            assert contents(server.url) == before


class TestServerState:
    @pytest.mark.linux
    async def test_server_that_cannot_write_to_its_disk(self) -> None:
        """As on a full disk: writes are refused until there is space, and reads continue."""
        settings = {"appendonly": "no", "save": "3600 1", "enable-protected-configs": "yes"}
        with RedisServer(settings=settings) as server, redis.Redis.from_url(server.url) as client:
            async with opened(server.url) as storage:
                await commit(storage, note("1"))
                before = contents(server.url)
                folder = client.config_get("dir")["dir"]
                client.config_set("dir", "/proc")  # no user can save there
                client.bgsave()
                await until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")

                with pytest.raises(StorageFullError, match="cannot write to its disk"):
                    await commit(storage, note("2"))
                assert contents(server.url) == before
                assert await get(storage, "1")

                client.config_set("dir", folder)
                client.save()
                await commit(storage, note("2"))

    async def test_too_few_replicas(self, server: RedisServer) -> None:
        """With min-replicas-to-write, nothing is written without them."""
        async with opened(server.url, key_prefix="alone") as storage:
            with redis.Redis.from_url(server.url) as client:
                client.config_set("min-replicas-to-write", 1)
                try:
                    with pytest.raises(StorageUnavailableError, match="min-replicas-to-write"):
                        await commit(storage, note("1"))
                finally:
                    client.config_set("min-replicas-to-write", 0)
            assert (await storage.position(ANA)).sequence == 0
            await commit(storage, note("1"))

    async def test_calls_wait_for_a_busy_server(self, server: RedisServer) -> None:
        """A script of another client runs; calls wait up to their timeout."""
        with redis.Redis.from_url(server.url) as client:
            client.config_set("busy-reply-threshold", 1)
        async with (
            opened(server.url, key_prefix="busy", timeout=patient(5_000)) as storage,
            opened(server.url, key_prefix="busy", timeout=patient(150)) as hasty,
        ):
            stuck = threading.Thread(target=endless_script, args=(server.url,))
            stuck.start()
            await until_busy(server.url)
            with pytest.raises(StorageUnavailableError, match="busy with a script"):
                await commit(hasty, note("never"))

            commits = asyncio.gather(commit(storage, note("1")), get(storage, "0"))
            await asyncio.sleep(0)
            with redis.Redis.from_url(server.url) as client:
                client.script_kill()

            position, _ = await commits
            assert position.sequence == 1
            stuck.join()

    async def test_calls_wait_for_a_server_that_loads_its_data(self) -> None:
        """Its first replies are LOADING."""
        with RedisServer(
            settings={
                "appendonly": "no",
                "enable-debug-command": "yes",
                "loading-process-events-interval-bytes": "1024",
            }
        ) as server:
            async with opened(server.url, timeout=patient(30_000)) as storage:
                await commit(storage, *(note(f"{number}") for number in range(300)))
                with redis.Redis.from_url(server.url) as client:
                    client.save()
                    client.config_set("key-load-delay", 50_000)
                    loading = threading.Thread(target=reloaded, args=(server.url,))
                    loading.start()
                    await until_loading(server.url)

                position, item = await asyncio.gather(commit(storage, note("new")), get(storage, "1"))

                loading.join()
                assert (position.sequence, bool(item)) == (2, True)


def endless_script(url: str) -> None:
    with redis.Redis.from_url(url, retry=None) as client, pytest.raises(exceptions.RedisError):
        client.eval("while true do end", 0)


def reloaded(url: str) -> None:
    with redis.Redis.from_url(url, socket_timeout=60) as client:
        client.execute_command("DEBUG", "RELOAD", "NOSAVE")


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it was never so")


async def until_busy(url: str) -> None:
    await _until_it_says("BUSY", url)


async def until_loading(url: str) -> None:
    await _until_it_says("LOADING", url)


async def _until_it_says(code: str, url: str) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2].partition("/")[0]))
        writer.write(b"GET x\r\n")
        answer = await reader.readline()
        writer.close()
        if answer.startswith(f"-{code}".encode()):
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"the server was never {code}")


class TestTls:
    @pytest.fixture
    def certificate(self, tmp_path: Path) -> Certificate:
        return certificate_in(tmp_path)

    async def test_own_certificate_is_trusted_if_named(self, redis_url: str, certificate: Certificate) -> None:
        """``ssl_ca_certs`` in the URL names it."""
        async with tls(port_of(redis_url), certificate) as address:
            async with opened(f"rediss://{address}/0?ssl_ca_certs={certificate.path}") as storage:
                await commit(storage, note("1"))
                assert storage.location == f"rediss://{address}/0"

            error = await refusal(f"rediss://:secret@{address}/0")

        assert type(error) is StorageError
        assert "did not agree on TLS (self-signed certificate)" in str(error)
        assert "ssl_ca_certs" in str(error)

    async def test_tls_with_a_plain_server(self, redis_url: str) -> None:
        """The error names the other scheme."""
        error = await refusal(redis_url.replace("redis://", "rediss://"), timeout=patient(500))

        assert "begins with redis://" in str(error) or "redis:// for one without" in str(error)

    async def test_plain_connection_to_a_tls_server(self, redis_url: str, certificate: Certificate) -> None:
        """The server closes the connection, or does not answer; the error names the other scheme."""
        async with tls(port_of(redis_url), certificate) as address:
            error = await refusal(f"redis://{address}/0", timeout=patient(500))

        assert "begins with rediss://" in str(error)


class TestMeaning:
    @pytest.mark.parametrize(
        ("raised", "kind"),
        [
            ("Error running script (call to f_1): @user_script:7: -OOM command not allowed", StorageFullError),
            ("Error running script (call to f_1): @user_script: 7: -READONLY You can't write", StorageReadOnlyError),
            ("Error running script (call to f_1): @user_script: 7: -MISCONF Redis is configured", StorageFullError),
            ("MISCONF Errors writing to the AOF file: No space left on device", StorageFullError),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", NotAStorageError),
            ("CLUSTERDOWN The cluster is down", StorageUnavailableError),
            ("an unknown error", StorageError),
        ],
    )
    def test_code_inside_the_text_of_an_old_server(self, raised: str, kind: type[StorageError]) -> None:
        """Redis 6.2 puts the code of a script's error in the middle of a sentence."""
        error = to_storage_error(exceptions.ResponseError(raised), "redis://host")

        assert type(error) is kind
        assert str(error).endswith(".")

    def test_every_error_of_the_driver_is_translated(self) -> None:
        """Each becomes one sentence about the server."""
        kinds = [kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception)]
        for kind in kinds:
            try:
                raised = kind("1 host:2")
            except TypeError:
                raised = kind("1 host:2", "x")
            error = to_storage_error(raised, "redis://host")

            assert isinstance(error, StorageError)
            assert str(error).startswith("Redis at redis://host ")


class TestAdvice:
    @pytest.mark.parametrize(
        ("settings", "parts"),
        [
            ({"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}, []),
            ({"appendonly": "yes", "appendfsync": "everysec"}, ["once a second"]),
            ({"appendonly": "yes", "appendfsync": "no"}, ["half minute"]),
            ({"appendonly": "no", "save": ""}, ["keeps nothing on disk"]),
            ({"appendonly": "no", "save": "60 1"}, ["snapshots only"]),
            ({"appendfsync": "always", "maxmemory-policy": "allkeys-lru"}, ["memories among them"]),
            ({"appendfsync": "always", "maxmemory-policy": "volatile-ttl"}, ["threads may"]),
            ({"appendonly": "no", "save": "", "maxmemory-policy": "allkeys-lfu"}, ["keeps nothing", "memories among"]),
        ],
    )
    async def test_advice_names_settings_that_lose_writes(
        self, server: RedisServer, settings: dict[str, str], parts: list[str]
    ) -> None:
        """Each setting gets one sentence with the right value."""
        with redis.Redis.from_url(server.url) as client:
            before = client.config_get(*settings, "appendonly")
            for name, value in {"appendonly": "yes", **settings}.items():
                client.config_set(name, value)
            try:
                async with opened(server.url) as storage:
                    sentences = await storage.advice()
            finally:
                for name, value in before.items():
                    client.config_set(name, value)

        assert len(sentences) == len(parts)
        assert all(part in sentence for part, sentence in zip(parts, sentences, strict=True))
        assert all("Set " in sentence for sentence in sentences)

    def test_advice_without_the_right_to_config(self) -> None:
        """Most managed servers do not show their settings."""
        (sentence,) = durability_advice({"aof_enabled": "1", "maxmemory_policy": "noeviction"}, {})

        assert "appendfsync always" in sentence
