"""Names are found by digests, in part and whole, and come back as they were."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.storage.sealed.world import ANA, BOB, Files, commit, note
from threadkeep.storage.encryption.cipher import PartitionCipher
from threadkeep.storage.interface import Batch, Delete, Namespace, NamespaceMatch, Partition, Put
from threadkeep.testing.texts import NASTY_TEXTS

SECOND: Final = timedelta(seconds=1)
SEAL: Final = PartitionCipher(os.urandom(32), partition=ANA, pid="pid")
LABELS: Final = st.one_of(st.sampled_from(NASTY_TEXTS[:-1]), st.text(max_size=20))
NAMESPACES: Final = st.lists(LABELS, max_size=4).map(tuple)

LONG: Final[tuple[Namespace, ...]] = (
    ("x" * 2_000, "y"),
    ("x" * 2_000, "z"),
    tuple(f"label {number}" for number in range(70)),
    (*(f"label {number}" for number in range(64)), "other"),
    ("", "\0" * 3_000),
)


class TestNames:
    """One partition's names."""

    @given(NAMESPACES, NAMESPACES)
    def test_a_beginning_is_a_beginning(self, one: Namespace, other: Namespace) -> None:
        """What is asked for by prefix is stored under that prefix, and nothing else is."""
        for prefix, whole in ((one, one + other), (one, other), (other, one)):
            stored = SEAL.namespace(whole)
            below = stored[: len(SEAL.prefix(prefix))] == SEAL.prefix(prefix)
            assert below == (whole[: len(prefix)] == prefix)

    @given(NAMESPACES, LABELS)
    def test_names_come_back(self, namespace: Namespace, key: str) -> None:
        """Every one, and another key of another owner opens none of them."""
        other = PartitionCipher(os.urandom(32), partition=BOB, pid="pid")
        stored, stored_key = SEAL.namespace(namespace), SEAL.key(key)

        assert SEAL.namespace_of(stored) == namespace
        assert SEAL.key_of(stored_key) == key
        assert other.namespace_of(stored) is None
        assert other.key_of(stored_key) is None
        assert other.namespace(namespace) != stored

    @pytest.mark.parametrize("namespace", LONG)
    def test_long_names_are_digests_only(self, namespace: Namespace) -> None:
        """They are short where they are stored; their row says what they are."""
        stored = SEAL.namespace(namespace)

        assert max(map(len, stored)) < 1_000
        assert len(SEAL.key("k" * 10_000)) < 100
        assert SEAL.key_of(SEAL.key("k" * 10_000)) is None
        assert len({SEAL.namespace(each) for each in LONG}) == len(LONG)

    def test_only_internal_names_say_that_they_are(self) -> None:
        """The backend leaves them out of its list of namespaces."""
        assert SEAL.namespace((".turns", "ana"))[0] == ".pid"
        assert SEAL.namespace(("a", ".b"))[0] == SEAL.namespace(())[0] == "pid"


class TestScans:
    """What the backend cannot do for names, done after opening."""

    async def test_long_names_are_listed_found_and_removed(self, files: Files) -> None:
        """As any other."""
        async with files.opened() as storage:
            await commit(storage, *(note("k" * 5_000, str(at), namespace=name) for at, name in enumerate(LONG)))
            position = await storage.position(ANA)

            assert await storage.namespaces() == tuple(sorted(LONG))
            for at, name in enumerate(LONG):
                found = (await storage.scan(ANA, prefix=name)).items
                assert [item.value["data"] for item in found] == [str(at)]
            depth = LONG[3][:66]
            assert len((await storage.scan(ANA, prefix=LONG[2][:64])).items) == 2
            assert len((await storage.scan(ANA, prefix=depth)).items) == 1

            await storage.commit(Batch(ANA, [Delete(LONG[0], "k" * 5_000)]))

            changes = await storage.changes(ANA, position)
            assert (changes.reset, len(changes.puts)) == (True, len(LONG) - 1)

    @pytest.mark.slow
    @pytest.mark.parametrize("limit", [1, 3, 50])
    async def test_pages_of_one_moment_are_in_order(self, files: Files, limit: int) -> None:
        """Hundreds that were written by one commit, with a filter, between others; each once."""
        async with files.opened() as storage:
            await commit(storage, note("before"))
            files.clock.advance(SECOND)
            puts = [Put(("n", f"{n % 3}"), f"{n:03}", {"n": n}) for n in range(240)]
            await storage.commit(Batch(ANA, puts))
            files.clock.advance(SECOND)
            await commit(storage, note("after"))
            found: list[tuple[Namespace, str]] = []
            after = None
            while True:
                page = await storage.scan(
                    ANA, prefix=("n",), filter={"n": {"$gte": 90}}, direction="oldest", after=after, limit=limit
                )
                found += [(item.ref.namespace, item.ref.key) for item in page.items]
                assert len(page.items) == limit or page.after is None
                after = page.after
                if after is None:
                    break

            assert found == sorted((put.namespace, put.key) for put in puts if put.value["n"] >= 90)

    async def test_pages_hold_while_one_moment_s_rows_go(self, files: Files) -> None:
        """Those that are left come once, though others of the same commit are deleted and touched meanwhile."""
        async with files.opened() as storage:
            await storage.commit(Batch(ANA, [Put(("n",), f"{n:03}", {"n": n}) for n in range(60)]))
            seen: list[str] = []
            page = await storage.scan(ANA, limit=7)
            while True:
                seen += [item.ref.key for item in page.items]
                if page.after is None:
                    break
                gone = {"059", "030", "001", seen[-1]}
                await storage.commit(Batch(ANA, [Delete(("n",), key) for key in gone]))
                page = await storage.scan(ANA, limit=7, after=page.after)

            assert seen == sorted((key for key in seen), reverse=True)
            assert len(set(seen)) == len(seen) >= 56

    async def test_namespaces_of_many_owners(self, files: Files) -> None:
        """Each is spelled by its own owner's key."""
        async with files.opened() as storage:
            for number in range(30):
                await commit(
                    storage,
                    note("1", namespace=("notes", f"{number}")),
                    partition=Partition("owner", ("", f"{number}")),
                )
        async with files.opened() as storage:
            match = [NamespaceMatch("prefix", ("notes", "*"))]

            assert len(await storage.namespaces(match=match)) == 30
            assert await storage.namespaces(match=match, max_depth=1) == (("notes",),)
            assert len(await storage.partitions(limit=7)) == 7
