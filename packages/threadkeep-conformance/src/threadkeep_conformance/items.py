"""One item: what is put comes back, as it was, and only that."""

from __future__ import annotations

import math
from typing import Any, Final

from threadkeep.testing.texts import NASTY_TEXTS
from threadkeep_conformance.check import check, refused, same, true
from threadkeep_conformance.world import World

VALUES: Final[list[dict[str, Any]]] = [
    {},
    {"text": "likes tea"},
    {"yes": True, "no": False, "none": None, "empty": "", "list": [], "object": {}},
    {"deep": [[[{"a": {"b": [{}, 1, "x"]}}]]]},
    {"日本語": "עברית", "emoji": "🦜", "tag": '"quoted" \\ and \n'},
]
NUMBERS: Final[list[int | float]] = [0, -1, 1.5, 0.1, 1e-7, -0.25, 2**53 + 1, 10**18]
KEYS: Final = (
    "a.b@x.org",
    "a_b@x_org",
    "a",
    "A",
    "a/b:c|d",
    "%",
    "_",
    "*",
    "a b",
    "日本語",
    '"quoted"',
    "'; DROP TABLE store; --",
    "-",
    "x" * 1000,
)


@check("items.json", source="BaseStore.put: the value is a dictionary “containing the item's data”")
async def any_json_comes_back(world: World) -> None:
    """A stored JSON object is read back unchanged."""
    for number, value in enumerate(VALUES):
        await world.put(f"k{number}", value)
        same((await world.require(f"k{number}")).value, value, "the value")


@check("items.numbers", source="JSON; JSONB keeps digits, JavaScript numbers do not")
async def numbers_keep_their_digits(world: World) -> None:
    """Integers above 2⁵³ and fractions keep all digits."""
    await world.put("k", {"numbers": NUMBERS})
    same((await world.require("k")).value, {"numbers": NUMBERS}, "the numbers")


@check("items.texts", source="JSON: a text is any sequence of characters")
async def any_text_comes_back(world: World) -> None:
    """A value keeps any text: quotes, control characters, every script and direction."""
    texts = [text for text in NASTY_TEXTS if "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)]
    await world.put("k", {"texts": texts})
    same((await world.require("k")).value, {"texts": texts}, "the texts")


@check("items.nul", source="measured: PostgresStore raises UntranslatableCharacter")
async def nul_comes_back(world: World) -> None:
    """A value keeps NUL characters, which models and tools return."""
    await world.put("k", {"text": "a\0b"})
    same((await world.require("k")).value, {"text": "a\0b"}, "the text")


@check("items.half-a-pair", source="measured: cut emoji end in half a surrogate pair, which UTF-8 has no bytes for")
async def half_a_pair_comes_back(world: World) -> None:
    """A value keeps a lone surrogate."""
    await world.put("k", {"text": "cut \ud83e"})
    same((await world.require("k")).value, {"text": "cut \ud83e"}, "the text")


@check("items.large", source="measured: 1 MB is what a file of deepagents' StoreBackend may have")
async def a_megabyte_is_no_problem(world: World) -> None:
    """A value of one megabyte is read back unchanged."""
    text = "All work and no play. " * 48_000
    await world.put("k", {"text": text})
    true((await world.require("k")).value == {"text": text}, "the text comes back changed")


@check("items.keys", source="BaseStore.put: key is “a unique identifier within the namespace”")
async def any_text_is_a_key(world: World) -> None:
    """Any text is a distinct key: dots, slashes, wildcards, quotes, case, 1,000 characters."""
    for number, key in enumerate(KEYS):
        await world.put(key, {"n": number})
    for number, key in enumerate(KEYS):
        same((await world.require(key)).value, {"n": number}, f"the item at {ascii(key)[:40]}")


@check("items.key-is-text", source="BaseStore.put: str(key)")
async def a_key_is_made_a_text(world: World) -> None:
    """A key that is a number is converted to a string."""
    await world.store.aput(world.at(), 7, {"n": 7})  # type: ignore[arg-type]
    same((await world.require("7")).key, "7", "the key")


@check("items.fields", source="Item: namespace, key, value, created_at, updated_at")
async def an_item_tells_where_it_is(world: World) -> None:
    """An item has its namespace as a tuple, and its key."""
    await world.put("k", {"n": 1}, "a", "b")
    for item in (await world.require("k", "a", "b"), *await world.search("a")):
        same((item.namespace, item.key), (world.at("a", "b"), "k"), "namespace and key")


@check("items.time-zone", source="InMemoryStore and PostgresStore: datetime.now(timezone.utc)")
async def moments_have_a_time_zone(world: World) -> None:
    """``created_at`` and ``updated_at`` have a time zone."""
    await world.put("k", {"n": 1})
    item = await world.require("k")
    for moment in (item.created_at, item.updated_at):
        true(moment.tzinfo is not None, f"it has none: {moment!r}")


@check("items.created-at", source="Item.created_at: “Timestamp of item creation”; PostgresStore keeps it", waits=True)
async def created_at_is_kept(world: World) -> None:
    """An update keeps ``created_at``."""
    await world.put("k", {"n": 1})
    before = await world.require("k")
    await world.pass_time(1.1)
    await world.put("k", {"n": 2})
    same((await world.require("k")).created_at, before.created_at, "created_at after an update")


@check(
    "items.updated-at",
    source="Item.updated_at: “Timestamp of last update”; measured: SqliteStore knows whole seconds",
    waits=True,
)
async def updated_at_moves(world: World) -> None:
    """Each put changes ``updated_at``, also twice within a second."""
    moments: list[Any] = []
    for number in range(4):
        await world.put("k", {"n": number})
        moments.append((await world.require("k")).updated_at)
        await world.pass_time(0.3)
    true(len(set(moments)) == len(moments) and moments == sorted(moments), f"updated_at of four puts: {moments}")


@check("items.read-only-reads", source="Item.updated_at: “Timestamp of last update”; MongoDBStore.get sets it")
async def a_read_is_no_update(world: World) -> None:
    """Reading an item changes neither ``created_at`` nor ``updated_at``."""
    await world.put("k", {"n": 1})
    before = await world.require("k")
    await world.pass_time(0.05)
    await world.search()
    after = await world.require("k")
    same((after.created_at, after.updated_at), (before.created_at, before.updated_at), "the times after a read")


@check("items.copy-returned", source="measured: InMemoryStore returns its own object")
async def what_is_returned_is_a_copy(world: World) -> None:
    """Changing a returned value does not change the stored one."""
    await world.put("k", {"tags": ["a"]})
    (await world.require("k")).value["tags"].append("b")
    for item in await world.search():
        item.value["tags"].append("c")
    same((await world.require("k")).value, {"tags": ["a"]}, "the value")


@check("items.copy-taken", source="measured: InMemoryStore keeps the caller's object")
async def what_is_taken_is_a_copy(world: World) -> None:
    """Changing a value after the put does not change the stored one."""
    value: dict[str, Any] = {"tags": ["a"]}
    await world.put("k", value)
    value["tags"].append("b")
    same((await world.require("k")).value, {"tags": ["a"]}, "the value")


@check("items.only-json", source="measured: InMemoryStore accepts values that no other store can keep")
async def what_is_no_json_is_refused(world: World) -> None:
    """A value that JSON cannot represent is refused, and the stored value stays."""
    await world.put("k", {"n": 1})
    await refused(world.put("k", {"n": {1, 2}}), "a set")
    same((await world.require("k")).value, {"n": 1}, "the value after a refused put")


@check("items.no-nan", source="RFC 8259: numbers that cannot be represented are not permitted")
async def nan_is_refused(world: World) -> None:
    """NaN and infinity are refused."""
    for number in (math.nan, math.inf):
        await refused(world.put("k", {"n": number}), f"{number}")
    same(await world.get("k"), None, "the item that was refused")


@check("items.delete", source="BaseStore.delete; BaseStore.put: a value of None deletes")
async def a_deleted_item_is_gone(world: World) -> None:
    """No read returns a deleted item; deleting a missing item is not an error."""
    await world.put("k", {"n": 1})
    await world.store.adelete(world.at(), "k")
    await world.store.adelete(world.at(), "k")
    same(await world.get("k"), None, "the item")
    same(await world.search(), [], "the search")


@check("items.again", source="Item.created_at: “Timestamp of item creation”", waits=True)
async def an_item_that_comes_back_is_new(world: World) -> None:
    """A put after a delete sets a new ``created_at``."""
    await world.put("k", {"n": 1})
    before = await world.require("k")
    await world.store.adelete(world.at(), "k")
    await world.pass_time(1.1)
    await world.put("k", {"n": 2})
    true((await world.require("k")).created_at > before.created_at, "created_at is that of the deleted item")
