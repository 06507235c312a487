"""Tests of search over storage: current, shared, bounded, and lexical when there is no embedder."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from tests.recall.world import ANA, MEMORIES, NOW, HeldStorage, StillClock, embedder, embedding, keep, put
from threadkeep.concurrency import AnswerTimeout
from threadkeep.errors import EmbedderUnavailableError, StorageUnavailableError
from threadkeep.memories.codec import memory_of
from threadkeep.memories.models import Memory
from threadkeep.observability import Telemetry
from threadkeep.search import retriever as search_module
from threadkeep.search.index import PartitionIndex
from threadkeep.search.ranking import Ranking
from threadkeep.search.retriever import Retriever
from threadkeep.storage.interface import Batch, Changes, Delete, Partition, Position, Put, Ref, Touch
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing.models import HashingEmbedder

BOB = Partition("owner", ("", "bob"))


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
async def storage(clock: StillClock) -> AsyncIterator[HeldStorage]:
    opened = HeldStorage(clock)
    await opened.connect()
    yield opened
    await opened.close()


@pytest.fixture
def model() -> HashingEmbedder:
    return embedder()


@pytest.fixture
async def search(storage: HeldStorage, model: HashingEmbedder, clock: StillClock) -> AsyncIterator[Retriever]:
    opened = Retriever(storage, model, clock)
    yield opened
    await opened.close()


async def keys(search: Retriever, query: str = "tea", **kwargs: Any) -> list[str]:
    """Return the keys that a search gives."""
    given: dict[str, Any] = {"limit": None, **kwargs}
    return [hit.key for hit in (await search.ranking(ANA, query, **given)).hits]


class TestRanking:
    async def test_the_closest_comes_first(self, search: Retriever, storage: HeldStorage):
        """Meaning and words together decide, and nothing is missing."""
        await keep(storage, search, "I drink green tea", "My cat is called Biscuit", "I work in Lisbon")

        ranking = await search.ranking(ANA, "what is the cat called?", limit=2)

        assert ranking.hits[0].key == "My cat is called Biscuit"
        assert len(ranking.hits) == 2
        assert ranking.degraded == ()

    async def test_another_writers_commit_is_seen(self, search: Retriever, storage: HeldStorage):
        """Every search follows what any writer wrote, changed and deleted before it."""
        await keep(storage, search, "tea one", "tea two")
        assert len(await keys(search)) == 2

        await storage.commit(
            Batch(ANA, [Delete(MEMORIES, "tea one"), put("three", "tea three"), put("tea two", "rum")])
        )

        found = (await search.ranking(ANA, "tea", ranking="lexical", limit=None)).hits
        assert {hit.key: hit.lexical > 0 for hit in found} == {"three": True, "tea two": False}

    async def test_nothing_happened_costs_one_round_trip(self, search: Retriever, storage: HeldStorage):
        """A warm search asks once what happened, from where it stands."""
        await keep(storage, search, "tea")
        await keys(search)
        storage.polls.clear()

        await keys(search)

        assert storage.polls == [await storage.position(ANA)]

    async def test_a_storage_that_can_tell_at_once_is_not_waited_for(self, model: HashingEmbedder, clock: StillClock):
        """A warm search follows the feed only where something has happened, whoever wrote it."""

        class NearItem(HeldStorage):
            is_at = InMemoryStorage.is_at

        storage = NearItem(clock)
        await storage.connect()
        search = Retriever(storage, model, clock)
        await keep(storage, search, "tea")
        assert await keys(search) == ["tea"]
        storage.polls.clear()

        assert await keys(search) == ["tea"]
        assert storage.polls == []
        await keep(storage, search, "green tea")
        assert set(await keys(search)) == {"tea", "green tea"}
        assert len(storage.polls) == 1

    async def test_concurrent_searches_load_once(self, search: Retriever, storage: HeldStorage):
        """Twenty questions at once read a partition one time, and then share one look at what is new."""
        await keep(storage, search, "tea")
        storage.go.clear()
        asked = [asyncio.create_task(keys(search)) for _ in range(20)]
        await asyncio.sleep(0)
        storage.go.set()

        assert await asyncio.gather(*asked) == [["tea"]] * 20
        assert storage.polls.count(None) == 1
        assert len(storage.polls) <= 2

    async def test_a_search_never_joins_a_look_that_began_before_it(self, clock: StillClock):
        """What was committed before the call is seen, though another search was already reading."""

        class Slow(HeldStorage):
            """Reads, and hands over only when it is let go."""

            async def changes(self, partition: Partition, since: Position | None) -> Changes:
                read = await super(HeldStorage, self).changes(partition, since)
                self.polls.append(since)
                await self.go.wait()
                return read

        slow = Slow(clock)
        follower = Retriever(slow, None, clock)
        slow.go.clear()
        first = asyncio.create_task(follower.ranking(ANA, "tea", limit=None))
        while not slow.polls:
            await asyncio.sleep(0)
        await slow.commit(Batch(ANA, [put("new", "tea")]))
        second = asyncio.create_task(follower.ranking(ANA, "tea", limit=None))
        await asyncio.sleep(0)
        slow.go.set()

        assert (await first).hits == ()
        assert [hit.key for hit in (await second).hits] == ["new"]
        await follower.close()

    async def test_each_question_waits_its_time_for_a_look_that_others_began(
        self, search: Retriever, storage: HeldStorage
    ):
        """While the storage does not answer, no question waits for another one's look without end."""
        await keep(storage, search, "tea")
        storage.go.clear()

        async def ask() -> list[str]:
            async with AnswerTimeout(0.01):
                return await keys(search)

        asked = [asyncio.create_task(ask()) for _ in range(5)]
        done, _ = await asyncio.wait(asked, timeout=10)
        storage.go.set()

        assert len(done) == 5
        assert {type(task.exception()) for task in done} == {TimeoutError}

    async def test_a_cancelled_load_goes_on(self, search: Retriever, storage: HeldStorage):
        """A turn that gave up leaves the loading to be found by the next."""
        await keep(storage, search, *(f"tea {n}" for n in range(200)))
        storage.go.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await keys(search)

        storage.go.set()

        assert len(await keys(search)) == 200
        assert storage.polls.count(None) == 1

    async def test_a_big_change_is_read_off_the_loop(self, storage: HeldStorage, clock: StillClock, monkeypatch):
        """A cold load runs in another thread, a small change does not."""
        threads: list[bool] = []
        apply = PartitionIndex.apply

        def noted(self: PartitionIndex, given: Changes) -> None:
            threads.append(threading.current_thread() is threading.main_thread())
            apply(self, given)

        monkeypatch.setattr(PartitionIndex, "apply", noted)
        search = Retriever(storage, None, clock)
        await keep(storage, search, *(f"tea {n}" for n in range(200)))
        await keys(search)
        await keep(storage, search, "one more")
        await keys(search)

        assert threads == [False, True]
        await search.close()

    async def test_many_rows_are_scored_off_the_loop_alike(self, search: Retriever, storage: HeldStorage, monkeypatch):
        """The thread gives what the loop gives."""
        await keep(storage, search, *(f"tea {n}" for n in range(50)))
        inline = await search.ranking(ANA, "tea 7", limit=5)
        monkeypatch.setattr(search_module, "_INLINE_ROWS", 10)

        assert await search.ranking(ANA, "tea 7", limit=5) == inline

    async def test_partitions_do_not_meet(self, search: Retriever, storage: HeldStorage):
        """One owner's search gives nothing of another's."""
        await keep(storage, search, "tea of Bob", partition=BOB)

        assert await keys(search) == []

    async def test_an_erased_partition_is_empty(self, search: Retriever, storage: HeldStorage):
        """After an erase nothing is found, with and without forgetting the index."""
        await keep(storage, search, "tea")
        await keys(search)

        await storage.erase(ANA)

        assert await keys(search) == []
        search.drop_index(ANA)
        assert search.stats().partitions == 0
        assert await keys(search) == []

    async def test_a_touched_item_lives_on(self, search: Retriever, storage: HeldStorage, clock: StillClock):
        """Expiry is the storage's: touched, an item is found after its first time is over."""
        await storage.commit(
            Batch(ANA, [put_with_ttl("short", "tea", hours=1), put_with_ttl("touched", "tea", hours=1)])
        )
        assert len(await keys(search)) == 2
        clock.move(minutes=45)
        await storage.commit(Batch(ANA, [Touch(MEMORIES, "touched")]))
        clock.move(minutes=30)

        assert await keys(search) == ["touched"]

    async def test_an_item_without_index_is_not_found(self, search: Retriever, storage: HeldStorage):
        """What was written with no paths is nobody's hit, and leaves the index where it was in it."""
        await keep(storage, search, "tea")
        await keys(search)
        kept = put("tea", "tea")
        await storage.commit(Batch(ANA, [type(kept)(kept.namespace, kept.key, kept.value)]))

        assert await keys(search) == []

    async def test_a_failed_look_is_raised_and_the_next_one_works(
        self, search: Retriever, storage: HeldStorage, monkeypatch: pytest.MonkeyPatch
    ):
        """An outage reaches the caller as ours and leaves nothing broken."""
        await keep(storage, search, "tea")

        async def down(partition: Partition, since: Position | None) -> Changes:
            msg = "The storage is away."
            raise StorageUnavailableError(msg)

        with monkeypatch.context() as patched:
            patched.setattr(storage, "changes", down)
            with pytest.raises(StorageUnavailableError):
                await keys(search)

        assert await keys(search) == ["tea"]

    async def test_a_change_that_cannot_be_applied_is_not_half_applied(
        self, search: Retriever, storage: HeldStorage, monkeypatch: pytest.MonkeyPatch
    ):
        """An index that failed in the middle of a change is thrown away and read anew."""
        await keep(storage, search, "tea")
        await keys(search)
        await keep(storage, search, "more tea")

        def broken(self: PartitionIndex, given: Changes) -> None:
            self._clear(None)
            raise MemoryError

        with monkeypatch.context() as patched:
            patched.setattr(PartitionIndex, "apply", broken)
            with pytest.raises(MemoryError):
                await keys(search)

        assert sorted(await keys(search)) == ["more tea", "tea"]

    @pytest.mark.parametrize("query", ["", " ", "\x00", "\ud800", "word " * 300_000, "の" * 1_000_000])
    async def test_any_question_is_answered(self, search: Retriever, storage: HeldStorage, query: str):
        """No text of a question raises."""
        await keep(storage, search, "tea")

        assert await keys(search, query) == ["tea"]


class TestEmbedding:
    async def test_the_question_is_embedded_before_anything_is_read(
        self, search: Retriever, storage: HeldStorage, model: HashingEmbedder, monkeypatch: pytest.MonkeyPatch
    ):
        """While the model thinks, storage is not touched; with a vector given, the model is not asked."""
        order: list[str] = []
        embed, look = model.embed, storage.changes

        async def embedding_first(texts: list[str]) -> np.ndarray:
            order.append("embed")
            return await embed(texts)

        async def reading(partition: Partition, since: Position | None) -> Changes:
            order.append("read")
            return await look(partition, since)

        monkeypatch.setattr(model, "embed", embedding_first)
        monkeypatch.setattr(storage, "changes", reading)
        await keys(search)
        await keys(search, vector=np.ones(64, np.float32))
        await keys(search, ranking="lexical")

        assert order == ["embed", "read", "read", "read"]

    async def test_aspect_is_embedded_with_the_question(
        self, search: Retriever, storage: HeldStorage, model: HashingEmbedder
    ):
        """A question with a name costs one call with two texts, under the hybrid ranking only."""
        await keep(storage, search, "Marta Silva sleeps late", "Marta Silva borrowed the drill")
        model.calls.clear()

        found = await search.ranking(ANA, "Who borrowed things, was it Marta Silva?", limit=1)
        await search.ranking(ANA, "Who borrowed things, was it Marta Silva?", ranking="dense", limit=1)

        assert [hit.key for hit in found.hits] == ["Marta Silva borrowed the drill"]
        assert model.calls == [
            ["Who borrowed things, was it Marta Silva?", "Who borrowed things, was it"],
            ["Who borrowed things, was it Marta Silva?"],
        ]

    async def test_without_the_embedder_search_is_lexical_and_says_so(
        self, storage: HeldStorage, model: HashingEmbedder, clock: StillClock
    ):
        """A model that is down takes the meaning away, not the answer."""
        telemetry = Telemetry()
        search = Retriever(storage, model, clock, telemetry=telemetry)
        await keep(storage, search, "green tea", "black coffee")
        model.error = EmbedderUnavailableError("The model is away.")

        ranking = await search.ranking(ANA, "coffee", limit=1)

        assert [hit.key for hit in ranking.hits] == ["black coffee"]
        assert ranking.hits[0].cosine is None
        assert ranking.degraded == ("embedder",)
        assert telemetry.counts() == {"embedder.degraded": 1, "index.loaded": 1}
        model.error = None
        assert (await search.ranking(ANA, "coffee", limit=1)).hits[0].cosine is not None
        await search.close()

    async def test_no_embedder_is_no_degradation(self, storage: HeldStorage, clock: StillClock):
        """Search by words is what was asked for where no embedder is configured."""
        search = Retriever(storage, None, clock)
        await keep(storage, search, "green tea", "black coffee")

        ranking = await search.ranking(ANA, "coffee", limit=1)

        assert [hit.key for hit in ranking.hits] == ["black coffee"]
        assert ranking.degraded == ()
        assert not search.semantic
        await search.close()

    async def test_vectors_of_another_model_are_not_compared(self, search: Retriever, storage: HeldStorage):
        """Such items are found by their words."""
        await storage.commit(Batch(ANA, [put("old", "tea", vectors=embedding([1.0] * 64, model="another"))]))

        hits = (await search.ranking(ANA, "tea", limit=None)).hits

        assert [(hit.key, hit.cosine) for hit in hits] == [("old", None)]

    async def test_a_model_that_changes_its_length_is_followed(self, storage: HeldStorage, clock: StillClock):
        """An embedder that does not tell its length is believed by its vectors, not by old rows."""
        model = embedder()
        await storage.commit(Batch(ANA, [put("old", "tea", vectors=embedding([1.0] * 8, model=model.name))]))
        model.dims = None
        search = Retriever(storage, model, clock)
        model.error = EmbedderUnavailableError("Not yet.")
        await keys(search)
        model.error, model.dims = None, 64
        await keep(storage, search, "tea")

        hits = (await search.ranking(ANA, "tea", limit=None)).hits

        assert {hit.key: hit.cosine is not None for hit in hits} == {"old": False, "tea": True}
        await search.close()

    @pytest.mark.parametrize(("model", "dims"), [("another", 64), ("same", 8)])
    async def test_stored_vectors_that_do_not_fit_are_said_to_be_made_anew(
        self, storage: HeldStorage, clock: StillClock, caplog: pytest.LogCaptureFixture, model: str, dims: int
    ):
        """Of another model, or of another length: counted, and logged with what to do."""
        own, telemetry = embedder(), Telemetry()
        name = own.name if model == "same" else model
        await storage.commit(Batch(ANA, [put("old", "tea", vectors=embedding([1.0] * dims, model=name))]))
        search = Retriever(storage, own, clock, telemetry=telemetry)

        assert await keys(search) == ["old"]

        assert telemetry.counts() == {"index.loaded": 1, "vectors.degraded": 1}
        assert f"Stored vectors are of {name} ({dims} numbers)" in caplog.text
        assert "Run threadkeep storage re-embed" in caplog.text
        await search.close()

    async def test_writers_get_rows_of_what_they_give(self, search: Retriever, model: HashingEmbedder):
        """One row for each text, in order, under the model's name."""
        made = await search.embed_put(["tea", "coffee"])

        assert made is not None
        assert (made.model, made.dims, len(made.data)) == (model.name, 64, 2 * 64 * 4)
        assert await search.embed_put([]) is None
        model.error = EmbedderUnavailableError("The model is away.")
        assert await search.embed_put(["tea"]) is None
        assert search.semantic


class TestStats:
    async def test_the_longest_unused_index_goes_first(self, storage: HeldStorage, clock: StillClock):
        """Indexes are kept while they fit, the ones used last for longest; the one in use always."""
        search = Retriever(storage, None, clock)
        owners = [Partition("owner", ("", f"u{n}")) for n in range(4)]
        for owner in owners:
            await keep(storage, search, *(f"tea {n}" for n in range(100)), partition=owner)
        await search.ranking(owners[0], "tea", limit=1)
        size = search.stats().nbytes
        await search.close()

        search = Retriever(storage, None, clock, max_bytes=int(size * 2.5))
        for place in (0, 1, 0, 2):
            await search.ranking(owners[place], "tea", limit=1)
        storage.polls.clear()
        for place in (0, 2, 1):
            await search.ranking(owners[place], "tea", limit=1)

        assert [poll is None for poll in storage.polls] == [False, False, True]
        assert search.stats().partitions == 2
        assert search.stats().nbytes <= search.stats().max_bytes
        await search.close()

    async def test_an_index_larger_than_the_bound_is_still_used(self, storage: HeldStorage, clock: StillClock):
        """The one in use is kept, or every turn would read it anew."""
        search = Retriever(storage, None, clock, max_bytes=10)
        await keep(storage, search, "tea")

        await keys(search)
        await keys(search)

        assert storage.polls.count(None) == 1
        await search.close()


def put_with_ttl(key: str, text: str, *, hours: int) -> Put:
    """Make a put that expires."""
    kept = put(key, text)
    return type(kept)(kept.namespace, kept.key, kept.value, index=kept.index, ttl=timedelta(hours=hours))


async def memories_of(search: Retriever, ranking: Ranking) -> list[Memory | None]:
    """Return the memories that *ranking* found."""
    return await search.memories(ANA, ranking, range(len(ranking.hits)))


class TestMemories:
    async def test_what_another_writer_changed_is_read_again(self, search: Retriever, storage: HeldStorage):
        """Memories that were found are kept for the next turn, and never longer than they are true."""
        await keep(storage, search, "tea one", "tea two")
        first = await search.ranking(ANA, "tea", limit=2)
        assert {one.text for one in await memories_of(search, first) if one} == {"tea one", "tea two"}

        changed = Put(MEMORIES, "tea one", {"data": "tea three"}, index=("data",))
        await storage.commit(Batch(ANA, [changed, Delete(MEMORIES, "tea two")]))
        second = await search.ranking(ANA, "tea", limit=2)

        assert [one.text for one in await memories_of(search, second) if one] == ["tea three"]
        assert await memories_of(search, first) == [*await memories_of(search, second), None]

    async def test_what_was_found_is_not_read_from_storage(self, search: Retriever, storage: HeldStorage):
        """Whether it is asked for the first time or again; only what is long is."""
        await keep(storage, search, "tea one", "tea " * 1000)
        ranking = await search.ranking(ANA, "tea", limit=2)

        for _ in range(2):
            storage.gets.clear()
            texts = {one.text for one in await memories_of(search, ranking) if one}

            assert texts == {"tea one", ("tea " * 1000).strip()}
            assert [ref.key for refs in storage.gets for ref in refs] == ["tea " * 1000]

    async def test_a_memory_is_the_one_that_storage_gives(self, search: Retriever, storage: HeldStorage):
        """With every field, whichever way it came."""
        value = {
            "data": "tea one",
            "sources": [{"speaker": "user", "thread_id": "t"}],
            "pinned": True,
            "kind": "semantic",
        }
        await storage.commit(Batch(ANA, [Put(MEMORIES, "a", value, index=("data",), created_at=NOW - timedelta(3))]))
        ranking = await search.ranking(ANA, "tea", limit=1)

        (item,) = await storage.get([Ref(ANA, MEMORIES, "a")])
        assert item is not None
        assert await memories_of(search, ranking) == [memory_of(item)]

    async def test_what_was_erased_is_not_kept(self, search: Retriever, storage: HeldStorage):
        """An erased partition leaves nothing in RAM that could be given once more."""
        await keep(storage, search, "tea one")
        found = await search.ranking(ANA, "tea", limit=1)
        await memories_of(search, found)

        await storage.erase(ANA)
        search.drop_index(ANA)

        assert await memories_of(search, found) == [None]

    async def test_only_so_many_are_parsed(
        self, search: Retriever, storage: HeldStorage, monkeypatch: pytest.MonkeyPatch
    ):
        """Beyond the bound they are parsed anew, and are the same."""
        monkeypatch.setattr("threadkeep.search.index._MAX_PARSED", 2)
        await keep(storage, search, *(f"tea {n}" for n in range(3)))
        ranking = await search.ranking(ANA, "tea", limit=3)

        for _ in range(2):
            assert {one.text for one in await memories_of(search, ranking) if one} == {f"tea {n}" for n in range(3)}
        assert ranking.index is not None
        assert len(ranking.index.values._parsed) <= 2


class TestSubject:
    @pytest.mark.parametrize(
        ("question", "subject"),
        [
            ("When did Melanie run?", "participant"),
            ("What did they say of Biscuit?", "known"),
            ("What did they say of Leo?", "unknown"),
            ("What is my cat called? I live in Lisbon.", None),
            ("What is the cat called?", None),
        ],
    )
    async def test_person_named_in_a_question_is_found(
        self, search: Retriever, storage: HeldStorage, question: str, subject: str | None
    ):
        """A stranger in a question that users ask about themselves says nothing: they may be telling something new."""
        await keep(storage, search, *(f"Melanie: {n} times" for n in range(3)), "My cat is called Biscuit")

        assert (await search.ranking(ANA, question, limit=1)).subject == subject


class TestParticipants:
    async def test_the_names_of_who_takes_part_are_left_out_of_the_vector(
        self, search: Retriever, storage: HeldStorage, model: HashingEmbedder, monkeypatch: pytest.MonkeyPatch
    ):
        """As soon as they are known: the first question is embedded again, the second at once."""
        await keep(storage, search, "Melanie: I ran", "Melanie: I rode", "Melanie: I swam", "Leo: I slept")
        asked: list[list[str]] = []
        embed = model.embed

        async def recorded(texts: list[str]) -> np.ndarray:
            asked.append(texts)
            return await embed(texts)

        monkeypatch.setattr(model, "embed", recorded)
        await keys(search, "When did Melanie run?")
        await keys(search, "When did Mel swim?")
        await keys(search, "When did Melanie run?", ranking="dense")

        assert [texts[0] for texts in asked] == [
            "When did Melanie run?",
            "When did run?",
            "When did swim?",
            "When did Melanie run?",
        ]
