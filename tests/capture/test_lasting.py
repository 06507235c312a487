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
    "sentence",
    [
        "We've got a trampoline in the yard.",
        "I invoice around two thousand a month.",
        "We do load tests every other week.",
        "We call that server Ginger.",
        "At work we forbid global state entirely.",
        "Releases need a second reviewer at our company.",
        "The message bus is Kafka.",
        "The choir is on the first Monday of each month.",
        "I'm hopeless at drawing faces.",
        "I've gone freelance, editing novels.",
        "We're benchmarking with Locust these days.",
        "It's my sister Hedda who's moving in.",
        "A cookbook is what I'm writing at present.",
        "My reading circle meets at Cafe Blum.",
        "I've got hay fever, so no picnics.",
    ],
)
def test_any_verb_may_tell_what_lasts(sentence: str):
    """A habit, a name, a number or a trait ties it to the person."""
    assert kept(sentence) == [sentence]


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
    "sentence",
    [
        "I've got a question.",
        "I've got something to share!",
        "The exit code is 137.",
        "The build failed again.",
        "My friend claims the moon is hollow.",
        "I do agree with that.",
        "We gotta go.",
        "My flat smells like glue now, wonderful.",
        "Oh sure, waiting an hour is my idea of fun.",
        "I'm cooking for six on Sunday.",
        "My phone is ringing.",
        "We rock as a team!",
        "If I won, I'd buy a farm.",
        "I live on Mars, or so I wish.",
        "Hypothetically, I own a castle.",
        "She wove it in 1970.",
        "I just renamed the variable.",
    ],
)
def test_what_passes_is_not_kept(sentence: str):
    """Nor what is meant otherwise, or needs another sentence."""
    assert kept(sentence) == []


@pytest.mark.parametrize(("text", "facts"), [("I love mondays. Not.", []), ("I love jazz. Really.", ["I love jazz."])])
def test_what_the_next_sentence_takes_back_is_not_kept(text: str, facts: list[str]):
    """``Not.`` says that it was a joke."""
    assert facts_of(text) == facts
