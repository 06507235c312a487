"""Which values meet a filter: numbers as numbers, texts as texts, before anything is counted."""

from __future__ import annotations

from typing import Any

from threadkeep_conformance.check import check, refused, same
from threadkeep_conformance.world import TEXT, World

OPERATORS = "BaseStore.search: $eq, $ne, $gt, $gte, $lt, $lte"


async def _filled(world: World, **values: dict[str, Any]) -> None:
    await world.fill(values)


@check("filters.equal", source="BaseStore.search: “Key-value pairs to filter results”")
async def a_value_is_equal(world: World) -> None:
    """A filter on a field finds the values that are equal to it: texts, numbers, true, lists."""
    await _filled(world, text={"f": "x"}, number={"f": 1.5}, true={"f": True}, list={"f": ["a", "b"]})
    for wanted, key in (("x", "text"), (1.5, "number"), (True, "true"), (["a", "b"], "list")):
        same(await world.found(filter={"f": wanted}), {key}, f"what is found for {wanted!r}")


@check("filters.numbers", source="langgraph#7684: PostgresStore compares numbers as texts")
async def numbers_are_compared_as_numbers(world: World) -> None:
    """Numbers are compared as numbers: 10 is greater than 9."""
    await _filled(world, a={"n": 8.5}, b={"n": 9}, c={"n": 10}, d={"n": 100})
    same(await world.found(filter={"n": {"$gt": 9}}), {"c", "d"}, "n > 9")
    same(await world.found(filter={"n": {"$lte": 9}}), {"a", "b"}, "n ≤ 9")


@check("filters.dates", source="measured: InMemoryStore calls float() on both")
async def texts_are_compared_as_texts(world: World) -> None:
    """ISO dates are compared as text."""
    await _filled(world, a={"at": "2024-12-31"}, b={"at": "2025-01-01"}, c={"at": "2025-06-30T12:00:00Z"})
    same(await world.found(filter={"at": {"$gte": "2025-01-01"}}), {"b", "c"}, "at ≥ 2025-01-01")


@check("filters.range", source=OPERATORS)
async def operators_of_one_field_all_hold(world: World) -> None:
    """Several operators on one field must all hold."""
    await _filled(world, **{f"k{number}": {"n": number} for number in range(7)})
    same(await world.found(filter={"n": {"$gte": 2, "$lt": 5}}), {"k2", "k3", "k4"}, "2 ≤ n < 5")


@check("filters.all", source="BaseStore.search: all pairs must match")
async def conditions_all_hold(world: World) -> None:
    """Conditions on several fields must all hold."""
    await _filled(world, a={"x": 1, "y": 1}, b={"x": 1, "y": 2}, c={"y": 1})
    same(await world.found(filter={"x": 1, "y": {"$ne": 2}}), {"a"}, "x = 1 and y ≠ 2")


@check("filters.missing", source="measured: InMemoryStore raises TypeError")
async def a_missing_field_is_never_greater(world: World) -> None:
    """A missing or null field does not match a comparison, and is not an error."""
    await _filled(world, missing={}, null={"n": None}, there={"n": 5})
    same(await world.found(filter={"n": {"$gt": 1}}), {"there"}, "n > 1")
    same(await world.found(filter={"n": {"$lt": 9}}), {"there"}, "n < 9")


@check("filters.null", source="InMemoryStore and SqliteStore; PostgresStore finds neither")
async def none_matches_what_is_missing(world: World) -> None:
    """``{"f": None}`` and ``{"f": {"$eq": None}}`` match null and missing fields."""
    await _filled(world, missing={}, null={"n": None}, there={"n": 5})
    same(await world.found(filter={"n": None}), {"missing", "null"}, "n is None")
    same(await world.found(filter={"n": {"$eq": None}}), {"missing", "null"}, "n equals None")


@check("filters.not-equal", source="InMemoryStore: != of what get() gives; SQL's NULL is neither")
async def what_is_missing_is_not_equal(world: World) -> None:
    """``$ne`` matches other values and missing fields."""
    await _filled(world, missing={}, same={"n": 5}, other={"n": 6})
    same(await world.found(filter={"n": {"$ne": 5}}), {"missing", "other"}, "n ≠ 5")


@check("filters.nested", source="InMemoryStore; PostgresStore takes the field for an operator")
async def an_object_is_met_by_its_fields(world: World) -> None:
    """``{"m": {"x": 1}}`` matches objects that contain the field with an equal value."""
    await _filled(world, a={"m": {"x": 1, "y": 2}}, b={"m": {"x": 2}}, c={"m": 1}, d={})
    same(await world.found(filter={"m": {"x": 1}}), {"a"}, "m.x = 1")


@check("filters.dots", source="InMemoryStore and PostgresStore; SqliteStore takes it for a path")
async def a_name_with_a_dot_is_a_name(world: World) -> None:
    """A field with a period in its name is found by its name."""
    await _filled(world, a={"a.b": 1}, b={"a.b": 2})
    same(await world.found(filter={"a.b": 1}), {"a"}, "“a.b” = 1")


@check("filters.quotes", source="langgraph GHSA: filter keys were pasted into SQL")
async def a_name_with_quotes_is_a_name(world: World) -> None:
    """Quotes and brackets in a field's name are plain characters."""
    for name in ("it's", '"q"', "a]", "x') OR ('1'='1"):
        await world.put("k", {name: 1}, "q")
        await world.put("other", {"n": 1}, "q")
        same(await world.found("q", filter={name: 1}), {"k"}, f"{name} = 1")
        same(await world.found("q", filter={name: 2}), set(), f"{name} = 2")


@check("filters.booleans", source="JSON: true is no number; Python alone takes it for 1")
async def true_is_not_one(world: World) -> None:
    """``True`` does not match 1, and 1 does not match ``True``."""
    await _filled(world, number={"f": 1}, truth={"f": True})
    same(await world.found(filter={"f": True}), {"truth"}, "f is true")
    same(await world.found(filter={"f": 1}), {"number"}, "f = 1")


@check("filters.kinds", source="JSON: a text is no number")
async def a_text_is_no_number(world: World) -> None:
    """The text ``"10"`` does not match the number 10; 10 matches 10.0."""
    await _filled(world, text={"f": "10"}, number={"f": 10})
    same(await world.found(filter={"f": 10}), {"number"}, "f = 10")
    same(await world.found(filter={"f": 10.0}), {"number"}, "f = 10.0")
    same(await world.found(filter={"f": "10"}), {"text"}, "f = “10”")


@check("filters.lists", source="InMemoryStore and PostgresStore; AsyncRedisStore takes a list for alternatives")
async def a_list_is_equal_as_a_whole(world: World) -> None:
    """A list matches an equal list, not its elements or longer lists."""
    await _filled(world, same={"f": ["a", "b"]}, more={"f": ["a", "b", "c"]}, one={"f": "a"})
    same(await world.found(filter={"f": ["a", "b"]}), {"same"}, "f = [a, b]")


@check("filters.unknown", source="InMemoryStore and PostgresStore: ValueError")
async def an_unknown_operator_is_refused(world: World) -> None:
    """An unknown operator is refused."""
    await world.put("k", {"n": 1})
    await refused(world.search(filter={"n": {"$between": [0, 2]}}), "the operator $between")


@check("filters.joined", source="langgraph#8829: InMemoryStore silently finds nothing")
async def or_is_no_silence(world: World) -> None:
    """``$or`` and ``$and`` work or are refused; they do not match nothing silently."""
    await world.put("k", {"n": 1})
    for joined in ({"$or": [{"n": 1}, {"n": 2}]}, {"$and": [{"n": 1}]}):
        try:
            found = await world.found(filter=joined)
        except Exception:  # noqa: BLE001 - refusing it is right, however it is said
            found = {"k"}
        same(found, {"k"}, f"what is found for {joined}")


@check("filters.before-limit", source="measured: AsyncRedisStore filters what is left after the limit")
async def the_filter_comes_before_the_limit(world: World) -> None:
    """The filter applies before the limit."""
    await world.fill({f"k{number}": {"n": number} for number in range(30)})
    for number in (0, 14, 29):
        same(await world.found(filter={"n": number}, limit=2), {f"k{number}"}, f"n = {number}, limit 2")


@check("filters.before-offset", source="measured: AsyncRedisStore filters what is left after the offset")
async def the_filter_comes_before_the_offset(world: World) -> None:
    """The filter applies before the offset."""
    await world.fill({f"k{number:02}": {"odd": number % 2} for number in range(20)})
    pages = [await world.found(filter={"odd": 1}, limit=4, offset=offset) for offset in (0, 4, 8)]
    same([len(page) for page in pages], [4, 4, 2], "the sizes of the pages")
    same(len(set[str]().union(*pages)), 10, "the items of all pages")


@check("filters.by-meaning", source="BaseStore.search: filter and query together", options=TEXT)
async def the_filter_holds_with_a_query(world: World) -> None:
    """With a query, the filter applies before the limit."""
    await world.fill({f"k{number}": {"text": f"likes tea number {number}", "n": number} for number in range(30)})
    found = await world.search(query="likes tea", filter={"n": {"$gte": 28}}, limit=5)
    same({item.key for item in found}, {"k28", "k29"}, "n ≥ 28")
