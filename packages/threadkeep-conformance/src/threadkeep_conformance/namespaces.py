"""Where an item is: labels, and what lies below them."""

from __future__ import annotations

from typing import Any, Final

from langgraph.store.base import PutOp

from threadkeep_conformance.check import check, refused, same
from threadkeep_conformance.world import TEXT, World

LABELS: Final = ("a/b", "a:b", "a|b", "a b", "a\nb", "a_b", "%", "*", "日本語", "user@host", '"q"', "-", "x" * 1000)


@check("namespaces.whole-labels", source="measured: AsyncRedisStore lets user1 read user10")
async def labels_match_whole(world: World) -> None:
    """A search below ``user1`` does not find items below ``user10``."""
    await world.put("mine", {"n": 1}, "user1")
    await world.put("theirs", {"n": 1}, "user10")
    await world.put("deeper", {"n": 1}, "user1", "notes")
    same(await world.found("user1"), {"mine", "deeper"}, "what is found below user1")


@check("namespaces.whole-labels-by-meaning", source="measured: AsyncRedisStore, with a query", options=TEXT)
async def labels_match_whole_by_meaning(world: World) -> None:
    """A search with a query below ``user1`` does not find items below ``user10``."""
    await world.put("mine", {"text": "likes green tea"}, "user1")
    await world.put("theirs", {"text": "likes green tea"}, "user10")
    same(await world.found("user1", query="green tea"), {"mine"}, "what is found below user1")


@check("namespaces.case", source="measured: RediSearch folds the case of a text field")
async def case_matters(world: World) -> None:
    """Labels are case-sensitive."""
    await world.put("k", {"n": 1}, "Ana")
    await world.put("k", {"n": 2}, "ana")
    same((await world.require("k", "Ana")).value, {"n": 1}, "the item of Ana")
    same([item.value for item in await world.search("ana")], [{"n": 2}], "what is found below ana")


@check("namespaces.wildcards", source="BaseStore.search: namespace_prefix is compared label by label")
async def wildcards_are_labels(world: World) -> None:
    """``%``, ``_`` and ``*`` are plain characters in labels."""
    for label in ("%", "_", "*", "a"):
        await world.put(f"at {label}", {"n": 1}, label)
    for label in ("%", "_", "*"):
        same(await world.found(label), {f"at {label}"}, f"what is found below {label!r}")


@check("namespaces.any-label", source="BaseStore.put refuses periods and NUL only; MongoDBStore slashes, too")
async def any_text_is_a_label(world: World) -> None:
    """Every label that ``put`` allows can be used: slashes, colons, spaces, any script, 1,000 characters."""
    for number, label in enumerate(LABELS):
        await world.put("k", {"n": number}, label)
    for number, label in enumerate(LABELS):
        same((await world.require("k", label)).value, {"n": number}, f"the item below {ascii(label)[:30]}")
        same([item.value for item in await world.search(label)], [{"n": number}], f"the search of {ascii(label)[:30]}")


@check("namespaces.long", source="a B-tree's row has 2,704 bytes in PostgreSQL")
async def long_labels_are_kept(world: World) -> None:
    """A user id of 1,000 characters of any script is a label."""
    label = "".join(chr(0x4E00 + (number * 7919) % 20_000) for number in range(1000))
    await world.put("k", {"n": 1}, label, label[::-1])
    same((await world.require("k", label, label[::-1])).value, {"n": 1}, "the item")


@check("namespaces.ends", source="PostgresStore joins labels by periods, MongoDBStore by slashes")
async def where_a_label_ends_matters(world: World) -> None:
    """``("a", "b")``, ``("a/b",)`` and ``("ab",)`` are three namespaces."""
    places = [("a", "b"), ("a/b",), ("ab",), ("a:b",), ("a", "b", "c")]
    for number, labels in enumerate(places):
        await world.put("k", {"n": number}, *labels)
    same([(await world.require("k", *labels)).value["n"] for labels in places], [0, 1, 2, 3, 4], "the items")
    same(await world.found("a"), {"k"}, "what is found below a")
    same(len(await world.search("a")), 2, "the items below a")


@check("namespaces.below", source="BaseStore.search: “Hierarchical path prefix to search within”")
async def a_search_goes_all_the_way_down(world: World) -> None:
    """A search finds the items of the namespace and of all namespaces below it."""
    await world.put("0", {"n": 1}, "a")
    await world.put("1", {"n": 1}, "a", "b")
    await world.put("2", {"n": 1}, "a", "b", "c")
    await world.put("3", {"n": 1}, "b")
    same(await world.found("a"), {"0", "1", "2"}, "what is found below a")
    same(await world.get("1", "a"), None, "a deeper item, asked for one level up")


@check("namespaces.everywhere", source="BaseStore.search: the empty prefix is every namespace")
async def the_empty_prefix_is_everywhere(world: World) -> None:
    """A search from ``()`` sees every root."""
    await world.put("k", {"only": world.root})
    await world.store.aput((f"{world.root}b", "x"), "k2", {"only": world.root})
    found = await world.store.asearch((), filter={"only": world.root})
    same({item.key for item in found}, {"k", "k2"}, "what is found everywhere")


@check("namespaces.refused", source="BaseStore.put: InvalidNamespaceError")
async def illegal_labels_are_refused(world: World) -> None:
    """``put`` refuses an empty namespace, LangGraph's own root, and labels that are empty or hold a period or NUL."""
    illegal: list[Any] = [
        (),
        ("langgraph",),
        (world.root, "a.b"),
        (world.root, ""),
        (world.root, "a\0b"),
        (world.root, 1),
    ]
    for namespace in illegal:
        await refused(world.store.aput(namespace, "k", {"n": 1}), f"the namespace {namespace!r}", by=ValueError)


@check(
    "namespaces.refused-in-batches", source="langgraph.store.base.validate_op_namespace; InMemoryStore.batch does not"
)
async def illegal_labels_are_refused_in_batches(world: World) -> None:
    """An operation with an illegal label is refused as the method is."""
    for label in ("a.b", ""):
        ops = [PutOp((world.root, label), "k", {"n": 1})]
        await refused(world.store.abatch(ops), f"the label {label!r}", by=ValueError)


@check("namespaces.lists", source="measured: InMemoryStore silently finds nothing below a list")
async def a_list_is_no_silence(world: World) -> None:
    """A list as prefix works like a tuple or is refused; it does not match nothing silently."""
    await world.put("k", {"n": 1}, "a")
    prefix: Any = list(world.at("a"))
    try:
        found = await world.store.asearch(prefix)
    except Exception:  # noqa: BLE001 - refusing it is right, however it is said
        return
    same([item.key for item in found], ["k"], "what is found below a list")
