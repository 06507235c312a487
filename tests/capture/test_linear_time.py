"""What a user writes is read in a time that grows with its length, so that no text holds up other threads."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count, pairwise
from typing import Any

import pytest

from tests.capture.hostile_texts import COMMON, compiled_patterns, hostile_parts, repeated
from threadkeep.capture.extractors.local import extract_candidates
from threadkeep.capture.learning import judged
from threadkeep.capture.models import Turn
from threadkeep.capture.provenance import own_clauses
from threadkeep.ids import MessageId, ThreadId, TurnId
from threadkeep.models.base import Message
from threadkeep.search.query import parse_query
from threadkeep.text import extractive, facts, requests, sentences
from threadkeep.text.dates import dates_in
from threadkeep.text.keeping import has_happened
from threadkeep.text.quoted import HEADING, strip_blocks
from threadkeep.text.redaction import redact, redactor
from threadkeep.text.semantics import content_words
from threadkeep.text.slots import slot_of, slots_asked

LENGTH = 32_000
NOW = datetime(2026, 3, 2, tzinfo=UTC)
_NUMBERS = count()
PATTERNS = compiled_patterns()
SHORT_LENGTHS = (0, 24, 30, 37, 46, 57, 71, 88, 110, 220, 440, 880)
MEASURABLE_SECONDS = 0.005
"""What takes less at a quarter of the length takes less than 100 ms at the whole even if its time is quadratic."""
QUADRATIC_AT_FOUR_TIMES = 9
"""Four times the length takes four times as long where time is linear, and sixteen where it is quadratic."""
LONGEST_CALL_SECONDS = 0.1
"""While a function written in C runs, no other thread does; measured in time of the processor, ordinary calls take a
hundredth of this with the whole length."""


def seconds(work: Callable[[], object]) -> float:
    """Return how long the processor worked on it: once, or the shorter of two times if it matters."""
    first = _seconds_once(work)
    return first if first < MEASURABLE_SECONDS else min(first, _seconds_once(work))


def _seconds_once(work: Callable[[], object]) -> float:
    before = time.thread_time()
    work()
    return time.thread_time() - before


def seconds_at_most(work: Callable[[str], object], text_of: Callable[[int], str]) -> float:
    """Return how long the longest of short texts takes; infinity if a few characters more take many times as long.

    Longer texts must not be tried then.
    """
    before = 0.0
    for shorter, length in pairwise(SHORT_LENGTHS):
        taken = seconds(lambda: work(text_of(length)))  # noqa: B023 - called at once
        if taken > MEASURABLE_SECONDS and before and taken > max(4.0, (length / shorter) ** 4) * before:
            return math.inf
        before = taken
    return before


def growth(work: Callable[[str], object], text_of: Callable[[int], str], *, measurable: float) -> float:
    """Return how many times as long *work* takes with four times the text; 0 if that cannot be measured.

    Each text ends in another number, so that no cache has its result. The whole length is tried again only if it took
    so long that the time would count as quadratic.
    """

    def taken(length: int) -> float:
        text = f"{text_of(length)}{next(_NUMBERS)}"
        return _seconds_once(lambda: work(text))

    at_a_quarter = taken(LENGTH // 4)
    at_a_quarter = min(at_a_quarter, taken(LENGTH // 4)) if at_a_quarter >= measurable else 0.0
    if at_a_quarter < measurable:
        return 0.0
    first = taken(LENGTH) / at_a_quarter
    return first if first < QUADRATIC_AT_FOUR_TIMES else min(first, taken(LENGTH) / at_a_quarter)


def read(pattern: re.Pattern[str]) -> Callable[[str], object]:
    return lambda text: sum(1 for _ in pattern.finditer(text))


@pytest.mark.parametrize(("most", "every", "long"), [(12, 3, 2), pytest.param(48, 1, 4, marks=pytest.mark.soak)])
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_reads_hostile_text_in_linear_time(name: str, most: int, every: int, long: int) -> None:
    """Every compiled pattern of the package, over texts of its own parts and, in CI, of a third of the common ones.

    The *long* texts that took longest while they were short are tried at full length.
    """
    pattern = PATTERNS[name]
    work = read(pattern)
    common = COMMON[[*PATTERNS].index(name) % every :: every]
    texts = [*hostile_parts(pattern, most=most), *(("", part) for part in common)]
    taken = {text: seconds_at_most(work, lambda n, text=text: repeated(*text, n)) for text in texts}
    assert [text for text in texts if taken[text] == math.inf] == []

    slowest = sorted(taken, key=lambda text: -taken[text])[:long]

    for text in slowest:
        assert growth(work, lambda n: repeated(*text, n), measurable=MEASURABLE_SECONDS) < QUADRATIC_AT_FOUR_TIMES, text  # noqa: B023


@pytest.mark.soak
def test_no_other_module_has_a_pattern():
    assert {pattern.pattern for pattern in compiled_patterns(every=True).values()} == {
        pattern.pattern for pattern in PATTERNS.values()
    }


def learnt(text: str) -> object:
    turn = Turn(TurnId("t"), ThreadId("monday"), (Message("user", text, MessageId("m")),), NOW)
    return judged(extract_candidates(turn), turn)


READERS: dict[str, Callable[[str], object]] = {
    "capture": learnt,
    "clauses": lambda text: list(own_clauses(text)),
    "content words": content_words,
    "dates": lambda text: dates_in(text, now=NOW),
    "happened": lambda text: has_happened(text, said=text),
    "kept part": requests.kept_part,
    "meant": facts.meant,
    "question": lambda text: parse_query(text, now=NOW),
    "redaction": redact,
    "redaction of personal data": redactor(["email", "iban", "ip", "phone"]),
    "request": requests.is_request,
    "told": requests.told_in,
    "sentences": sentences.sentences,
    "slot": slot_of,
    "slots asked": slots_asked,
    "stripped": strip_blocks,
    "summary": lambda text: extractive.extractive_summary(
        [extractive.SpokenMessage("Ana", text)], budget_tokens=200, count=len
    ),
    "unwanted": requests.unwanted,
}

MESSAGES: dict[str, tuple[str, str]] = {
    "a copied block": (f"{HEADING}\n", '- "I like tea" (2026-01-05)\n'),
    "adverbs": ("I ", "really "),
    "dates": ("", "on 2026-01-05 "),
    "facts in lines": ("", "My friend Ana works at Acme as a baker.\n"),
    "facts in one line": ("", "I moved to Rome last year. "),
    "hard-wrapped": (
        "It begins here and goes on for many lines that are broken by a program\n",
        "where the next word would not have fitted, as programs for mail do it,\n",
    ),
    "marks without an end": ("", '„«"“ '),
    "names in quotes": ("", '"The Lord" said “so” '),
    "one long word": ("", "aB3"),
    "one very long sentence": ("", "and my sister who lives in Rome "),
    "quoted lines": ("", '"It is mine\n'),
    "stops": ("", "…"),
    "white space": ("", " \n \t"),
}


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("reader", READERS)
def test_a_message_is_read_in_linear_time(reader: str, message: str) -> None:
    """Whole analyses, too: what is linear by itself may be called once a sentence."""
    assert (
        growth(READERS[reader], lambda n: repeated(*MESSAGES[message], n), measurable=2 * MEASURABLE_SECONDS)
        < QUADRATIC_AT_FOUR_TIMES
    )


def test_many_short_clauses_are_read_in_linear_time() -> None:
    """Behind each comma a request may begin."""
    times = growth(requests.asks_from, lambda n: repeated("", "a, b ", n), measurable=2 * MEASURABLE_SECONDS)

    assert times < QUADRATIC_AT_FOUR_TIMES


@pytest.mark.parametrize("part", [4, pytest.param(1, marks=pytest.mark.soak)])
def test_no_call_of_an_analysis_holds_up_other_threads(part: int) -> None:
    """Other threads run between calls of functions written in C, so the longest call is what they wait for.

    A call such as ``next`` runs Python code and further calls; their time is not its own.
    """
    longest: dict[str, float] = {}
    running: list[list[float]] = []  # when each call began, and the seconds of the calls within it

    def watch(_frame: object, event: str, called: Any) -> None:
        if event == "c_call":
            running.append([time.thread_time(), 0.0])
        elif event in ("c_return", "c_exception") and running:
            began, within = running.pop()
            taken = time.thread_time() - began
            longest[called.__name__] = max(taken - within, longest.get(called.__name__, 0.0))
            if running:
                running[-1][1] += taken

    texts = [repeated(*parts, LENGTH // part) for parts in MESSAGES.values()]
    sys.setprofile(watch)
    try:
        for text in texts:
            for work in READERS.values():
                work(text)
    finally:
        sys.setprofile(None)

    assert longest, "nothing was measured"
    assert {name: taken for name, taken in longest.items() if taken > LONGEST_CALL_SECONDS / part} == {}
