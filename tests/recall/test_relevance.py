"""Tests of whether a question has to do with anything, and with what."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.ids import MemoryId
from threadkeep.memories.models import Kind, Memory, Source
from threadkeep.models.base import NeedPair
from threadkeep.recall.relevance import MOST_READ, concerns, matters
from threadkeep.recall.selection import in_order, spread
from threadkeep.search.query import QuestionKind
from threadkeep.search.ranking import Ranking, Subject
from threadkeep.search.scoring import Hit, Hits, closeness


def hit(cosine: float | None, lexical: float, strength: float = 0.0) -> Hit:
    return Hit(("n",), "k", 0.0, cosine, lexical, strength)


def found(*given: Hit) -> Hits:
    """Make what a search gives of some hits, the strongest first."""
    order = sorted(given, key=lambda one: -one.strength)
    cosine = np.array([np.nan if one.cosine is None else one.cosine for one in order])
    lexical = np.array([one.lexical for one in order])
    return Hits(
        [(one.namespace, one.key) for one in order],
        np.arange(len(order)),
        strength=np.array([one.strength for one in order]),
        revisions=np.zeros(len(order), np.int64),
        closeness=closeness(cosine, lexical),
        cosine=cosine,
        lexical=lexical,
        limit=None,
    )


def remembered(text: str, kind: Kind = "semantic") -> Memory:
    at = datetime(2026, 1, 5, tzinfo=UTC)
    return Memory(MemoryId("k"), ("n",), text, kind, "active", "user", (Source("user", at=at),), 1, at, at)


def ranking(closest: float, subject: Subject | None = None, *, by_words: bool = False, of: int = 200) -> Ranking:
    one = hit(None, closest) if by_words else hit(closest * 0.95 / 0.6, 0.0)
    return Ranking(found(*[one] * of), subject=subject, closest=closest, by_words=by_words)


class TestConcerns:
    @pytest.mark.parametrize(
        ("closest", "subject", "expected"),
        [
            (0.42, None, True),
            (0.40, None, False),
            (0.22, "participant", True),
            (0.20, "participant", False),
            (0.37, "known", True),
            (0.35, "known", False),
            (0.50, "unknown", False),
            (0.52, "unknown", True),
        ],
    )
    def test_whom_a_question_names_moves_the_floor(self, closest: float, subject: Subject | None, expected: bool):
        """Down for somebody who takes part, up for a stranger."""
        assert concerns(ranking(closest, subject)) == expected

    @pytest.mark.parametrize(("of", "floor"), [(1, 0.295), (8, 0.340), (50, 0.380), (256, 0.410)])
    def test_the_nearest_of_few_may_be_farther(self, of: int, floor: float):
        """By chance it would be: the floor rises with the logarithm of how many there are."""
        assert concerns(ranking(floor + 0.002, of=of))
        assert not concerns(ranking(floor - 0.002, of=of))

    @pytest.mark.parametrize(("of", "floor"), [(1, 0.260), (8, 0.260), (256, 0.260)])
    def test_one_statement_may_be_farther_than_a_long_text(self, of: int, floor: float):
        """It is near to what it says alone; where there are few, that is not asked for as well."""
        assert concerns(ranking(floor + 0.002, of=of), lambda _: remembered("x" * 90))
        assert not concerns(ranking(floor - 0.002, of=of), lambda _: remembered("x" * 90))

    @pytest.mark.parametrize(
        ("memory", "floor"),
        [
            (remembered("I ski."), 0.06),
            (remembered("Said: I ski.", "episodic"), 0.06),
            (remembered("We ski, " + "they said, " * 10, "episodic"), 0.41),
            (remembered("I ski. " * 100), 0.41),
        ],
    )
    def test_question_about_the_user_has_a_lower_floor(self, memory: Memory, floor: float):
        """Among statements; whole messages are near to every question of their field."""
        assert concerns(ranking(floor + 0.002), lambda _: memory, kind="own")
        assert not concerns(ranking(floor - 0.002), lambda _: memory, kind="own")
        assert not concerns(ranking(0.25), lambda _: memory, kind="task")

    @pytest.mark.parametrize(("of", "floor"), [(4, 0.302), (256, 0.380)])
    @pytest.mark.parametrize("memory", [remembered("I ski."), remembered("Said: I ski.", "episodic")])
    def test_a_shared_word_explains_why_a_statement_is_near_what_is_asked_about_the_world(
        self, memory: Memory, of: int, floor: float
    ):
        """``When is the next full moon?``; less where there are few, and not where the question is about the user."""

        def near(closest: float, kind: QuestionKind, words: float = 0.1) -> bool:
            one = hit((closest * 0.95 - 0.35 * words) / 0.6, words)
            return concerns(Ranking(found(*[one] * of), closest=closest), lambda _: memory, kind=kind)

        assert near(floor + 0.002, "task")
        assert not near(floor - 0.002, "task")
        assert near(floor - 0.002, "task", 0.0)
        assert near(floor - 0.002, "own")

    @pytest.mark.parametrize(
        ("question", "text"),
        [
            ("Quelle langue étrangère étudie Théo ?", "Mon neveu Théo apprend le japonais au collège."),
            ("wann muss leni ins schwimmbad", "Meine Nichte Leni hat montags Schwimmkurs."),
            ("Describe a flyer for the opening of Freya's shop.", "My cousin Freya's bakery is green and cream."),
        ],
    )
    def test_the_name_is_found_in_other_languages_and_cases(self, question: str, text: str):
        found_in = Ranking(found(*[hit(0.2, 0.1)] * 256), closest=0.2)

        assert concerns(found_in, lambda _: remembered(text), kind="task", question=question, foreign=True)
        assert not concerns(found_in, lambda _: remembered(text), kind="task", question="?!", foreign=True)

    @pytest.mark.parametrize("text", ["The kids, Arjun (7) and Mira (4), ski.", "Said: My sister Mira skis."])
    def test_name_of_one_of_the_users_people_is_enough(self, text: str):
        """``How old is Mira?`` is about the user's life, whatever else is said of her."""

        def brings(question: str, memory: str = text) -> bool:
            one = hit(0.2, 0.1)
            found_in = Ranking(found(*[one] * 256), closest=0.2, subject="known")
            kind = "episodic" if memory.startswith("Said: ") else "semantic"
            return concerns(found_in, lambda _: remembered(memory, kind), kind="task", question=question)

        assert brings("How old is Mira?")
        assert brings("what do i get mira")
        assert brings("Plan Mira's birthday.")
        assert not brings("How old is Mira Sorvino?")
        assert not brings("How old is the Nile?")
        assert not brings("How old is Mira?", "I read a book about Mira.")

    def test_order_has_a_higher_floor(self):
        """``Give me a haiku about rust.`` needs no memory of Rust."""
        assert concerns(ranking(0.512), kind="order")
        assert not concerns(ranking(0.508), kind="order")

    @pytest.mark.parametrize(("words", "floor"), [(0.0, 0.18), (0.1, 0.30)])
    def test_errand_has_a_floor_between(self, words: float, floor: float):
        """It may need what is the user's; a shared word explains the nearness there, too."""

        def near(closest: float) -> bool:
            one = hit((closest * 0.95 - 0.35 * words) / 0.6, words)
            return concerns(Ranking(found(*[one] * 256)), lambda _: remembered("I ski."), kind="errand")

        assert near(floor + 0.002)
        assert not near(floor - 0.002)

    @pytest.mark.parametrize(("kind", "floor"), [("task", 0.36), ("near", 0.25)])
    def test_another_language_than_english_has_a_higher_floor(self, kind: QuestionKind, floor: float):
        """To the embedder, texts of one other language are all alike; what is about the user stays so."""
        statement = remembered("x" * 90)
        assert concerns(ranking(floor + 0.002), lambda _: statement, kind=kind, foreign=True)
        assert not concerns(ranking(floor - 0.002), lambda _: statement, kind=kind, foreign=True)
        assert concerns(ranking(floor - 0.002), lambda _: statement, kind="own", foreign=True)

    @pytest.mark.parametrize(
        ("closest", "weight", "expected"),
        [(0.16, 1.1, True), (0.16, 0.9, False), (0.07, 1.8, False), (0.05, 9.0, False), (0.16, None, False)],
    )
    def test_what_is_nearly_close_enough_needs_the_model(self, closest: float, weight: float | None, expected: bool):
        """A tenth less than the floor needs a weight of 1; what lacks more than two tenths is not read."""
        read: list[NeedPair] = []

        def needs(pair: NeedPair) -> float | None:
            read.append(pair)
            return weight

        statement = remembered("x" * 90)
        found_needed = concerns(ranking(closest), lambda _: statement, kind="task", question="Plan it.", needs=needs)

        assert found_needed is expected
        assert read == ([NeedPair("Plan it.", statement.text)] * MOST_READ if closest > 0.06 else [])

    @pytest.mark.parametrize(("kind", "closest"), [("own", 0.05), ("open", 0.2), ("problem", 0.35)])
    def test_other_kinds_are_not_read(self, kind: QuestionKind, closest: float):
        """A question about the user needs little closeness, and what only tells needs nothing."""
        statement = remembered("x" * 90)

        assert not concerns(ranking(closest), lambda _: statement, kind=kind, question="So?", needs=lambda _: 9.0)

    @pytest.mark.parametrize(("text", "question"), [("x" * 500, "Plan it."), ("x" * 95, "Plan it. " * 50)])
    def test_whole_messages_are_not_read(self, text: str, question: str):
        """Neither one that is kept nor one that asks."""
        memory = remembered(text)

        assert not concerns(ranking(0.3), lambda _: memory, kind="task", question=question, needs=lambda _: 9.0)

    def test_words_alone_are_not_read(self):
        memory = remembered("x" * 90)

        assert not concerns(
            ranking(0.05, by_words=True), lambda _: memory, kind="task", question="So?", needs=lambda _: 9.0
        )

    def test_question_about_the_user_needs_one_shared_word(self):
        """Where words alone are compared."""
        assert concerns(ranking(0.04, by_words=True), kind="own")
        assert not concerns(ranking(0.04, by_words=True), kind="task")
        assert not concerns(ranking(0.02, by_words=True), kind="own")

    def test_what_is_in_its_words_concerns_it(self):
        """However far the vectors are; of a stranger it says nothing."""
        in_words = Ranking(found(hit(0.1, 0.2), hit(0.1, 0.45)), closest=0.1)

        assert concerns(in_words)
        assert not concerns(replace(in_words, hits=found(*in_words.hits[:1])))
        assert not concerns(replace(in_words, subject="unknown"))

    def test_words_alone_have_a_floor_of_their_own(self):
        """A share of BM25 is no cosine."""
        assert concerns(ranking(0.11, by_words=True))
        assert not concerns(ranking(0.09, by_words=True))

    def test_nothing_concerns_nothing(self):
        """Where nothing was found there is nothing to ask for."""
        assert not concerns(Ranking(found()))


def matter(one: Hit, *, best: float = 5.0, by_words: bool = False) -> bool:
    """Tell whether a hit does beside one of the strength *best*."""
    return 1 in matters(Ranking(found(hit(0.5, 0.3, best), one), by_words=by_words))


class TestMatters:
    def test_what_is_close_matters(self):
        """However weak it is otherwise."""
        assert matter(hit(0.2, 0.1))
        assert not matter(hit(0.1, 0.05))
        assert not matter(hit(-0.5, 0.0))

    def test_less_is_enough_for_a_question_about_the_user(self):
        """A paraphrase is hardly near."""
        hits = found(hit(0.5, 0.3, 5.0), hit(0.1, 0.0))

        assert matters(Ranking(hits), kind="own") == [0, 1]
        assert matters(Ranking(hits), kind="task") == [0]

    def test_so_does_what_is_nearly_as_strong_as_the_best(self):
        """Such as the answer to a question that is close."""
        assert matter(hit(0.0, 0.0, strength=3.1), best=5.0)
        assert not matter(hit(0.0, 0.0, strength=2.9), best=5.0)

    def test_without_vectors_one_rare_word_is_enough(self):
        """Words alone say less, so less is asked of them."""
        assert matter(hit(None, 0.03), by_words=True)
        assert not matter(hit(None, 0.01), by_words=True)

    def test_of_nothing_nothing_does(self):
        """Where nothing was found there is no best."""
        assert matters(Ranking(found())) == []


class TestInOrder:
    def test_what_was_compared_comes_first_by_what_it_adds(self):
        """The rest follows as it stands."""
        alike = np.array([[1, 0.95, 0.1], [0.95, 1, 0.1], [0.1, 0.1, 1]], np.float32)
        hits = found(*(hit(0.5, 0.3, strength) for strength in (5.0, 4.9, 4.0, 3.0, 2.0)))

        assert list(in_order(Ranking(hits, alike=alike))) == [0, 2, 1, 3, 4]
        assert list(in_order(Ranking(hits))) == [0, 1, 2, 3, 4]

    def test_closeness_counts_more_for_what_is_about_the_user(self):
        """What is stronger by its words and its day comes after what is closer, among what was compared."""
        hits = found(hit(0.1, 0.3, 5.0), hit(0.4, 0.0, 4.0), hit(0.1, 0.0, 3.0), hit(0.9, 0.9, 2.0))
        ranking = Ranking(hits, alike=np.eye(3, dtype=np.float32))

        assert list(in_order(ranking)) == [0, 1, 2, 3]
        assert list(in_order(ranking, own=True)) == [1, 0, 2, 3]


class TestSpread:
    def test_the_next_one_is_strong_and_unlike(self):
        """The second of two that say the same comes after one that says something else."""
        alike = np.array([[1, 0.95, 0.1], [0.95, 1, 0.1], [0.1, 0.1, 1]], np.float32)

        assert list(spread(np.array([5.0, 4.9, 4.0]), alike)) == [0, 2, 1]

    @given(st.lists(st.floats(-5, 5), max_size=12))
    def test_each_comes_once_and_the_strongest_first(self, strengths: list[float]):
        """Whatever is alike; where that costs nothing, the order is by strength."""
        vectors = np.random.default_rng(len(strengths)).normal(size=(len(strengths), 4)).astype(np.float32)
        alike = vectors @ vectors.T

        order = list(spread(np.array(strengths), alike))

        assert sorted(order) == list(range(len(strengths)))
        assert not strengths or strengths[order[0]] == max(strengths)
        by_strength = [strengths[place] for place in spread(np.array(strengths), alike, weight=0.0)]
        assert by_strength == sorted(strengths, reverse=True)
