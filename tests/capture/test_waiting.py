from __future__ import annotations

from datetime import timedelta

import pytest

from tests.capture.world import ANA, BOB
from threadkeep.capture.models import Turn
from threadkeep.capture.queue import QueueTerms, Ready, key_of, ready, retry_delay
from threadkeep.capture.turns import DUE, TurnRecord, put_of
from threadkeep.identity import Owner
from threadkeep.ids import ThreadId, TurnId
from threadkeep.models.base import Message
from threadkeep.storage.interface import Due, Item, Ref
from threadkeep.testing.clock import START

SECOND = timedelta(seconds=1)
TH, OTHER = ThreadId("th"), ThreadId("other")


def row(
    key: str,
    *,
    owner: Owner = ANA,
    thread: ThreadId | None = TH,
    at: int = 0,
    due: int | None = None,
    worker: str | None = None,
    tries: int = 0,
) -> Item:
    """Return a turn record that was made *at* so many seconds from now and is *due* then."""
    turn = Turn(TurnId(key), thread, (Message("user", "hello"),), START + at * SECOND)
    due_at = START + (at if due is None else due) * SECOND
    put = put_of(TurnRecord(turn, "pending", tries, worker=worker), owner, due_at=due_at, expect="absent")
    ref = Ref(owner.partition, put.namespace, put.key)
    return Item(ref, dict(put.value), 1, turn.at, turn.at, due=Due(DUE, due_at))


def asked(*items: Item, terms: QueueTerms | None = None, **options: object) -> Ready:
    return ready(items, now=START, terms=terms or QueueTerms(), worker="me", **options)


class TestReady:
    def test_turns_of_one_thread_wait_together_in_order(self):
        """One worker learns from them, one after the other."""
        found = asked(row("b", at=-1), row("a", at=-2), row("c", at=-3, owner=BOB), row("d", at=-1, thread=OTHER))

        assert [[item.ref.key for item in waiting.items] for waiting in found.waiting] == [["c"], ["a", "b"], ["d"]]
        assert found.keys == (key_of(BOB, TH), key_of(ANA, TH), key_of(ANA, OTHER))

    def test_thread_of_another_worker_is_skipped(self):
        """Until their lease ends, and that is when to look again."""
        found = asked(row("a", at=-2, due=7, worker="you"), row("b", at=-1), row("c", thread=OTHER))

        assert [item.ref.key for waiting in found.waiting for item in waiting.items] == ["c"]
        assert (found.next_at, found.elsewhere) == (START + 7 * SECOND, True)

    def test_lease_that_ended_is_anybodys(self):
        """Whoever had it is not heard of."""
        found = asked(row("a", at=-20, due=-1, worker="you"))

        assert found.keys == (key_of(ANA, TH),)

    def test_own_lease_is_no_obstacle(self):
        """What this worker lost sight of it takes again."""
        assert asked(row("a", at=-2, due=7, worker="me")).keys == (key_of(ANA, TH),)
        assert asked(row("a", at=-2, due=7, worker="me"), running=[key_of(ANA, TH)]).keys == ()

    def test_turn_that_failed_holds_up_no_other(self):
        """It waits for its time alone."""
        found = asked(row("a", at=-2, due=30, tries=1), row("b", at=-1))

        assert [item.ref.key for waiting in found.waiting for item in waiting.items] == ["b"]
        assert (found.next_at, found.elsewhere) == (START + 30 * SECOND, False)

    def test_thread_has_to_be_quiet(self):
        """Of which a turn has just come is not learnt from, however long the others wait."""
        terms = QueueTerms(debounce=5 * SECOND)

        found = asked(row("a", at=-9), row("b", at=-2), row("c", at=-6, thread=OTHER), terms=terms)

        assert found.keys == (key_of(ANA, OTHER),)
        assert found.next_at == START + 3 * SECOND

    def test_thread_that_is_never_quiet_is_learnt_from_all_the_same(self):
        """After ten times as long."""
        assert asked(row("a", at=-50), row("b"), terms=QueueTerms(debounce=5 * SECOND)).keys == (key_of(ANA, TH),)

    @pytest.mark.parametrize("hurried", [{key_of(ANA, TH)}, None])
    def test_awaited_thread_is_not_debounced(self, hurried: set[str] | None):
        """Or all of them, at the end."""
        assert asked(row("a"), terms=QueueTerms(debounce=5 * SECOND), hurried=hurried).keys == (key_of(ANA, TH),)


class TestRetryDelay:
    def test_it_grows_up_to_an_hour_and_is_spread(self):
        """What failed together is not tried together."""

        def delay(key: str, tries: int) -> float:
            turn = Turn(TurnId(key), TH, (), START)
            return retry_delay(TurnRecord(turn, "pending", tries)).total_seconds()

        assert 2 <= delay("a", 1) <= 2.5
        assert 16 <= delay("a", 2) <= 20
        assert 128 <= delay("a", 3) <= 160
        assert 3600 <= delay("a", 5) <= 4500
        assert 3600 <= delay("a", 60) <= 4500
        assert len({delay(str(n), 1) for n in range(50)}) == 50
        assert all(2 <= delay(str(n), 1) <= 2.5 for n in range(50))


class TestKey:
    def test_it_is_different_for_every_owner_and_thread(self):
        """And nobody's id can be read from it."""
        keys = [
            key_of(Owner("ana"), ThreadId("x")),
            key_of(Owner("ana"), ThreadId("")),
            key_of(Owner("ana"), None),
            key_of(Owner("ana", "x"), None),
            key_of(Owner("x", "ana"), None),
        ]

        assert len(set(keys)) == 5
        assert "ana" not in "".join(keys)
