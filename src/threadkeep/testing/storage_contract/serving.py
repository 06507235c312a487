"""The service's methods, which see every partition: ``namespaces``, ``partitions``, ``due`` and ``stats``."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from threadkeep.errors import InvalidInputError
from threadkeep.storage.interface import Due, NamespaceMatch, Partition, Storage
from threadkeep.testing.clock import FrozenClock
from threadkeep.testing.storage_contract.world import ANA, BOB, World, commit, delete, keys, note, plain
from threadkeep.testing.texts import NASTY_TEXTS

MINUTE = timedelta(minutes=1)


def prefix(*path: str) -> NamespaceMatch:
    """Return the condition that a namespace begins with *path*."""
    return NamespaceMatch("prefix", path)


def suffix(*path: str) -> NamespaceMatch:
    """Return the condition that a namespace ends with *path*."""
    return NamespaceMatch("suffix", path)


class Serving(World):
    """What is listed across partitions."""

    async def test_namespaces_are_listed_once_and_sorted(self, storage: Storage) -> None:
        """Of every partition, each once, by its labels."""
        await commit(
            storage, plain("1", namespace=("b",)), plain("2", namespace=("b",)), plain("1", namespace=("a", "z"))
        )
        await commit(storage, plain("1", namespace=("b",)), plain("1", namespace=("a",)), partition=BOB)

        assert await storage.namespaces() == (("a",), ("a", "z"), ("b",))

    async def test_an_empty_storage_has_no_namespaces(self, storage: Storage) -> None:
        """Nor has one after its items are gone."""
        assert await storage.namespaces() == ()
        await commit(storage, note("1"))
        await commit(storage, delete("1"))

        assert await storage.namespaces() == ()

    async def test_internal_namespaces_are_left_out(self, storage: Storage) -> None:
        """Namespaces with a first label that begins with a period; a later label may."""
        await commit(storage, plain("1", namespace=(".turns", "ana")), plain("1", namespace=("a", ".b")))

        assert await storage.namespaces() == (("a", ".b"),)

    async def test_any_text_is_a_label(self, storage: Storage) -> None:
        """They come back as they were, the empty namespace too, in the order of their characters."""
        visible = [text for text in NASTY_TEXTS if not text.startswith(".")]
        await commit(storage, plain("1", namespace=()), *(plain("1", namespace=(text, "x")) for text in visible))

        assert await storage.namespaces() == ((), *((text, "x") for text in sorted(visible)))

    @pytest.mark.parametrize(
        ("match", "found"),
        [
            ([prefix("a")], ["a", "a/b", "a/b/c", "a/x/c"]),
            ([prefix("a", "*", "c")], ["a/b/c", "a/x/c"]),
            ([prefix("*", "b")], ["a/b", "a/b/c"]),
            ([suffix("c")], ["a/b/c", "a/x/c", "c"]),
            ([suffix("*", "c")], ["a/b/c", "a/x/c"]),
            ([prefix("a"), suffix("b")], ["a/b"]),
            ([prefix("a", "b"), suffix("b", "c")], ["a/b/c"]),
            ([prefix("a", "b", "c", "d")], []),
            ([prefix()], ["a", "a/b", "a/b/c", "a/x/c", "ab", "c"]),
            ([suffix()], ["a", "a/b", "a/b/c", "a/x/c", "ab", "c"]),
            ([prefix("%")], []),
        ],
    )
    async def test_namespaces_meet_every_condition(
        self, storage: Storage, match: list[NamespaceMatch], found: list[str]
    ) -> None:
        """Beginning and end, whole labels, ``*`` is any one label."""
        names = ("a", "a/b", "a/b/c", "a/x/c", "ab", "c")
        await commit(storage, *(plain("1", namespace=tuple(name.split("/"))) for name in names))

        assert ["/".join(name) for name in await storage.namespaces(match=match)] == found

    async def test_namespaces_are_cut_before_they_are_made_distinct(self, storage: Storage) -> None:
        """The conditions look at the whole namespace, limit and offset at what is left."""
        names = ("a/b/c", "a/b/d", "a/x", "b/b/c")
        await commit(storage, *(plain("1", namespace=tuple(name.split("/"))) for name in names))

        assert await storage.namespaces(max_depth=2) == (("a", "b"), ("a", "x"), ("b", "b"))
        assert await storage.namespaces(max_depth=1, match=[suffix("c")]) == (("a",), ("b",))
        assert await storage.namespaces(max_depth=2, limit=1, offset=1) == (("a", "x"),)

    async def test_namespaces_come_in_pages(self, storage: Storage) -> None:
        """``limit`` and ``offset`` count distinct ones; beyond the end there is nothing."""
        await commit(storage, *(plain("1", namespace=(f"{number:03}",)) for number in range(250)))

        assert await storage.namespaces(limit=3, offset=200) == (("200",), ("201",), ("202",))
        assert len(await storage.namespaces()) == 100
        assert await storage.namespaces(limit=0) == ()
        assert await storage.namespaces(offset=250) == ()

    @pytest.mark.parametrize("asked", [{"limit": -1}, {"offset": -1}, {"max_depth": -1}, {"limit": None}])
    async def test_a_page_that_is_none_is_refused(self, storage: Storage, asked: dict[str, Any]) -> None:
        """They are whole numbers from 0 on."""
        with pytest.raises(InvalidInputError):
            await storage.namespaces(**asked)

    async def test_partitions_are_listed_as_they_are_spelled(self, storage: Storage) -> None:
        """Of every kind, whatever the text of their parts, each once."""
        written = {Partition("owner", (text, "x")) for text in NASTY_TEXTS}
        written |= {Partition("root", (text,)) for text in NASTY_TEXTS} | {Partition("collection", ("", "a", "b"))}
        for partition in written:
            await commit(storage, note("1"), partition=partition)
        await commit(storage, note("2"), partition=ANA)

        found = await storage.partitions(limit=1000)

        assert len(found) == len(written) + 1
        assert set(found) == written | {ANA}

    async def test_partitions_come_in_pages(self, storage: Storage) -> None:
        """Each page goes on behind the last one of the page before, which may be erased meanwhile."""
        written = [Partition("owner", ("", f"{number}")) for number in range(7)]
        for partition in written:
            await commit(storage, note("1"), partition=partition)
        inorder = await storage.partitions()

        first = await storage.partitions(limit=3)
        await storage.erase(first[-1])
        second = await storage.partitions(after=first[-1], limit=3)

        assert (first, second) == (inorder[:3], inorder[3:6])
        assert await storage.partitions(after=inorder[-1]) == ()
        assert await storage.partitions(limit=0) == ()
        with pytest.raises(InvalidInputError):
            await storage.partitions(limit=-1)

    async def test_an_erased_partition_is_not_listed(self, storage: Storage) -> None:
        """Until it is written to again; one that was only asked about never was there."""
        await commit(storage, note("1"))
        await commit(storage, note("1"), partition=BOB)
        await storage.position(Partition("owner", ("", "carl")))

        await storage.erase(ANA)

        assert await storage.partitions() == (BOB,)
        await commit(storage, note("1"))
        assert set(await storage.partitions()) == {ANA, BOB}

    async def test_the_longest_due_comes_first(self, storage: Storage, clock: FrozenClock) -> None:
        """Unexpired items that are due of the kind and not later than now, across partitions."""
        now = clock.now()
        await commit(
            storage,
            note("now", due=Due("capture", now)),
            note("later", due=Due("capture", now + timedelta(microseconds=1))),
            note("other", due=Due("expiry", now)),
            note("none"),
        )
        await commit(storage, plain("early", due=Due("capture", now - MINUTE)), partition=BOB)

        found = await storage.due("capture", now=now, limit=10)

        assert [(item.ref.partition, item.ref.key) for item in found] == [(BOB, "early"), (ANA, "now")]
        assert keys(await storage.due("capture", now=now, limit=1)) == ["early"]
        assert await storage.due("capture", now=now, limit=0) == ()

    async def test_any_text_is_a_kind_of_work(self, storage: Storage, clock: FrozenClock) -> None:
        """And names the owner, whichever characters the id has."""
        await commit(storage, *(plain(text, due=Due(text, clock.now())) for text in NASTY_TEXTS))

        for text in NASTY_TEXTS:
            found = await storage.due(text, now=clock.now(), limit=100)
            assert [(item.ref.key, item.due) for item in found] == [(text, Due(text, clock.now()))]

    async def test_what_is_done_is_no_longer_due(self, storage: Storage, clock: FrozenClock) -> None:
        """Putting it without ``due``, deleting or erasing it takes it off the list."""
        due = Due("capture", clock.now())
        await commit(storage, note("1", due=due), note("2", due=due), note("3", due=due))
        await commit(storage, note("1", due=due), partition=BOB)

        await commit(storage, note("1"), delete("2"))
        await storage.erase(BOB)

        assert keys(await storage.due("capture", now=clock.now(), limit=10)) == ["3"]

    async def test_stats_count_what_there_is(self, storage: Storage) -> None:
        """Partitions and items; an erased partition is none."""
        assert (await storage.stats()).items == 0
        await commit(storage, note("1"), note("2"))
        await commit(storage, note("1"), partition=BOB)
        await storage.erase(ANA)

        stats = await storage.stats()

        assert (stats.partitions, stats.items) == (1, 1)
        assert stats.size_bytes is None or stats.size_bytes > 0
