"""A batch made ready to be kept."""

from __future__ import annotations

import pytest

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.storage.port import MAX_BATCH_BYTES, Batch, Embedding, Partition, Put
from threadkeep.storage.row import encoded

ANA = Partition("owner", ("", "ana"))


class TestEncoded:
    def test_a_batch_has_a_size_in_all(self) -> None:
        """Each part is within its limit, and together they are too large."""
        vectors = Embedding("m", 1024, bytes(MAX_BATCH_BYTES // 8))
        puts = [Put(("a",), f"{number}", {}, embedding=vectors) for number in range(8)]

        with pytest.raises(TooLargeError, match="Commit it in parts"):
            encoded(Batch(ANA, puts))
        assert len(encoded(Batch(ANA, puts[1:]))) == 7

    def test_keys_that_spell_one_character_are_one_item(self) -> None:
        """The halves of a surrogate pair are the character: two operations on it are one too many."""
        with pytest.raises(InvalidInputError, match="two operations"):
            encoded(Batch(ANA, [Put((), "\ud83e\udd9c", {}), Put((), "🦜", {})]))

    def test_something_else_is_no_operation(self) -> None:
        """A sentence says what there is."""
        with pytest.raises(InvalidInputError, match="Put, a Delete or a Touch"):
            encoded(Batch(ANA, ["put"]))  # type: ignore[list-item]
