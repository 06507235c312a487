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

        assert find_earlier(memories, cosines(2, 0.13)) == {0: 1}
        assert find_earlier(memories, cosines(2, 0.11)) == {}

    def test_among_many_statements_only_a_near_one_gives_way(self):
        """The nearest of many is near by chance, and of several near ones one gives way."""
        others = [f"Room {number} is green." for number in range(60)]
        memories = told("The rent is 900 a month.", *others, "New lease signed, we pay 1100.")
        alike = cosines(62, 0.1)
        alike[61, 0], alike[61, 1] = 0.45, 0.44

        assert find_earlier(memories, alike) == {0: 61}
        alike[61, 0] = alike[61, 1] = 0.41
        assert find_earlier(memories, alike) == {}

    def test_word_of_many_statements_tells_nothing(self):
        """Half of a potter's turns are about pottery."""
        others = [f"Pottery class {number} was great." for number in range(12)]
        memories = told(*others, "I just finished my pottery bowl.")

        assert find_earlier(memories, cosines(13, 0.3)) == {}

    def test_fact_and_passage_of_a_turn_are_one_statement(self):
        """Both are marked, and what is so again gives way to neither."""
        tram, bicycle, again = told(
            "I take the tram.", "I switched from the tram to a bicycle.", "Back on the tram again."
        )
        passage = Memory(**{**_fields(bicycle), "text": f"Said: {bicycle.text}", "kind": "episodic"})
        longer = Memory(**{**_fields(again), "text": "Said: Too icy, so back on the tram again.", "kind": "episodic"})

        assert find_earlier([tram, bicycle, passage, again, longer], cosines(5, 0.6)) == {1: 4, 2: 4}

    def test_question_and_whole_message_change_nothing(self):
        """A message of an imported conversation is no statement of the user."""
        old, new = told("I drive a Fiat.", "Sold the Fiat yesterday.")
        asked = Memory(**{**_fields(new), "text": "Asked: Have I sold the Fiat yesterday?", "kind": "episodic"})
        message = Memory(**{**_fields(new), "kind": "episodic"})

        assert find_earlier([old, asked], cosines(2, 0.6)) == {}
        assert find_earlier([old, message], cosines(2, 0.6)) == {}

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
