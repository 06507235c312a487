"""Which memories leave: cases, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.ids import MemoryId, ProposalId
from threadkeep.memories.models import Approval, Memory
from threadkeep.memories.retention import Limits, plan_retention, stays
from threadkeep.testing.clock import START

DAY: Final = timedelta(days=1)
NOW: Final = START
APPROVED: Final = Approval("eva", START, ProposalId("p"))


def memory(key: str, *, days: float = 0, **more: Any) -> Memory:
    """Return a memory that was changed so many days ago."""
    at = NOW - days * DAY
    made = Memory(MemoryId(key), ("memories", "ana"), f"I know {key}.", "semantic", "active", "user", (), 1, at, at)
    return replace(made, **more)


def leaving(memories: Sequence[Memory], limits: Limits, **given: Any) -> list[str]:
    """Return the keys of what leaves, what goes first first."""
    given = {"used": {}, "now": NOW, "counted_since": NOW - 1000 * DAY, **given}
    return [one.memory_id for one, _ in plan_retention(memories, given.pop("used"), limits, **given).leaving]


class TestInactive:
    """What was not used for too long."""

    @pytest.mark.parametrize(
        ("one", "given", "leaves"),
        [
            (memory("a", days=91), {}, True),
            (memory("a", days=89), {}, False),  # 80 days, and the eighth by which uses are noted
            (memory("a", days=300), {"used": {MemoryId("a"): NOW - 89 * DAY}}, False),
            (memory("a", days=300), {"used": {MemoryId("a"): NOW - 91 * DAY}}, True),
            (memory("a", days=300), {"counted_since": NOW - 89 * DAY}, False),
            (memory("a", days=300, pinned=True), {}, False),
            (memory("a", days=300, approval=APPROVED), {}, False),
            (memory("a", days=300, approval=Approval("policy", START)), {}, True),
            (memory("a", days=300), {"asked_about": {MemoryId("a")}}, False),
            (memory("a", days=300, status="merged"), {}, False),
            (memory("a", days=300, kind="episodic", valid_to=NOW - DAY), {}, True),
        ],
        ids=[
            *("unused", "not yet", "used since", "used long ago", "not counted for so long", "pinned", "approved"),
            *("approved by a policy", "asked about", "merged", "an episode that is over"),
        ],
    )
    def test_case(self, one: Memory, given: dict[str, Any], leaves: bool):
        assert leaving([one], Limits(80 * DAY), **given) == (["a"] if leaves else [])

    def test_it_says_when_to_look_again(self):
        """When the first of those that stay may have been unused for too long."""
        found = plan_retention(
            [memory("a", days=10), memory("b", days=30)], {}, Limits(80 * DAY), now=NOW, counted_since=NOW - 99 * DAY
        )
        assert (found.leaving, found.active, found.next_at) == ((), 2, NOW + 60 * DAY)


class TestBudget:
    """What goes where there are too many."""

    def test_order(self):
        """First what is not true any more, then what was not used for longest; an episode ages twice as fast."""
        memories = [
            memory("new"),
            memory("old", days=50),
            memory("older but used", days=90),
            memory("over", days=1, valid_to=NOW - DAY),
            memory("episode", days=30, kind="episodic"),
            memory("pinned", days=99, pinned=True),
        ]
        used = {MemoryId("older but used"): NOW - 2 * DAY}
        goes = [leaving(memories, Limits(most=most), used=used) for most in range(6, -1, -1)]
        assert goes[-1] == ["over", "episode", "old", "older but used", "new"]
        assert [len(one) for one in goes] == [0, 1, 2, 3, 4, 5, 5]

    def test_request_may_be_too_large(self):
        """Nothing of it goes, and it is told by how many they are over."""
        memories = [memory(str(n), pinned=n % 2 == 0, approval=None if n % 2 == 0 else APPROVED) for n in range(6)]
        found = plan_retention([*memories, memory("free")], {}, Limits(most=4), now=NOW, counted_since=NOW)
        assert ([one.memory_id for one, _ in found.leaving], found.active, found.over) == (["free"], 7, 2)

    def test_what_is_inactive_counts_first(self):
        """It makes room, and has its own reason."""
        memories = [memory("unused", days=300), memory("a", days=2), memory("b", days=1)]
        found = plan_retention(memories, {}, Limits(80 * DAY, 1), now=NOW, counted_since=NOW - 999 * DAY)
        assert [(one.memory_id, why.reason) for one, why in found.leaving] == [
            ("unused", "inactive"),
            ("a", "budget"),
        ]


MEMORIES: Final = st.lists(
    st.builds(
        memory,
        st.uuids().map(str),
        days=st.floats(0, 400),
        kind=st.sampled_from(["semantic", "episodic", "procedural"]),
        status=st.sampled_from(["active", "active", "merged", "archived"]),
        pinned=st.booleans(),
        approval=st.sampled_from([None, None, APPROVED]),
        valid_to=st.sampled_from([None, NOW - DAY, NOW + DAY]),
    ),
    max_size=30,
    unique_by=lambda one: one.memory_id,
)


class TestAlways:
    """Whatever there is."""

    @given(
        MEMORIES,
        st.sampled_from([None, 30 * DAY]),
        st.one_of(st.none(), st.integers(1, 20)),
        st.randoms(use_true_random=False),
    )
    def test_what_holds(self, memories: list[Memory], after: timedelta | None, most: int | None, rng: Any):
        """Nobody's wish is passed over, no more goes than has to, and the order of the rows does not matter."""
        limits = Limits(after, most)
        asked = {one.memory_id for one in memories[::5]}
        used = {one.memory_id: one.updated_at + DAY for one in memories[::3]}
        given: dict[str, Any] = {"now": NOW, "counted_since": datetime.min.replace(tzinfo=NOW.tzinfo)}
        found = plan_retention(memories, used, limits, asked_about=asked, **given)
        gone = [one for one, _ in found.leaving]
        assert len({one.memory_id for one in gone}) == len(gone)
        assert not [one for one in gone if stays(one) or one.status != "active" or one.memory_id in asked]
        left = found.active - len(gone)
        budget = [one for one, why in found.leaving if why.reason == "budget"]
        if most is not None:
            assert found.over == max(0, left - most)
            assert not budget or left >= most
        else:
            assert budget == []
        shuffled = rng.sample(memories, len(memories))
        again = plan_retention(shuffled, used, limits, asked_about=asked, **given)
        assert {one.memory_id for one, _ in again.leaving} == {one.memory_id for one in gone}
        stayed = [one for one in memories if one not in gone]
        assert plan_retention(stayed, used, limits, asked_about=asked, **given).leaving == ()
