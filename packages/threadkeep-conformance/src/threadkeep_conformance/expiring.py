"""What is put with a time to live: it is there, and then it is gone, for every reader."""

from __future__ import annotations

from typing import Any

from threadkeep_conformance.check import check, same, true
from threadkeep_conformance.world import (
    EXPIRING,
    EXPIRING_TEXT,
    LIFE_MINUTES,
    LIFE_SECONDS,
    World,
)

HALF = LIFE_SECONDS * 0.6
"""More than half a life: two of them are more than one, one and a half are less than two lives."""

OVER = LIFE_SECONDS * 1.25


@check("expiry.per-item", source="BaseStore.put: ttl, in minutes; MongoDBStore ignores it", options=EXPIRING)
async def an_item_has_its_own_life(world: World) -> None:
    """An item with a ttl can be read until the ttl ends; an item without ttl stays."""
    await world.put("mortal", {"n": 1}, ttl=LIFE_MINUTES)
    await world.put("immortal", {"n": 2})
    true(await world.get("mortal", refresh_ttl=False), "it is gone before its time")
    await world.pass_time(OVER)
    same(await world.get("mortal"), None, "the item after its time")
    true(await world.get("immortal"), "an item without a ttl is gone")


@check("expiry.every-read", source="TTLConfig.omit_expired: “GET or SEARCH, or … namespace listings”", options=EXPIRING)
async def no_read_shows_what_has_expired(world: World) -> None:
    """Get, search and namespaces do not return expired items."""
    await world.put("mortal", {"n": 1}, "mortal", ttl=LIFE_MINUTES)
    await world.put("immortal", {"n": 2}, "immortal")
    await world.pass_time(OVER)
    same(await world.get("mortal", "mortal"), None, "get")
    same(await world.found(), {"immortal"}, "search")
    listed = await world.store.alist_namespaces(prefix=world.at())
    same(listed, [world.at("immortal")], "the namespaces")


@check("expiry.by-meaning", source="TTLConfig.omit_expired, with a query", options=EXPIRING_TEXT)
async def no_query_finds_what_has_expired(world: World) -> None:
    """A search with a query does not return expired items."""
    await world.put("mortal", {"text": "likes green tea"}, ttl=LIFE_MINUTES)
    await world.put("immortal", {"text": "likes green tea"})
    await world.pass_time(OVER)
    same(await world.found(query="green tea"), {"immortal"}, "what is found")


@check(
    "expiry.at-once",
    source="measured: PostgresStore and SqliteStore show it until it is swept, unless told otherwise",
    options=EXPIRING,
)
async def it_is_gone_without_a_sweep(world: World) -> None:
    """An expired item is not returned, also without ``omit_expired`` and before a sweep."""
    async with world.open_store(ttl={"refresh_on_read": False}) as store:
        await store.aput(world.at(), "k", {"n": 1}, ttl=LIFE_MINUTES)
        await world.pass_time(OVER)
        same(await store.aget(world.at(), "k"), None, "the item after its time")


@check(
    "expiry.fractions",
    source="measured: PostgresStore keeps whole minutes, so the first read ends it",
    options=EXPIRING,
)
async def fractions_of_a_minute_count(world: World) -> None:
    """A ttl may be a fraction of a minute."""
    await world.put("k", {"n": 1}, ttl=LIFE_MINUTES)
    for _ in range(2):
        true(await world.get("k"), "it is gone before its time")
        true(await world.search(), "it is not found before its time")


@check("expiry.reads-renew", source="TTLConfig.refresh_on_read", options=EXPIRING)
async def reading_lets_it_live_on(world: World) -> None:
    """Reading or finding an item restarts its ttl."""
    await world.put("read", {"n": 1}, "read", ttl=LIFE_MINUTES)
    await world.put("found", {"n": 1}, "found", ttl=LIFE_MINUTES)
    await world.put("left", {"n": 1}, "left", ttl=LIFE_MINUTES)
    await world.pass_time(HALF)
    await world.get("read", "read")
    await world.search("found")
    await world.pass_time(HALF)
    same(await world.found(), {"read", "found"}, "what lives on")


@check("expiry.reads-without-renewing", source="BaseStore.get: refresh_ttl=False", options=EXPIRING)
async def reading_can_leave_it_be(world: World) -> None:
    """``refresh_ttl=False`` does not restart the ttl."""
    await world.put("k", {"n": 1}, ttl=LIFE_MINUTES)
    await world.pass_time(HALF)
    true(await world.get("k", refresh_ttl=False), "it is gone before its time")
    await world.search(refresh_ttl=False)
    await world.pass_time(HALF)
    same(await world.get("k"), None, "the item after its time")


@check("expiry.default", source="TTLConfig.default_ttl: minutes; MongoDBStore takes seconds", options=EXPIRING)
async def there_is_a_default(world: World) -> None:
    """``default_ttl`` is in minutes and applies to puts without ``ttl``; ``ttl=None`` means no expiry."""
    config: Any = {"default_ttl": LIFE_MINUTES, "refresh_on_read": False, "omit_expired": True}
    async with world.open_store(ttl=config) as store:
        await store.aput(world.at(), "default", {"n": 1})
        await store.aput(world.at(), "ever", {"n": 1}, ttl=None)
        true(await store.aget(world.at(), "default"), "it is gone before its time")
        await world.pass_time(OVER)
        same([item.key for item in await store.asearch(world.at())], ["ever"], "what is left")


@check("expiry.put-again", source="BaseStore.put writes the item whole", options=EXPIRING)
async def a_put_begins_a_new_life(world: World) -> None:
    """A second put with a ttl restarts it; a put without ttl removes it."""
    await world.put("again", {"n": 1}, ttl=LIFE_MINUTES)
    await world.put("ever", {"n": 1}, ttl=LIFE_MINUTES)
    await world.pass_time(HALF)
    await world.put("again", {"n": 2}, ttl=LIFE_MINUTES)
    await world.put("ever", {"n": 2})
    await world.pass_time(HALF)
    same(await world.found(refresh_ttl=False), {"again", "ever"}, "what lives on")
    await world.pass_time(HALF)
    same(await world.found(refresh_ttl=False), {"ever"}, "what lives for ever")


@check("expiry.created-anew", source="Item.created_at: an expired item does not exist", options=EXPIRING)
async def what_comes_back_is_new(world: World) -> None:
    """A put over an expired item sets a new ``created_at``."""
    await world.put("k", {"n": 1}, ttl=LIFE_MINUTES)
    before = await world.get("k", refresh_ttl=False)
    await world.pass_time(OVER)
    await world.put("k", {"n": 2})
    after = await world.require("k")
    true(before is not None and after.created_at > before.created_at, "created_at is that of the expired item")
