from __future__ import annotations

import pytest

from threadkeep.text.facts import MIN_SCORE, is_small_talk, statements
from threadkeep.text.requests import is_request, unwanted
from threadkeep_evals.data_banks import read_bank
from threadkeep_evals.keeping_fit import KEEP

USUAL = [
    (text, label == KEEP)
    for message in read_bank("sentences_usual")["messages"]
    for text, label in message["sentences"]
]
"""What people often say, in the words in which they mostly say it."""


class TestStatements:
    def test_lasting_statement_is_kept_in_the_persons_words(self):
        """What people say of themselves, their people, work, preferences and plans is kept verbatim, 19 of 20 times."""
        told = [text for text, keep in USUAL if keep]

        missed = [text for text in told if not statements(text)]

        assert len(missed) <= len(told) // 20, missed
        assert all(one.text in text and one.score >= MIN_SCORE for text in told for one in statements(text))

    @pytest.mark.parametrize("sentence", [text for text, keep in USUAL if not keep])
    def test_passing_talk_is_not_kept(self, sentence: str):
        """Questions, requests, hypotheses, reports and talk about the moment are not facts."""
        assert statements(sentence) == ()

    def test_it_does_not_matter_which_number_it_is(self):
        """A regression on words would else know some numbers and not others."""
        scores = {
            statements(f"I keep the key of locker {number} behind shelf {number}.") for number in range(0, 900, 7)
        }

        assert len({one.score for found in scores for one in found}) == 1
        assert () not in scores

    def test_two_statements_in_a_sentence_are_two(self):
        """Clauses that stand on their own are kept apart, so that each can be replaced alone."""
        found = statements("I live in Lisbon and I work at Acme.")

        assert [statement.text for statement in found] == ["I live in Lisbon", "I work at Acme."]

    @pytest.mark.parametrize(
        ("sentence", "kept"),
        [
            ("Hey, I'm allergic to nuts", "I'm allergic to nuts"),
            ("Please remember that my dog is called Rex", "my dog is called Rex"),
            ("I live in Ghent, where can I buy a bike?", "I live in Ghent"),
            ("I'm learning Japanese, can you quiz me", "I'm learning Japanese"),
        ],
    )
    def test_greeting_and_request_are_cut_off(self, sentence: str, kept: str):
        """What is kept is the statement, without hello before and without the question after."""
        assert [statement.text for statement in statements(sentence)] == [kept]

    @pytest.mark.parametrize(
        ("sentence", "kept"),
        [
            ("No, I said I live in Derby.", "I live in Derby."),
            ("I told you that I'm vegan.", "I'm vegan."),
            ("I said my sister is a nurse, not my brother.", "my sister is a nurse, not my brother."),
            ("Non, j'ai dit que j'habite à Lyon.", "j'habite à Lyon."),
            ("No, dije que vivo en Madrid.", "vivo en Madrid."),
            ("Não, eu disse que moro em Lisboa.", "moro em Lisboa."),
            ("No, ho detto che abito a Roma.", "abito a Roma."),
        ],
    )
    def test_what_the_user_says_again_is_kept_as_said(self, sentence: str, kept: str):
        """Who corrects the assistant tells the fact again."""
        assert [one.text for one in statements(sentence)] == [kept]

    @pytest.mark.parametrize(
        "sentence",
        [
            "No, I said 14 May.",
            "No, I said Derby, not Leeds.",
            "I said my sister, not my brother.",
            "I never said I live in Derby.",
            "I told you I live in Derby, but I lied.",
            "Disse que mora em Lisboa.",
        ],
    )
    def test_a_word_that_corrects_another_is_no_fact(self, sentence: str):
        """By itself it says nothing; other people's words are not the user's."""
        assert statements(sentence) == ()

    def test_long_sentence_is_not_kept(self):
        """More than 300 characters are not one short statement."""
        sentence = "I live in Lisbon with " + ", ".join(f"cat number {n}" for n in range(40))

        assert statements(sentence) == ()

    def test_more_telling_statement_scores_higher(self):
        """Who somebody is counts for more than what happened once."""
        (name,), (event,) = statements("My name is Priya Raman"), statements("I just adopted a puppy.")

        assert name.score > event.score


class TestUnwanted:
    @pytest.mark.parametrize(
        "text",
        [
            "I like tea, but don't remember this.",
            "Do not save that please",
            "Please don't store this: I'm ill",
            "this is off the record, I'm leaving",
            "Forget what I just said",
            "Keep this between us",
            "Merk dir das bitte nicht",
            "Ne retiens pas ça",
            "これは覚えないでください",
            "请不要记住这个",
        ],
    )
    def test_wish_not_to_be_remembered_is_understood(self, text: str):
        """People say in many ways that a turn is not for keeps."""
        assert unwanted(text)

    @pytest.mark.parametrize(
        "text", ["I don't remember this film", "Don't forget that I'm vegan", "I never save anything", "Remember this"]
    )
    def test_talk_of_remembering_is_not_that_wish(self, text: str):
        """Only a request to the assistant counts."""
        assert not unwanted(text)

    @pytest.mark.parametrize("before", [0, 65_500, 65_530, 65_536, 65_600, 65_664, 200_000])
    def test_it_is_heard_wherever_it_stands_in_a_long_text(self, before: int):
        """Also where the text is cut to be searched, and not where the cut only makes it look so."""
        assert unwanted("x " * (before // 2) + "Please don\u2019t REMEMBER this." + " y" * 40_000)
        assert not unwanted("x " * (before // 2) + "I don't remember this." + " y" * 40_000)

    def test_a_word_that_is_cut_is_not_taken_for_another(self):
        """``thistle`` is no ``this``, whichever of its letters is the last of a piece."""
        for spaces in range(65_536 + 128 - 40, 65_536 + 128):
            assert not unwanted("." * spaces + " never note thistle")


class TestTellApart:
    @pytest.mark.parametrize(
        "text",
        [
            "Hi!",
            "Thanks so much!",
            "ok great",
            "Good morning",
            "👍",
            "yes",
            "Danke!",
            "ありがとうございます。",
            "你好！",
        ],
    )
    def test_small_talk_says_nothing(self, text: str):
        """Greetings and thanks are nothing to remember a turn by."""
        assert is_small_talk(text)

    @pytest.mark.parametrize("text", ["Good morning, is prod up?", "How do I deploy?", "My dog is ill", "犬が病気です"])
    def test_a_matter_is_more_than_small_talk(self, text: str):
        """One word of substance is enough."""
        assert not is_small_talk(text)

    @pytest.mark.parametrize("text", ["write me a poem", "how do I do this", "Is it late?", "please help"])
    def test_request_is_distinguished_from_a_statement(self, text: str):
        """Questions and commands ask for something."""
        assert is_request(text)
        assert not is_request("I live in Lisbon")
