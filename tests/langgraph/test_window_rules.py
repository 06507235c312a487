"""The window's rules: a call is never parted from its result, and what must stay stays, whatever the history."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.checkpoints.histories import broken_history, is_valid, result_of, whole_history
from threadkeep.errors import ContextTooLargeError, InvalidInputError
from threadkeep.langgraph.window_rules import (
    AnswerStep,
    KeepStep,
    Strip,
    WindowEntry,
    compacted,
    is_whole,
    kept_messages,
    over,
    repaired,
    safe_split,
    summary_tokens,
)

USER = WindowEntry("user", 10)
REPLY = WindowEntry("assistant", 10)


def calls(*ids: str, tokens: int = 10) -> WindowEntry:
    return WindowEntry("assistant", tokens, ids)


def result(*ids: str, tokens: int = 10) -> WindowEntry:
    return WindowEntry("tool", tokens, (), ids)


class TestRepair:
    @pytest.mark.parametrize(
        ("entries", "steps"),
        [
            ([USER, calls("a"), result("a"), REPLY], [KeepStep(0), KeepStep(1), KeepStep(2), KeepStep(3)]),
            ([USER, calls("a"), USER], [KeepStep(0), KeepStep(1), AnswerStep(1, "a"), KeepStep(2)]),
            (
                [USER, calls("a", "b"), result("b"), USER],
                [KeepStep(0), KeepStep(1), KeepStep(2), AnswerStep(1, "a"), KeepStep(3)],
            ),
            ([USER, calls("a"), USER, result("a")], [KeepStep(0), KeepStep(1), KeepStep(3), KeepStep(2)]),
            ([USER, result("a"), REPLY], [KeepStep(0), KeepStep(2)]),
            ([result("a"), calls("a")], [KeepStep(1), AnswerStep(1, "a")]),
            ([calls("a"), result("a"), result("a")], [KeepStep(0), KeepStep(2)]),
            ([calls("a"), result("a"), calls("a"), result("a")], [KeepStep(0), KeepStep(1), KeepStep(2), KeepStep(3)]),
            ([calls("", "a"), result("a")], [Strip(0), KeepStep(1)]),
            ([calls("a", "a"), result("a")], [Strip(0)]),
            ([calls("a", "b"), result("a", "b")], [KeepStep(0), KeepStep(1)]),
            ([], []),
        ],
        ids=[
            "whole", "never answered", "partly answered", "answered too late", "without its call", "before its call",
            "answered twice", "an id used again", "no id", "an id twice in one message", "two in one message", "empty",
        ],
    )  # fmt: skip
    def test_what_becomes_of_it(self, entries: list[WindowEntry], steps: list[object]):
        assert list(repaired(entries)) == steps

    def test_a_whole_one_is_known(self):
        entries = [USER, calls("a"), result("a")]

        assert is_whole(repaired(entries), len(entries))
        assert not is_whole(repaired([*entries, calls("b")]), 4)


class TestSplit:
    @pytest.mark.parametrize(("at", "split"), [(0, 0), (1, 1), (2, 1), (3, 1), (4, 1), (5, 5), (6, 6), (99, 6)])
    def test_it_moves_before_the_call(self, at: int, split: int):
        entries = [USER, calls("a", "b"), result("b"), USER, result("a"), REPLY]

        assert safe_split(entries, at) == split


class TestCompact:
    def test_half_of_the_limit_is_left(self):
        entries = [
            WindowEntry("system", 100),
            *[WindowEntry("user" if i % 2 == 0 else "assistant", 100) for i in range(20)],
        ]

        plan = compacted(entries, limit=1_000, keep=2)

        assert plan is not None
        assert (plan.kept, plan.place) == ((0, 18, 19, 20), 1)
        assert plan.removed == tuple(range(1, 18))

    def test_the_newest_stay_though_half_is_passed(self):
        entries = [WindowEntry("user" if i % 2 == 0 else "assistant", 100) for i in range(20)]

        plan = compacted(entries, limit=1_000, keep=8)

        assert plan is not None
        assert plan.kept == tuple(range(12, 20))

    def test_the_question_stays_though_its_turn_is_long(self):
        """What an agent did since the question gives way before the question does."""
        steps = [entry for i in range(10) for entry in (calls(str(i), tokens=50), result(str(i), tokens=50))]
        entries = [USER, REPLY, WindowEntry("user", 10), *steps]

        plan = compacted(entries, limit=500, keep=2)

        assert plan is not None
        assert 2 in plan.kept
        assert plan.kept[-2:] == (21, 22)
        assert plan.place == 0

    def test_nothing_that_could_go(self):
        assert compacted([WindowEntry("system", 100), USER], limit=200, keep=4) is None

    def test_what_does_not_fit_is_named(self):
        with pytest.raises(ContextTooLargeError, match="user message at position 1 alone 900") as caught:
            compacted([WindowEntry("system", 50), WindowEntry("user", 900)], limit=800, keep=4, overhead=20)

        assert caught.value.details == {"limit": 800, "position": 1, "tokens": 900, "needed": 970}

    def test_without_a_summary_it_begins_with_the_user(self):
        entries = [USER, REPLY, WindowEntry("user", 300), REPLY, WindowEntry("user", 10), REPLY, USER]

        with_summary = compacted(entries, limit=100, keep=2)
        without = compacted(entries, limit=100, keep=2, summary=False)

        assert with_summary is not None
        assert without is not None
        assert entries[with_summary.kept[0]].role == "assistant"
        assert entries[without.kept[0]].role == "user"


class TestPreflight:
    def test_four_fifths(self):
        assert not over(800, limit=1_000)
        assert over(801, limit=1_000)


def check(seed: int) -> None:
    """Repair, split and compact one history, and test all that is promised of each."""
    rng = random.Random(seed)
    given = broken_history(rng) if rng.random() < 0.7 else whole_history(rng)
    steps = repaired(given)
    entries = result_of(given, steps)
    assert is_valid(entries), "a call without its result"
    assert is_whole(repaired(entries), len(entries)), "repaired twice is not repaired once"
    assert is_valid(given) == is_whole(steps, len(given)), "what was whole was touched, or what was not was left"
    said = [step.index for step in steps if not isinstance(step, AnswerStep) and not given[step.index].answers]
    assert said == [i for i, entry in enumerate(given) if not entry.answers], "a message was lost, or the order"

    split = safe_split(entries, rng.randint(0, len(entries)))
    assert is_valid(entries[:split])
    assert is_valid(entries[split:])

    limit, overhead, summary = rng.randint(50, 4_000), rng.choice((0, 0, 30)), rng.random() < 0.5
    keep = rng.randint(1, 6)
    must = {i for i, entry in enumerate(entries) if entry.role == "system"}
    must |= set([i for i, entry in enumerate(entries) if entry.role == "user"][-1:])
    last = max((i for i, entry in enumerate(entries) if not entry.answers), default=0)
    must |= set(range(last, len(entries)))
    needed = overhead + sum(entries[i].tokens for i in must)
    if needed > limit:
        with pytest.raises(ContextTooLargeError):
            compacted(entries, limit=limit, keep=keep, overhead=overhead, summary=summary)
        return
    plan = compacted(entries, limit=limit, keep=keep, overhead=overhead, summary=summary)
    kept = tuple(range(len(entries))) if plan is None else plan.kept
    assert sorted((*kept, *(plan.removed if plan else ()))) == list(range(len(entries)))
    assert list(kept) == sorted(kept), "the order changed"
    assert is_valid([entries[i] for i in kept]), "a call was parted from its result"
    assert must <= set(kept), "a system message, the question, or the newest message went"
    if plan is not None:
        reserve = summary_tokens(limit) if summary else 0
        takes = overhead + sum(entries[i].tokens for i in kept)
        assert takes + reserve <= limit or set(kept) == must, "it does not fit"
        assert plan.place == sum(i < plan.removed[0] for i in kept)


class TestAnyHistory:
    @pytest.mark.slow
    def test_three_thousand(self):
        for seed in range(3_000):
            check_saying_which(seed)

    @pytest.mark.soak
    @pytest.mark.timeout(1_800)
    def test_a_million(self):
        for seed in range(1_000_000):
            check_saying_which(seed)


def check_saying_which(seed: int) -> None:
    try:
        check(seed)
    except AssertionError as error:
        error.add_note(f"history of seed {seed}")
        raise


class TestKeep:
    def test_messages_are_counted(self):
        """As LangChain's ``SummarizationMiddleware`` spells it."""
        assert kept_messages(("messages", 6)) == 6

    @pytest.mark.parametrize("keep", [("tokens", 100), ("messages", -1), 6, ("messages", "6")])
    def test_another_measure_is_refused(self, keep: Any):
        with pytest.raises(InvalidInputError, match=r'keep must be \("messages", number\)'):
            kept_messages(keep)
