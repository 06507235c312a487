"""Of a long memory a block has the sentences around the one that fits the question best."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from threadkeep.ids import MemoryId
from threadkeep.memories.models import Kind, Memory, Source, Version
from threadkeep.recall.packing import WHOLE, excerpt, is_unchanged
from threadkeep.search.query import Query, parse_query

AT = datetime(2026, 1, 5, tzinfo=UTC)
PADDING = "Clouds came over the hills and left again before noon. " * 5


def memory(text: str, kind: Kind = "episodic", namespace: tuple[str, ...] = ("memories",)) -> Memory:
    return Memory(MemoryId("m"), namespace, text, kind, "active", "user", (Source("user", at=AT),), 1, AT, AT)


def asked(question: str) -> Query:
    return parse_query(question, now=AT)


class TestExcerpt:
    def test_a_short_episode_is_whole(self):
        text = ("The kiln broke. " * 25).strip()
        short = memory(text[:WHOLE])

        assert excerpt(short, asked("Which kiln broke?")) is short

    def test_what_names_nothing_is_left_out(self):
        """Unless it has a word of the question, or tells of a change; the lead of the user's own words stays."""
        said = memory("Said: Hope you are well. My kiln is a Nabertherm. What a fine shed. We switched it off.")

        assert excerpt(said, asked("Which kiln?")).text == "Said: My kiln is a Nabertherm. We switched it off."
        assert "What a fine shed." in excerpt(said, asked("What about the shed?")).text

    def test_what_the_user_says_of_themselves_stays_without_apostrophes(self):
        said = memory("Said: hi, im marco. freelance ios dev, based in austin")

        assert excerpt(said, asked("Where am I based?")) is said

    def test_a_date_is_not_cut(self):
        """A full stop after an ordinal number ends no sentence."""
        said = memory("Said: Geboren bin ich am 14. Mai. Alles klar?")

        assert excerpt(said, asked("Wann bin ich geboren?")).text == "Said: Geboren bin ich am 14. Mai."

    def test_an_episode_that_names_nothing_is_whole(self):
        said = memory("Said: Hope you are well. What a fine shed.")

        assert excerpt(said, asked("Which kiln?")) is said

    def test_a_long_episode_has_the_sentences_around_the_best_match(self):
        text = f"{PADDING}The kiln broke in March. We bought a Nabertherm. {PADDING}"

        shown = excerpt(memory(text), asked("When did the kiln break?")).text

        assert "The kiln broke in March. We bought a Nabertherm." in shown
        assert len(shown) <= 300
        assert shown in text

    def test_neighbours_that_fit_better_come_first(self):
        text = f"{PADDING}The shed is old. The kiln broke. It rained. {PADDING}"

        shown = excerpt(memory(text), asked("Which kiln stands in the old shed?")).text

        assert "The shed is old. The kiln broke." in shown

    def test_a_single_long_sentence_is_cut_at_a_word(self):
        shown = excerpt(memory("kiln " * 200), asked("Which kiln?")).text

        assert len(shown) <= 300
        assert shown.endswith("kiln")

    def test_facts_are_whole(self):
        fact = memory("The kiln is in the shed, " * 30, kind="semantic")

        assert excerpt(fact, asked("Where is the kiln?")) is fact

    def test_of_a_summary_there_is_less(self):
        summary = memory(f"{PADDING}The kiln broke in March. {PADDING}", namespace=("summaries",))

        assert len(excerpt(summary, asked("When did the kiln break?")).text) <= 240


LONG = (
    "The shed is old and leans to the left. My kiln is a Nabertherm. It broke in March. My brother Tom lives in Oslo."
)


class TestBriefExcerpt:
    def test_it_has_the_sentences_with_a_word_of_the_question(self):
        shown = excerpt(memory(LONG), asked("Which kiln do I have?"), brief=True).text

        assert shown == "My kiln is a Nabertherm."

    def test_a_sentence_that_points_back_brings_the_one_before(self):
        shown = excerpt(memory(LONG), asked("What happened in March?"), brief=True).text

        assert shown == "My kiln is a Nabertherm. It broke in March."

    def test_the_speaker_and_the_form_of_the_words_stay(self):
        assert excerpt(memory(f"Ana: {LONG}"), asked("Who lives in Oslo?"), brief=True).text == (
            "Ana: My brother Tom lives in Oslo."
        )
        assert excerpt(memory(f"Said: {LONG}"), asked("Who lives in Oslo?"), brief=True).text == (
            "Said: My brother Tom lives in Oslo."
        )

    def test_what_shares_no_word_with_the_question_is_whole(self):
        whole = memory(LONG)

        assert excerpt(whole, asked("What is for dinner?"), brief=True) is whole

    def test_a_short_episode_and_a_fact_are_whole(self):
        short, fact = memory(LONG[:95]), memory(LONG, kind="semantic")

        assert excerpt(short, asked("Which kiln do I have?"), brief=True) is short
        assert excerpt(fact, asked("Which kiln do I have?"), brief=True) is fact

    def test_it_is_unchanged_until_what_it_shows_is_changed(self):
        kept = memory(f"Ana: {LONG}")
        shown = excerpt(kept, asked("Who lives in Oslo?"), brief=True)
        changed = replace(kept, text=kept.text.replace("Oslo", "Bergen"))
        before = Version(kept.text, None, AT, AT)

        assert is_unchanged(shown, kept)
        assert not is_unchanged(shown, changed)
        assert not is_unchanged(shown, replace(kept, text=f"{kept.text} Not any more.", history=(before,)))


class TestIsUnchanged:
    def test_an_excerpt_of_what_is_kept_is(self):
        whole = memory(f"{PADDING}The kiln broke in March. {PADDING}")

        assert is_unchanged(excerpt(whole, asked("When did the kiln break?")), whole)
        assert not is_unchanged(excerpt(whole, asked("When did the kiln break?")), memory("The shed is old. " * 40))

    def test_what_is_left_out_changes_nothing(self):
        said = memory("Said: Hope you are well. My kiln is a Nabertherm.")

        assert is_unchanged(excerpt(said, asked("Which kiln?")), said)
        assert not is_unchanged(excerpt(said, asked("Which kiln?")), memory("Said: My kiln is a Rohde."))

    def test_a_longer_correction_is_not(self):
        assert not is_unchanged(memory("I like tea."), memory("I like tea. Not any more."))
