"""A batch made ready to be kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.storage.interface import MAX_BATCH_BYTES, Batch, Embedding, Partition, Put
from threadkeep.storage.rows import NEVER, ItemRow, LazyItems, encode_batch, read_columns

ANA = Partition("owner", ("", "ana"))


NOW = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)


def rows_of(*puts: Put) -> list[ItemRow]:
    """Make the rows that a storage would keep of *puts*."""
    rows: list[ItemRow] = []
    for revision, change in enumerate(encode_batch(Batch(ANA, puts)).changes, 1):
        assert change.content is not None
        fields = change.content._asdict()
        now = int(NOW.timestamp()) * 1_000_000 + NOW.microsecond + revision
        fields.update(created_at=fields["created_at"] or now, updated_at=now, revision=revision)
        rows.append(ItemRow(namespace=change.row_key[0], key=change.row_key[1], **fields))
    return rows


class TestFields:
    def test_rows_have_the_fields_of_their_items(self) -> None:
        """Whoever reads fields sees what the items hold, whether the rows are alike or not."""
        alike = [
            Put(("memories", "ana"), f"{number}", {"data": f"tea {number}"}, index=("data",)) for number in range(300)
        ]
        vectors = Embedding("m", 2, bytes(8))
        unlike = [
            Put((), 'quotes " and \\ and 🦜', {"n": 1.5, "deep": {"list": [None]}}, index=("n", "deep.list[0]")),
            Put(("a",), "vectors", {}, index=("$",), embedding=vectors, created_at=NOW - timedelta(days=9)),
            Put(("a",), "expires", {}, index=("$",), ttl=timedelta(days=1), expires_at=NOW + timedelta(days=1)),
        ]
        for puts in (alike, alike + unlike, unlike[:1]):
            items = LazyItems(rows_of(*puts), ANA)
            parts, made = list(items.columns()), list(read_columns(tuple(items)))

            assert [[*map(list, part[:2])] for part in parts] == [[*map(list, part[:2])] for part in made]
            assert [[*map(list, part[3:])] for part in parts] == [[*map(list, part[3:])] for part in made]
            assert all([json.loads(text) for text in part.texts or ()] == part.values for part in parts)
        assert made[0].expires_at == [NEVER]

    def test_what_can_be_read_by_fields_makes_no_item(self) -> None:
        """The fields come from the rows themselves, some hundred at a time."""
        items = LazyItems(rows_of(*(Put(("a",), f"{number}", {}, index=("$",)) for number in range(600))), ANA)

        parts = list(read_columns(items))

        assert sum(len(part.names) for part in parts) == 600
        assert all(part.texts is not None for part in parts)
        assert len(parts) > 1


class TestEncoded:
    def test_a_batch_has_a_size_in_all(self) -> None:
        """Each part is within its limit, and together they are too large."""
        vectors = Embedding("m", 1024, bytes(MAX_BATCH_BYTES // 8))
        puts = [Put(("a",), f"{number}", {}, embedding=vectors) for number in range(8)]

        with pytest.raises(TooLargeError, match="Commit it in parts"):
            encode_batch(Batch(ANA, puts))
        assert len(encode_batch(Batch(ANA, puts[1:])).changes) == 7

    def test_keys_that_spell_one_character_are_one_item(self) -> None:
        """The halves of a surrogate pair are the character: two operations on it are one too many."""
        with pytest.raises(InvalidInputError, match="two operations"):
            encode_batch(Batch(ANA, [Put((), "\ud83e\udd9c", {}), Put((), "🦜", {})]))

    def test_something_else_is_no_operation(self) -> None:
        """A sentence says what there is."""
        with pytest.raises(InvalidInputError, match="Put, a Delete or a Touch"):
            encode_batch(Batch(ANA, ["put"]))  # type: ignore[list-item]
