from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from tests.capture.world import (
    ANA,
    BOB,
    LONG,
    CountingExtractor,
    FailingExtractor,
    Interleaving,
    Interrupted,
    RepeatingExtractor,
    episodes,
    facts,
    memories,
    room,
    rows,
    talk,
    turn,
    until,
)
from threadkeep.capture.extractors.local import LocalExtractor
from threadkeep.capture.learning import Learning
from threadkeep.capture.service import CaptureService
from threadkeep.capture.turns import MAX_UNKNOWN
from threadkeep.concurrency import Priority, current_priority
from threadkeep.errors import EmbedderUnavailableError, StorageUnavailableError
from threadkeep.ids import MemoryId, ThreadId
from threadkeep.memories.audited_writer import AuditedWriter
from threadkeep.memories.codec import put_of
from threadkeep.memories.models import Memory, Source
from threadkeep.models.base import Message
from threadkeep.models.langchain import plain_messages
from threadkeep.observability import Telemetry
from threadkeep.search.retriever import Retriever
from threadkeep.storage.interface import Batch, Due, Item, Partition, Position, Put, Ref
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import FrozenClock, HashingEmbedder
from threadkeep.testing.clock import START
from threadkeep.text.quoted import LONGEST_PLAY

TH = ThreadId("th")


class Asked(InMemoryStorage):
    """Notes what is read of it, and of how many rows."""

    def __init__(self, clock: FrozenClock) -> None:
        super().__init__(clock=clock)
        self.asked: list[tuple[str, int]] = []

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        self.asked.append(("get", len(refs)))
        return await super().get(refs)

    async def position(self, partition: Partition) -> Position:
        self.asked.append(("position", 1))
        return await super().position(partition)


class Given(Sequence[Message]):
    """Messages that note which of them are read."""

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, place: Any) -> Any:
        self.read.append(place)
        return self._messages[place]


A_MEMORY = Memory(
    memory_id=MemoryId("by-hand"),
    namespace=("memories", ANA.label),
    text="I live in Lisbon",
    kind="semantic",
    status="active",
    trust="user",
    sources=(),
    revision=0,
    created_at=START,
    updated_at=START,
)


@pytest.fixture
async def captures(storage: InMemoryStorage, clock: FrozenClock) -> AsyncIterator[CaptureService]:
    captures = room(storage, clock)
    await captures.start()
    yield captures
    await captures.stop()


async def learn(captures: CaptureService, messages: Sequence[Message], *, thread: ThreadId | None = TH) -> None:
    receipt = await captures.record(messages, owner=ANA, thread_id=thread)
    settled = await captures.settle(receipt, owner=ANA, timeout=LONG)
    assert settled.status == "done"


class TestRecord:
    async def test_turn_is_durable_before_it_is_learnt_from(self, storage: InMemoryStorage, clock: FrozenClock):
        """The record is committed when the call returns, worker or not."""
        captures = room(storage, clock)

        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        assert receipt.status == "queued"
        (row,) = await rows(storage, ANA, ".turns")
        assert (row.ref.key, row.value["state"]) == (receipt.turn_ids[0], "pending")
        assert await facts(storage) == []

    @pytest.mark.parametrize(
        ("before", "priority"), [(Priority.RECALL, Priority.RECORD), (Priority.LEARNING, Priority.LEARNING)]
    )
    async def test_a_record_that_no_turn_waits_for_goes_last(
        self, storage: InMemoryStorage, clock: FrozenClock, before: Priority, priority: Priority
    ):
        current_priority.set(before)

        await room(storage, clock).record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        assert current_priority.get() is priority

    async def test_what_was_said_is_learnt_with_its_source(self, captures: CaptureService, storage: InMemoryStorage):
        """Fact and episode say where they come from, and can be found."""
        receipt = await captures.record(
            talk(("user", "I live in Lisbon. How far is Porto?"), ("assistant", "313 km.")), owner=ANA, thread_id=TH
        )

        settled = await captures.settle(receipt, owner=ANA, timeout=LONG)

        found = await memories(storage)
        assert {m.text for m in found} == {
            "I live in Lisbon.",
            "Said: I live in Lisbon.",
            "Asked: How far is Porto?",
        }
        assert set(settled.memory_ids) == {m.memory_id for m in found}
        (source,) = next(m for m in found if m.kind == "semantic").sources
        assert (source.speaker, source.thread_id, source.message_id) == ("user", "th", "m0")
        items = await rows(storage, ANA, "memories")
        assert all(item.index == ("data",) and item.embedding is not None for item in items)

    async def test_text_is_gone_when_the_turn_was_learnt_from(self, captures: CaptureService, storage: InMemoryStorage):
        """What stays of a turn is that it was."""
        await learn(captures, turn("I live in Lisbon", "Nice city!"))

        spelled = [str(row.value) for row in await rows(storage, ANA, ".turns")]
        assert len(spelled) == 1
        assert "Lisbon" not in spelled[0]
        assert "Nice" not in spelled[0]

    async def test_second_delivery_is_a_duplicate(self, captures: CaptureService, storage: InMemoryStorage):
        """Told twice, learnt once."""
        await learn(captures, turn("I live in Lisbon"))

        again = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        assert again.status == "duplicate"
        assert len(again.memory_ids) == 2
        assert await captures.settle(again, owner=ANA, timeout=LONG) == again
        assert await facts(storage) == ["I live in Lisbon"]

    async def test_five_deliveries_at_once_are_one(self, captures: CaptureService, storage: InMemoryStorage):
        """However they fall together, one turn is on record and one memory comes of it."""
        receipts = await asyncio.gather(
            *(captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH) for _ in range(5))
        )

        for receipt in receipts:
            await captures.settle(receipt, owner=ANA, timeout=LONG)
        assert [receipt.status for receipt in receipts].count("queued") == 1
        (fact,) = [memory for memory in await memories(storage) if memory.kind == "semantic"]
        assert len(fact.sources) == 1

    async def test_whole_thread_is_not_extracted_again_every_turn(self, storage: InMemoryStorage, clock: FrozenClock):
        """Each turn reaches the extractor once, though the thread is given whole each time."""
        extractor = CountingExtractor()
        captures = room(storage, clock, extractor=extractor)
        thread: list[Message] = []
        for number in range(12):
            thread += talk(
                ("user", f"My cat number {number} is called Cat{number}"), ("assistant", "ok"), ids=f"{number}-"
            )
            await captures.record(thread, owner=ANA, thread_id=TH)

        await captures.drain(LONG)

        assert len(extractor.turns) == 12
        assert all(len(seen.messages) == 2 for seen in extractor.turns)

    async def test_turns_that_could_not_be_recorded_are_brought_along(
        self, captures: CaptureService, storage: InMemoryStorage
    ):
        """Where storage was down, the next turn records what is missing."""
        thread = talk(
            ("user", "I live in Lisbon"), ("assistant", "ok"), ("user", "I work at Acme"), ("assistant", "ok")
        )

        await learn(captures, thread)

        assert await facts(storage) == ["I live in Lisbon", "I work at Acme"]

    @pytest.mark.parametrize("known", [0, 1])
    async def test_every_turn_of_a_long_outage_is_brought_along(
        self, storage: InMemoryStorage, clock: FrozenClock, known: int
    ):
        """However many they are, and also where the thread began while the storage was down."""
        captures = room(storage, clock)
        said = [turn(f"My cat number {n} is called Cat{n}", key=f"{n}-") for n in range(45)]
        await captures.record(said[0] * known, owner=ANA, thread_id=TH)

        receipt = await captures.record([message for one in said for message in one], owner=ANA, thread_id=TH)
        await captures.drain(LONG)

        assert len(receipt.turn_ids) == 45 - known
        assert len(await facts(storage)) == 45

    async def test_outage_of_more_turns_than_a_commit_takes(self, storage: InMemoryStorage, clock: FrozenClock):
        """They are recorded in several, the oldest first, so that what a crash leaves out is found again."""
        captures = room(storage, clock)
        said = [turn(f"Question number {n}?", key=f"{n}-") for n in range(450)]
        await captures.record(said[0], owner=ANA, thread_id=TH)

        receipt = await captures.record([message for one in said for message in one], owner=ANA, thread_id=TH)

        assert len(receipt.turn_ids) == 449
        records = await rows(storage, ANA, ".turns")
        assert len({row.revision for row in records}) == 4
        assert [row.ref.key for row in sorted(records, key=lambda row: row.value["at"])][1:] == list(receipt.turn_ids)

    async def test_thread_that_is_older_than_the_memory_is_not_learnt_from_its_beginning(
        self, storage: InMemoryStorage, clock: FrozenClock
    ):
        """What is not known to be missing is not asked of a model a thousand times."""
        captures = room(storage, clock)
        said = [turn(f"Question number {n}?", key=f"{n}-") for n in range(300)]

        receipt = await captures.record([message for one in said for message in one], owner=ANA, thread_id=TH)

        assert len(receipt.turn_ids) == MAX_UNKNOWN
        assert len(await rows(storage, ANA, ".turns")) == MAX_UNKNOWN

    async def test_next_turn_costs_the_same_however_long_its_thread_is(self, clock: FrozenClock):
        """What was recorded last tells it: a few rows, read at once, and the messages that may begin a part."""
        storage = Asked(clock)
        captures = room(storage, clock)
        said = [message for n in range(100) for message in turn(f"I like number {n}", key=str(n))]
        await captures.record(said[:-2], owner=ANA, thread_id=TH)
        epoch = (await storage.position(ANA.partition)).epoch
        storage.asked.clear()
        given = Given(said)

        receipt = await captures.record(given, owner=ANA, thread_id=TH, epoch=epoch)

        assert receipt.status == "queued"
        assert len(receipt.turn_ids) == 1
        assert [what for what, _ in storage.asked] == ["get"]
        assert storage.asked[0][1] < 10
        assert min(given.read) >= len(said) - 2 * (LONGEST_PLAY + 1)

    async def test_owner_who_was_erased_since_the_turn_began_is_not_learnt_about(
        self, storage: InMemoryStorage, clock: FrozenClock
    ):
        """Nothing is written that names the owner; of the thread, no more than what is said next is learnt."""
        captures = room(storage, clock)
        await captures.record(turn("I live in Rome", key="a"), owner=ANA, thread_id=TH)
        began_in = (await storage.position(ANA.partition)).epoch
        await storage.erase(ANA.partition)

        said = [*turn("I live in Rome", key="a"), *turn("I live in Lisbon", key="b")]
        receipt = await captures.record(said, owner=ANA, thread_id=TH, epoch=began_in)
        left = await rows(storage, ANA)
        after = await captures.record([*said, *turn("I live in Porto", key="c")], owner=ANA, thread_id=TH)

        assert (receipt.status, left) == ("nothing", [])
        assert (after.status, len(after.turn_ids)) == ("queued", 1)

    async def test_turn_that_outlives_its_erased_owner_is_not_learnt_after_the_next_one(
        self, storage: InMemoryStorage, clock: FrozenClock
    ):
        """The thread has gone on since: what was said before is marked as seen, so that it is not learnt later."""
        captures = room(storage, clock)
        began_in = (await storage.position(ANA.partition)).epoch
        await captures.record(turn("I live in Rome", key="a"), owner=ANA, thread_id=TH)
        await storage.erase(ANA.partition)
        await captures.record(turn("I live in Porto", key="c"), owner=ANA, thread_id=TH)

        said = [*turn("I live in Porto", key="c"), *turn("I live in Lisbon", key="b")]
        receipt = await captures.record(said, owner=ANA, thread_id=TH, epoch=began_in)
        again = await captures.record(said, owner=ANA, thread_id=TH)

        assert (receipt.status, again.status) == ("nothing", "duplicate")

    async def test_fork_is_not_recorded_again(self, captures: CaptureService):
        """The same messages in another thread are the same turns."""
        await learn(captures, turn("I live in Lisbon"))

        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=ThreadId("fork"))

        assert receipt.status == "duplicate"

    @pytest.mark.parametrize(
        "messages", [[], talk(("assistant", "hello")), talk(("system", "I live in Rome"), ("tool", "x"))]
    )
    async def test_without_a_users_word_there_is_nothing(self, captures: CaptureService, messages: list[Message]):
        """Nothing is recorded where nobody spoke."""
        receipt = await captures.record(messages, owner=ANA, thread_id=TH)

        assert receipt.status == "nothing"
        assert await captures.settle(receipt, owner=ANA, timeout=LONG) == receipt

    async def test_turn_that_shall_not_be_remembered_is_not_even_kept(
        self, storage: InMemoryStorage, clock: FrozenClock
    ):
        """Its text never reaches the storage; that it was is known, so it is not asked for again."""
        captures = room(storage, clock)

        await captures.record(turn("I live in Lisbon, but don't remember this"), owner=ANA, thread_id=TH)

        everything = await rows(storage, ANA)
        assert everything
        assert "Lisbon" not in str([row.value for row in everything])
        assert (await captures.stats()).pending == 0

    async def test_receipt_says_why_nothing_was_kept(self, storage: InMemoryStorage, clock: FrozenClock):
        """Because the user said so, or because a rule did."""
        captures = room(storage, clock, extractor=RepeatingExtractor("I live in Lisbon."))
        unwanted = await captures.record(turn("I live in Rome, but don't remember this"), owner=ANA, thread_id=TH)
        repeated = await captures.record(turn("What?"), owner=ANA, thread_id=TH, recalled=["I live in Lisbon"])
        await captures.drain(LONG)

        settled = [await captures.settle(receipt, owner=ANA, timeout=LONG) for receipt in (unwanted, repeated)]

        assert [(receipt.status, receipt.memory_ids) for receipt in settled] == [("done", ())] * 2
        assert [receipt.rejected for receipt in settled] == [("not to be remembered",), ("recalled",)]

    async def test_lag_until_it_can_be_recalled_is_measured(self, storage: InMemoryStorage, clock: FrozenClock):
        """From the turn's record to the commit that taught it."""
        telemetry = Telemetry()
        captures = room(storage, clock, telemetry=telemetry)
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        clock.advance(timedelta(seconds=3))

        await captures.drain(LONG)

        lag = telemetry.measured()["capture.lag_seconds"]
        assert (lag.count, lag.seconds, lag.longest) == (1, 3.0, 3.0)
        assert lag.buckets == (*[0] * 9, *[1] * 6)

    async def test_receipt_that_timed_out_says_why_it_failed_last(self, storage: InMemoryStorage, clock: FrozenClock):
        """It waits to be tried again; that is no secret."""
        captures = room(storage, clock, extractor=FailingExtractor("Lisbon"))
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await captures.drain(LONG)

        settled = await captures.settle(receipt, owner=ANA, timeout=timedelta(0))

        assert (settled.status, settled.degraded, settled.reason) == ("queued", ("timeout",), "RuntimeError")

    async def test_secret_reaches_no_row(self, storage: InMemoryStorage, clock: FrozenClock):
        """Redacted before anything is kept, whoever said it."""
        captures = room(storage, clock)
        messages = turn("my password is hunter2", "Noted: your password is hunter2", key="m")

        await captures.record(messages, owner=ANA, thread_id=TH, recalled=["password: hunter2"])

        everything = str([row.value for row in await rows(storage, ANA)])
        assert "hunter2" not in everything
        assert "[redacted: password]" in everything

    async def test_owners_do_not_meet(self, captures: CaptureService, storage: InMemoryStorage):
        """The same turn of two people is two turns."""
        await learn(captures, turn("I live in Lisbon"))

        receipt = await captures.record(turn("I live in Lisbon"), owner=BOB, thread_id=TH)
        await captures.settle(receipt, owner=BOB, timeout=LONG)

        assert receipt.status == "queued"
        assert await facts(storage, BOB) == ["I live in Lisbon"]
        assert await facts(storage, ANA) == ["I live in Lisbon"]

    async def test_storage_that_is_down_is_said(self, clock: FrozenClock):
        """The caller decides what to do; nothing was recorded."""
        storage = Down(clock)
        storage.down = True

        with pytest.raises(StorageUnavailableError):
            await room(storage, clock).record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)


class TestLearn:
    async def test_newer_answer_replaces_the_older(self, captures: CaptureService, storage: InMemoryStorage):
        """One memory, with what was true before in its history."""
        await learn(captures, turn("My favourite colour is red"))
        await learn(captures, turn("My favourite colour is blue now"), thread=ThreadId("other"))

        (fact,) = [memory for memory in await memories(storage) if memory.kind == "semantic"]
        assert fact.text == "My favourite colour is blue now"
        assert [old.text for old in fact.history] == ["My favourite colour is red"]

    async def test_two_turns_with_the_same_words_are_one_memory(
        self, captures: CaptureService, storage: InMemoryStorage
    ):
        """It knows both places."""
        await learn(captures, turn("I live in Lisbon", key="a"))
        await learn(captures, turn("I live in Lisbon.", key="b"), thread=ThreadId("other"))

        (fact,) = [memory for memory in await memories(storage) if memory.kind == "semantic"]
        assert [source.thread_id for source in fact.sources] == ["th", "other"]

    async def test_what_another_program_keeps_is_not_rewritten(
        self, captures: CaptureService, storage: InMemoryStorage
    ):
        """A statement that a foreign row holds is known; the row stays as its program wrote it."""
        foreign = {"kind": "Memory", "content": {"content": "I live in Lisbon"}}
        put = Put(("memories", ANA.label), "theirs", foreign, index=("content.content",))
        await storage.commit(Batch(ANA.partition, [put]))

        await learn(captures, turn("I live in Lisbon"))

        kept = {row.ref.key: row.value for row in await rows(storage, ANA, "memories")}
        assert kept["theirs"] == foreign
        assert await episodes(storage) == ["Said: I live in Lisbon"]
        assert len(kept) == 2

    async def test_what_another_program_keeps_is_not_replaced(self, captures: CaptureService, storage: InMemoryStorage):
        """A newer answer is kept beside a foreign row; that row is its program's to change."""
        foreign = {"content": "I live in Lisbon"}
        put = Put(("memories", ANA.label), "theirs", foreign, index=("content",))
        await storage.commit(Batch(ANA.partition, [put]))

        await learn(captures, turn("I moved to Berlin"))

        kept = {row.ref.key: row.value for row in await rows(storage, ANA, "memories")}
        assert kept["theirs"] == foreign
        assert "I moved to Berlin" in await facts(storage)

    async def test_statement_that_a_person_kept_by_hand_is_found(
        self, captures: CaptureService, storage: InMemoryStorage, clock: FrozenClock
    ):
        """Captured and remembered memories are of one kind: the newer answer replaces the older."""
        by_hand = replace(
            A_MEMORY, created_at=clock.now(), updated_at=clock.now(), sources=(Source("user", at=clock.now()),)
        )
        await storage.commit(Batch(ANA.partition, [put_of(by_hand, embedding=None, expect="absent")]))
        clock.advance(timedelta(minutes=1))

        await learn(captures, turn("I moved to Berlin"))

        (fact,) = [memory for memory in await memories(storage) if memory.kind == "semantic"]
        assert (fact.memory_id, fact.text) == ("by-hand", "I moved to Berlin")
        assert [old.text for old in fact.history] == ["I live in Lisbon"]

    async def test_reply_of_blocks_leaves_an_episode_too(self, captures: CaptureService, storage: InMemoryStorage):
        """A model may reply with a list of blocks; the turn is one all the same."""
        blocks: list[str | dict[Any, Any]] = [
            {"type": "reasoning", "reasoning": "hm"},
            {"type": "text", "text": "By train."},
        ]
        messages = [HumanMessage("How do I get to Porto?", id="q"), AIMessage(blocks, id="a")]

        await learn(captures, plain_messages(messages))

        assert await episodes(storage) == ["Asked: How do I get to Porto?"]

    async def test_recalled_statement_is_not_learnt(self, captures: CaptureService, storage: InMemoryStorage):
        """A reply, or the user, repeating what recall put in teaches nothing new."""
        messages = talk(("user", "What do you know?"), ("assistant", "I live in Lisbon, you said."))

        receipt = await captures.record(messages, owner=ANA, thread_id=TH, recalled=["I live in Lisbon"])
        await captures.settle(receipt, owner=ANA, timeout=LONG)

        assert await facts(storage) == []
        assert await episodes(storage) == ["Asked: What do you know?"]

    async def test_recalled_statement_is_refused_from_every_extractor(
        self, storage: InMemoryStorage, clock: FrozenClock
    ):
        """An extractor that takes what was put in for new does not get through."""
        captures = room(storage, clock, extractor=RepeatingExtractor("I live in Lisbon."))

        await captures.record(turn("What now?"), owner=ANA, thread_id=TH, recalled=["I live in Lisbon"])
        await captures.drain(LONG)

        assert await memories(storage) == []

    async def test_secret_is_refused_from_every_extractor(self, storage: InMemoryStorage, clock: FrozenClock):
        """An extractor that makes one up, or puts one together, does not get through."""
        telemetry = Telemetry()
        captures = room(storage, clock, extractor=RepeatingExtractor("The password is hunter2"), telemetry=telemetry)

        await captures.record(turn("What now?"), owner=ANA, thread_id=TH)
        await captures.drain(LONG)

        assert await memories(storage) == []
        assert telemetry.counts()["capture.reject"] == 1

    async def test_extractor_that_asks_for_it_sees_what_is_known(self, storage: InMemoryStorage, clock: FrozenClock):
        """What is like the user's words is searched for."""
        extractor = CountingExtractor()
        captures = room(storage, clock, extractor=extractor)
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await captures.drain(LONG)

        await captures.record(turn("Where in Lisbon do I live?"), owner=ANA, thread_id=TH)
        await captures.drain(LONG)

        assert "I live in Lisbon" in [memory.text for memory in extractor.known[1]]

    async def test_statement_is_found_among_very_many(self, storage: InMemoryStorage, clock: FrozenClock):
        """Whether something is known does not depend on how much else is."""
        captures = room(storage, clock)
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await captures.drain(LONG)
        puts = [
            put_of(
                replace(A_MEMORY, memory_id=MemoryId(f"{n}"), text=f"I lived in Lisbon in 19{n}"),
                embedding=None,
                expect="absent",
            )
            for n in range(500)
        ]
        await storage.commit(Batch(ANA.partition, puts))

        later = room(storage, clock)
        await later.record(turn("I moved to Berlin"), owner=ANA, thread_id=TH)
        await later.drain(LONG)

        assert "I live in Lisbon" not in await facts(storage)

    async def test_without_embedder_it_is_learnt_all_the_same(self, storage: InMemoryStorage, clock: FrozenClock):
        """Such a memory is found by its words."""
        embedder = HashingEmbedder()
        embedder.error = EmbedderUnavailableError("gone")
        captures = room(storage, clock, embedder=embedder)
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await captures.record(turn("I really live in Lisbon"), owner=ANA, thread_id=TH)

        await captures.drain(LONG)

        assert len(await facts(storage)) == 1

    async def test_memory_lives_as_long_as_is_set(self, storage: InMemoryStorage, clock: FrozenClock):
        """The deployment's lifetime holds for what is captured, and not for that it was."""
        captures = room(storage, clock, ttl=timedelta(hours=1))
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await captures.drain(LONG)

        clock.advance(timedelta(hours=2))

        assert await facts(storage) == []
        assert (await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)).status == "duplicate"

    async def test_index_in_use_reads_it_before_anybody_asks(self, storage: InMemoryStorage, clock: FrozenClock):
        """The next turn need not wait until the memories of this one are read; capture and recall share the index."""
        search = Retriever(storage, HashingEmbedder(), clock)
        captures = room(storage, clock, search=search)
        await captures.start()
        await search.ranking(ANA.partition, "Where do I live?", limit=1)

        receipt = await captures.record(turn("I live in Lisbon."), owner=ANA, thread_id=TH)
        await captures.settle(receipt, owner=ANA, timeout=LONG)

        async def has_read() -> bool:
            return search.stats().items > 0

        await until(has_read)
        assert search.stats().partitions == 1
        await captures.stop()


class TestWorker:
    async def test_what_an_earlier_process_left_is_finished(self, storage: InMemoryStorage, clock: FrozenClock):
        """Recorded, then gone without draining: the next start goes on by itself."""
        first = room(storage, clock)
        receipt = await first.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await first.stop()

        second = room(storage, clock)
        await second.start()
        settled = await second.settle(receipt, owner=ANA, timeout=LONG)
        await second.stop()

        assert settled.status == "done"
        assert await facts(storage) == ["I live in Lisbon"]

    async def test_drain_finishes_what_is_pending(self, storage: InMemoryStorage, clock: FrozenClock):
        """Shutting down in order leaves nothing for later."""
        captures = room(storage, clock)
        for number in range(30):
            await captures.record(turn(f"My cat number {number} is called Cat{number}"), owner=ANA, thread_id=TH)

        assert await captures.drain(LONG)

        assert (await captures.stats()).pending == 0
        assert len(await facts(storage)) == 30

    async def test_failing_turn_is_parked_and_the_others_go_on(self, storage: InMemoryStorage, clock: FrozenClock):
        """It is tried again, longer apart each time, kept in the end, and blocks nobody."""
        telemetry = Telemetry()
        captures = room(storage, clock, extractor=FailingExtractor("poison"), telemetry=telemetry)
        bad = await captures.record(turn("I like poison ivy"), owner=ANA, thread_id=TH)
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await captures.record(turn("I live in Porto"), owner=BOB, thread_id=TH)

        for _ in range(10):
            await captures.drain(LONG)
            clock.advance(timedelta(hours=1))

        assert await facts(storage) == ["I live in Lisbon"]
        assert await facts(storage, BOB) == ["I live in Porto"]
        stats = await captures.stats()
        assert (stats.pending, stats.failed, stats.processed) == (0, 1, 2)
        assert telemetry.counts()["capture.extract.degraded"] == 5
        (row,) = [row for row in await rows(storage, ANA, ".turns") if row.ref.key == bad.turn_ids[0]]
        assert (row.value["state"], row.value["reason"], row.value["tries"]) == ("failed", "RuntimeError", 5)
        assert (await captures.settle(bad, owner=ANA, timeout=LONG)).status == "failed"

    async def test_turn_that_fails_once_is_learnt_from_later(self, storage: InMemoryStorage, clock: FrozenClock):
        """A failure delays, it does not lose."""
        captures = room(storage, clock, extractor=FailingExtractor("Lisbon", times=2))
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        await captures.drain(LONG)
        before = await facts(storage)
        for _ in range(2):
            clock.advance(timedelta(minutes=1))
            await captures.drain(LONG)

        assert before == []
        assert await facts(storage) == ["I live in Lisbon"]

    async def test_failing_turn_is_not_tried_before_its_time(self, storage: InMemoryStorage, clock: FrozenClock):
        """Back-off is by the clock, not by how often somebody looks."""
        extractor = FailingExtractor("Lisbon")
        captures = room(storage, clock, extractor=extractor)
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        for _ in range(5):
            await captures.drain(LONG)

        assert extractor.failed == 1

    async def test_two_workers_never_double(self, clock: FrozenClock):
        """Both take everything at once, step by step beside each other; each turn counts once."""
        storage = Interleaving(clock=clock)
        one, other = room(storage, clock), room(storage, clock)
        for number in range(20):
            await one.record(turn(f"I have a cat called Cat{number % 5}", key=f"k{number}"), owner=ANA, thread_id=TH)

        for _ in range(3):
            await asyncio.gather(one.drain(LONG), other.drain(LONG))

        found = [memory for memory in await memories(storage) if memory.kind == "semantic"]
        assert sorted(memory.text for memory in found) == [f"I have a cat called Cat{n}" for n in range(5)]
        assert [len(memory.sources) for memory in found] == [4] * 5
        one_stats, other_stats = await one.stats(), await other.stats()
        assert one_stats.processed + other_stats.processed == 20

    async def test_two_turns_that_say_the_same_at_once_are_one_memory(self, clock: FrozenClock):
        """Two workers on two turns of one owner cannot both write from what they read."""
        storage = Interleaving(clock=clock)
        recorder = room(storage, clock)
        refs: list[Ref] = []
        for key in ("a", "b"):
            receipt = await recorder.record(turn("I have a cat called Mochi", key=key), owner=ANA, thread_id=TH)
            refs.append(Ref(ANA.partition, (".turns", ANA.label), receipt.turn_ids[0]))
        workers = [
            Learning(
                storage,
                Retriever(storage, None, clock),
                LocalExtractor(),
                clock,
                Telemetry(),
                audited_writer=AuditedWriter(storage, clock),
            )
            for _ in refs
        ]

        await asyncio.gather(*(worker.learn(ref, ANA) for worker, ref in zip(workers, refs, strict=True)))

        (fact,) = [memory for memory in await memories(storage) if memory.kind == "semantic"]
        assert len(fact.sources) == 2

    async def test_turns_of_one_owner_are_learnt_in_order(self, storage: InMemoryStorage, clock: FrozenClock):
        """What was said last is what is true."""
        captures = room(storage, clock)
        colours = ["red", "blue", "green", "black"]
        for colour in colours:
            await captures.record(turn(f"My favourite colour is {colour}"), owner=ANA, thread_id=TH)

        await captures.drain(LONG)

        (fact,) = [memory for memory in await memories(storage) if memory.kind == "semantic"]
        assert [*(old.text for old in fact.history), fact.text] == [f"My favourite colour is {c}" for c in colours]

    async def test_worker_waits_while_storage_is_down(self, clock: FrozenClock):
        """It tries again by itself; nothing is lost and nothing is raised."""
        storage = Down(clock)
        telemetry = Telemetry()
        captures = room(storage, clock, telemetry=telemetry)
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        storage.down = True
        await captures.start()

        async def degraded() -> bool:
            return telemetry.counts().get("capture.worker.degraded", 0) > 0

        await until(degraded)
        storage.down = False

        assert (await captures.settle(receipt, owner=ANA, timeout=LONG)).status == "done"
        await captures.stop()
        assert await facts(storage) == ["I live in Lisbon"]

    async def test_turn_that_its_own_worker_learns_from_needs_no_read_of_the_epoch(self, clock: FrozenClock):
        """It is the one of the record; and whether a partition was ever erased matters only where turns are missing."""
        storage = Asked(clock)
        captures = room(storage, clock)
        await captures.start()
        began_in = (await storage.position(ANA.partition)).epoch
        storage.asked.clear()

        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH, epoch=began_in)
        await captures.drain(LONG)
        await captures.stop()

        assert await facts(storage) == ["I live in Lisbon"]
        assert [what for what, _ in storage.asked if what == "position"] == []

    async def test_own_worker_learns_nothing_in_a_later_epoch_than_that_of_the_record(self, clock: FrozenClock):
        """The owner was erased before the worker began, and another process has recorded the turn again since."""
        storage = InMemoryStorage(clock=clock)
        captures = room(storage, clock)
        await captures.start()
        wake: list[Callable[[], object]] = []
        await captures.record(
            turn("I live in Lisbon"), owner=ANA, thread_id=TH, later=lambda call, _: wake.append(call)
        )
        (row,) = await rows(storage, ANA, ".turns")
        await storage.erase(ANA.partition)
        again = Put(row.ref.namespace, row.ref.key, {**row.value, "worker": "another"}, due=row.due)
        await storage.commit(Batch(ANA.partition, [again]))

        wake[0]()
        await asyncio.sleep(0)
        await captures.drain(LONG)
        await captures.stop()

        assert await facts(storage) == []
        assert [item.value["state"] for item in await rows(storage, ANA, ".turns")] == ["pending"]

    async def test_work_of_an_erased_owner_is_dropped(self, clock: FrozenClock):
        """What was in flight when everything was erased is not written afterwards."""
        storage = Interrupted(clock=clock)
        captures = room(storage, clock)
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        storage.first = lambda: storage.erase(ANA.partition)

        await captures.drain(LONG)

        assert await rows(storage, ANA) == []

    async def test_work_on_a_turn_that_is_forgotten_meanwhile_is_dropped(self, clock: FrozenClock):
        """What was in flight when a turn was emptied is not written afterwards."""
        storage = Interrupted(clock=clock)
        captures = room(storage, clock)
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        async def forget() -> None:
            await storage.commit(Batch(ANA.partition, await captures.forgetting(ANA, receipt.turn_ids)))

        storage.first = forget
        await captures.drain(LONG)

        assert await facts(storage) == []
        assert (await captures.settle(receipt, owner=ANA, timeout=LONG)).memory_ids == ()

    async def test_memory_that_is_corrected_meanwhile_is_read_again(self, clock: FrozenClock):
        """A commit rests on what was read; where that changed, it is decided anew."""
        storage = Interrupted(clock=clock)
        captures = room(storage, clock)
        by_hand = replace(A_MEMORY, created_at=clock.now(), updated_at=clock.now())
        await storage.commit(Batch(ANA.partition, [put_of(by_hand, embedding=None, expect="absent")]))
        clock.advance(timedelta(minutes=1))
        await captures.record(turn("I moved to Berlin"), owner=ANA, thread_id=TH)

        async def correct() -> None:
            changed = put_of(replace(by_hand, text="I live in Porto"), embedding=None, expect="any")
            await storage.commit(Batch(ANA.partition, [changed]))

        storage.first = correct
        await captures.drain(LONG)

        (fact,) = [memory for memory in await memories(storage) if memory.kind == "semantic"]
        assert fact.text == "I moved to Berlin"
        assert [old.text for old in fact.history] == ["I live in Porto"]

    async def test_stopping_twice_and_starting_again_is_fine(self, captures: CaptureService, storage: InMemoryStorage):
        """A room can be stopped and started."""
        await captures.stop()
        await captures.stop()
        await captures.start()
        await captures.start()

        await learn(captures, turn("I live in Lisbon"))

        assert await facts(storage) == ["I live in Lisbon"]

    async def test_unreadable_row_does_not_block_other_records(
        self, captures: CaptureService, storage: InMemoryStorage, clock: FrozenClock
    ):
        """A row that cannot be understood is passed over."""
        put = Put((".turns", ANA.label), "strange", {"state": "?"}, due=Due("capture", clock.now()))
        await storage.commit(Batch(ANA.partition, [put]))

        await learn(captures, turn("I live in Lisbon"))

        assert await facts(storage) == ["I live in Lisbon"]

    async def test_settle_gives_up_in_time(self, storage: InMemoryStorage, clock: FrozenClock):
        """Without a worker it says so, and the turn stays queued."""
        captures = room(storage, clock)
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        settled = await captures.settle(receipt, owner=ANA, timeout=timedelta(0))

        assert (settled.status, settled.degraded) == ("queued", ("timeout",))


class TestForgetting:
    async def test_text_of_a_waiting_turn_goes(self, storage: InMemoryStorage, clock: FrozenClock):
        """Nothing is learnt from it any more, and it is not recorded again."""
        captures = room(storage, clock)
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        puts = await captures.forgetting(ANA, receipt.turn_ids)
        await storage.commit(Batch(ANA.partition, puts))
        await captures.drain(LONG)

        assert await facts(storage) == []
        assert "Lisbon" not in str([row.value for row in await rows(storage, ANA)])
        assert (await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)).status == "duplicate"

    async def test_turn_that_was_learnt_from_has_no_text_left(self, captures: CaptureService):
        """There is nothing to empty."""
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await captures.settle(receipt, owner=ANA, timeout=LONG)

        assert list(await captures.forgetting(ANA, receipt.turn_ids)) == []


class Down(InMemoryStorage):
    """A storage that does not answer while it is down."""

    def __init__(self, clock: FrozenClock) -> None:
        super().__init__(clock=clock)
        self.down = False

    def _check(self) -> None:
        if self.down:
            msg = "The storage does not answer."
            raise StorageUnavailableError(msg)

    async def commit(self, batch: Batch) -> Position:
        self._check()
        return await super().commit(batch)

    async def due(self, kind: str, *, now: datetime, limit: int) -> tuple[Item, ...]:
        self._check()
        return await super().due(kind, now=now, limit=limit)

    async def get(self, refs: Sequence[Ref]) -> tuple[Item | None, ...]:
        self._check()
        return await super().get(refs)
