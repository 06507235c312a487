"""Tests of what a question asks for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.search.query import Query, asks_about_everything, named, parse_query, without_names, without_people

NOW = datetime(2026, 11, 20, tzinfo=UTC)


class TestRead:
    @pytest.mark.parametrize(
        ("question", "names"),
        [
            ("What did I lend to Marta Silva?", [("Marta", "Silva")]),
            ("Did Leo see Ana's dog in New York, Kim?", [("Leo",), ("Ana",), ("New", "York"), ("Kim",)]),
            ("Where is it? Here.", []),
            ("Plan the bath that Mum and Dad want.", []),
            ("Welche Farbe hat mein Auto?", []),
            ("In welcher Stadt lebt Mama?", []),
            ("Quando viajo para a Ásia?", []),
            ("", []),
        ],
    )
    def test_names_are_words_with_a_capital_beside_each_other(self, question: str, names: list[tuple[str, ...]]):
        """A sign between them, or a genitive, makes two of them."""
        assert list(parse_query(question, now=NOW).names) == names

    @pytest.mark.parametrize(
        ("question", "foreign"),
        [
            ("Que exercício faço durante a semana?", True),
            ("In welcher Stadt lebt Mama?", True),
            ("Quel âge a mon chat ?", True),
            ("Who painted Die Brücke?", False),
            ("Name five breeds of sheep.", False),
            ("", False),
        ],
    )
    def test_it_may_be_in_another_language(self, question: str, *, foreign: bool):
        """Its function words tell, of which a question has few."""
        assert parse_query(question, now=NOW).foreign is foreign

    @pytest.mark.parametrize("question", ["When is it?", "how long have I", "In which year?", "How many days is it?"])
    def test_it_may_ask_when(self, question: str):
        """These ask for a time."""
        assert parse_query(question, now=NOW).when

    def test_it_may_be_about_the_user(self):
        """``I`` and its forms, as words."""
        assert parse_query("Where do I live?", now=NOW).first_person
        assert not parse_query("Where does Ina live?", now=NOW).first_person
        assert not parse_query("What did you recommend for my garden?", now=NOW).first_person

    def test_of_a_story_only_the_words_count(self):
        """Who is in it, and when, says little about what is asked."""
        read_story = parse_query("I met Ana in May. " * 40, now=NOW)

        assert read_story.terms
        assert read_story == Query(read_story.text, read_story.terms)


class TestNamed:
    @pytest.mark.parametrize(
        ("word", "whom"),
        [
            ("Melanie", "Melanie"),
            ("melanie", "Melanie"),
            ("Mel", "Melanie"),
            ("mel", None),
            ("Me", None),
            ("Will", "Will Smith"),
            ("will", None),
            ("Smith", "Will Smith"),
            ("Mar", None),
            ("Marta", "Marta"),
            ("Leo", None),
        ],
    )
    def test_a_participant_is_known_by_any_part_of_the_name(self, word: str, whom: str | None):
        """Or by how it begins, where only one's does."""
        found = named([word], ["Melanie", "Will Smith", "Marta", "Maria"])

        assert found == ({word: whom} if whom else {})

    def test_they_are_cut_where_something_is_left(self):
        """Their genitives too; a question about nothing but a person stays as it is."""
        assert without_people("When did Melanie's son meet Mel?", ["Melanie", "Mel"]) == "When did son meet?"
        assert without_people("Who is Melanie?", ["Melanie"]) == "Who is Melanie?"
        assert without_people("What did I say?", ["Melanie"]) == "What did I say?"


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
