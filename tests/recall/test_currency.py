"""Which of the memories that a question finds are shown as earlier, because a newer one says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from threadkeep.ids import MemoryId, TurnId
from threadkeep.memories.models import Memory, Source
from threadkeep.recall.currency import find_earlier
from threadkeep.recall.rendering import line
from threadkeep.text.changes import change_in, outdates, returns

START = datetime(2026, 1, 5, tzinfo=UTC)


def told(*texts: str, days: int = 3) -> list[Memory]:
    """Make a memory of each text, told so many days apart."""
    memories: list[Memory] = []
    for number, text in enumerate(texts):
        at = START + timedelta(days=days * number)
        source = Source("user", None, None, TurnId(f"turn-{number}"), at)
        memories.append(
            Memory(MemoryId(f"m{number}"), ("memories",), text, "semantic", "active", "user", (source,), 1, at, at)
        )
    return memories


def cosines(count: int, value: float) -> np.ndarray:
    return np.full((count, count), value, np.float32)


class TestPairs:
    @pytest.mark.parametrize(
        ("older", "newer"),
        [
            ("We host the wiki on Confluence.", "The wiki moved to Outline last week."),
            ("My tailor is Benedetta.", "Benedetta has retired, Osman does my suits."),
            ("I drive a Fiat.", "Sold the Fiat, it's only the train from here on."),
            ("The workshop is on Monday.", "They pushed the workshop to Friday."),
            ("The gate code is 4471.", "No, 4417, I mixed the digits up."),
            ("My cousin is called Annelise.", "That was a typo: it's Anneliese."),
            ("Ich wohne in Bremen.", "Seit gestern wohne ich nicht mehr in Bremen."),
            ("J'habite à Lille.", "Je n'habite plus à Lille."),
        ],
    )
    def test_a_change_is_told_from_its_words(self, older: str, newer: str):
        assert outdates(newer, older)
        assert not outdates(older, newer)

    @pytest.mark.parametrize(
        ("older", "newer"),
        [
            ("My sister is a baker.", "My sister is Croatian."),
            ("I speak Danish.", "I also speak Faroese."),
            ("We have a cat.", "We have another cat, too."),
            ("The office is in Delft.", "I left my umbrella in the train."),
            ("Hello again. I like mint tea.", "Hello again. I like long walks."),
        ],
    )
    def test_what_is_true_beside_it_changes_nothing(self, older: str, newer: str):
        assert not outdates(newer, older)

    def test_a_correction_is_told_from_a_change(self):
        assert change_in("Sorry, I meant the blue one.") == "correction"
        assert change_in("We have switched to oat milk.") == "change"
        assert change_in("The kettle is red.") is None

    def test_what_is_so_again_is_told(self):
        assert returns("The tram is running again.", "I take the tram.")
        assert not returns("The tram is late.", "I take the tram.")


class TestFindEarlier:
    def test_the_older_of_two_gives_way(self):
        assert find_earlier(told("I drive a Fiat.", "Sold the Fiat yesterday."), cosines(2, 0.6)) == {0: 1}

    def test_what_is_about_something_else_does_not(self):
        """A word in common is not enough where the vectors are far from each other."""
        assert find_earlier(told("I drive a Fiat.", "Sold the Fiat yesterday."), cosines(2, 0.1)) == {}

    def test_without_vectors_words_decide(self):
        assert find_earlier(told("I drive a Fiat.", "Sold the Fiat yesterday."), None) == {0: 1}

    def test_close_statements_need_no_word_in_common(self):
        memories = told("The rent is 900 a month.", "New lease signed, we pay 1100.")

        assert find_earlier(memories, cosines(2, 0.5)) == {0: 1}
        assert find_earlier(memories, cosines(2, 0.4)) == {}

    def test_what_is_so_again_is_no_longer_earlier(self):
        """What had taken its place is, instead."""
        memories = told("I take the tram.", "I switched from the tram to a bicycle.", "Back on the tram again.")

        assert find_earlier(memories, cosines(3, 0.6)) == {1: 2}

    def test_the_places_are_those_of_the_list(self):
        """However it is ordered, and with gaps."""
        old, new = told("I drive a Fiat.", "Sold the Fiat yesterday.")

        assert find_earlier([new, None, old], cosines(3, 0.6)) == {2: 0}

    def test_one_turn_does_not_outdate_itself(self):
        memories = told("I drive a Fiat.", "Sold the Fiat yesterday.", days=0)
        same = [memories[0], Memory(**{**_fields(memories[1]), "sources": memories[0].sources})]

        assert find_earlier(same, cosines(2, 0.6)) == {}


def test_an_earlier_statement_is_marked_in_its_line():
    (memory,) = told("I drive a Fiat.")

    assert line(memory, earlier=True) == '- "I drive a Fiat." (earlier, 2026-01-05)'
    assert line(memory) == '- "I drive a Fiat." (2026-01-05)'


def _fields(memory: Memory) -> dict[str, object]:
    return {name: getattr(memory, name) for name in Memory.__slots__}
