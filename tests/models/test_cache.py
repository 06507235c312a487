"""Recent vectors, bounded in bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from threadkeep.models.embedding import ENTRY_OVERHEAD_BYTES, MAX_QUESTIONS, VectorCache

DIMS = 4
ENTRY_BYTES = ENTRY_OVERHEAD_BYTES + 4 * DIMS + 4


class Source:
    """Gives a vector for each text and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        self.asked += texts
        return [np.full(DIMS, len(text), dtype=np.float32) for text in texts]


class TestGet:
    def test_what_was_put_is_found(self):
        """As it was when it was put, whatever happens to the original."""
        cache, vector = VectorCache(max_bytes=10_000), np.ones(DIMS, dtype=np.float32)

        cache.put("a", vector)
        vector[:] = 7
        found = cache.get("a")

        assert found is not None
        assert found.tolist() == [1] * DIMS

    def test_what_was_asked_for_longest_ago_goes_first(self):
        """Room for two: the one that was asked for again stays."""
        cache = VectorCache(max_bytes=2 * ENTRY_BYTES)

        for text in ("a", "b"):
            cache.put(text, np.ones(DIMS, dtype=np.float32))
        cache.get("a")
        cache.put("c", np.ones(DIMS, dtype=np.float32))

        assert [cache.get(text) is not None for text in "abc"] == [True, False, True]

    def test_a_document_is_not_kept(self):
        """Only texts as short as questions are."""
        cache = VectorCache(max_bytes=1_000_000, max_characters=10)

        cache.put("x" * 11, np.ones(DIMS, dtype=np.float32))

        assert cache.bytes == 0

    @given(st.lists(st.text(max_size=20)))
    def test_its_bound_holds(self, texts: list[str]):
        """Whatever is put, and however often."""
        cache = VectorCache(max_bytes=3 * ENTRY_BYTES)

        for text in texts:
            cache.put(text, np.ones(DIMS, dtype=np.float32))

        assert 0 <= cache.bytes <= 3 * ENTRY_BYTES


class TestEmbed:
    async def test_a_question_is_asked_once(self):
        """The second time its vector is known."""
        cache, source = VectorCache(max_bytes=10_000), Source()

        await cache.embed(["who", "who", "am I"], source)
        again = await cache.embed(["am I", "who"], source)

        assert (source.asked, again[:, 0].tolist()) == (["who", "am I"], [4, 3])

    async def test_many_texts_leave_the_questions_where_they_are(self):
        """A thousand documents would push every question out."""
        cache, source = VectorCache(max_bytes=10_000), Source()

        await cache.embed([f"document {number}" for number in range(MAX_QUESTIONS + 1)], source)

        assert cache.bytes == 0
