"""Tests of what a question asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.recall.question import asks_about_everything, without_names


class TestWithoutNames:
    @pytest.mark.parametrize(
        ("question", "rest"),
        [
            ("What did I lend to Marta Silva?", "What did I lend to"),
            ("When is Ana's birthday?", "When is birthday?"),
            ("I met Leo. Where does he work, Ana?", "I met Where does he work,"),
            ("what did i lend to marta?", None),
            ("What did I lend?", None),
            ("Who is Marta Silva?", None),
            ("WHAT DID I LEND TO MARTA", None),
            ("Welche Farbe hat mein Auto?", None),
            ("", None),
            ("where is Ana now " * 50, None),
        ],
    )
    def test_names_are_cut_where_something_is_left_to_ask(self, question: str, rest: str | None):
        """The table says what is a name, and when cutting would leave nothing."""
        assert without_names(question) == rest

    @given(st.text())
    def test_any_text_is_taken(self, question: str):
        """What is left is made of the question's own words, fewer of them."""
        rest = without_names(question)

        assert rest is None or set(rest.split()) < set(question.split()) or rest.split() != question.split()


class TestAsksAboutEverything:
    @pytest.mark.parametrize(
        "question",
        [
            "What do you know about me?",
            "who am I",
            "Tell me what you remember about me",
            "what have you learned about myself?",
        ],
    )
    def test_the_user_as_such_is_meant(self, question: str):
        """These ask for everything."""
        assert asks_about_everything(question)

    @pytest.mark.parametrize("question", ["", "What do I drink?", "Tell me about Lisbon", "Do you know Ana?"])
    def test_something_else_is_meant(self, question: str):
        """These ask for something."""
        assert not asks_about_everything(question)
