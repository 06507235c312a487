from __future__ import annotations

import pytest

from threadkeep.text.semantics import content_words, normalised


class TestContentWords:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("I live in Berlin", "I live in Berlin now."),
            ("I'm allergic to nuts", "I am really allergic to nuts!"),
            ("I don't like tea", "I do not like tea"),
            ("I can't swim", "I cannot swim"),
            ("My dog’s name is Rex", "my dog's name is rex"),
            ("We have 3,000 users", "we have 3,000 users"),
        ],
    )
    def test_the_same_in_other_clothes(self, one: str, other: str):
        """Case, fillers, contractions and stops do not matter."""
        assert content_words(one) == content_words(other)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("I moved to Berlin", "I moved to Bern"),
            ("She likes tea", "She doesn't like tea"),
            ("I like tea", "I do not like tea"),
            ("Ana manages Bob", "Bob manages Ana"),
            ("Our standup is at 9:30", "Our standup is at 9:45"),
            ("I have 2 dogs", "I have 3 dogs"),
            ("My manager is Ana", "Our manager is Ana"),
            ("I moved to Berlin", "I moved from Berlin"),
            ("I never drink", "I drink"),
            ("It costs 5 €", "It costs 5 $"),
        ],
    )
    def test_what_changes_the_meaning_counts(self, one: str, other: str):
        """A name, a number, a negation, a preposition or the order make another statement."""
        assert content_words(one) != content_words(other)

    def test_text_of_fillers_has_words_too(self):
        """Nothing is never the same as something."""
        assert content_words("really?") != content_words("now")

    def test_normal_form_keeps_the_fillers(self):
        """The very same statement is narrower than the same meaning."""
        assert normalised("I live in Berlin.") == normalised(" i LIVE in berlin")
        assert normalised("I live in Berlin") != normalised("I live in Berlin now")
