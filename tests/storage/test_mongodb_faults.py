"""A server that is killed, stalls, or is cut off in the middle of a commit; and what each failure is called."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from bson.errors import InvalidBSON
from pymongo import errors as mongo

from tests.conftest import missing
from tests.fakes.faults import FaultProxy
from tests.storage.mongodb_world import ANA, NOTES, commit, get, left_over, note, opened, texts
from tests.storage.tls import Certificate, certificate_in, port_of, tls
from threadkeep.errors import (
    NotAStorageError,
    SettingsError,
    StorageDeniedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    StorageVersionError,
    TooLargeError,
)
from threadkeep.ids import new_id
from threadkeep.storage.interface import Embedding, Put
from threadkeep.storage.mongodb.client import _check_server, create_client, get_database, mask_uri, parse_error
from threadkeep.storage.mongodb.storage import MongoStorage
from threadkeep.testing.clock import FrozenClock
from threadkeep_conformance.servers import MongoServer

# The driver forgets a socket that it was connecting when it is told to close.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

SOON = "serverSelectionTimeoutMS=300&connectTimeoutMS=300&timeoutMS=600"


@pytest.fixture(autouse=True)
def forgotten_sockets(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let go of them here, where the warning is expected; the table of errors opens none."""
    yield
    if "error" not in request.fixturenames:
        gc.collect()


@pytest.fixture
def server() -> Iterator[MongoServer]:
    """A server to break."""
    if lacking := MongoServer.missing():
        missing(", ".join(lacking))
    with MongoServer() as server:
        yield server


@pytest.fixture
def proxy(mongodb_server: str) -> Iterator[FaultProxy]:
    """A network to break, before the server of all tests."""
    with FaultProxy(int(mongodb_server.rpartition(":")[2])) as proxy:
        yield proxy


@pytest.mark.slow
class TestServer:
    async def test_a_killed_server_keeps_what_it_acknowledged(self, server: MongoServer) -> None:
        """While it is down a commit says so soon, and when it is back the same storage goes on."""
        async with opened(f"{server.url}/memory?{SOON}") as storage:
            await commit(storage, note("a"), note("b"))
            server.kill()
            with pytest.raises(StorageUnavailableError, match="cannot be reached"):
                await commit(storage, note("c"))
            with pytest.raises(StorageUnavailableError, match="cannot be reached"):
                await get(storage, "a")

            server.start()
            await commit(storage, note("d"))
            assert set(await texts(storage)) == {"a", "b", "d"}

    async def test_a_server_that_stalls_is_not_waited_for(self, server: MongoServer) -> None:
        """Each call ends in the time that the URI says; once the server goes on, so does the storage."""
        async with opened(f"{server.url}/memory?{SOON}") as storage:
            await commit(storage, note("a"))
            await storage.commits.drain()
            server.pause()
            with pytest.raises(StorageUnavailableError, match=r"timed out|cannot be reached"):
                await get(storage, "a")
            with pytest.raises(StorageUnavailableError):
                await commit(storage, note("b"))
            server.resume()

            await commit(storage, note("c"))
            assert {"a", "c"} <= set(await texts(storage)) <= {"a", "b", "c"}

    async def test_a_server_that_is_not_there(self) -> None:
        """It is tried for a moment, and again by the next call; the password is masked."""
        storage = MongoStorage(f"mongodb://ana:secret@127.0.0.1:9/?{SOON}", clock=FrozenClock())
        for _ in range(2):
            with pytest.raises(StorageUnavailableError, match="cannot be reached") as refused:
                await storage.connect()
            assert "ana:***@127.0.0.1:9" in str(refused.value)
            assert "secret" not in str(refused.value)
        await storage.close()


@pytest.mark.slow
class TestTls:
    @pytest.fixture
    def certificate(self, tmp_path: Path) -> Certificate:
        return certificate_in(tmp_path)

    async def test_a_certificate_of_ones_own_is_trusted_where_it_is_named(
        self, mongodb_server: str, certificate: Certificate
    ) -> None:
        """``tlsCAFile`` in the URI says which; without it, the sentence does."""
        async with tls(port_of(mongodb_server), certificate) as address:
            async with opened(f"mongodb://{address}/{new_id()}?tls=true&tlsCAFile={certificate.path}") as storage:
                await commit(storage, note("a"))
                assert set(await texts(storage)) == {"a"}

            said = await self.refusal(f"mongodb://ana:secret@{address}/?tls=true&{SOON}")
        assert "TLS handshake" in said
        assert "tlsCAFile" in said

    async def test_one_has_it_and_the_other_has_not(self, mongodb_server: str, certificate: Certificate) -> None:
        """Either way round, the option is named."""
        assert "tls" in await self.refusal(f"{mongodb_server}/?tls=true&{SOON}")
        async with tls(port_of(mongodb_server), certificate) as address:
            assert "tls" in await self.refusal(f"mongodb://{address}/?{SOON}")

    async def refusal(self, uri: str) -> str:
        """Return what connecting to *uri* raises."""
        storage = MongoStorage(uri, clock=FrozenClock())
        with pytest.raises(StorageUnavailableError) as refused:
            await storage.connect()
        await storage.close()
        assert "secret" not in str(refused.value)
        return str(refused.value)


@pytest.mark.slow
class TestCut:
    """The connection breaks in the middle of a commit: it is made once, or the caller is told."""

    @pytest.mark.parametrize("delivered", [True, False])
    @pytest.mark.parametrize("collection", [b"threadkeep_items", b"threadkeep_batches"])
    async def test_a_commit_is_made_once(
        self, mongodb_url: str, proxy: FaultProxy, collection: bytes, *, delivered: bool
    ) -> None:
        """Whatever was cut: what is written next, with the same revision expected, tells whether it was."""
        url = proxy.url_of(mongodb_url)
        async with opened(f"{url}?retryWrites=false") as storage:
            first = await commit(storage, note("a", "old"))
            await storage.commits.drain()
            cut = proxy.cut_at(
                b"insert\0" + len(collection + b"0").to_bytes(4, "little") + collection, delivered=delivered
            )
            try:
                await commit(storage, note("a", "new", expect=first.sequence), note("b", "new"))
            except StorageUnavailableError:
                assert collection == b"threadkeep_items"
                assert await texts(storage) == {"a": "old"}
            else:
                assert await texts(storage) == {"a": "new", "b": "new"}
            assert cut.is_set()
            assert (await commit(storage, note("c"))).sequence == len(await texts(storage))
        assert left_over(mongodb_url)["open"] == 0

    async def test_folding_that_is_cut_off_is_done_by_the_next(self, mongodb_url: str, proxy: FaultProxy) -> None:
        """The commit has returned by then, everybody reads it, and what is left is one warning."""
        async with opened(proxy.url_of(mongodb_url) + f"?retryWrites=false&{SOON}") as storage:
            await commit(storage, note("a", "old"))
            await storage.commits.drain()
            cut = proxy.cut_at(b"update\0\x11\0\0\0threadkeep_items", delivered=False)
            await commit(storage, note("a", "new"))
            await storage.commits.drain()
            assert cut.is_set()

            assert left_over(mongodb_url) == {"versions": 2, "notes": 0, "pending": 1, "open": 1}
            assert await texts(storage) == {"a": "new"}
            async with opened(mongodb_url) as other:
                assert await texts(other) == {"a": "new"}
                assert (await other.stats()).items == 1
        assert left_over(mongodb_url) == {"versions": 1, "notes": 0, "pending": 0, "open": 0}


class TestConnecting:
    async def test_a_newer_version_wrote_it(self, mongodb_url: str) -> None:
        """It is not touched."""
        async with opened(mongodb_url) as storage:
            await storage.collections.items.database["threadkeep_about"].update_one(
                {"_id": "storage"}, {"$set": {"schema": 2}}
            )
        with pytest.raises(StorageVersionError, match="its schema is 2"):
            await self.connected(mongodb_url)

    async def test_something_else_is_there(self, mongodb_url: str) -> None:
        """A collection of that name that is not ours is named."""
        async with opened(mongodb_url) as storage:
            await storage.collections.items.database["threadkeep_about"].update_one(
                {"_id": "storage"}, {"$set": {"schema": "x"}}
            )
        with pytest.raises(NotAStorageError, match="threadkeep_about"):
            await self.connected(mongodb_url)

    async def test_nothing_is_made_where_it_is_only_to_be_checked(self, mongodb_url: str) -> None:
        """``THREADKEEP_MIGRATE=check`` finds what ``auto`` has made, and makes nothing."""
        with pytest.raises(NotAStorageError, match="THREADKEEP_MIGRATE"):
            await self.connected(mongodb_url, migrate=False)
        await self.connected(mongodb_url)
        await self.connected(mongodb_url, migrate=False)

    async def connected(self, url: str, *, migrate: bool = True) -> None:
        storage = MongoStorage(url, clock=FrozenClock(), migrate=migrate)
        try:
            await storage.connect()
        finally:
            await storage.close()

    @pytest.mark.parametrize(
        ("version", "fits"), [("4.4.29", False), ("5.0.0", True), ("8.2.1-rc0", True), (None, True)]
    )
    def test_an_old_server_is_refused(self, version: str | None, *, fits: bool) -> None:
        """Where it says its version; one that only speaks the protocol may not."""
        if fits:
            _check_server({"version": version}, "here")
            return
        with pytest.raises(StorageVersionError, match=r"4\.4\.29, and Threadkeep needs 5\.0"):
            _check_server({"version": version}, "here")

    async def test_the_uri_wins_over_our_defaults(self) -> None:
        """And durable writes to the primary are the default; reads are the primary's, whatever it says."""
        client = create_client("mongodb://h/notes?w=1&readPreference=secondary&timeoutMS=5")
        assert client.write_concern.document == {"w": 1, "j": True}
        assert client.options.timeout == 0.005
        assert get_database(client).name == "notes"
        assert get_database(client).read_preference.document == {"mode": "primary"}
        await client.close()
        client = create_client("mongodb://h/?journal=false")
        assert client.write_concern.document == {"w": "majority", "j": False}
        assert client.read_concern.document == {"level": "majority"}
        assert get_database(client).name == "threadkeep"
        await client.close()

    def test_a_location_is_for_people(self) -> None:
        """No password, no options."""
        assert mask_uri("mongodb://ana:s%40cret@one:1,two:2/notes?tls=true") == "mongodb://ana:***@one:1,two:2/notes"
        assert mask_uri("mongodb+srv://h") == "mongodb+srv://h"


FAILURES: list[tuple[Exception, type[Exception], str]] = [
    (mongo.OperationFailure("Authentication failed.", 18), StorageDeniedError, "password"),
    (
        mongo.OperationFailure("bad auth", 8000, {"errmsg": "bad auth : Authentication failed."}),
        StorageDeniedError,
        "%25",
    ),
    (mongo.OperationFailure("not authorized on x", 13), StorageDeniedError, "readWrite"),
    (mongo.NotPrimaryError("not primary"), StorageReadOnlyError, "secondary"),
    (mongo.OperationFailure("x", 10107, {"errmsg": "not primary"}), StorageReadOnlyError, "secondary"),
    (mongo.OperationFailure("x", 14031), StorageFullError, "space"),
    (mongo.OperationFailure("x", 1, {"errmsg": "28: No space left on device"}), StorageFullError, "space"),
    (mongo.OperationFailure("x", 8000, {"errmsg": "you are over your space quota"}), StorageFullError, "space"),
    (
        mongo.BulkWriteError({"writeErrors": [{"code": 14031, "errmsg": "full", "op": {"value": "a secret"}}]}),
        StorageFullError,
        "space",
    ),
    (
        mongo.BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": 64}]}),
        StorageUnavailableError,
        "majority",
    ),
    (mongo.WTimeoutError("x", 64), StorageUnavailableError, "may have been applied"),
    (mongo.DocumentTooLarge("x"), TooLargeError, "16 MB"),
    (mongo.WriteError("x", 10334), TooLargeError, "16 MB"),
    (mongo.ExecutionTimeout("x", 50), StorageUnavailableError, "timeoutMS"),
    (mongo.NetworkTimeout("x"), StorageUnavailableError, "timeoutMS"),
    (mongo.AutoReconnect("connection closed"), StorageUnavailableError, "cannot be reached"),
    (mongo.ServerSelectionTimeoutError("No primary available for writes"), StorageUnavailableError, "no primary"),
    (mongo.ServerSelectionTimeoutError("SSL handshake failed: h:1"), StorageUnavailableError, "TLS"),
    (ssl.SSLError("certificate verify failed"), StorageUnavailableError, "TLS"),
    (InvalidBSON("x"), StorageError, "is not a MongoDB server"),
    (
        mongo.OperationFailure("a secret", 9, {"errmsg": "a secret", "codeName": "FailedToParse"}),
        StorageError,
        "FailedToParse",
    ),
    (mongo.InvalidURI("Username and password must be escaped according to RFC 3986"), SettingsError, "%25"),
    (mongo.ConfigurationError("The DNS query name does not exist: h."), SettingsError, "DNS"),
    (mongo.ConfigurationError('"dnspython" must be installed'), SettingsError, "pip install"),
]


class TestErrors:
    @pytest.mark.parametrize(("error", "kind", "saying"), FAILURES)
    def test_each_is_one_sentence(self, error: Exception, kind: type[Exception], saying: str) -> None:
        """It names what to do, and repeats nothing that might be a secret."""
        found = parse_error(error, "mongodb://ana:***@h")

        assert type(found) is kind
        assert saying in str(found)
        assert str(found).endswith(".")
        assert "secret" not in str(found)

    @pytest.mark.slow
    async def test_an_item_larger_than_a_document_is_refused(self, mongodb_url: str) -> None:
        """With nothing of its batch written; the next commit is none the worse."""
        many = Embedding("m", 1024, bytes(4096 * 4200))
        async with opened(f"{mongodb_url}?journal=false") as storage:
            with pytest.raises(TooLargeError, match="in one document"):
                await commit(storage, note("a"), Put(NOTES, "b", {"data": "x"}, ("data",), many))
            assert await get(storage, "a") is None
            assert (await commit(storage, note("c"))).sequence == 1
        assert left_over(mongodb_url) == {"versions": 1, "notes": 0, "pending": 0, "open": 0}

    @pytest.mark.slow
    async def test_a_batch_larger_than_a_document_is_one_commit(self, mongodb_url: str) -> None:
        """Of 24 MB; another storage sees none of it or all."""
        puts = [Put(NOTES, f"{n}", {"data": "x" * 3_000_000}) for n in range(8)]
        async with opened(f"{mongodb_url}?journal=false") as storage, opened(mongodb_url) as other:
            written = asyncio.create_task(commit(storage, *puts))
            sizes = {0}
            while not written.done():
                sizes.add(len((await other.scan(ANA)).items))
            assert sizes <= {0, 8}
            assert (await written).sequence == 1
            assert len((await other.scan(ANA)).items) == 8
