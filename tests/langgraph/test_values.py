"""What may be stored as a value."""

from __future__ import annotations

import enum
import json
from collections import UserDict
from datetime import UTC, datetime
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.storage.encoding import json_copy

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.dictionaries(
    st.text(),
    st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6),
    max_size=4,
)


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class TestJsonCopy:
    @settings(max_examples=25)
    @given(values)
    def test_json_is_copied_as_it_is(self, value: dict[str, Any]):
        """Any JSON object comes out equal, and spelled the same."""
        copy = json_copy(value)

        assert copy == value
        assert json.dumps(copy) == json.dumps(value)

    def test_nothing_is_shared(self):
        """What the caller changes later is not stored."""
        value = {"a": {"b": [1]}}

        copy = json_copy(value)
        value["a"]["b"].append(2)

        assert copy == {"a": {"b": [1]}}

    def test_subclasses_become_what_they_are_made_of(self):
        """Enumerations, tuples and other mappings are plain JSON afterwards."""
        copy = json_copy(UserDict({Colour.RED: Colour.RED, "level": Level.HIGH, "pair": (1, UserDict({"x": 1}))}))

        assert copy == {"red": "red", "level": 3, "pair": [1, {"x": 1}]}
        assert [type(part) for part in (*copy, copy["red"], copy["level"])] == [str, str, str, str, int]

    @pytest.mark.parametrize(
        ("value", "place"),
        [
            ({"a": {"b": [0, datetime(2026, 1, 1, tzinfo=UTC)]}}, "value.a.b[1] is datetime"),
            ({"a": {1, 2}}, "value.a is set"),
            ({"a": b"x"}, "value.a is bytes"),
            ({"a": float("nan")}, "value.a is not a finite number"),
            ({"a": [float("inf")]}, "value.a[0] is not a finite number"),
            ({"a": {1: "x"}}, "value.a has a key that is int"),
            ({"a": np.float32(1)}, "value.a is float32"),
            ({"a": object()}, "value.a is object"),
        ],
    )
    def test_the_place_of_what_is_no_json_is_named(self, value: dict[str, Any], place: str):
        """One sentence says where it stands and what it is."""
        with pytest.raises(InvalidInputError) as caught:
            json_copy(value)

        assert str(caught.value).startswith(place)

    @pytest.mark.parametrize("value", [[1], "text", 7, {1: 2}])
    def test_only_a_mapping_with_text_keys_is_a_value(self, value: Any):
        """A list, a text or a number is refused."""
        with pytest.raises(InvalidInputError):
            json_copy(value)

    def test_a_value_that_holds_itself_is_refused(self):
        """Endless nesting ends in a sentence."""
        value: dict[str, Any] = {}
        value["self"] = value

        with pytest.raises(InvalidInputError, match="nested deeper"):
            json_copy(value)

    def test_a_value_that_holds_one_list_very_often_is_refused(self, monkeypatch: pytest.MonkeyPatch):
        """What is small in memory and endless as JSON ends in a sentence, too."""
        monkeypatch.setattr("threadkeep.storage.encoding.MAX_VALUE_BYTES", 10_000)
        part: list[Any] = []
        for _ in range(60):
            part = [part, part]

        with pytest.raises(TooLargeError):
            json_copy({"a": part})
