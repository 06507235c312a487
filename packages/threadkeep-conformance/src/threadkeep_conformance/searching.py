"""Pages of what there is, without a query."""

from __future__ import annotations

from threadkeep_conformance.check import check, keys, same, true
from threadkeep_conformance.world import World

SOURCE = "BaseStore.search"


async def _filled(world: World, count: int) -> None:
    await world.fill({f"k{number:03}": {"n": number} for number in range(count)})


@check("search.newest-first", source="PostgresStore and SqliteStore: ORDER BY updated_at DESC")
async def the_newest_come_first(world: World) -> None:
    """Without a query, the items are sorted by ``updated_at``, newest first."""
    for key in ("a", "b", "c"):
        await world.put(key, {"n": 1})
        await world.pass_time(0.02)
    await world.put("a", {"n": 2})
    same(keys(await world.search()), ["a", "c", "b"], "the order")


@check("search.default-limit", source=f"{SOURCE}: limit=10")
async def ten_by_default(world: World) -> None:
    """The default limit of a search is 10."""
    await _filled(world, 14)
    same(len(await world.search()), 10, "how many")


@check("search.pages", source="measured: PostgresStore orders by updated_at alone; MongoDBStore has no offset")
async def pages_fit_together(world: World) -> None:
    """Each item is on exactly one page, also with equal times."""
    await _filled(world, 33)
    pages = [keys(await world.search(limit=7, offset=offset)) for offset in range(0, 40, 7)]
    same([len(page) for page in pages], [7, 7, 7, 7, 5, 0], "the sizes of the pages")
    same(len({key for page in pages for key in page}), 33, "the items of all pages")


@check("search.large-page", source=f"{SOURCE}: limit")
async def a_large_page_is_whole(world: World) -> None:
    """A limit of 500 returns all of 150 items."""
    await _filled(world, 150)
    same(len(await world.search(limit=500)), 150, "how many")


@check("search.limit-zero", source=f"{SOURCE}: limit; MongoDBStore takes 0 for no limit")
async def nothing_is_nothing(world: World) -> None:
    """A limit of 0 returns no items."""
    await _filled(world, 2)
    same(await world.search(limit=0), [], "what is found")


@check("search.no-score", source="SearchItem.score: “Relevance/similarity score if from a ranked operation”")
async def without_a_query_there_is_no_score(world: World) -> None:
    """Without a query, items have no score."""
    await _filled(world, 2)
    same([item.score for item in await world.search()], [None, None], "the scores")


@check("search.same-item", source="SearchItem is an Item")
async def a_search_gives_what_get_gives(world: World) -> None:
    """A search returns the same value and times as a get."""
    await world.put("k", {"n": 1, "deep": {"x": [1]}})
    (found,) = await world.search()
    item = await world.require("k")
    same(
        (found.value, found.created_at, found.updated_at),
        (item.value, item.created_at, item.updated_at),
        "value and times",
    )
    true(type(found.namespace) is tuple, f"the namespace is a {type(found.namespace).__name__}")
