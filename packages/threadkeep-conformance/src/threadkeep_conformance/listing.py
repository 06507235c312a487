"""Which namespaces there are."""

from __future__ import annotations

from typing import Any

from langgraph.store.base import ListNamespacesOp, MatchCondition, PutOp

from threadkeep_conformance.check import check, same
from threadkeep_conformance.world import World

SOURCE = "BaseStore.list_namespaces"


async def _filled(world: World, *paths: str) -> None:
    await world.store.abatch([PutOp(world.at(*path.split("/")), "k", {"n": 1}) for path in paths])


async def _listed(world: World, *prefix: str, **asked: Any) -> list[str]:
    """Return the namespaces of this check, without its root, as paths."""
    found = await world.store.alist_namespaces(prefix=world.at(*prefix), **asked)
    return ["/".join(namespace[1:]) for namespace in found]


@check("listing.distinct", source=f"{SOURCE}; PostgresStore sorts them")
async def each_is_listed_once(world: World) -> None:
    """Namespaces with items are listed once each, sorted."""
    await _filled(world, "b", "a/z", "a")
    await world.put("k2", {"n": 1}, "b")
    same(await _listed(world), ["a", "a/z", "b"], "the namespaces")


@check("listing.empty", source=SOURCE)
async def what_is_empty_is_not_listed(world: World) -> None:
    """A namespace without items is not listed after its items were deleted."""
    await _filled(world, "a", "b")
    await world.store.adelete(world.at("a"), "k")
    same(await _listed(world), ["b"], "the namespaces")


@check("listing.prefix", source=SOURCE)
async def a_prefix_is_whole_labels(world: World) -> None:
    """A prefix is compared by whole labels."""
    await _filled(world, "a", "a/b", "ab", "b/a")
    same(await _listed(world, "a"), ["a", "a/b"], "the namespaces below a")


@check("listing.suffix", source=SOURCE)
async def a_suffix_is_whole_labels(world: World) -> None:
    """A suffix is compared by whole labels."""
    await _filled(world, "x/v1", "y/v1", "y/v10", "v1/z")
    same(await _listed(world, suffix=("v1",)), ["x/v1", "y/v1"], "the namespaces that end with v1")


@check("listing.wildcard", source="NamespacePath: “*” stands for any one label")
async def a_star_is_any_label(world: World) -> None:
    """``*`` in a prefix or suffix matches exactly one label."""
    await _filled(world, "a/x/notes", "b/x/notes", "a/x/y/notes", "a/x")
    same(await _listed(world, "*", "x"), ["a/x", "a/x/notes", "a/x/y/notes", "b/x/notes"], "the prefix (*, x)")
    same(await _listed(world, suffix=("x", "*")), ["a/x/notes", "b/x/notes"], "the suffix (x, *)")


@check("listing.both", source=SOURCE)
async def prefix_and_suffix_both_hold(world: World) -> None:
    """Prefix and suffix must both hold."""
    await _filled(world, "a/x/v1", "a/y/v2", "b/x/v1")
    same(await _listed(world, "a", suffix=("v1",)), ["a/x/v1"], "the namespaces")


@check("listing.depth", source=f"{SOURCE}: max_depth; MongoDBStore limits before it groups")
async def depth_cuts_before_the_limit(world: World) -> None:
    """``max_depth`` applies before the limit: the limit counts distinct namespaces."""
    await _filled(world, *(f"{root}/{leaf}" for root in "abc" for leaf in range(5)))
    same(await _listed(world, max_depth=2, limit=3), ["a", "b", "c"], "the namespaces, cut to two labels")


@check("listing.many", source="measured: AsyncRedisStore looks at ten documents")
async def many_are_all_listed(world: World) -> None:
    """Sixty namespaces are all listed."""
    await _filled(world, *(f"n{number:02}" for number in range(60)))
    same(len(await _listed(world)), 60, "how many namespaces")


@check("listing.pages", source=f"{SOURCE}: limit, offset; MongoDBStore has no offset")
async def pages_fit_together(world: World) -> None:
    """Each namespace is on exactly one page."""
    await _filled(world, *(f"n{number:02}" for number in range(12)))
    pages = [await _listed(world, limit=5, offset=offset) for offset in (0, 5, 10, 15)]
    same([len(page) for page in pages], [5, 5, 2, 0], "the sizes of the pages")
    listed = sorted(name for page in pages for name in page)
    same(listed, [f"n{number:02}" for number in range(12)], "the namespaces of all pages")


@check("listing.literal", source="measured: LIKE and TEXT queries give % and _ a meaning")
async def labels_are_literal(world: World) -> None:
    """``%`` and ``_`` in a condition are plain characters."""
    await _filled(world, "a_b", "axb", "a%", "abc")
    same(await _listed(world, "a_b"), ["a_b"], "the namespaces below a_b")
    same(await _listed(world, "a%"), ["a%"], "the namespaces below a%")


@check("listing.operations", source="ListNamespacesOp.match_conditions")
async def several_conditions_hold(world: World) -> None:
    """Several conditions of one operation must all hold."""
    await _filled(world, "a/x/v1", "a/y/v1", "b/x/v1")
    conditions = (
        MatchCondition("prefix", world.at()),
        MatchCondition("prefix", (world.root, "*", "x")),
        MatchCondition("suffix", ("v1",)),
    )
    (found,) = await world.store.abatch([ListNamespacesOp(conditions, None, 100, 0)])
    listed: Any = found
    same([tuple(one) for one in listed], [world.at("a", "x", "v1"), world.at("b", "x", "v1")], "the namespaces")
