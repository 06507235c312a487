from __future__ import annotations

import re
from collections import Counter

import pytest

from threadkeep.errors import InvalidInputError
from threadkeep_evals.baselines import terms
from threadkeep_evals.data_banks import FAMILIES
from threadkeep_evals.facts import capacity, is_told, make_facts, run_facts

ALL = make_facts(capacity(), seed=5)


class TestMakeFacts:
    def test_ten_thousand_are_distinct(self):
        """No statement and no question occurs twice among 10,000."""
        facts = make_facts(10_000, seed=1)

        assert len({fact.text for fact in facts}) == 10_000
        assert len({fact.question for fact in facts}) == 10_000

    def test_questions_never_hold_their_answer(self):
        """A question does not give away what it asks for."""
        told = [fact for fact in ALL if re.search(rf"\b{re.escape(fact.answer)}\b", fact.question, re.IGNORECASE)]

        assert told == []

    def test_every_question_has_one_answer(self):
        """Whatever way an aspect is asked about, the question belongs to one subject and one aspect."""
        asked = Counter(
            question.format(subject=subject)
            for family in FAMILIES
            for subject in family.subjects
            for aspect in family.aspects
            for question in aspect.questions
        )

        assert [question for question, times in asked.items() if times > 1] == []

    def test_facts_are_single_plain_sentences(self):
        """Each fact is one sentence of plain characters, so rendering leaves it as it is."""
        for fact in ALL:
            assert fact.text.endswith(".")
            assert fact.text.isascii()
            assert fact.text.isprintable()
            assert not set(fact.text) & set('"\\{}')
            assert fact.answer in fact.text

    def test_same_seed_gives_the_same(self):
        """The world can be made again, and another seed makes another."""
        assert make_facts(100, seed=3) == make_facts(100, seed=3)
        assert make_facts(100, seed=3) != make_facts(100, seed=4)

    @pytest.mark.parametrize("size", [100, 1_000, pytest.param(10_000, marks=pytest.mark.slow)])
    def test_no_single_word_tells_the_fact(self, size):
        """Every word of nearly every question also stands in facts that it does not ask for."""
        facts = make_facts(size, seed=2)
        holders = Counter(term for fact in facts for term in set(terms(fact.text)))

        given_away = [
            fact
            for fact in facts
            if any(holders[term] == 1 for term in set(terms(fact.question)) & set(terms(fact.text)))
        ]
        assert len(given_away) <= size * 0.15

    def test_ten_already_share_subjects(self):
        """Even the smallest world has several facts about one subject."""
        words = Counter(term for fact in make_facts(10, seed=1) for term in set(terms(fact.text)))

        assert sum(times >= 2 for times in words.values()) >= 5

    @pytest.mark.parametrize("count", [0, -1, capacity() + 1])
    def test_impossible_sizes_are_refused(self, count):
        """More facts than there are, or none, is an error that says the bounds."""
        with pytest.raises(InvalidInputError, match="between 1 and"):
            make_facts(count, seed=1)


class TestRun:
    def test_finds_facts_by_their_words(self):
        """Told in passing, without an embedder, through capture and recall, most of ten facts reach the block."""
        result = run_facts([10, 12], seed=1, embedder="none")

        assert list(result) == ["dataset", "seed", "results"]
        assert (result["dataset"], result["seed"]) == ("facts", 1)
        assert [row["n"] for row in result["results"]] == [10, 12]
        for row in result["results"]:
            assert list(row) == ["n", "questions", "in_block", "tokens_mean", "ms_p50", "ms_p95", "interval95"]
            assert row["questions"] == row["n"]
            assert row["in_block"] >= 0.6
            assert 0 < row["tokens_mean"] <= 300

    def test_what_capture_does_not_keep_is_not_found(self, monkeypatch):
        """The figure is of the whole way: nothing is written past capture."""
        monkeypatch.setattr("threadkeep.capture.extractors.local.extract_candidates", lambda _turn: ())

        (row,) = run_facts([10], seed=1, embedder="none")["results"]

        assert row["in_block"] == 0

    def test_fact_is_mentioned_in_passing(self):
        """Its message has it and more around it, and a line counts with subject and answer only."""
        facts = make_facts(100, seed=1)

        assert all(fact.text[1:-1] in fact.told for fact in facts)
        assert sum(fact.told == fact.text for fact in facts) < 20
        assert all(is_told(fact, f'- "{fact.text}"') for fact in facts)
        assert not any(is_told(fact, fact.question) for fact in facts)

    def test_tells_how_far_it_is(self):
        """Progress counts every fact stored and every question asked."""
        seen = []

        run_facts([5], seed=1, embedder="none", progress=lambda done, total: seen.append((done, total)))

        assert seen[0] == (0, 10)
        assert seen[-1] == (10, 10)
        assert seen == sorted(seen)
