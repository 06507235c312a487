from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.testing import NASTY_TEXTS
from threadkeep.text.semantics import gist_of, same_meaning, signature
from threadkeep_evals.data_banks import KNOWN


class TestSameMeaning:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("I moved to Berlin", "The user has moved to Berlin."),
            ("I don't like cilantro", "I dislike cilantro"),
            ("I have two kids", "User has 2 children"),
            ("I speak Russian and Polish", "I speak Polish and Russian"),
            ("I no longer work at Acme", "I don't work at Acme any more"),
        ],
    )
    def test_other_words_for_it(self, one: str, other: str):
        """Grammar, the person who tells it, a few synonyms."""
        assert same_meaning(gist_of(one), gist_of(other))
        assert signature(one) == signature(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("I moved to Berlin", "I moved to Bern"),
            ("I like tea", "I don't like tea"),
            ("I live in Porto", "I used to live in Porto"),
            ("I live in Porto", "I want to live in Porto"),
            ("Ana manages Bob", "Bob manages Ana"),
            ("I owe Bob 200", "Bob owes me 200"),
            ("I owe Bob 200", "Bob owes the user 200"),
            ("I prefer tea over coffee", "I prefer coffee over tea"),
            ("I have 2 kids", "I have 3 kids"),
            ("", "I live in Porto"),
            ("the", "a"),
        ],
    )
    def test_what_only_sounds_like_it(self, one: str, other: str):
        """A name, a number, a denial, a time, a wish, a role, an order."""
        assert not same_meaning(gist_of(one), gist_of(other))
        assert signature(one) != signature(other) or not gist_of(one).words

    def test_numbers_in_another_order(self):
        """Desk 2 on floor 3 is not desk 3 on floor 2."""
        assert not same_meaning(gist_of("My desk is 2 on floor 3"), gist_of("My desk is 3 on floor 2"))

    def test_statements_written_by_hand(self):
        """Of what the rules were written for, 2 of 88 are missed and none of 105 is taken for another."""
        missed = [a for case in KNOWN for a in case.again if not same_meaning(gist_of(case.statement), gist_of(a))]
        taken = [o for case in KNOWN for o in case.other if same_meaning(gist_of(case.statement), gist_of(o))]

        assert len(missed) <= 2
        assert taken == []

    @given(st.one_of(st.text(), st.sampled_from(NASTY_TEXTS)), st.text())
    def test_any_text_is_taken(self, one: str, other: str):
        """It is symmetric, and a text that says something says the same as itself."""
        first, second = gist_of(one), gist_of(other)

        assert same_meaning(first, second) == same_meaning(second, first)
        assert same_meaning(first, first) == bool(first.words)
