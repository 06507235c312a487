"""Tests of how long texts are taken to be, and of what fits."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.errors import InvalidInputError
from threadkeep.ids import MemoryId
from threadkeep.memories.models import Kind, Memory
from threadkeep.recall.models import Recalled
from threadkeep.recall.packing import estimate_tokens, fit, is_contained, normalised

NOW = datetime(2026, 11, 20, tzinfo=UTC)
FRAME = "[begin]\n[end]"


def recalled(text: str, kind: Kind = "semantic") -> Recalled:
    memory = Memory(MemoryId(text), ("memories", "u"), text, kind, "active", "user", (), 1, NOW, NOW)
    return Recalled(memory, 0.5)


def said(one: Recalled) -> str:
    return f"- {one.memory.text}"


def rendered(chosen: list[Recalled]) -> str:
    return "\n".join(("[begin]", *map(said, chosen), "[end]"))


class TestSaysNoMore:
    @pytest.mark.parametrize(
        ("text", "than", "no_more"),
        [
            ("I live in Porto.", "I live in Porto.", True),
            ("I live in Porto", "i  LIVE in Porto with my sister!", True),
            ("I live in Porto", "I live in Portobello", False),
            ("I live in Porto with my sister", "I live in Porto", False),
            ("I like tea", "I like tea no more", False),
            ("I like tea", "I like tea, but not at night", False),
            ("I like tea", "My sister says I like tea", False),
            ("The train leaves at 5", "The train leaves at 5:30 when it rains", False),
        ],
    )
    def test_what_begins_a_longer_statement_adds_nothing(self, text: str, than: str, no_more: bool):
        """Unless the longer one goes on to take it back."""
        assert is_contained(normalised(text), normalised(than)) == no_more


class TestEstimateTokens:
    @pytest.mark.parametrize(
        ("text", "tokens"),
        [
            ("", 0),
            ("tea", 1),
            ("I am allergic to peanuts.", 8),
            ("2026-11-20", 6),
            ("a\nb", 3),
            ('"tea." (x)\n', 6),
            ("日本語", 6),
            ("привет", 6),
            ("🙂", 3),
        ],
    )
    def test_the_estimate_is_on_the_safe_side(self, text: str, tokens: int):
        """The table holds at least what large byte-pair vocabularies need."""
        assert estimate_tokens(text) == tokens

    @given(st.text(), st.text())
    def test_lines_add_up(self, one: str, two: str):
        """A block is as long as its lines, each with its line break."""
        assert estimate_tokens(f"{one}\n{two}") == estimate_tokens(f"{one}\n") + estimate_tokens(two)


class TestFit:
    @given(
        st.lists(st.tuples(st.text(max_size=60), st.sampled_from(["semantic", "episodic"])), max_size=12),
        st.integers(0, 120) | st.none(),
        st.integers(0, 300) | st.none(),
        st.integers(0, 5) | st.none(),
        st.integers(0, 5) | st.none(),
    )
    def test_no_bound_is_ever_passed(
        self,
        rows: list[tuple[str, Kind]],
        tokens: int | None,
        characters: int | None,
        facts: int | None,
        episodes: int | None,
    ):
        """Whatever is chosen, the block keeps to every bound, in the order given, each statement once."""
        candidates = [recalled(text.replace("\n", " "), kind) for text, kind in rows]

        chosen = fit(
            candidates,
            said,
            frame=FRAME,
            budget_tokens=tokens,
            max_chars=characters,
            max_facts=facts,
            max_episodes=episodes,
        )

        if chosen:
            assert tokens is None or estimate_tokens(rendered(chosen)) <= tokens
            assert characters is None or len(rendered(chosen)) <= characters
        kinds = [one.memory.kind for one in chosen]
        assert facts is None or kinds.count("semantic") <= facts
        assert episodes is None or kinds.count("episodic") <= episodes
        places = [next(i for i, each in enumerate(candidates) if each is one) for one in chosen]
        assert places == sorted(set(places))

    def test_a_shorter_one_after_one_that_does_not_fit_is_taken(self):
        """A statement is never cut; the next one may fit."""
        long, short = recalled("long " * 100), recalled("short")

        assert fit([long, short], said, max_chars=60) == [short]

    def test_the_same_statement_takes_one_place(self):
        """Case, spacing and a full stop make no difference."""
        chosen = fit([recalled("I drink tea."), recalled("i  drink TEA"), recalled("I drink rum")], said, max_facts=2)

        assert [one.memory.text for one in chosen] == ["I drink tea.", "I drink rum"]

    def test_it_reads_no_further_than_it_must(self):
        """Once nothing more can be taken, no candidate is asked for."""

        def endless():
            number = 0
            while True:
                number += 1
                yield recalled(f"fact {number} " + "x" * 50)

        assert len(fit(endless(), said, budget_tokens=100)) > 3

    @pytest.mark.parametrize("name", ["budget_tokens", "max_chars", "max_facts", "max_episodes"])
    def test_a_negative_bound_is_refused(self, name: str):
        """The error names the bound."""
        bounds: dict[str, Any] = {name: -1}

        with pytest.raises(InvalidInputError, match=name):
            fit([], said, **bounds)
