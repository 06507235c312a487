"""Texts, values, moments and cursors as they are stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.storage.encoding import (
    MAX_VALUE_DEPTH,
    Cursor,
    check_limit,
    decode_cursor,
    decode_namespace,
    decode_text,
    encode_cursor,
    encode_namespace,
    encode_text,
    encode_value,
    from_micros,
    prefix_range,
    to_micros,
    ttl_to_micros,
)
from threadkeep.testing.texts import NASTY_TEXTS

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=6) | st.sampled_from(NASTY_TEXTS)
LABELS = st.lists(st.sampled_from(["a", "ab", "", ",", '"', "]", "\0", "\ud800"]) | ANY_TEXT, max_size=4).map(tuple)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)


def joined(text: str) -> str:
    """Return *text* with the halves of surrogate pairs made the characters that they spell."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def deep(value: Any) -> Any:
    """Return a JSON *value* with every text joined."""
    if isinstance(value, str):
        return joined(value)
    if isinstance(value, list):
        return [deep(inner) for inner in value]
    return {joined(key): deep(inner) for key, inner in value.items()} if isinstance(value, dict) else value


class TestEncodeText:
    @given(ANY_TEXT)
    def test_any_text_survives(self, text: str) -> None:
        """A text is ASCII when it is stored and itself when it is read."""
        stored = encode_text(text)

        assert stored.isascii()
        assert stored.isprintable()
        assert decode_text(stored) == joined(text)

    @given(ANY_TEXT, ANY_TEXT)
    def test_different_texts_stay_different(self, one: str, other: str) -> None:
        """No two texts are stored alike."""
        assert (encode_text(one) == encode_text(other)) == (joined(one) == joined(other))


class TestEncodeNamespace:
    @given(LABELS, LABELS)
    def test_different_namespaces_stay_different(self, one: tuple[str, ...], other: tuple[str, ...]) -> None:
        """Where a label ends is part of what is stored."""
        assert decode_namespace(encode_namespace(one)) == tuple(map(joined, one))
        assert (encode_namespace(one) == encode_namespace(other)) == (
            tuple(map(joined, one)) == tuple(map(joined, other))
        )

    @given(LABELS, LABELS)
    def test_a_range_holds_what_begins_with_the_labels(self, prefix: tuple[str, ...], rest: tuple[str, ...]) -> None:
        """Everything below a prefix is in its range, and itself."""
        first, last = prefix_range(prefix)

        assert first <= encode_namespace(prefix) <= last
        assert first <= encode_namespace(prefix + rest) <= last

    @given(LABELS, LABELS)
    def test_a_range_holds_nothing_else(self, prefix: tuple[str, ...], namespace: tuple[str, ...]) -> None:
        """A namespace is in the range if, and only if, it begins with the very labels."""
        first, last = prefix_range(prefix)

        inside = first <= encode_namespace(namespace) <= last

        labels, beginning = tuple(map(joined, namespace)), tuple(map(joined, prefix))
        assert inside == (labels[: len(beginning)] == beginning)


class TestEncodeValue:
    @given(st.dictionaries(ANY_TEXT, JSON, max_size=3))
    def test_any_json_survives(self, value: dict[str, Any]) -> None:
        """A value is ASCII when it is stored and itself when it is read."""
        stored = encode_value(value)

        assert stored.isascii()
        assert repr(decode_namespace(f"[{stored}]")[0]) == repr(deep(value))

    @pytest.mark.slow
    def test_a_small_value_that_is_large_when_written_out_is_refused(self) -> None:
        """A list that stands in itself forty times over would be a terabyte of JSON; it is refused in time."""
        value: Any = []
        for _ in range(40):
            value = [value, value]

        with pytest.raises(TooLargeError):
            encode_value({"": value})

    def test_depth_is_counted(self) -> None:
        """The deepest value that is let in can be read with room to spare on the stack."""
        value: Any = []
        for _ in range(MAX_VALUE_DEPTH - 2):
            value = (value,)

        assert encode_value({"": value})
        with pytest.raises(InvalidInputError, match="200 levels"):
            encode_value({"": [value]})


class TestMicros:
    @given(st.datetimes(timezones=st.just(UTC)))
    def test_a_moment_survives_to_the_microsecond(self, moment: datetime) -> None:
        """Before 1970, too."""
        assert from_micros(to_micros(moment)) == moment

    def test_a_moment_of_another_zone_is_the_same_moment(self) -> None:
        """What is stored knows no zones."""
        moment = datetime(2025, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))

        assert from_micros(to_micros(moment)) == datetime(2025, 1, 1, tzinfo=UTC)
        assert from_micros(to_micros(moment)).tzinfo is UTC

    @pytest.mark.parametrize("moment", [datetime(2025, 1, 1), "2025-01-01", None, 0])  # noqa: DTZ001 - refused
    def test_a_moment_without_a_zone_is_refused(self, moment: Any) -> None:
        """Which moment it is cannot be told."""
        with pytest.raises(InvalidInputError):
            to_micros(moment)

    @pytest.mark.parametrize("ttl", [timedelta(0), timedelta(seconds=-1), 5, timedelta.max])
    def test_a_ttl_is_a_positive_duration(self, ttl: Any) -> None:
        """Neither nothing, nor less, nor a number whose unit nobody knows."""
        with pytest.raises(InvalidInputError):
            ttl_to_micros(ttl)


class TestCursor:
    @given(st.builds(Cursor, st.integers(), st.integers(), ANY_TEXT, ANY_TEXT.map(encode_text)))
    def test_a_cursor_survives(self, cursor: Cursor) -> None:
        """It is a text that says exactly where a page ended."""
        assert decode_cursor(encode_cursor(cursor)) == cursor._replace(namespace=joined(cursor.namespace))

    @given(ANY_TEXT)
    def test_any_other_text_is_refused(self, text: str) -> None:
        """Nothing but a cursor is taken for one."""
        with pytest.raises(InvalidInputError):
            decode_cursor(text)

    @pytest.mark.parametrize("number", [-1, 1.0, None, "1"])
    def test_a_limit_is_a_whole_number(self, number: Any) -> None:
        """From 0 on."""
        with pytest.raises(InvalidInputError, match="limit"):
            check_limit(number, name="limit")
