"""Tests of what ranking knows of an item beside its text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recall.world import NOW
from threadkeep.search.conversations import traits_of
from threadkeep.search.scoring import ASSISTANT, OTHER, USER

EARLIER = NOW - timedelta(days=3)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


class One(NamedTuple):
    """The traits of one item."""

    thread: str | None
    said_at: float
    role: int
    trust: float
    pinned: bool
    label: str
    asks: bool
    dated: str


def read(texts: Sequence[str], **value: Any) -> One:
    """Read the traits of an item with this value, which was made now."""
    (one,) = zip(*traits_of([value], [texts], [NOW.timestamp()]), strict=True)
    return One(*one)


class TestTraitsOf:
    def test_a_text_may_tell_of_a_day(self):
        assert read(["We hiked yesterday."]).dated == "We hiked yesterday."
        assert read(["We hiked in 2019. " + "x" * 700]).dated == "We hiked in 2019. " + "x" * 582
        assert not read(["We like hiking."]).dated

    def test_a_memory_says_where_it_is_from(self):
        """Its first source is where it was said; the time it was learnt stands in where none is known."""
        source = {"speaker": "user", "thread_id": "one", "at": EARLIER.isoformat()}

        traits = read(["x"], sources=[source, {"speaker": "assistant"}], trust="assistant", pinned=True)

        assert traits[:-1] == ("one", EARLIER.timestamp(), USER, 0.0, True, "", False)
        assert read(["x"], timestamp=EARLIER.isoformat()).said_at == EARLIER.timestamp()
        assert read(["x"], sources=[{"speaker": "assistant"}])[:3] == (None, NOW.timestamp(), ASSISTANT)

    def test_other_shapes_are_read(self):
        """``source_thread`` is how CAIPE and PrynAI spell it."""
        traits = read(["x"], source_thread="two")

        assert (traits.thread, traits.role) == ("two", OTHER)

    @pytest.mark.parametrize(
        ("text", "label"),
        [
            ("Melanie: I ran.", "Melanie"),
            ("Dr. O'Neil Smith: hello", "Dr. O'Neil Smith"),
            ("Zoë: ja", "Zoë"),
            ("10:30: late", ""),
            ("I said: no, never", "I said"),
            ("What I always wanted to say: no", ""),
            ("Melanie:no", ""),
            (": no", ""),
            ("", ""),
        ],
    )
    def test_a_text_may_begin_with_a_name(self, text: str, label: str):
        """One to three words and a colon; whether it is a person's is seen by how often it comes."""
        assert read([text]).label == label

    @pytest.mark.parametrize(
        ("text", "asks"),
        [("Who?", True), ("什么？", True), ("Who? " + "x" * 90, False), ("Who", False), ("[?]" + "x" * 60, True)],
    )
    def test_a_text_may_end_in_a_question(self, text: str, asks: bool):
        """What stands in its last 80 characters is its end."""
        assert read([text]).asks == asks

    @given(json_values, json_values, json_values)
    def test_any_value_is_taken(self, sources: object, timestamp: object, trust: object):
        """Others may have put anything there."""
        traits = read([], sources=sources, timestamp=timestamp, trust=trust, source_thread=trust, pinned=sources)

        assert traits.thread is None or isinstance(traits.thread, str)
        assert 0 <= traits.trust <= 1
