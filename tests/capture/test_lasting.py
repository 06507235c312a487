"""Tests of statements that are known by their grammar, and of what takes a statement back."""

from __future__ import annotations

import pytest

from threadkeep.capture.extractors.local import extract_candidates
from threadkeep.capture.models import Turn
from threadkeep.clock import SystemClock
from threadkeep.ids import MessageId, ThreadId, TurnId
from threadkeep.models.base import Message
from threadkeep.text.facts import statements


def kept(sentence: str) -> list[str]:
    return [found.text for found in statements(sentence)]


def facts_of(text: str) -> list[str]:
    """Return the facts of a turn with one message."""
    message = Message("user", text, MessageId("m"))
    turn = Turn(TurnId("t"), ThreadId("th"), (message,), SystemClock().now())
    return [one.text for one in extract_candidates(turn) if one.kind == "semantic"]


@pytest.mark.parametrize(
    ("sentence", "statement"),
    [
        ("My cousin Bea owns a van, maybe that helps.", "My cousin Bea owns a van"),
        ("Don't tell me to swim, I can't stand cold water.", "I can't stand cold water."),
    ],
)
def test_part_of_a_sentence_may_stand_alone(sentence: str, statement: str):
    """Up to a comma, or from a comma on where a subject follows."""
    assert kept(sentence) == [statement]


@pytest.mark.parametrize(
    ("sentence", "is_kept"),
    [
        ("Citizenship test: 14 November.", True),
        ("For the record, we're a small bakery: two ovens, four staff, one van.", True),
        ("The tenant writes: I live in the flat on the third floor.", False),
        ("Der Mieter schreibt: Ich wohne seit 2012 im dritten Stock.", False),
    ],
)
def test_what_a_person_says_of_themselves_after_a_colon_is_not_kept(sentence: str, is_kept: bool):
    """The person may be another one."""
    assert bool(kept(sentence)) == is_kept


@pytest.mark.parametrize(("text", "facts"), [("I love mondays. Not.", []), ("I love jazz. Really.", ["I love jazz."])])
def test_what_the_next_sentence_takes_back_is_not_kept(text: str, facts: list[str]):
    """``Not.`` says that it was a joke."""
    assert facts_of(text) == facts
