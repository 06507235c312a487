"""Filters and conditions on namespaces."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.errors import InvalidInputError
from threadkeep.storage.encoding import OPERATORS, check_filter, matches, namespace_matches
from threadkeep.storage.interface import NamespaceMatch

SCALARS: list[Any] = [None, True, False, 0, 1, 2, 1.0, 1.5, -1, "", "1", "2025-01-31", "2025-02-01", "a"]
VALUES = st.sampled_from([*SCALARS, [], [1], [True], {}, {"x": 1}, {"x": True}, {"x": 1, "y": None}])


def kind(value: Any) -> str:
    """Return what JSON calls *value*."""
    names = {bool: "boolean", int: "number", float: "number", str: "text", list: "list", dict: "object"}
    return names.get(type(value), "null")


def same(one: Any, other: Any) -> bool:
    """Compare as JSON, the slow way."""
    if kind(one) != kind(other):
        return False
    if kind(one) == "list":
        return len(one) == len(other) and all(same(one[at], other[at]) for at in range(len(one)))
    if kind(one) == "object":
        return sorted(one) == sorted(other) and all(same(one[name], other[name]) for name in one)
    return one == other


def oracle(stored: Any, operator: str, operand: Any) -> bool:
    """Say what an operator comes to, by the table in the module's docstring."""
    if operator == "$eq":
        return same(stored, operand)
    if operator == "$ne":
        return not same(stored, operand)
    if kind(stored) != kind(operand) or kind(stored) not in ("number", "text"):
        return False
    if stored == operand:
        return operator in ("$gte", "$lte")
    return (operator in ("$gt", "$gte")) == (max(stored, operand) == stored)


class TestMatches:
    @given(VALUES, st.sampled_from(OPERATORS), VALUES)
    def test_operators_compare_as_json(self, stored: Any, operator: str, operand: Any) -> None:
        """Numbers with numbers, texts with texts, and a flag is no number."""
        assert matches({"f": stored}, {"f": {operator: operand}}) == oracle(stored, operator, operand)

    @given(VALUES, VALUES)
    def test_a_plain_condition_is_equality(self, stored: Any, wanted: Any) -> None:
        """But for an object, whose fields are conditions."""
        if kind(wanted) != "object":
            assert matches({"f": stored}, {"f": wanted}) == same(stored, wanted)

    @given(st.dictionaries(st.sampled_from("fg"), VALUES), st.sampled_from(OPERATORS[2:]), VALUES)
    def test_all_conditions_must_hold(self, value: dict[str, Any], operator: str, operand: Any) -> None:
        """Of several fields, and of several operators on one."""
        conditions: list[dict[str, Any]] = [{"f": {operator: operand}}, {"g": {"$lt": 2}}, {"f": {"$ne": 1}}]

        both = matches(value, {"f": {operator: operand, "$ne": 1}, "g": {"$lt": 2}})

        assert both == all(matches(value, condition) for condition in conditions)

    @given(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), VALUES)
    def test_a_missing_field_is_not_in_order(self, operator: str, operand: Any) -> None:
        """It has no value to compare, null included."""
        assert not matches({}, {"f": {operator: operand}})

    @given(st.sampled_from(["$eq", "$ne"]), VALUES)
    def test_a_missing_field_equals_what_null_equals(self, operator: str, operand: Any) -> None:
        """As in LangGraph's InMemoryStore."""
        assert matches({}, {"f": {operator: operand}}) == matches({"f": None}, {"f": {operator: operand}})

    @pytest.mark.parametrize(
        ("condition", "missing", "null"),
        [
            (None, True, True),
            ({"$eq": None}, True, True),
            ({"$eq": 1}, False, False),
            ({"$ne": None}, False, False),
            ({"$ne": 1}, True, True),
            ({"x": None}, False, False),
            ({}, False, False),
            (0, False, False),
            ("", False, False),
        ],
    )
    def test_a_missing_field_and_null(self, condition: Any, missing: bool, null: bool) -> None:
        """``None`` and ``{"$eq": None}`` ask for null or nothing, ``{"$ne": None}`` for something."""
        assert matches({}, {"f": condition}) is missing
        assert matches({"f": None}, {"f": condition}) is null

    @pytest.mark.parametrize(
        ("value", "filters", "met"),
        [
            ({"f": {"x": 1, "y": 2}}, {"f": {"x": 1}}, True),
            ({"f": {"x": 1, "y": 2}}, {"f": {"x": {"$gt": 1}}}, False),
            ({"f": {"x": {"y": 5}}}, {"f": {"x": {"y": {"$gte": 5}}}}, True),
            ({"f": {"x": 1, "y": 2}}, {"f": {"$eq": {"x": 1}}}, False),
            ({"f": {"x": 1}}, {"f": {"z": None}}, True),
            ({"f": [1, 2]}, {"f": [1]}, False),
            ({"f": [1, 2]}, {"f": (1, 2)}, True),
            ({"f": [1, 2]}, {"f": 1}, False),
            ({"f": "2025-01-31T10:00:00+00:00"}, {"f": {"$gte": "2025-01-31", "$lt": "2025-02"}}, True),
            ({"f": 10}, {"f": {"$gt": 9}}, True),
            ({"f": "10"}, {"f": {"$gt": "9"}}, False),
            ({"f": "10"}, {"f": {"$gt": 9}}, False),
            ({"f": 2**70}, {"f": {"$gt": 2**69}}, True),
            ({"f": True}, {"f": {"$gte": 0}}, False),
            ({"$x": 1}, {"$x": 1}, True),
            ({"anything": 1}, {}, True),
        ],
    )
    def test_it_is_met_or_not(self, value: dict[str, Any], filters: dict[str, Any], met: bool) -> None:
        """One row of the table, each."""
        assert matches(value, filters) is met

    def test_a_name_is_literal_first(self) -> None:
        """Its dots lead into objects only where no field is called so."""
        assert matches({"a.b": 1, "a": {"b": 2}}, {"a.b": 1})
        assert not matches({"a.b": 1, "a": {"b": 2}}, {"a.b": 2})
        assert matches({"a": {"b": 2}}, {"a.b": 2})
        assert not matches({"a": 2}, {"a.b": 2})

    @pytest.mark.parametrize(
        "bad",
        [
            {"f": {"$near": 1}},
            {"f": {"$gt": 1, "x": 2}},
            {"f": {"x": {"$regex": "a"}}},
            {"f": {"$": 1}},
            {"f": {1: 2}},
            {1: 2},
            "f",
            [("f", 1)],
        ],
    )
    def test_what_is_no_filter_is_refused(self, bad: Any) -> None:
        """An empty value refuses it, too, so that a mistake shows before there is data."""
        with pytest.raises(InvalidInputError):
            matches({}, bad)

    def test_unknown_operator_names_the_known_ones(self) -> None:
        """The sentence names them all."""
        with pytest.raises(InvalidInputError, match=r"\$near.*\$eq, \$ne, \$gt, \$gte, \$lt, \$lte"):
            check_filter({"f": {"$near": 1}})

    def test_a_filter_without_end_is_refused(self) -> None:
        """One that holds itself, for one."""
        endless: dict[str, Any] = {}
        endless["f"] = endless

        with pytest.raises(InvalidInputError, match="nested"):
            check_filter(endless)


LABELS = st.lists(st.sampled_from(["a", "b", "*", ""]), max_size=4).map(tuple)


class TestNamespaceMatches:
    @given(LABELS, LABELS, st.sampled_from(["prefix", "suffix"]))
    def test_beginning_or_end(self, namespace: tuple[str, ...], path: tuple[str, ...], where: Any) -> None:
        """Label by label from the one side or the other; ``*`` is any one label."""
        ours, wanted = (namespace, path) if where == "prefix" else (namespace[::-1], path[::-1])

        met = namespace_matches(namespace, [NamespaceMatch(where, path)])

        assert met == (len(path) <= len(ours) and all(w in ("*", ours[at]) for at, w in enumerate(wanted)))

    def test_every_condition_must_hold(self) -> None:
        """None at all is met by everything."""
        begins, ends = NamespaceMatch("prefix", ("a",)), NamespaceMatch("suffix", ("b",))

        assert namespace_matches(("a", "b"), [begins, ends])
        assert not namespace_matches(("a", "c"), [begins, ends])
        assert namespace_matches((), [])
