"""The LangGraph store: one item, one batch."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

from tests.langgraph.store_world import StoreWorld, on_memory
from threadkeep.errors import InvalidInputError, TooLargeError
from threadkeep.identity import Owner
from threadkeep.langgraph.store import ThreadkeepStore

ILLEGAL = [("a.b",), ("a", ""), ("a", "\x00"), ("a", 1)]


class TestPut:
    async def test_an_item_comes_back_whole(self, store: ThreadkeepStore, world: StoreWorld):
        """Value, key, namespace and both times are what they were."""
        await store.aput(("docs", "ana"), "k", {"a": [1, {"b": None}], "é\x00": "\ud800"})

        item = await store.aget(("docs", "ana"), "k")

        assert item == Item(
            value={"a": [1, {"b": None}], "é\x00": "\ud800"},
            key="k",
            namespace=("docs", "ana"),
            created_at=world.clock.now(),
            updated_at=world.clock.now(),
        )

    async def test_created_at_survives_an_update(self, store: ThreadkeepStore, world: StoreWorld):
        """An update moves only ``updated_at``, also after the item was read in between."""
        created_at = world.clock.now()
        await store.aput(("docs",), "k", {"v": 1})
        world.pass_by(minutes=5)
        await store.aput(("docs",), "k", {"v": 2})

        item = await store.aget(("docs",), "k")

        assert item
        assert (item.value, item.created_at) == ({"v": 2}, created_at)
        assert item.updated_at == created_at + timedelta(minutes=5)

    async def test_what_is_returned_is_a_copy(self, store: ThreadkeepStore):
        """Changing what was given or what came back changes nothing stored."""
        given = {"list": [1]}
        await store.aput(("docs",), "k", given)
        given["list"].append(2)
        got = await store.aget(("docs",), "k")
        assert got
        got.value["list"].append(3)
        (found,) = await store.asearch(("docs",))
        found.value["list"].append(4)

        again = await store.aget(("docs",), "k")

        assert again
        assert again.value == {"list": [1]}

    async def test_keys_are_texts(self, store: ThreadkeepStore):
        """A number is the text that spells it, for writing, reading and deleting alike."""
        await store.aput(("docs",), 7, {"v": 1})  # pyright: ignore[reportArgumentType]

        assert await store.aget(("docs",), "7")
        assert (await store.abatch([GetOp(("docs",), 7)]))[0]  # pyright: ignore[reportArgumentType]
        await store.adelete(("docs",), 7)  # pyright: ignore[reportArgumentType]
        assert await store.aget(("docs",), "7") is None
        with pytest.raises(InvalidInputError, match="not None"):
            await store.aput(("docs",), None, {"v": 1})  # pyright: ignore[reportArgumentType]

    @on_memory
    @pytest.mark.parametrize("namespace", [(), ("langgraph",), ("langgraph", "x"), *ILLEGAL])
    async def test_illegal_namespaces_are_refused(self, store: ThreadkeepStore, namespace: tuple[Any, ...]):
        """As by LangGraph's own stores, and as an error of ours too."""
        with pytest.raises(InvalidNamespaceError) as caught:
            await store.aput(namespace, "k", {})
        with pytest.raises(InvalidInputError):
            store.put(namespace, "k", {})

        assert isinstance(caught.value, InvalidInputError)

    async def test_a_value_that_is_no_json_is_refused(self, store: ThreadkeepStore):
        """The message names the place; nothing is written."""
        with pytest.raises(InvalidInputError, match=r"value\.when\[0\] is timedelta"):
            await store.aput(("docs",), "k", {"when": [timedelta(1)]})

        assert await store.aget(("docs",), "k") is None

    @on_memory
    @pytest.mark.parametrize("index", ["text", True, [1], {"text"}])
    async def test_an_index_that_is_no_list_of_paths_is_refused(self, store: ThreadkeepStore, index: Any):
        """A bare text would be taken apart into letters."""
        with pytest.raises(InvalidInputError, match="index"):
            await store.aput(("docs",), "k", {"text": "x"}, index=index)

    async def test_writing_nothing_deletes(self, store: ThreadkeepStore):
        """A put of ``None`` is a delete; deleting what is not there is nothing."""
        await store.aput(("docs",), "k", {"v": 1})
        await store.aput(("docs",), "k", None)  # pyright: ignore[reportArgumentType]
        await store.adelete(("docs",), "k")

        assert await store.aget(("docs",), "k") is None


class TestBatch:
    async def test_reads_run_before_writes(self, store: ThreadkeepStore):
        """A read in the same call sees what was there before it, wherever it stands."""
        await store.aput(("docs",), "old", {"v": 1})

        results = await store.abatch(
            [
                PutOp(("docs",), "new", {"v": 2}),
                GetOp(("docs",), "new"),
                PutOp(("docs",), "old", None),
                GetOp(("docs",), "old"),
                SearchOp(("docs",)),
                ListNamespacesOp(),
            ]
        )

        put, new, deleted, old, found, namespaces = results
        assert (put, new, deleted) == (None, None, None)
        assert isinstance(old, Item)
        assert [item.key for item in found] == ["old"]  # pyright: ignore[reportGeneralTypeIssues, reportOptionalIterable, reportAttributeAccessIssue]
        assert namespaces == [("docs",)]

    async def test_the_last_write_of_a_key_counts(self, store: ThreadkeepStore):
        """Of two puts the later one, of a put and a delete the later one."""
        await store.abatch(
            [
                PutOp(("docs",), "a", {"v": 1}),
                PutOp(("docs",), "b", {"v": 1}),
                PutOp(("docs",), "a", {"v": 2}),
                PutOp(("docs",), "b", None),
                PutOp(("docs",), "c", None),
                PutOp(("docs",), "c", {"v": 3}),
            ]
        )

        items = await store.abatch([GetOp(("docs",), key) for key in "abc"])

        assert [item.value if isinstance(item, Item) else None for item in items] == [{"v": 2}, None, {"v": 3}]

    async def test_a_partition_is_written_in_one_commit(self, store: ThreadkeepStore, world: StoreWorld):
        """Many writes below one owner move its sequence by one; another owner has its own."""
        await store.aget(("docs",), "connects")
        ana, bob = Owner("ana").partition, Owner("bob").partition
        before = [await world.home.run(world.storage.position(partition)) for partition in (ana, bob)]

        await store.abatch(
            [
                PutOp(("memories", "ana"), "1", {"data": "x"}),
                PutOp(("users", "ana", "files"), "2", {"data": "y"}),
                PutOp(("memories", "bob"), "1", {"data": "z"}),
                PutOp(("summaries", "ana"), "3", {"summary": "s"}),
            ]
        )

        after = [await world.home.run(world.storage.position(partition)) for partition in (ana, bob)]
        assert [b.sequence - a.sequence for a, b in zip(before, after, strict=True)] == [1, 1]

    @on_memory
    @pytest.mark.parametrize(
        "bad",
        [
            PutOp(("docs",), "k", {"x": object()}),
            PutOp((), "k", {}),
            PutOp(("a.b",), "k", {}),
            PutOp(("docs",), "k", {}, ttl=-1),
            PutOp(("docs",), "k", {}, ttl="abc"),  # pyright: ignore[reportArgumentType]
            SearchOp(("docs",), limit=-1),
            SearchOp(("docs",), offset=-1),
            SearchOp(("docs",), filter={"a": {"$in": [1]}}),
            "get",
        ],
    )
    async def test_one_invalid_operation_stops_all(self, store: ThreadkeepStore, bad: Any):
        """Nothing of the call is written, in no partition."""
        with pytest.raises(InvalidInputError):
            await store.abatch([PutOp(("memories", "ana"), "k", {"data": "x"}), PutOp(("docs",), "k", {}), bad])

        assert await store.asearch(()) == []

    async def test_a_value_that_is_too_large_stops_all(self, store: ThreadkeepStore):
        """Sizes are checked for every partition before the first one is written."""
        with pytest.raises(TooLargeError):
            await store.abatch([PutOp(("small",), "k", {}), PutOp(("large",), "k", {"x": "x" * 5_000_000})])

        assert await store.asearch(()) == []

    @on_memory
    @pytest.mark.parametrize("namespace", ILLEGAL)
    @pytest.mark.parametrize("kind", ["get", "put", "delete", "search", "prefix", "suffix"])
    async def test_labels_are_checked_in_operations_too(
        self, store: ThreadkeepStore, namespace: tuple[Any, ...], kind: str
    ):
        """An operation given straight to a batch cannot name what ``put`` and ``get`` refuse."""
        op = {
            "get": GetOp(namespace, "k"),
            "put": PutOp(namespace, "k", {}),
            "delete": PutOp(namespace, "k", None),
            "search": SearchOp(namespace),
            "prefix": ListNamespacesOp((MatchCondition("prefix", namespace),)),
            "suffix": ListNamespacesOp((MatchCondition("suffix", namespace),)),
        }[kind]

        with pytest.raises(InvalidNamespaceError):
            await store.abatch([op])

    async def test_nothing_gives_nothing(self, store: ThreadkeepStore):
        """An empty batch has no results."""
        assert await store.abatch([]) == []

    async def test_equal_texts_in_one_batch_are_both_found(self, world: StoreWorld):
        """Each text is embedded once, and every item that holds it has its vector."""
        store = world.store(ranking="dense")
        texts = {"a": "same words", "b": "other ones", "c": "same words"}
        await store.abatch([PutOp(("docs",), key, {"text": text}, index=["text"]) for key, text in texts.items()])

        found = await store.asearch(("docs",), query="same words", limit=2)

        assert world.embedder.calls[0] == ["same words", "other ones"]
        assert {item.key: item.score for item in found} == pytest.approx({"a": 1, "c": 1})


class TestFaces:
    async def test_the_sync_face_works_inside_a_running_loop(self, store: ThreadkeepStore):
        """It blocks the loop, as asked, and does not raise."""
        store.put(("docs",), "k", {"v": 1})

        assert store.get(("docs",), "k") == await store.aget(("docs",), "k")
        assert [item.key for item in store.search(("docs",))] == ["k"]
        assert store.list_namespaces() == [("docs",)]
        store.delete(("docs",), "k")
        assert store.get(("docs",), "k") is None

    def test_one_store_serves_many_loops(self, store: ThreadkeepStore):
        """Loops in several threads, and none at all, see the same items."""
        store.put(("docs",), "0", {})
        threads = [
            threading.Thread(target=lambda key=str(n): asyncio.run(store.aput(("docs",), key, {}))) for n in range(1, 5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(item.key for item in store.search(("docs",))) == ["0", "1", "2", "3", "4"]

    async def test_blocking_call_on_the_event_loop_raises(self, store: ThreadkeepStore, world: StoreWorld):
        """Waiting there would never end, so it says so instead."""

        async def on_event_loop() -> None:
            store.get(("docs",), "k")

        with pytest.raises(RuntimeError, match="own loop"):
            await world.home.run(on_event_loop())

    async def test_async_api_works_on_the_event_loop(self, store: ThreadkeepStore, world: StoreWorld):
        """A service may use the store it is served by."""
        await world.home.run(store.aput(("docs",), "k", {"v": 1}))

        assert await world.home.run(store.aget(("docs",), "k"))

    def test_making_one_does_nothing(self, world: StoreWorld):
        """No connection, no thread before the first operation."""
        world.store(index={"fields": ["text"]}, ttl_config={"default_ttl": 5}, ranking="dense")

        assert not world.home.running
        assert world.connections == 0

    async def test_an_invalid_call_fails_alone(self, store: ThreadkeepStore):
        """Calls made at the same time do not share their errors."""
        await store.aput(("docs",), "k", {})

        good, bad = await asyncio.gather(store.aget(("docs",), "k"), store.aget(("a.b",), "k"), return_exceptions=True)

        assert isinstance(good, Item)
        assert isinstance(bad, InvalidNamespaceError)
