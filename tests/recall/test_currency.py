"""Which of the memories that a question finds are shown as earlier, because a newer one says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from threadkeep.ids import MemoryId, TurnId
from threadkeep.memories.models import Memory, Source
from threadkeep.recall.currency import find_earlier
from threadkeep.recall.models import Recalled, line
from threadkeep.search.query import asks_for_several
from threadkeep.text.claims import change_in, parse_claim

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
            ("Ich wohne in Bremen.", "Seit gestern wohne ich nicht mehr in Bremen."),
            ("J'habite à Lille.", "Je n'habite plus à Lille."),
            ("I pay 940 euros in rent.", "The landlord's letter arrived, the rent is 1,010 a month now."),
            ("Our build server is Jenkins.", "Nobody wanted to patch Jenkins, so the pipelines live in Buildkite."),
        ],
    )
    def test_the_older_of_two_about_one_thing_is_earlier(self, older: str, newer: str):
        assert find_earlier(told(older, newer), cosines(2, 0.55)) == {0: 1}

    @pytest.mark.parametrize(
        ("older", "newer"),
        [
            ("My sister is a baker.", "My sister is Croatian."),
            ("My sister Ines lives in Graz.", "My sister Tamara moved to Malmö."),
            ("My brother drives a Volvo.", "My aunt drives a Dacia."),
            ("I speak Danish.", "I also speak Faroese."),
            ("We have a cat.", "We have another cat, too."),
        ],
    )
    def test_what_is_true_beside_it_is_not(self, older: str, newer: str):
        assert find_earlier(told(older, newer), cosines(2, 0.5)) == {}

    @pytest.mark.parametrize(
        ("older", "newer"),
        [
            (
                "Production runs in Dublin.",
                "Someone told me we should run production in Frankfurt, but it's just an idea.",
            ),
            ("My boss is Tom.", "Kofi said he wants to be my boss."),
            ("We use Postgres.", "Maybe we should use MySQL one day."),
            ("I'm training for the Chicago marathon.", "My sister is training for the Berlin marathon."),
            ("My brother lives in Ghent.", "I live in Antwerp."),
            ("I live in Rome.", "My cousin has just moved to Berlin."),
            ("My colleague Anna leads the audit.", "My colleague Ben leads the migration."),
            ("Staging is in Dublin.", "Production is in London."),
            ("Meeting room 12 is called Mars.", "Meeting room 14 is called Venus."),
            ("Server web-1 runs Debian 11.", "Server web-2 runs Debian 12."),
            ("Invoice 114 was paid by card.", "Invoice 115 was paid in cash."),
            ("Mira is allergic to nuts.", "Mira plays the cello."),
            ("Mira lives in Graz.", "Mira has two sons."),
            ("Mira likes tea.", "Mira likes jazz."),
            ("Our plan A costs 10 euros a month.", "Our plan B costs 25 euros a month."),
        ],
    )
    def test_idea_and_statement_about_another_replace_nothing(self, older: str, newer: str):
        """However near the two are."""
        assert find_earlier(told(older, newer), cosines(2, 0.75)) == {}

    @pytest.mark.parametrize(
        ("older", "newer"),
        [
            ("I live in Leeds.", "I was thinking of York, but we decided to move to Hull."),
            ("I drive a Fiat.", "My brother bought the Fiat from me."),
            ("My colleague Anna leads the audit.", "My colleague Ben leads the audit instead of Anna."),
            ("Anna is on call on weekdays.", "Ben is on call on weekdays."),
            ("The office is in Delft.", "The office is in Breda now."),
            ("Server web-1 runs Debian 11.", "Server web-1 runs Debian 12."),
            ("Mira lives in Graz.", "Mira lives in Bern."),
            ("Mira works at Acme.", "Mira has a job at Zeiss."),
            ("Room 12 is our office.", "Room 14 is our office."),
            ("The rent costs 940 euros warm.", "The rent costs 1010 euros cold."),
        ],
    )
    def test_decision_and_new_holder_replace(self, older: str, newer: str):
        assert find_earlier(told(older, newer), cosines(2, 0.75)) == {0: 1}

    def test_correction_is_distinguished_from_a_change(self):
        assert change_in("Sorry, I meant the blue one.") == "correction"
        assert change_in("We have switched to oat milk.") == "change"
        assert change_in("The kettle is red.") is None

    def test_a_claim_names_its_relatives(self):
        claim = parse_claim("Mein Bruder Jonas kommt um 18:05.")

        assert claim.relatives == {"brother"}
        assert claim.relative_names == {"brother": "Jonas"}

    @pytest.mark.parametrize(
        ("text", "relative"),
        [
            ("My grandpa lives in Porto.", "grandfather"),
            ("Notre chienne a peur.", "dog"),
            ("Meine Oma ruft an.", "grandmother"),
        ],
    )
    def test_a_claim_knows_the_words_that_tell_what_is_over(self, text: str, relative: str):
        assert parse_claim(text).relatives == {relative}

    @pytest.mark.parametrize(
        ("question", "several"),
        [
            ("Which languages do I speak?", True),
            ("Where do my sisters live?", True),
            ("Quelles langues est-ce que je parle ?", True),
            ("¿Qué idiomas hablo?", True),
            ("Which bank do I use?", False),
            ("Who is my dentist?", False),
        ],
    )
    def test_question_for_several_things_is_recognized(self, question: str, several: bool):
        assert asks_for_several(question) is several


class TestFindEarlier:
    def test_what_is_about_something_else_is_not_earlier(self):
        """A change is not enough where the vectors are far from each other."""
        assert find_earlier(told("I drive a Fiat.", "Quit the choir yesterday."), cosines(2, 0.1)) == {}
        assert find_earlier(told("The office is in Delft.", "I left my hat in the train."), cosines(2, 0.1)) == {}

    def test_without_vectors_words_decide(self):
        assert find_earlier(told("I drive a Fiat.", "Sold the Fiat yesterday."), None) == {0: 1}

    def test_close_statements_need_no_word_in_common(self):
        memories = told("The rent is 900 a month.", "New lease signed, we pay 1100.")

        assert find_earlier(memories, cosines(2, 0.5)) == {0: 1}
        assert find_earlier(memories, cosines(2, 0.1)) == {}

    def test_only_the_nearest_of_many_gives_way(self):
        """What is behind it is near by chance."""
        others = [f"Room {number} is green." for number in range(16)]
        memories = told("The rent is 900 a month.", *others, "New lease signed, we pay 1100.")
        alike = cosines(18, 0.1)
        alike[17, 0], alike[17, 1] = 0.7, 0.3

        assert find_earlier(memories, alike) == {0: 17}

    def test_a_return_outdates_what_was_said_in_between(self):
        memories = told(
            "The choir meets in the chapel.", "We rehearse at the school.", "The choir is back in the chapel."
        )
        alike = np.array([[1, 0.35, 0.7], [0.35, 1, 0.35], [0.7, 0.35, 1]], np.float32)

        assert find_earlier(memories, alike) == {0: 2, 1: 2}

    def test_a_statement_that_is_no_return_outdates_nothing_in_between(self):
        memories = told(
            "The choir meets in the chapel.", "We rehearse at the school.", "The choir sings in the chapel."
        )
        alike = np.array([[1, 0.35, 0.7], [0.35, 1, 0.35], [0.7, 0.35, 1]], np.float32)

        assert 1 not in find_earlier(memories, alike)

    def test_statement_without_a_mark_of_change_needs_more(self):
        """Of two that are as near, only what was done replaces what was said before."""
        assert find_earlier(told("My notes are in Notion.", "Went with Obsidian."), cosines(2, 0.35)) == {0: 1}
        assert find_earlier(told("My notes are in Notion.", "Obsidian is a rock."), cosines(2, 0.35)) == {}

    def test_requests_and_filler_of_a_passage_are_not_compared(self):
        """Two messages with the same request are about different things all the same."""
        old, new = told(
            "Said: I can't eat celery. Give me three rhymes for orange.",
            "Said: I moved to Ulm. Give me three rhymes for orange.",
        )
        memories = [Memory(**{**_fields(one), "kind": "episodic"}) for one in (old, new)]

        assert find_earlier(memories, cosines(2, 0.12)) == {}

    def test_pair_that_answers_the_question_before_the_rest_is_marked_sooner(self):
        """A newer statement that answers the question less than others do is about something else."""
        rooms = [f"Room {number} is green." for number in range(6)]
        memories = told("My laptop is a Lenovo.", *rooms, "Went with an Asus.")
        alike = cosines(8, 0.1)
        alike[7, 0] = alike[0, 7] = 0.39
        best, worst = np.array([3.0, *[-1.0] * 6, 2.9]), np.array([3.0, *[2.9] * 6, -3.0])

        found = [find_earlier(memories, alike, "", strength) for strength in (best, worst)]

        assert found == [{0: 7}, {}]

    def test_what_had_replaced_the_same_needs_less(self):
        """A return to the first value tells that the one between is over, too."""
        memories = told("Our main branch is main.", "We renamed it to trunk.", "It's back to main again.")
        alike = cosines(3, 0.6)
        alike[0, 1] = alike[1, 0] = 0.75
        alike[0, 2] = alike[2, 0] = 0.8

        found = find_earlier(memories, alike)

        assert found == {0: 2, 1: 2}

    def test_what_was_so_before_a_return_needs_no_near_words(self):
        """Nor need the statement be alike to what it returns to, where their words are enough."""
        memories = told(
            "Firefox is my browser.",
            "Brave is so quick that I made it my default.",
            "Brave's sync drove me nuts, so I'm with Firefox again.",
        )
        alike = cosines(3, 0.42)
        alike[1, :] = alike[:, 1] = 0.3

        assert find_earlier(memories, alike) == {0: 2, 1: 2}

    def test_each_of_several_old_values_is_earlier(self):
        """The newest replaces the one before it, and what that one had replaced."""
        memories = told(
            "The workshop is on Monday.", "They pushed the workshop to Friday.", "The workshop was moved to Tuesday."
        )

        assert find_earlier(memories, cosines(3, 0.6)) == {0: 2, 1: 2}

    def test_fact_and_passage_of_a_turn_are_one_statement(self):
        """Both are marked, whatever else the passage holds."""
        tram, bicycle = told("I take the tram.", "I switched from the tram to a bicycle.")
        passage = Memory(**{**_fields(tram), "text": "Said: Lovely weather here. I take the tram.", "kind": "episodic"})

        assert find_earlier([tram, bicycle, passage], cosines(3, 0.6)) == {0: 1, 2: 1}

    def test_question_and_whole_message_change_nothing(self):
        """A message of an imported conversation is no statement of the user."""
        old, new = told("I drive a Fiat.", "Sold the Fiat yesterday.")
        asked = Memory(**{**_fields(new), "text": "Asked: Have I sold the Fiat yesterday?", "kind": "episodic"})
        message = Memory(**{**_fields(new), "kind": "episodic"})

        assert find_earlier([old, asked], cosines(2, 0.6)) == {}
        assert find_earlier([old, message], cosines(2, 0.6)) == {}

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

    assert line(Recalled(memory, 0.0, earlier=True)) == '- "I drive a Fiat." (earlier, 2026-01-05)'
    doubtful = Recalled(memory, 0.0, earlier=True, may_hold=True)
    assert line(doubtful) == '- "I drive a Fiat." (earlier, may still hold, 2026-01-05)'
    assert line(Recalled(memory, 0.0)) == '- "I drive a Fiat." (2026-01-05)'


def _fields(memory: Memory) -> dict[str, object]:
    return {name: getattr(memory, name) for name in Memory.__slots__}
