"""The LangGraph store, locked to one owner; and owners apart in one that is not."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from tests.langgraph.store_world import StoreWorld, on_memory
from threadkeep.errors import OwnerMismatchError
from threadkeep.identity import Owner
from threadkeep.langgraph.store import ThreadkeepStore

FOREIGN: list[tuple[str, ...]] = [
    ("memories", "bobby"),
    ("memories", "bo"),
    ("memories", "*"),
    ("users", "bobby", "memories"),
    ("docs", "bob"),
    ("bob",),
    ("langgraph", "bob"),
]
SPANNING: list[tuple[str, ...]] = [(), ("memories",), ("summaries",), ("users",)]


class TestApart:
    @pytest.mark.parametrize(
        ("one", "other"), [("bob", "bobby"), ("a.b@x.org", "a_b@x.org"), ("Ana", "ana"), ("1", "10"), ("a", "a\n")]
    )
    @pytest.mark.parametrize("query", [None, "secret"])
    async def test_users_cannot_read_each_other(self, store: ThreadkeepStore, one: str, other: str, query: str | None):
        """Ids that begin alike, or that a lossy spelling would mix up, never meet."""
        for user_id in (one, other):
            await store.aput(("memories", Owner(user_id).label), "k", {"data": f"secret of {user_id!r}"})

        for user_id in (one, other):
            (item,) = await store.asearch(("memories", Owner(user_id).label), query=query)
            assert item.value == {"data": f"secret of {user_id!r}"}


class TestLocked:
    @pytest.fixture
    async def locked(self, store: ThreadkeepStore, world: StoreWorld) -> ThreadkeepStore:
        for label in ("bob", "bobby", "*"):
            for namespace in (("memories", label), ("summaries", label), ("users", label, "files")):
                await store.aput(namespace, "k", {"data": f"secret of {label}"})
        await store.aput(("docs", "bob"), "k", {})
        return world.store(owner=Owner("bob"))

    async def test_its_own_is_read_and_written(self, locked: ThreadkeepStore):
        """All three layouts, and everything below them."""
        await locked.aput(("users", "bob", "memories", "user"), "new", {"text": "x"})
        await locked.adelete(("summaries", "bob"), "k")

        assert await locked.aget(("memories", "bob"), "k")
        assert {item.key for item in await locked.asearch(("users", "bob"))} == {"k", "new"}
        assert [item.key for item in await locked.asearch(("memories", "bob"), query="secret")] == ["k"]
        assert await locked.asearch(("summaries", "bob")) == []

    @on_memory
    @pytest.mark.parametrize("namespace", FOREIGN)
    @pytest.mark.parametrize("kind", ["get", "put", "delete", "search", "query"])
    async def test_anothers_is_refused(
        self, locked: ThreadkeepStore, store: ThreadkeepStore, namespace: tuple[str, ...], kind: str
    ):
        """Whatever the operation; nothing of the call is performed."""
        op: Any = {
            "get": GetOp(namespace, "k"),
            "put": PutOp(namespace, "k", {"data": "forged"}),
            "delete": PutOp(namespace, "k", None),
            "search": SearchOp(namespace),
            "query": SearchOp(namespace, query="secret"),
        }[kind]
        before = await store.asearch((), limit=100)

        with pytest.raises(OwnerMismatchError):
            await locked.abatch([PutOp(("memories", "bob"), "also", {"data": "x"}), op])

        assert await store.asearch((), limit=100) == before

    @on_memory
    @pytest.mark.parametrize("prefix", SPANNING)
    async def test_a_prefix_that_spans_owners_is_refused(self, locked: ThreadkeepStore, prefix: tuple[str, ...]):
        """It raises rather than showing a part."""
        with pytest.raises(OwnerMismatchError):
            await locked.asearch(prefix)
        with pytest.raises(OwnerMismatchError):
            locked.search(prefix, query="secret")

    @pytest.mark.parametrize(
        ("conditions", "expected"),
        [
            ({}, [("memories", "bob"), ("summaries", "bob"), ("users", "bob", "files")]),
            ({"max_depth": 1}, [("memories",), ("summaries",), ("users",)]),
            ({"prefix": ("memories",)}, [("memories", "bob")]),
            ({"prefix": ("*", "*")}, [("memories", "bob"), ("summaries", "bob"), ("users", "bob", "files")]),
            ({"prefix": ("memories", "bobby")}, []),
            ({"suffix": ("files",)}, [("users", "bob", "files")]),
            ({"limit": 1, "offset": 1}, [("summaries", "bob")]),
        ],
    )
    async def test_only_its_own_is_listed(
        self, locked: ThreadkeepStore, conditions: dict[str, Any], expected: list[tuple[str, ...]]
    ):
        """Whatever is asked for, also with wildcards and cut to a depth."""
        assert await locked.alist_namespaces(**conditions) == expected

    @pytest.mark.usefixtures("locked")
    async def test_an_owner_called_like_the_wildcard_sees_only_its_own(self, world: StoreWorld):
        """``*`` is a user id like any other."""
        locked = world.store(owner=Owner("*"))

        assert await locked.alist_namespaces() == [("memories", "*"), ("summaries", "*"), ("users", "*", "files")]
        assert await locked.alist_namespaces(max_depth=1) == [("memories",), ("summaries",), ("users",)]
        assert [item.value["data"] for item in await locked.asearch(("memories", "*"))] == ["secret of *"]

    async def test_operations_cannot_list_around_it(self, locked: ThreadkeepStore):
        """A listing given straight to a batch is locked, too."""
        (listed,) = await locked.abatch([ListNamespacesOp((MatchCondition("prefix", ("users", "*")),))])

        assert listed == [("users", "bob", "files")]

    async def test_an_address_is_an_owner_by_its_label(self, world: StoreWorld):
        """The label that an address has opens its own, and no other spelling does."""
        locked = world.store(owner=Owner("ana@x.org"))
        label = Owner("ana@x.org").label
        await locked.aput(("memories", label), "k", {"data": "x"})

        assert await locked.aget(("memories", label), "k")
        for other in ("ana@x_org", label.upper(), label + "~"):
            with pytest.raises(OwnerMismatchError):
                await locked.aget(("memories", other), "k")
