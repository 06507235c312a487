"""Tests of the engine over Pinecone's SDK and the forms of its wire: the contract, and all that goes wrong there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("pinecone")

from tests.fakes.pinecone_server import Fault, PineconeServer
from threadkeep.errors import VectorEngineError
from threadkeep.identity import Owner
from threadkeep.search.vectorstores.base import FENCE, Space, VectorEntry, VectorUpdate
from threadkeep.search.vectorstores.pinecone import PineconeEngine
from threadkeep.testing.vectors_contract import (
    ANA,
    BOB,
    DIMS,
    NOTES,
    SPACE,
    OpenEngine,
    VectorsContract,
    at,
    entry,
    fill,
    keys,
    random_entries,
    unit,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[PineconeServer]:
    with PineconeServer(dimension=2 * DIMS) as listening:
        yield listening


@pytest.fixture
async def open_one(server: PineconeServer) -> AsyncIterator[Callable[..., PineconeEngine]]:
    opened: list[PineconeEngine] = []

    def open_(**more) -> PineconeEngine:
        opened.append(PineconeEngine(server.host, **{"api_key": server.api_key, **more}))
        return opened[-1]

    yield open_
    for engine in opened:
        await engine.close()


@pytest.fixture
async def engine(open_one: Callable[..., PineconeEngine]) -> PineconeEngine:
    made = open_one()
    await made.connect()
    return made


class TestPineconeEngine(VectorsContract):
    @pytest.fixture
    def open_engine(self, open_one: Callable[..., PineconeEngine]) -> OpenEngine:
        return lambda *, key_prefix="": open_one(key_prefix=key_prefix)


class TestLateView(VectorsContract):
    """The contract once more, where queries do not see for a while what was written."""

    @pytest.fixture
    def open_engine(self, server: PineconeServer, open_one: Callable[..., PineconeEngine]) -> OpenEngine:
        server.lag = 1
        return lambda *, key_prefix="": open_one(key_prefix=key_prefix)


class TestWire:
    async def test_requests_have_the_forms_of_the_sdk(self, engine: PineconeEngine, server: PineconeServer):
        """Version, key and JSON in the headers; in the bodies what the service documents, and nothing else."""
        await fill(engine, [entry("a", unit(1), unit(0, 1), revision=3)])
        await engine.search(ANA, unit(1), limit=7)

        assert {(one.headers["x-pinecone-api-version"], one.headers["api-key"]) for one in server.requests} == {
            ("2026-07", server.api_key)
        }
        assert all(one.headers["user-agent"].startswith("python-client-10.") for one in server.requests)
        upsert = next(one.body for one in server.requests if one.path == "/vectors/upsert")
        assert upsert.keys() == {"vectors", "namespace"}
        assert [one["values"] for one in upsert["vectors"]] == [[1.0] + [0.0] * 15, [0.0, 1.0] + [0.0] * 14]
        assert upsert["vectors"][0]["metadata"]["revision"] == 3
        asked = server.requests[-1]
        assert (asked.path, asked.body["topK"], asked.body["includeMetadata"]) == ("/query", 7, True)
        assert asked.body["filter"]["dims"] == {"$eq": DIMS}
        assert server.requests[0].path == "/describe_index_stats"

    async def test_a_namespace_is_one_owners_and_tells_no_id(self, engine: PineconeEngine, server: PineconeServer):
        """Nothing that is sent says who they are; what is asked is asked of one namespace."""
        owner = Owner("ana.maria@example.org", "acme & sons")
        said = entry("a", unit(1), namespace=("memories", owner.label, "work"))
        await fill(engine, [said], partition=owner.partition)
        await fill(engine, [entry("b", unit(1))], partition=BOB)

        found = await engine.search(owner.partition, unit(1), limit=5)

        assert [near.namespace for near in found] == [said.namespace]
        assert len(server.namespaces()) == 2
        assert {one.body["namespace"] for one in server.requests if one.path != "/describe_index_stats"} == set(
            server.namespaces()
        )
        sent = str(server.requests)
        assert not any(text in sent for text in ("ana", "acme", "example.org", "user10"))

    async def test_many_are_sent_in_parts(self, engine: PineconeEngine, server: PineconeServer):
        """Of a thousand vectors and two megabytes at most; the server refuses more."""
        await fill(engine, random_entries(2_300))

        sizes = [len(one.body["vectors"]) for one in server.requests if one.path == "/vectors/upsert"]

        assert sum(sizes) == 2_301
        assert max(sizes) <= 1_000
        assert len(server.ids()) == 2_301


class TestTrouble:
    async def test_wrong_key_is_reported_without_it(self, open_one: Callable[..., PineconeEngine]):
        """The server repeats it in its answer; the message names the setting."""
        engine = open_one(api_key="pc-secret-wrong")

        with pytest.raises(VectorEngineError, match="PINECONE_API_KEY") as caught:
            await engine.connect()

        assert "pc-secret-wrong" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__

    async def test_malformed_key_is_reported_without_it(self, open_one: Callable[..., PineconeEngine]):
        """Before anything is sent."""
        with pytest.raises(VectorEngineError) as caught:
            await open_one(api_key="pc-secret\n").connect()

        assert "pc-secret" not in str(caught.value)

    async def test_vectors_longer_than_the_index_are_reported(self, engine: PineconeEngine):
        """With the length that the index should have."""
        longer = Space("longer", 32)
        update = VectorUpdate(ANA, longer, None, at(1), reset=True, puts=random_entries(2, dims=32))

        with pytest.raises(VectorEngineError, match="make an index of 32 dimensions"):
            await engine.apply(update)
        assert await engine.search(ANA, random_entries(1, dims=32)[0].vectors[0], limit=5) == []

    async def test_index_with_another_metric_is_reported(self):
        """Distances are no cosines."""
        with PineconeServer(dimension=DIMS, metric="euclidean") as server:
            engine = PineconeEngine(server.host, server.api_key)
            with pytest.raises(VectorEngineError, match="make one for cosine"):
                await engine.connect()
            await engine.close()

    async def test_a_rate_limit_is_waited_for(self, engine: PineconeEngine, server: PineconeServer):
        """Once, as long as the service says; nothing is lost."""
        server.faults = [Fault(429, "/vectors/upsert", times=1, headers={"Retry-After": "0.05"})]

        await fill(engine, [entry("a", unit(1))])

        assert await keys(engine, unit(1)) == ["a"]
        assert [one.path for one in server.requests].count("/vectors/upsert") == 3

    @pytest.mark.parametrize(
        ("fault", "said"),
        [
            (Fault(429, headers={"Retry-After": "0.02"}), r"no more requests at present \(429, again in 0.02 s\)"),
            (Fault(503), "answered 503"),
            (Fault(404), "PINECONE_INDEX_HOST"),
        ],
    )
    async def test_outage_is_reported_without_the_services_words(
        self, engine: PineconeEngine, server: PineconeServer, fault: Fault, said: str
    ):
        """By reads and writes; and when it is over everything goes on."""
        await fill(engine, [entry("a", unit(1))])
        update = VectorUpdate(ANA, SPACE, at(1), at(2), reset=False, puts=[entry("b", unit(1))])
        server.faults = [fault]

        with pytest.raises(VectorEngineError, match=said) as caught:
            await engine.apply(update)

        assert server.api_key not in str(caught.value)
        server.faults = []
        assert await engine.position(ANA, SPACE) == at(1)
        assert await engine.apply(update)
        assert sorted(await keys(engine, unit(1))) == ["a", "b"]

    async def test_missing_server_is_reported(self, open_one: Callable[..., PineconeEngine], server: PineconeServer):
        """With what to check."""
        engine = open_one()
        server.__exit__(None, None, None)

        with pytest.raises(VectorEngineError, match="check PINECONE_INDEX_HOST"):
            await engine.connect()

    async def test_an_upsert_that_was_cut_short_moves_nothing(self, engine: PineconeEngine, server: PineconeServer):
        """The position stays, so the same update is applied once more."""
        update = VectorUpdate(ANA, SPACE, None, at(1), reset=True, puts=random_entries(20))
        server.takes = 7

        with pytest.raises(VectorEngineError, match="took 7 of 20"):
            await engine.apply(update)

        assert await engine.position(ANA, SPACE) is None
        server.takes = None
        await fill(engine, random_entries(20))
        assert len(await keys(engine, unit(1), limit=50)) == 20
        assert len(server.ids()) == 21

    async def test_an_update_that_broke_off_anywhere_is_applied_again(
        self, engine: PineconeEngine, server: PineconeServer
    ):
        """At each of its requests, done or not: nothing is missing and nothing is left over."""
        await fill(engine, random_entries(30))
        changed = [one._replace(revision=2) for one in random_entries(10, seed=2)]
        gone = [(one.namespace, one.key) for one in random_entries(20)[15:]]
        update = VectorUpdate(ANA, SPACE, at(1), at(2), reset=False, puts=changed, removed=gone)

        for path in ("/vectors/upsert", "/vectors/delete", "/query"):
            for done in (False, True):
                server.faults = [Fault(400, path, times=1, done=done)]
                with pytest.raises(VectorEngineError, match="answered 400"):
                    await engine.apply(update)

        server.faults = []
        assert await engine.position(ANA, SPACE) == at(1)
        assert await engine.apply(update)
        found = await engine.search(ANA, unit(1), limit=100)
        assert {near.key: near.revision for near in found} == {
            **{one.key: 1 for one in random_entries(30)[10:] if (one.namespace, one.key) not in gone},
            **{one.key: 2 for one in changed},
        }
        assert len(server.ids()) == 26

    async def test_unused_entries_are_reported(self, open_one: Callable[..., PineconeEngine], server: PineconeServer):
        """An update that no search sees is no success."""
        engine = open_one(visible_within=timedelta(milliseconds=50))
        await engine.connect()
        server.lag = 10_000

        with pytest.raises(VectorEngineError, match="is not seen"):
            await fill(engine, [entry("a", unit(1))])


class TestTwoProcesses:
    async def test_a_slower_one_gives_way(self, engine: PineconeEngine, server: PineconeServer):
        """What it wrote late is gone again when the changes since then have been applied once more."""
        await fill(engine, [entry("a", unit(1)), entry("b", unit(1, 0.1))])
        newest = VectorUpdate(
            ANA, SPACE, at(1), at(3), reset=False, puts=[entry("a", unit(0, 1), revision=3)], removed=[(NOTES, "b")]
        )

        def overtaken() -> Iterator[VectorEntry]:
            assert elsewhere(server, lambda other: other.apply(newest))
            yield entry("a", unit(1), revision=2)
            yield entry("b", unit(1, 0.1), revision=2)

        assert not await engine.apply(VectorUpdate(ANA, SPACE, at(1), at(2), reset=False, puts=overtaken()))
        assert await engine.position(ANA, SPACE) == at(1)
        assert await engine.apply(newest)
        assert [near[1:3] for near in await engine.search(ANA, unit(0, 1), limit=9)] == [("a", 3)]
        assert len(server.ids()) == 2

    @pytest.mark.parametrize(("mine", "theirs"), [(2, 3), (3, 2)])
    async def test_two_first_copies_leave_one(
        self, engine: PineconeEngine, server: PineconeServer, mine: int, theirs: int
    ):
        """The position is the earlier one, and what came after it is applied once more."""
        everything = {2: [entry("a", unit(1)), entry("gone", unit(1))], 3: [entry("a", unit(1)), entry("new", unit(1))]}

        def overtaken() -> Iterator[VectorEntry]:
            first = VectorUpdate(ANA, SPACE, None, at(theirs), reset=True, puts=everything[theirs])
            assert elsewhere(server, lambda other: other.apply(first))
            yield from everything[mine]

        assert not await engine.apply(VectorUpdate(ANA, SPACE, None, at(mine), reset=True, puts=overtaken()))
        assert await engine.position(ANA, SPACE) == at(2)
        since = VectorUpdate(ANA, SPACE, at(2), at(3), reset=False, puts=everything[3][1:], removed=[(NOTES, "gone")])
        assert await engine.apply(since)
        assert sorted(await keys(engine, unit(1))) == ["a", "new"]
        assert len(server.ids()) == 3

    @pytest.mark.parametrize("known", [False, True])
    async def test_an_erasure_meanwhile_is_the_last_word(
        self, engine: PineconeEngine, server: PineconeServer, known: bool
    ):
        """Whatever was on its way is removed by who sent it, and refused."""
        if known:
            await fill(engine, [entry("a", unit(1))])

        def erased() -> Iterator[VectorEntry]:
            elsewhere(server, lambda other: other.erase(ANA))
            yield entry("late", unit(1))

        since = at(1) if known else None
        assert not await engine.apply(VectorUpdate(ANA, SPACE, since, at(2), reset=not known, puts=erased()))
        assert await engine.position(ANA, SPACE) == FENCE
        assert server.ids() == ["position"]


def elsewhere(server: PineconeServer, work: Callable[[PineconeEngine], Awaitable[Any]]) -> Any:
    """Do *work* as another process does it, while this one waits."""

    async def connected() -> Any:
        engine = PineconeEngine(server.host, server.api_key)
        await engine.connect()
        try:
            return await work(engine)
        finally:
            await engine.close()

    with ThreadPoolExecutor(1) as threads:
        return threads.submit(lambda: asyncio.run(connected())).result()
