"""Which namespaces may be named."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest
from langgraph.store.base import InvalidNamespaceError as LangGraphInvalidNamespaceError
from langgraph.store.base import Op, Result
from typing_extensions import override

from tests.langgraph.store_world import StoreWorld
from threadkeep.errors import InvalidInputError, OwnerMismatchError
from threadkeep.identity import Owner
from threadkeep.langgraph.operations import InvalidNamespaceError, labels_of, one_partition, require_own, writable
from threadkeep.langgraph.store import ThreadkeepStore

ILLEGAL = [("a.b",), ("a", ""), ("a", "\x00"), ("a", 1), ("a", None), None, 7]


class TestLabelsOf:
    @pytest.mark.parametrize("namespace", ILLEGAL)
    def test_illegal_labels_are_refused_with_both_errors(self, namespace: object):
        """Who catches LangGraph's error and who catches ours are both served."""
        with pytest.raises(LangGraphInvalidNamespaceError) as caught:
            labels_of(namespace)

        assert isinstance(caught.value, InvalidInputError)
        assert caught.value.code == "namespace_invalid"

    @pytest.mark.parametrize("label", ["*", "%", "_", "/", ":", "|", " ", "\n", "né", "x" * 5000, "Langgraph"])
    def test_any_other_label_is_legal(self, label: str):
        """What LangGraph accepts is accepted."""
        assert labels_of((label, label)) == (label, label)

    def test_a_list_is_the_tuple_it_stands_for(self):
        """A list matches what a tuple matches, rather than nothing."""
        assert labels_of(["a", "b"]) == ("a", "b")

    def test_a_text_is_one_label(self):
        """A forgotten comma does not take a label apart."""
        assert labels_of("memories") == ("memories",)


class Batches(ThreadkeepStore):
    """A store that no operation may reach."""

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        raise AssertionError(ops)

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        raise AssertionError(ops)


CALLS: Final[dict[str, Callable[[ThreadkeepStore, Any], Any]]] = {
    "get": lambda store, namespace: store.get(namespace, "k"),
    "aget": lambda store, namespace: store.aget(namespace, "k"),
    "search": lambda store, namespace: store.search(namespace),
    "asearch": lambda store, namespace: store.asearch(namespace),
    "put": lambda store, namespace: store.put(namespace, "k", {}),
    "aput": lambda store, namespace: store.aput(namespace, "k", {}),
    "delete": lambda store, namespace: store.delete(namespace, "k"),
    "adelete": lambda store, namespace: store.adelete(namespace, "k"),
    "list_namespaces": lambda store, namespace: store.list_namespaces(prefix=namespace),
    "alist_namespaces": lambda store, namespace: store.alist_namespaces(suffix=namespace),
}


class TestBatch:
    @pytest.mark.parametrize("namespace", [one for one in ILLEGAL if isinstance(one, tuple)])
    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
    async def test_illegal_namespaces_do_not_reach_it(self, world: StoreWorld, call: Any, namespace: object):
        """Subclasses and wrappers of it see legal ones only."""
        store = Batches(world.home, world.store()._connect)

        async def perform() -> None:
            called = call(store, namespace)
            if inspect.isawaitable(called):
                await called

        with pytest.raises(InvalidNamespaceError):
            await perform()


class TestWritable:
    @pytest.mark.parametrize("namespace", [(), [], ("langgraph",), ("langgraph", "x"), *ILLEGAL])
    def test_what_put_refuses(self, namespace: object):
        """Neither the empty namespace nor LangGraph's own root is written to."""
        with pytest.raises(InvalidNamespaceError):
            writable(namespace)

    @pytest.mark.parametrize("namespace", [("Langgraph",), ("x", "langgraph")])
    def test_the_reserved_label_is_reserved_as_a_root_only(self, namespace: tuple[str, ...]):
        """The rule is case-sensitive and about the first label."""
        assert writable(namespace) == namespace


class TestRequireOwn:
    @pytest.mark.parametrize("root", ["memories", "summaries", "users"])
    def test_the_owners_namespaces_pass(self, root: str):
        """All three layouts belong to the owner, with what is below them."""
        owner = Owner("ana@x.org")

        require_own((root, owner.label), owner)
        require_own((root, owner.label, "deep", "er"), owner)

    @pytest.mark.parametrize(
        "namespace",
        [(), ("memories",), ("users",), ("docs",), ("memories", "bobby"), ("docs", "bob"), ("bob",), ("memories", "*")],
    )
    def test_everything_else_is_refused(self, namespace: tuple[str, ...]):
        """A prefix that spans owners is not the owner's either."""
        with pytest.raises(OwnerMismatchError):
            require_own(namespace, Owner("bob"))


class TestOnePartition:
    @pytest.mark.parametrize("prefix", [(), ("memories",), ("summaries",), ("users",)])
    def test_prefixes_that_span_partitions_have_none(self, prefix: tuple[str, ...]):
        """Below these, owners' partitions must be looked for."""
        assert one_partition(prefix) is None

    def test_an_owners_prefix_has_the_owners(self):
        """From the second label on, it is certain whose it is."""
        assert one_partition(("users", "bob")) == Owner("bob").partition
