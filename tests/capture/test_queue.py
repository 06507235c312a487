"""Workers on one storage: leases, take-over, what hangs, what is kept aside."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from tests.capture.world import (
    ANA,
    BOB,
    LONG,
    FailingExtractor,
    Interleaving,
    facts,
    room,
    rows,
    turn,
    until,
)
from threadkeep.capture.extractors import Extraction
from threadkeep.capture.extractors.local import LocalExtractor
from threadkeep.capture.models import Turn
from threadkeep.capture.queue import WORKER_DIED, Outbox, QueueTerms
from threadkeep.capture.turns import TurnRecord
from threadkeep.clock import SystemClock
from threadkeep.errors import StorageUnavailableError
from threadkeep.identity import Owner
from threadkeep.ids import ThreadId, TurnId
from threadkeep.memories.models import Memory
from threadkeep.observability import Telemetry
from threadkeep.storage.interface import Batch, Position
from threadkeep.storage.memory import InMemoryStorage
from threadkeep.testing import FrozenClock

TH, OTHER = ThreadId("th"), ThreadId("other")
SOON = timedelta(seconds=2)


@dataclass(eq=False)
class HeldExtractor:
    """Takes until it is told to go on, on turns that hold a word; notes what it was given."""

    word: str = ""
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    texts: list[str] = field(default_factory=list[str])
    name: str = "held"
    uses_known: bool = False

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:
        text = turn.messages[0].text
        self.texts.append(text)
        if self.word in text:
            await self.go_on.wait()
        return await LocalExtractor().extract(turn, known)


@dataclass(eq=False)
class UnavailableOnce:
    """Finds the storage away at the first turn."""

    asked: int = 0
    name: str = "unavailable once"
    uses_known: bool = False

    async def extract(self, turn: Turn, known: Sequence[Memory]) -> Extraction:
        self.asked += 1
        if self.asked == 1:
            msg = "The storage is away."
            raise StorageUnavailableError(msg)
        return await LocalExtractor().extract(turn, known)


async def taken_by_one_who_died(
    storage: InMemoryStorage, clock: FrozenClock, *, terms: QueueTerms | None = None, worker: str = "the dead one"
) -> None:
    """Let a worker take everything and never be heard of again."""
    outbox = Outbox(storage, clock, Telemetry(), terms=terms or QueueTerms(), worker=worker)
    for waiting in (await outbox.ready(running=(), hurried=None)).waiting:
        assert await outbox.take(waiting) is not None


class TestWaiting:
    async def test_a_caller_is_woken_by_turns_of_its_thread_only(self, monkeypatch: pytest.MonkeyPatch):
        """It reads the record before it waits and after, however many turns of others are learnt from."""
        monkeypatch.setattr("threadkeep.capture.service._SETTLE_POLL_SECONDS", 3600)
        clock = SystemClock()
        storage = InMemoryStorage(clock=clock)
        held = HeldExtractor(word="Lisbon")
        captures = room(storage, clock, extractor=held)
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        for number in range(20):
            await captures.record(turn(f"I have a cat called Cat{number}"), owner=BOB, thread_id=ThreadId(f"{number}"))
        reads: list[object] = []
        read = captures.on_record.records

        async def counted(turn_ids: Sequence[TurnId], *, owner: Owner) -> Sequence[TurnRecord | None]:
            reads.append(turn_ids)
            return await read(turn_ids, owner=owner)

        async def others_are_learnt() -> bool:
            return len(held.texts) == 21

        monkeypatch.setattr(captures.on_record, "records", counted)
        waiting = asyncio.create_task(captures.settle(receipt, owner=ANA, timeout=LONG))
        learning = asyncio.create_task(captures.drain(LONG))
        await until(others_are_learnt)
        held.go_on.set()

        assert (await waiting).status == "done"
        assert len(reads) == 2
        await learning


class TestLease:
    async def test_only_one_of_two_workers_extracts_a_turn(self, clock: FrozenClock):
        """Both look at the same moment, step by step beside each other; a model is asked once."""
        storage = Interleaving(clock=clock)
        extractors = [HeldExtractor(word="nothing"), HeldExtractor(word="nothing")]
        workers = [room(storage, clock, extractor=extractor) for extractor in extractors]
        for number in range(20):
            await workers[0].record(
                turn(f"I have a cat called Cat{number}"), owner=ANA, thread_id=ThreadId(f"{number}")
            )

        await asyncio.gather(*(worker.drain(LONG, others=True) for worker in workers))

        extracted = [text for extractor in extractors for text in extractor.texts]
        assert sorted(extracted) == sorted(f"I have a cat called Cat{number}" for number in range(20))

    async def test_it_is_renewed_while_a_model_thinks(self):
        """However long that takes, nobody else asks it."""
        clock = SystemClock()
        storage = InMemoryStorage(clock=clock)
        terms = QueueTerms(lease=timedelta(seconds=0.15))
        thinking, idle = HeldExtractor(), HeldExtractor()
        one, other = (room(storage, clock, extractor=extractor, terms=terms) for extractor in (thinking, idle))
        await one.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        learning = asyncio.create_task(one.drain(LONG))

        async def asked() -> bool:
            return bool(thinking.texts)

        await until(asked)
        await other.drain(timedelta(seconds=0.6), others=True)
        thinking.go_on.set()
        await learning

        assert (len(thinking.texts), len(idle.texts)) == (1, 0)
        assert await facts(storage) == ["I live in Lisbon"]
        (row,) = await rows(storage, ANA, ".turns")
        assert row.value["state"] == "done"

    async def test_work_of_a_dead_worker_is_taken_over_when_its_lease_ends(
        self, storage: InMemoryStorage, clock: FrozenClock
    ):
        """Within 15 seconds with the defaults: ten of the lease, and whoever saw it wakes just then."""
        captures = room(storage, clock)
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await taken_by_one_who_died(storage, clock)

        assert await captures.drain(LONG)
        before = await facts(storage)
        clock.advance(timedelta(seconds=10))
        assert await captures.drain(LONG)

        assert before == []
        assert await facts(storage) == ["I live in Lisbon"]
        assert (await captures.settle(receipt, owner=ANA, timeout=LONG)).status == "done"

    async def test_worker_that_waits_wakes_when_the_lease_ends(self):
        """It does not wait for its next look around."""
        clock = SystemClock()
        storage = InMemoryStorage(clock=clock)
        terms = QueueTerms(lease=timedelta(seconds=0.2))
        captures = room(storage, clock, terms=terms)  # which looks by itself once a day
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        outbox = Outbox(storage, clock, Telemetry(), terms=terms, worker="the dead one")
        await outbox.take((await outbox.ready(running=(), hurried=None)).waiting[0])

        await captures.start()
        settled = await captures.settle(receipt, owner=ANA, timeout=LONG)
        await captures.stop()

        assert settled.status == "done"

    async def test_drain_waits_for_a_turn_that_was_given_back(self):
        """A worker that found the storage away gives its turns back for a second; they wait to be learnt from."""
        clock = SystemClock()
        storage = InMemoryStorage(clock=clock)
        extractor = UnavailableOnce()
        captures = room(storage, clock, extractor=extractor)
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        async def given_back() -> bool:
            (row,) = await rows(storage, ANA, ".turns")
            return extractor.asked == 1 and "worker" not in row.value

        await captures.start()
        await until(given_back)
        drained = await captures.drain(LONG, others=True)
        await captures.stop()

        assert drained
        assert await facts(storage) == ["I live in Lisbon"]

    async def test_drain_goes_on_when_its_own_learning_finds_the_storage_away(self):
        """No engine is started, so only the call itself learns."""
        storage = InMemoryStorage(clock=SystemClock())
        captures = room(storage, SystemClock(), extractor=UnavailableOnce())
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        drained = await captures.drain(LONG, others=True)

        assert drained
        assert await facts(storage) == ["I live in Lisbon"]

    async def test_what_kills_every_worker_is_kept_aside(self, storage: InMemoryStorage, clock: FrozenClock):
        """A turn that nobody survives must not end all of them for ever; those behind it are not to blame."""
        telemetry = Telemetry()
        captures = room(storage, clock, telemetry=telemetry, terms=QueueTerms(tries=3))
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await captures.record(turn("I work at Acme"), owner=ANA, thread_id=TH)
        for number in range(3):
            await taken_by_one_who_died(storage, clock, terms=QueueTerms(tries=3), worker=f"{number}")
            clock.advance(timedelta(seconds=10))

        await captures.drain(LONG)

        settled = await captures.settle(receipt, owner=ANA, timeout=LONG)
        assert (settled.status, settled.reason) == ("failed", WORKER_DIED)
        assert await facts(storage) == ["I work at Acme"]
        counts = telemetry.counts()
        assert (counts["capture.taken_over"], counts["capture.parked"]) == (1, 1)

    async def test_stopping_gives_back_what_is_not_finished(self, storage: InMemoryStorage, clock: FrozenClock):
        """The next worker need not wait for the lease to end; and nothing has failed."""
        held = HeldExtractor()
        first = room(storage, clock, extractor=held)
        await first.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await first.start()

        async def thinking() -> bool:
            return bool(held.texts)

        await until(thinking)
        await first.stop()

        (row,) = await rows(storage, ANA, ".turns")
        assert ("worker" in row.value, row.value["tries"]) == (False, 0)
        await room(storage, clock).drain(LONG)
        assert await facts(storage) == ["I live in Lisbon"]

    async def test_late_failure_of_a_worker_that_lost_its_lease_counts_for_nothing(
        self, storage: InMemoryStorage, clock: FrozenClock
    ):
        """Whoever has it now goes on."""
        captures = room(storage, clock)
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        late = Outbox(storage, clock, Telemetry(), terms=QueueTerms(), worker="late")
        claim = await late.take((await late.ready(running=(), hurried=None)).waiting[0])
        assert claim is not None
        ref = claim.refs[0]
        clock.advance(timedelta(seconds=11))
        await taken_by_one_who_died(storage, clock)

        await late.renew(claim)
        assert await late.fail(ref, ANA, "too late") is None

        (queued,) = await captures.queued()
        assert (queued.state, queued.worker, queued.reason) == ("running", "the dead one", WORKER_DIED)
        assert claim.refs == []
        assert receipt.turn_ids == (queued.turn_id,)


class TestHold:
    """A turn is recorded before its run is over; until then the thread may be deleted."""

    @pytest.mark.parametrize("leased", [True, False])
    async def test_nothing_is_learnt_before_the_wake_up(
        self, storage: InMemoryStorage, clock: FrozenClock, *, leased: bool
    ):
        captures = room(storage, clock)
        if leased:
            await captures.start()
        wake: list[Callable[[], object]] = []
        await captures.record(
            turn("I live in Lisbon"), owner=ANA, thread_id=TH, later=lambda call, _: wake.append(call)
        )
        await captures.record(turn("I live in Porto"), owner=BOB, thread_id=OTHER)

        await captures.drain(LONG)
        before = await facts(storage)
        is_empty = await captures.drain(timedelta(seconds=0.1), others=True)
        wake[0]()
        await captures.drain(LONG)
        await captures.stop()

        assert before == []
        assert not is_empty
        assert await facts(storage, BOB) == ["I live in Porto"]
        assert await facts(storage) == ["I live in Lisbon"]

    async def test_turn_is_learnt_from_although_the_wake_up_is_dropped(
        self, storage: InMemoryStorage, clock: FrozenClock
    ):
        """Its run was dropped without an end."""
        captures = room(storage, clock)
        await captures.start()
        wake: list[Callable[[], object]] = []
        await captures.record(
            turn("I live in Lisbon"), owner=ANA, thread_id=TH, later=lambda call, _: wake.append(call)
        )

        wake.clear()
        gc.collect()
        await captures.drain(LONG)
        await captures.stop()

        assert await facts(storage) == ["I live in Lisbon"]

    async def test_no_other_worker_takes_it_over_while_the_run_goes_on(self):
        """The lease of the worker that recorded it is renewed when that worker looks for turns."""
        clock = SystemClock()
        storage = InMemoryStorage(clock=clock)
        terms = QueueTerms(lease=timedelta(seconds=0.5))
        recording, other = room(storage, clock, terms=terms, poll=timedelta(seconds=0.05)), room(storage, clock)
        await recording.start()
        wake: list[Callable[[], object]] = []
        said = turn("I live in Lisbon")
        receipt = await recording.record(said, owner=ANA, thread_id=TH, later=lambda call, _: wake.append(call))

        await other.drain(timedelta(seconds=1.5), others=True)
        before = await facts(storage)
        wake[0]()
        settled = await recording.settle(receipt, owner=ANA, timeout=LONG)
        await recording.stop()

        assert before == []
        assert settled.status == "done"
        assert await facts(storage) == ["I live in Lisbon"]


class TestHanging:
    @pytest.mark.parametrize("owner", [ANA, BOB])
    async def test_other_threads_go_on(self, storage: InMemoryStorage, clock: FrozenClock, owner):
        """A model that hangs on one thread holds up neither another owner's nor another thread of the same."""
        held = HeldExtractor(word="hang")
        captures = room(storage, clock, extractor=held)
        await captures.start()
        stuck = await captures.record(turn("Please hang"), owner=ANA, thread_id=TH)
        receipt = await captures.record(turn("I live in Lisbon"), owner=owner, thread_id=OTHER)

        settled = await captures.settle(receipt, owner=owner, timeout=LONG)
        still = await captures.settle(stuck, owner=ANA, timeout=timedelta(0))
        await captures.stop()

        assert settled.status == "done"
        assert (still.status, still.degraded) == ("queued", ("timeout",))

    async def test_without_workers_nothing_is_learnt(self, storage: InMemoryStorage, clock: FrozenClock):
        """Such a process leaves it to others; it can be asked to all the same."""
        captures = room(storage, clock, workers=0)
        await captures.start()
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        waited = await captures.settle(receipt, owner=ANA, timeout=timedelta(milliseconds=100))
        assert waited.status == "queued"
        assert not captures.works

        await captures.drain(LONG)
        assert await facts(storage) == ["I live in Lisbon"]
        await captures.stop()


class Away(InMemoryStorage):
    """A storage that takes so many commits less than it is given."""

    fails = 0

    async def commit(self, batch: Batch) -> Position:
        await asyncio.sleep(0)
        if self.fails:
            self.fails -= 1
            msg = "The storage is away."
            raise StorageUnavailableError(msg)
        return await super().commit(batch)


class TestOutage:
    async def test_a_turn_is_learnt_from_although_one_before_it_could_not_be_recorded(self, clock: FrozenClock):
        """What failed holds the thread no longer, though the application keeps the error."""
        storage = Away(clock=clock)
        captures = room(storage, clock)
        storage.fails = 1
        with pytest.raises(StorageUnavailableError) as failed:
            await captures.record(turn("I live in Porto"), owner=ANA, thread_id=TH)

        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await captures.drain(LONG)

        assert await facts(storage) == ["I live in Lisbon"]
        assert failed.value.__traceback__ is not None

    async def test_what_several_workers_could_not_take_is_learnt_afterwards(self, clock: FrozenClock):
        """Each of them is told of the outage; the process goes on learning, and logs nothing that nobody handled."""
        storage, unhandled = Away(clock=clock), list[str]()
        asyncio.get_running_loop().set_exception_handler(lambda _, told: unhandled.append(str(told["message"])))
        captures = room(storage, clock)
        places = ("Lisbon", "Porto", "Faro")
        for place in places:
            await captures.record(turn(f"I own a flat in {place}"), owner=ANA, thread_id=ThreadId(place))
        storage.fails = len(places)

        await captures.start()

        async def learnt() -> bool:
            return len(await facts(storage)) == len(places)

        await until(learnt)
        await captures.stop()
        gc.collect()
        assert (storage.fails, unhandled) == (0, [])


class TestDebounce:
    async def test_thread_is_learnt_from_when_it_is_quiet(self, storage: InMemoryStorage, clock: FrozenClock):
        """Its turns are taken together."""
        held = HeldExtractor(word="nothing")
        captures = room(storage, clock, extractor=held, terms=QueueTerms(debounce=SOON))
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        clock.advance(SOON / 2)
        await captures.record(turn("I work at Acme"), owner=ANA, thread_id=TH)
        clock.advance(SOON / 2)
        queue = captures._queue

        assert (await queue.find()).keys == ()
        clock.advance(SOON)
        (key,) = (await queue.find()).keys
        await queue.learn(key)

        assert held.texts == ["I live in Lisbon", "I work at Acme"]

    async def test_who_waits_is_not_kept_waiting(self, storage: InMemoryStorage, clock: FrozenClock):
        """Settling hurries the thread."""
        captures = room(storage, clock, terms=QueueTerms(debounce=timedelta(hours=1)))
        await captures.start()
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        settled = await captures.settle(receipt, owner=ANA, timeout=LONG)
        await captures.stop()

        assert settled.status == "done"

    async def test_timed_out_caller_no_longer_skips_the_debounce(self, storage: InMemoryStorage, clock: FrozenClock):
        """A process that learns from nothing itself does not collect the threads that somebody waited for."""
        captures = room(storage, clock, terms=QueueTerms(debounce=timedelta(hours=1)), workers=0)
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)

        settled = await captures.settle(receipt, owner=ANA, timeout=timedelta(milliseconds=1))

        assert settled.degraded == ("timeout",)
        assert (await captures._queue.find()).keys == ()


class TestQueued:
    async def test_it_shows_what_waits_runs_and_is_dead_with_reasons(
        self, storage: InMemoryStorage, clock: FrozenClock
    ):
        """And never what was said."""
        captures = room(storage, clock, extractor=FailingExtractor("poison"))
        await captures.record(turn("I like poison ivy"), owner=ANA, thread_id=TH)
        for _ in range(5):
            await captures.drain(LONG)
            clock.advance(timedelta(hours=2))
        await captures.record(turn("I live in Porto"), owner=BOB, thread_id=OTHER)
        await taken_by_one_who_died(storage, clock)
        await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=None)

        queued = await captures.queued()

        assert [(q.owner, q.thread_id, q.state, q.tries, q.reason, q.worker) for q in queued] == [
            (ANA, "th", "dead", 5, "RuntimeError", None),
            (BOB, "other", "running", 0, None, "the dead one"),
            (ANA, None, "waiting", 0, None, None),
        ]
        assert [q.state for q in await captures.queued(ANA)] == ["dead", "waiting"]
        assert "Lisbon" not in str(queued)
        stats = await captures.stats()
        assert (stats.pending, stats.running, stats.failed) == (2, 1, 1)

    async def test_dead_turn_is_retried_on_request(self, storage: InMemoryStorage, clock: FrozenClock):
        """As if it had never been."""
        extractor = FailingExtractor("Lisbon", times=5)
        captures = room(storage, clock, extractor=extractor)
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        for _ in range(5):
            await captures.drain(LONG)
            clock.advance(timedelta(hours=2))

        (retried,) = await captures.retry()
        await captures.drain(LONG)

        assert (retried.turn_id, retried.state, retried.tries) == (receipt.turn_ids[0], "dead", 5)
        assert await facts(storage) == ["I live in Lisbon"]
        assert await captures.queued() == []

    async def test_turn_that_waits_after_a_failure_can_be_tried_at_once(
        self, storage: InMemoryStorage, clock: FrozenClock
    ):
        """By its id; another owner's is not found."""
        captures = room(storage, clock, extractor=FailingExtractor("Lisbon", times=1))
        receipt = await captures.record(turn("I live in Lisbon"), owner=ANA, thread_id=TH)
        await captures.drain(LONG)

        assert await captures.retry(receipt.turn_ids, owner=BOB) == []
        assert await captures.retry() == []
        assert len(await captures.retry(receipt.turn_ids, owner=ANA)) == 1
        await captures.drain(LONG)

        assert await facts(storage) == ["I live in Lisbon"]
