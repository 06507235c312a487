"""``scan``: "the order is total: by updated_at, then revision, namespace and key"."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from threadkeep.errors import InvalidInputError
from threadkeep.storage.encoding import encode_namespace, encode_text
from threadkeep.storage.interface import Direction, Item, Storage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract.world import (
    ANA,
    BOB,
    NOTES,
    World,
    commit,
    delete,
    keys,
    note,
    plain,
    touch,
)
from threadkeep.testing.texts import NASTY_TEXTS

SECOND = timedelta(seconds=1)


async def paged(storage: Storage, *, limit: int, **asked: Any) -> list[Item]:
    """Return what a scan gives, page by page."""
    found: list[Item] = []
    after: str | None = None
    while True:
        page = await storage.scan(ANA, after=after, limit=limit, **asked)
        assert len(page.items) <= limit
        found += page.items
        if page.after is None:
            return found
        after = page.after


def in_order(items: list[Item]) -> list[Item]:
    """Sort *items* as the port says, oldest first."""
    return sorted(
        items,
        key=lambda item: (
            item.updated_at,
            item.revision,
            encode_namespace(item.ref.namespace),
            encode_text(item.ref.key),
        ),
    )


class Scanning(World):
    """Order, prefixes, filters and pages."""

    async def test_the_newest_come_first(self, storage: Storage, clock: FrozenClock) -> None:
        """By default the last written is first; ``oldest`` is the same the other way round."""
        for key in ("1", "2", "3"):
            await commit(storage, note(key))
            clock.advance(SECOND)
        await commit(storage, note("1", "again"))

        assert keys((await storage.scan(ANA)).items) == ["1", "3", "2"]
        assert keys((await storage.scan(ANA, direction="oldest")).items) == ["2", "3", "1"]

    async def test_the_limit_comes_after_the_order(self, storage: Storage, clock: FrozenClock) -> None:
        """Fewer than there are gives the newest of all, never the first that were found."""
        for number in range(30):
            await commit(storage, note(f"{number:02}"))
            clock.advance(SECOND)

        assert keys((await storage.scan(ANA, limit=3)).items) == ["29", "28", "27"]

    async def test_a_touch_does_not_make_it_newer(self, storage: Storage, clock: FrozenClock) -> None:
        """The order is by when the value was put."""
        await commit(storage, note("1"))
        clock.advance(SECOND)
        await commit(storage, note("2"))

        await commit(storage, touch("1"))

        assert keys((await storage.scan(ANA)).items) == ["2", "1"]

    @pytest.mark.parametrize("direction", ["newest", "oldest"])
    @pytest.mark.parametrize("limit", [1, 7, 1000])
    async def test_pages_make_up_the_whole(self, storage: Storage, direction: Direction, limit: int) -> None:
        """With equal times, equal revisions and any texts, nothing is repeated and nothing left out."""
        await commit(storage, *(note(text, namespace=(text, "x")) for text in NASTY_TEXTS))
        await commit(storage, *(note(text, namespace=(text, "y")) for text in NASTY_TEXTS))

        found = await paged(storage, limit=limit, direction=direction)

        assert len(found) == 2 * len(NASTY_TEXTS)
        assert found == (in_order(found) if direction == "oldest" else in_order(found)[::-1])

    @pytest.mark.parametrize("direction", ["newest", "oldest"])
    async def test_pages_hold_while_others_write(
        self, storage: Storage, clock: FrozenClock, direction: Direction
    ) -> None:
        """Items that do not change are seen once, though items come, go and change between the pages."""
        for number in range(40):
            await commit(storage, note(f"{number:02}"))
            clock.advance(SECOND)
        after: str | None = None
        seen: list[str] = []
        for turn in range(100):
            page = await storage.scan(ANA, after=after, limit=3, direction=direction)
            seen += keys(page.items)
            if page.after is None:
                break
            after = page.after
            await commit(storage, note(f"new{turn}"), delete(f"{turn * 4 % 40:02}"), note(f"{turn * 4 % 40 + 1:02}"))
            clock.advance(SECOND)

        untouched = {f"{number:02}" for number in range(40) if number % 4 in (2, 3)}
        assert {key: seen.count(key) for key in untouched} == dict.fromkeys(untouched, 1)

    async def test_the_last_page_says_so(self, storage: Storage) -> None:
        """``after`` is ``None`` where nothing follows, when the page is just full, too."""
        await commit(storage, note("1"), note("2"))

        assert (await storage.scan(ANA, limit=2)).after is None
        assert (await storage.scan(ANA, limit=1)).after is not None
        assert (await storage.scan(BOB)).after is None

    async def test_a_limit_of_nothing_gives_nothing(self, storage: Storage) -> None:
        """ "``limit=0`` gives an empty page"."""
        await commit(storage, note("1"))

        page = await storage.scan(ANA, limit=0)

        assert (page.items, page.after) == ((), None)

    @pytest.mark.parametrize("limit", [-1, 1.5, "1", None])
    async def test_a_limit_that_is_none_is_refused(self, storage: Storage, limit: Any) -> None:
        """A limit is a whole number from 0 on."""
        with pytest.raises(InvalidInputError):
            await storage.scan(ANA, limit=limit)

    @pytest.mark.parametrize("after", ["", "x", "[]", "[1,2,3,4]", '["a",1,"b","c"]', "\0"])
    async def test_a_place_that_no_page_named_is_refused(self, storage: Storage, after: str) -> None:
        """``after`` comes from a page."""
        with pytest.raises(InvalidInputError):
            await storage.scan(ANA, after=after)

    async def test_labels_match_whole(self, storage: Storage) -> None:
        """ "``("user1",)`` never finds ``("user10",)``", and a prefix finds itself and all below it."""
        found_by = {
            ("user1",): ["user1", "user1/a", "user1/a/b"],
            ("user1", "a"): ["user1/a", "user1/a/b"],
            ("user",): [],
            ("USER1",): [],
            ("user1", ""): [],
            ("a",): [],
        }
        names = ("user1", "user1/a", "user1/a/b", "user10", "user10/a", "user1x", "other/user1")
        await commit(storage, *(note(name, namespace=tuple(name.split("/"))) for name in names))

        found = {prefix: sorted(keys((await storage.scan(ANA, prefix=prefix)).items)) for prefix in found_by}

        assert found == found_by
        assert len((await storage.scan(ANA, prefix=())).items) == len(names)

    async def test_any_text_is_a_prefix_of_its_own(self, storage: Storage) -> None:
        """Nothing in a label is a pattern."""
        await commit(storage, *(note("k", namespace=(text,)) for text in NASTY_TEXTS))

        for text in NASTY_TEXTS:
            page = await storage.scan(ANA, prefix=(text,))
            assert [item.ref.namespace for item in page.items] == [(text,)]

    async def test_partitions_do_not_see_each_other(self, storage: Storage) -> None:
        """A scan is of one partition."""
        await commit(storage, note("1"))

        assert (await storage.scan(BOB, prefix=NOTES)).items == ()

    async def test_a_filter_leaves_out_what_does_not_meet_it(self, storage: Storage) -> None:
        """The rules are those of ``threadkeep.storage.encoding``."""
        await commit(
            storage,
            plain("1", {"n": 1, "at": "2025-01-31", "tag": {"kind": "a", "more": 1}, "a.b": True}),
            plain("2", {"n": 2, "at": "2025-02-01", "tag": {"kind": "b"}}),
            plain("3", {"n": True}),
        )

        async def found(**conditions: Any) -> list[str]:
            return sorted(keys((await storage.scan(ANA, filter=conditions)).items))

        assert await found(n={"$gt": 1}) == ["2"]
        assert await found(n=1) == ["1"]
        assert await found(at={"$gte": "2025-02"}) == ["2"]
        assert await found(tag={"kind": "a"}) == ["1"]
        assert await found(**{"a.b": True}) == ["1"]
        assert await found(at=None) == ["3"]
        assert await found(n={"$ne": 1}, at={"$lt": "2026"}) == ["2"]
        assert await found() == ["1", "2", "3"]

    async def test_pages_of_a_filter_are_full(self, storage: Storage, clock: FrozenClock) -> None:
        """The limit counts what meets the filter, and paging goes on behind it."""
        for number in range(200):
            await commit(storage, plain(f"{number:03}", {"even": number % 2 == 0}))
            clock.advance(SECOND)

        found = await paged(storage, limit=30, filter={"even": True}, direction="oldest")

        assert keys(found) == [f"{number:03}" for number in range(0, 200, 2)]
        assert len((await storage.scan(ANA, filter={"even": True}, limit=30)).items) == 30

    @pytest.mark.parametrize("bad", [{"n": {"$near": 1}}, {"n": {"$gt": 1, "x": 2}}, {1: 2}, [("n", 1)]])
    async def test_a_filter_that_is_none_is_refused(self, storage: Storage, bad: Any) -> None:
        """Before anything is read, so an empty partition refuses it, too."""
        with pytest.raises(InvalidInputError):
            await storage.scan(ANA, filter=bad)
